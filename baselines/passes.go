package baselines

import (
	"context"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/ood"
)

// Outputs that are held at a time: rows × passes × outputs.
const passRoom = 4 << 20

// lastPasses drop features before the last layer. A pass is one draw of the
// layer's weights, the same for every row, so that what a row scores does not
// depend on the rows around it.
type lastPasses struct {
	lastLayer
	Count int     `state:"passes,least=1,below=100001"`
	Rate  float64 `state:"dropout,positive,below=1"`
	Seed  uint64  `state:"seed"`
}

func (p lastPasses) each(ctx context.Context, b ood.Batch, visit func(i, c int, z []float32)) error {
	h, c := p.Weight.Cols, p.Weight.Rows
	n := b.Features.Rows
	// The weights of as many passes as fit are one matrix, and their outputs
	// one product.
	group := min(max(passRoom/(c*h), 1), p.Count)
	block := min(max(passRoom/(c*p.Count), 1), max(n, 1))
	drawn := blas32.General{Rows: group * c, Cols: h, Stride: h, Data: make([]float32, group*c*h)}
	z := make([]float32, block*p.Count*c)
	held := -1 // the pass that drawn begins with
	for i := 0; i < n; i += block {
		rows := min(block, n-i)
		phi := ood.Batch{Features: b.Features}.Slice(i, i+rows).Features
		for s := 0; s < p.Count; s += group {
			if err := ctx.Err(); err != nil {
				return err
			}
			drawn.Rows = min(group, p.Count-s) * c
			if held != s {
				p.draw(drawn, s)
				held = s
			}
			blas32.Gemm(blas.NoTrans, blas.Trans, 1, phi, drawn, 0,
				blas32.General{Rows: rows, Cols: drawn.Rows, Stride: p.Count * c, Data: z[s*c : (rows-1)*p.Count*c+s*c+drawn.Rows]})
		}
		for r := range rows {
			out := z[r*p.Count*c : (r+1)*p.Count*c]
			for k := range out {
				out[k] += float32(p.Bias[k%c])
			}
			visit(i+r, c, out)
		}
	}
	return ctx.Err()
}

// draw fills w with the weights of consecutive passes from s on. What is kept is
// scaled up so that means stay.
func (p lastPasses) draw(w blas32.General, s int) {
	h, c := p.Weight.Cols, p.Weight.Rows
	scale := make([]float32, h)
	kept := float32(1 / (1 - p.Rate))
	for first := 0; first < w.Rows; first += c {
		r := rand.New(rand.NewPCG(p.Seed, uint64(s+first/c)))
		for j := range scale {
			scale[j] = 0
			if r.Float64() >= p.Rate {
				scale[j] = kept
			}
		}
		for k := range c {
			to := row(w, first+k)
			for j, v := range row(p.Weight, k) {
				to[j] = v * scale[j]
			}
		}
	}
}
