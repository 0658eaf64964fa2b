// Package explain attributes the scores of rows to their inputs, and describes the result in
// words and pictures.
package explain

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/schema"
)

const (
	// MaxReferences is the number of normal rows that attributions draw from.
	MaxReferences = 64
	// namedElements is the number of columns, regions or words that a reason names.
	namedElements = 3
	// leastNamedShare is the smallest fraction of a score that a reason names.
	leastNamedShare = 0.02
)

// Explanation is the attribution of the score of a row.
type Explanation struct {
	featurize.Attribution
	// HeatMap is the image as the model sees it, with the regions that raised the score in
	// orange. It is nil if the row is not an image.
	HeatMap image.Image
	// Unknown says for each word of each tensor of texts whether the profile lacks the word. It
	// is nil for other tensors.
	Unknown [][]bool
	least   int // smallest number of fit rows with a word that the profile knows
}

// Explainer attributes scores.
type Explainer struct {
	// Net runs the model, and Predictor computes scores from its features.
	Net       *featurize.Attached
	Predictor *attach.Predictor
	Reference ood.InputBlock // normal rows; not needed for texts
	Seed      uint64
}

// Explain attributes the score of the only row of a block.
func (e *Explainer) Explain(ctx context.Context, row ood.InputBlock) (*Explanation, error) {
	list, err := e.Net.Attribute(ctx, e.Predictor, row, e.Reference, featurize.AttributeOptions{Seed: e.Seed})
	if err != nil {
		return nil, err
	}
	x := &Explanation{Attribution: list[0]}
	for k, t := range x.Tensors {
		if t.Patch > 0 {
			x.HeatMap = heatMap(row.Tensors[k], e.Net.Info().Layout, t)
		}
	}
	x.findUnknownWords(e.Predictor.Bundle().Profile)
	return x, nil
}

// ReadReference reads normal rows that are drawn at random.
func ReadReference(ctx context.Context, set *inputs.Set, seed uint64) (ood.InputBlock, error) {
	rng := rand.New(rand.NewPCG(seed, MaxReferences))
	return set.Block(ctx, rng.Perm(set.Len())[:min(MaxReferences, set.Len())])
}

// Shares returns the fraction of the sum of all positive attributions of each element of a
// tensor. If some are infinite, these share the whole.
func (x *Explanation) Shares(k int) []float64 {
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

// ColumnShares returns the fraction of the score that each column of a table explains, by name.
func (x *Explanation) ColumnShares() map[string]float64 {
	all := map[string]float64{}
	for k, t := range x.Tensors {
		if t.Offsets != nil {
			continue // words
		}
		for e, share := range x.Shares(k) {
			if e < len(t.Labels) {
				all[t.Labels[e]] = share
			}
		}
	}
	return all
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

// findUnknownWords looks up the words of texts in a profile, which may be nil.
func (x *Explanation) findUnknownWords(p *schema.Profile) {
	x.Unknown = make([][]bool, len(x.Tensors))
	for k, t := range x.Tensors {
		if t.Offsets == nil || p == nil {
			continue
		}
		i := slices.IndexFunc(p.Columns, func(c schema.Column) bool { return c.Words != nil && c.Input == t.Name })
		if i < 0 {
			continue
		}
		words := p.Columns[i].Words
		x.least = max(x.least, words.Least)
		for _, word := range t.Labels {
			x.Unknown[k] = append(x.Unknown[k], words.RowsWith(word) == 0)
		}
	}
}

// Reasons returns phrases that name the unknown words and what raised the score. Unknown words
// come first, because they name a foreign word more often.
func (x *Explanation) Reasons() []string {
	return slices.DeleteFunc([]string{x.unknownWords(), x.String()}, func(text string) bool { return text == "" })
}

// unknownWords names the words that the profile lacks, such as `new words: "borogoves", "mimsy"`.
// The word that raised the score most comes first. It returns "" if there are no such words.
func (x *Explanation) unknownWords() string {
	type word struct {
		text  string
		value float64
	}
	var all []word
	for k, unknown := range x.Unknown {
		for i, text := range x.Tensors[k].Labels {
			if unknown != nil && unknown[i] && !slices.ContainsFunc(all, func(w word) bool { return w.text == text }) {
				all = append(all, word{text, x.Tensors[k].Values[i]})
			}
		}
	}
	if all == nil {
		return ""
	}
	slices.SortStableFunc(all, func(a, b word) int { return cmp.Compare(b.value, a.value) })
	names := make([]string, len(all))
	for i, w := range all {
		names[i] = w.text
	}
	kind := "new"
	if x.least > 1 { // the profile does not know all words of the fit rows
		kind = "rare"
	}
	return kind + " words: " + display.Quoted(names, namedElements)
}

// String returns the elements that raised the score most, with their shares of the sum of all
// positive attributions, such as "score: 74 % MedInc, 18 % Latitude". It returns "" if no
// element raised the score.
func (x *Explanation) String() string {
	top := x.Top(namedElements)
	var parts []string
	for _, e := range top {
		if share := x.Shares(e.Tensor)[e.Index]; share >= leastNamedShare {
			parts = append(parts, fmt.Sprintf("%.0f %% %s", 100*share, elementName(x.Tensors[e.Tensor], e)))
		}
	}
	if parts == nil {
		return ""
	}
	return "score: " + display.List(parts, namedElements)
}

// Leading returns the name of the element that raised the score most, or "" if none did.
func (x *Explanation) Leading() string {
	for _, e := range x.Top(1) {
		return elementName(x.Tensors[e.Tensor], e)
	}
	return ""
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
