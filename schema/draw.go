package schema

import (
	"math"
	"math/rand/v2"

	"github.com/attach-uncertainty/attach/ood"
)

// Draw returns n rows whose cells are drawn independently from the stored quantiles and
// categories of their columns. They stand for normal rows if the rows of the fit are not at
// hand. Columns of such rows are not correlated. ok is false if some column is a measure,
// because images and texts cannot be drawn, or if a column has no known values.
func (p *Profile) Draw(n int, seed uint64) (b ood.InputBlock, ok bool) {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	tensors := map[string]int{}
	for _, c := range p.Columns {
		if c.Kind == Measure || c.Kind == Number && c.Sampled == 0 || c.Kind == Category && len(c.Categories) == 0 {
			return ood.InputBlock{}, false
		}
		k, found := tensors[c.Input]
		if !found {
			k = len(b.Tensors)
			tensors[c.Input] = k
			b.Tensors = append(b.Tensors, ood.Tensor{Name: c.Input, Shape: []int{n, 0}})
		}
		b.Tensors[k].Shape[1] = max(b.Tensors[k].Shape[1], c.Index+1)
	}
	for k := range b.Tensors {
		t := &b.Tensors[k]
		for _, c := range p.Columns {
			switch size := n * t.Shape[1]; {
			case c.Input != t.Name:
			case c.Kind == Category && t.Strings == nil:
				t.Strings = make([]string, size)
			case c.Kind == Number && t.Data == nil:
				t.Data = make([]float32, size)
			}
		}
	}
	for _, c := range p.Columns {
		t := b.Tensors[tensors[c.Input]]
		for i := range n {
			at := i*t.Shape[1] + c.Index
			isEmpty := rng.IntN(p.Rows) < c.Empty
			switch {
			case c.Kind == Category && isEmpty: // the text stays empty
			case c.Kind == Category:
				t.Strings[at] = c.drawCategory(rng)
			case isEmpty:
				t.Data[at] = float32(math.NaN())
			default:
				t.Data[at] = c.drawNumber(rng)
			}
		}
	}
	return b, true
}

// drawNumber returns a stored quantile, each with the fraction of the numbers between it and the
// quantile before.
func (c *Column) drawNumber(rng *rand.Rand) float32 {
	rank := 1 + rng.IntN(c.Sampled)
	for _, q := range c.Quantiles {
		if rank <= q.AtMost {
			return float32(q.Value)
		}
	}
	return float32(c.Quantiles[len(c.Quantiles)-1].Value)
}

// drawCategory returns a listed category, each with its frequency.
func (c *Column) drawCategory(rng *rand.Rand) string {
	total := 0
	for _, k := range c.Categories {
		total += k.Rows
	}
	rank := rng.IntN(total)
	for _, k := range c.Categories {
		if rank -= k.Rows; rank < 0 {
			return k.Value
		}
	}
	return ""
}
