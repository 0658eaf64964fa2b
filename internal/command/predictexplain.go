package command

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/ood"
)

const (
	// maxReferences is the number of normal rows that attributions draw from.
	maxReferences = 64
	// namedElements is the number of columns, regions or words that a reason names.
	namedElements = 3
	// leastNamedShare is the smallest fraction of a score that a reason names.
	leastNamedShare = 0.02
)

// explainer attributes the scores of flagged rows to their inputs.
type explainer struct {
	net       *featurize.Attached
	predictor *attach.Predictor
	reference ood.InputBlock
	options   featurize.AttributeOptions
	left      int              // number of rows that may still be explained
	blocks    []ood.InputBlock // blocks of rows that were read and not taken yet
	next      int              // row of blocks[0] that is taken next
}

// newExplainer returns an explainer, or nil with the reason why scores cannot be attributed.
// Normal rows come from --fitted or, for tables, from the profile.
func (f *predictFlags) newExplainer(ctx context.Context, m *openedBundle, p *attach.Predictor, known *fittedRows) (*explainer, string, error) {
	if m.Bundle.Detector == nil {
		return nil, "M.attach has no detector", nil
	}
	e := &explainer{net: m.Net, predictor: p, left: f.explainRows, options: featurize.AttributeOptions{Seed: f.predict.Seed}}
	switch {
	case known != nil && known.set != nil:
		rng := rand.New(rand.NewPCG(f.predict.Seed, maxReferences))
		var err error
		if e.reference, err = readBlock(ctx, known.set.Subset(rng.Perm(known.set.Len())[:min(maxReferences, known.set.Len())])); err != nil {
			return nil, "", inputs.InFile(f.fitted, err)
		}
	case m.Bundle.Text == nil:
		var ok bool
		if e.reference, ok = m.Bundle.Profile.Draw(maxReferences, f.predict.Seed); !ok {
			return nil, "it takes normal rows to compare with; pass --fitted", nil
		}
	}
	return e, "", nil
}

// readBlock reads all rows of a set as one block.
func readBlock(ctx context.Context, set *inputs.Set) (block ood.InputBlock, err error) {
	for b, err := range set.Blocks(ctx, max(set.Len(), 1)) {
		if err != nil {
			return block, err
		}
		block = b
	}
	return block, nil
}

// observe returns the same blocks, and keeps them until their rows are taken.
func (e *explainer) observe(blocks iter.Seq2[attach.Rows, error]) iter.Seq2[attach.Rows, error] {
	return func(yield func(attach.Rows, error) bool) {
		for r, err := range blocks {
			if x, ok := r.Inputs.(ood.InputBlock); ok && err == nil {
				e.blocks = append(e.blocks, x)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// take attributes the score of the next row if the row is flagged and fewer rows than allowed
// were explained. Otherwise it returns nil.
func (e *explainer) take(ctx context.Context, flagged bool) (*explanation, error) {
	for len(e.blocks) > 0 && e.next == e.blocks[0].Len() {
		e.blocks, e.next = e.blocks[1:], 0
	}
	if len(e.blocks) == 0 {
		return nil, nil
	}
	row := e.blocks[0].Slice(e.next, e.next+1)
	e.next++
	if !flagged || e.left == 0 {
		return nil, nil
	}
	e.left--
	return e.explain(ctx, row)
}

// explanation is the attribution of the score of a row.
type explanation struct {
	featurize.Attribution
	heatMap image.Image // the image as the model sees it with the regions that raised the score, or nil
}

// explain attributes the score of the only row of a block.
func (e *explainer) explain(ctx context.Context, row ood.InputBlock) (*explanation, error) {
	list, err := e.net.Attribute(ctx, e.predictor, row, e.reference, e.options)
	if err != nil {
		return nil, err
	}
	x := &explanation{Attribution: list[0]}
	for k, t := range x.Tensors {
		if t.Patch > 0 {
			x.heatMap = heatMap(row.Tensors[k], e.net.Info().Layout, t)
		}
	}
	return x, nil
}

// explainMissing explains flagged rows that take did not explain, at most limit of them.
func (e *explainer) explainMissing(ctx context.Context, set *inputs.Set, worst flaggedRows, limit int, p *progress) error {
	for i := range worst {
		if worst[i].explanation != nil || limit == 0 {
			continue
		}
		limit--
		row, err := readBlock(ctx, set.Subset([]int{worst[i].row}))
		if err == nil {
			worst[i].explanation, err = e.explain(ctx, row)
		}
		if err != nil {
			return err
		}
		worst[i].addReason(attributionText(worst[i].explanation))
		p.set(i+1, len(worst))
	}
	return nil
}

// shares returns the fraction of the sum of all positive attributions of each element of a
// tensor. If some are infinite, these share the whole.
func (x *explanation) shares(k int) []float64 {
	total, infinite := 0., 0.
	for _, e := range x.Top(math.MaxInt) {
		if total += e.Value; math.IsInf(e.Value, 1) {
			infinite++
		}
	}
	shares := make([]float64, len(x.Tensors[k].Values))
	for i, v := range x.Tensors[k].Values {
		switch {
		case math.IsInf(v, 1):
			shares[i] = 1 / infinite
		case v > 0 && infinite == 0:
			shares[i] = v / total
		}
	}
	return shares
}

// heatMap draws a row of an image tensor in gray levels or colours, with the patches that
// raised the score in orange.
func heatMap(t ood.Tensor, layout string, a featurize.TensorAttribution) image.Image {
	h, w, c := t.Shape[2], t.Shape[3], t.Shape[1]
	at := func(y, x, c int) float32 { return t.Data[(c*h+y)*w+x] }
	if layout == "nhwc" {
		h, w, c = t.Shape[1], t.Shape[2], t.Shape[3]
		at = func(y, x, k int) float32 { return t.Data[(y*w+x)*c+k] }
	}
	low, high := slices.Min(t.Data), slices.Max(t.Data)
	largest := max(slices.Max(a.Values), math.SmallestNonzeroFloat64)
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			heat := max(0, a.Values[y/a.Patch*a.Shape[1]+x/a.Patch]) / largest
			if math.IsNaN(heat) { // of infinite attributions
				heat = 1
			}
			var pixel [3]float64
			for k, orange := range [3]float64{240, 110, 30} {
				level := 255 * float64(at(y, x, min(k, c-1))-low) / float64(max(high-low, math.SmallestNonzeroFloat32))
				pixel[k] = (1-0.65*heat)*level + 0.65*heat*orange
			}
			m.SetRGBA(x, y, color.RGBA{uint8(pixel[0]), uint8(pixel[1]), uint8(pixel[2]), 255})
		}
	}
	return m
}

// attributionText returns the elements that raised the score most, with their shares of the
// sum of all positive attributions. It returns "" if no element raised the score.
func attributionText(a *explanation) string {
	top := a.Top(namedElements)
	var parts []string
	for _, e := range top {
		if share := a.shares(e.Tensor)[e.Index]; share >= leastNamedShare {
			parts = append(parts, fmt.Sprintf("%.0f %% %s", 100*share, elementName(a.Tensors[e.Tensor], e)))
		}
	}
	if parts == nil {
		return ""
	}
	return "score: " + display.List(parts, namedElements)
}

// elementName returns the name of a column, a word in quotation marks, or the pixels of a patch.
func elementName(t featurize.TensorAttribution, e featurize.Element) string {
	switch {
	case t.Offsets != nil:
		return fmt.Sprintf("%.40q", e.Label)
	case e.Label != "":
		return e.Label
	case t.Patch > 0 && len(t.Shape) == 2:
		y, x := e.Index/t.Shape[1]*t.Patch, e.Index%t.Shape[1]*t.Patch
		return fmt.Sprintf("pixels x %d–%d y %d–%d", x, x+t.Patch-1, y, y+t.Patch-1)
	}
	return fmt.Sprintf("%s[%d]", t.Name, e.Index)
}
