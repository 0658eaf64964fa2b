package featurize

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"

	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// AttributeOptions configures Attribute. The zero value is valid.
type AttributeOptions struct {
	// Method is "gradient" or "replacement". By default, Attribute uses the gradient for images,
	// because it found pasted patches more often. For other rows, it uses the method that takes
	// less time, if a gradient takes as long as three predictions. For tables of at most 24
	// columns, that is replacement. If there is no gradient, Attribute uses replacement.
	Method string
	// References is the number of reference rows that each row is compared with. The default
	// is 8. Attribute draws them at random if there are more.
	References int
	// Steps is the number of points between a row and a reference row at which the gradient
	// is computed. The default is 8.
	Steps int
	// Patch is the height and width in pixels of the patches of an image. The default is an
	// eighth of the longer side of the image, rounded up.
	Patch int
	Seed  uint64 // determines which reference rows are drawn
}

// Attribution says which inputs raised the OOD score of a row.
type Attribution struct {
	// Score is the OOD score of the row. Baseline is the mean OOD score of the reference rows
	// that the row was compared with. It is NaN if the row was compared with none.
	Score, Baseline float64
	// Method is the method that was used: "gradient" or "replacement".
	Method  string
	Tensors []TensorAttribution // one for each tensor of the block
}

// TensorAttribution holds the attributions of the elements of one tensor of a row. An element
// is a column of a table, a patch of an image or a word of a text.
type TensorAttribution struct {
	Name string // the name of the tensor in the block
	// Shape is the shape of Values: the number of columns, the numbers of patches from top to
	// bottom and from left to right, or the number of words.
	Shape []int
	// Values holds the attribution of each element, row-major, in units of the score.
	Values []float64
	// Labels holds the name of each column or the text of each word. It is nil for images and
	// for columns without names.
	Labels []string
	// Offsets holds the first byte of each word and the byte after its last. It is nil if the
	// tensor does not hold texts.
	Offsets [][2]int
	// Patch is the height and width of the patches in pixels, or 0. The patches of the last
	// row and column may be smaller.
	Patch int
}

// Element is an element of a row and its attribution.
type Element struct {
	Tensor int     // index in Attribution.Tensors
	Index  int     // index in TensorAttribution.Values
	Label  string  // name of the column or text of the word; "" if it has none
	Value  float64 // the attribution, in units of the score
}

// Top returns the n elements that raised the score most, with the largest attribution first.
// It leaves out elements whose attribution is not positive.
func (a Attribution) Top(n int) []Element {
	var all []Element
	for i, t := range a.Tensors {
		for j, v := range t.Values {
			if v > 0 {
				e := Element{Tensor: i, Index: j, Value: v}
				if t.Labels != nil {
					e.Label = t.Labels[j]
				}
				all = append(all, e)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Element) int { return cmp.Compare(b.Value, a.Value) })
	return all[:min(max(n, 0), len(all))]
}

// Attribute attributes the OOD score of each row of x to its elements: columns of a table,
// patches of an image, or words of a text. A positive attribution means that the element
// raised the score. x and reference are blocks as Run takes them, and p must come from the
// same .attach file. The reference rows should be in-distribution, for example calibration
// rows. They may be empty if all inputs are texts for a tokenizer.
//
// There are two methods:
//
//   - The gradient method computes expected gradients. These are the gradients of the score
//     along the straight lines from the reference rows to the row, times the difference
//     between the rows, averaged. The attributions add up to Score − Baseline, up to an error
//     that becomes smaller with more Steps. It takes References × Steps gradients for each row.
//     It needs a detector that can be exported as a graph, and a model whose inputs are all
//     real numbers and whose operators all have gradients. Otherwise the error wraps
//     [ood.ErrNotDifferentiable].
//   - The replacement method replaces one element at a time, and the attribution is the mean
//     drop of the score. A column is replaced by the same column of References rows. A patch of
//     an image is replaced by the mean of the reference rows. A word is removed; words are
//     separated by white space. Replacement needs no gradient, so it works for every model and
//     detector. It takes one prediction for each replaced element. The attributions do not add
//     up to the score, because elements act together.
//
// By default, rows with empty cells or with an infinite score use replacement, because they
// have no gradient. With the method "gradient", they give an error. If the replacement of an element makes an infinite score finite, the
// attribution of that element is +Inf. Elements that make the score infinite independently of
// each other have the attribution 0.
//
// An attribution describes the score, not the world. The score depends on correlated columns
// together, so the column that raised the score is not necessarily the wrong one, and not
// the cause.
//
// References: Erion et al. (2021), Improving performance of deep learning models with
// axiomatic attribution priors and expected gradients; Sundararajan, Taly & Yan (2017),
// Axiomatic attribution for deep networks; Zeiler & Fergus (2014), Visualizing and
// understanding convolutional networks (replacement of patches).
func (a *Attached) Attribute(ctx context.Context, p *attach.Predictor, x, reference ood.InputBlock, o AttributeOptions) ([]Attribution, error) {
	o.References, o.Steps = cmp.Or(o.References, 8), cmp.Or(o.Steps, 8)
	at, err := a.newAttributor(p, x, reference, o)
	if err != nil {
		return nil, err
	}
	scores, err := at.scores(ctx, x)
	if err != nil {
		return nil, err
	}
	baseline := math.NaN()
	if at.reference.Len() > 0 {
		all, err := at.scores(ctx, at.reference)
		if err != nil {
			return nil, fmt.Errorf("reference rows: %w", err)
		}
		baseline = stat.Mean(all, nil)
	}
	result := make([]Attribution, x.Len())
	var byGradient, byReplacement []int
	for i, score := range scores {
		result[i] = Attribution{Score: score, Baseline: baseline, Tensors: at.newTensors(i)}
		if o.Method == "replacement" || o.Method == "" && !at.prefersGradient(i, score) {
			byReplacement = append(byReplacement, i)
		} else {
			byGradient = append(byGradient, i)
		}
	}
	if len(byGradient) > 0 {
		err := at.gradients(ctx, byGradient, result)
		switch {
		case err != nil && o.Method == "" && errors.Is(err, ood.ErrNotDifferentiable):
			byReplacement = append(byGradient, byReplacement...)
		case err != nil:
			return nil, err
		}
	}
	return result, at.replace(ctx, byReplacement, result)
}

// attributor attributes the scores of one block of rows.
type attributor struct {
	model     *Attached
	scorer    *attach.Predictor // computes nothing but what scores need
	opts      AttributeOptions
	x         ood.InputBlock
	reference ood.InputBlock // the drawn reference rows
	mean      ood.InputBlock // a row with the mean of all reference rows in its images
	grids     []grid         // how each tensor of x is divided
	labels    [][]string     // names of the columns of each tensor of x, or nil
}

// grid describes how a tensor is divided into elements.
type grid struct {
	shape   []int   // number of elements along each axis; nil if the elements are words
	patch   int     // see TensorAttribution
	members [][]int // for each element, the indices of its numbers in a row
	text    bool    // whether the elements are words
	image   bool    // whether the elements are patches
}

// newAttributor checks the rows and the options.
func (a *Attached) newAttributor(p *attach.Predictor, x, reference ood.InputBlock, o AttributeOptions) (*attributor, error) {
	switch {
	case o.Method != "" && o.Method != "gradient" && o.Method != "replacement":
		return nil, fmt.Errorf("the method of attribution is %q; it must be gradient, replacement or empty", o.Method)
	case o.References < 0 || o.Steps < 0 || o.Patch < 0:
		return nil, fmt.Errorf("the options have References %d, Steps %d and Patch %d; none may be negative", o.References, o.Steps, o.Patch)
	case p.Bundle() == nil:
		return nil, errors.New("the predictor is empty; create one with Bundle.Predictor")
	case p.Bundle().Detector == nil:
		return nil, errors.New("the .attach file has no detector, so its rows have no score")
	case x.Len() == 0:
		return nil, errors.New("there are no rows")
	}
	scorer, err := p.Bundle().Predictor(attach.PredictOptions{})
	if err != nil {
		return nil, err
	}
	at := &attributor{model: a, scorer: scorer, opts: o, x: x}
	if err := x.Check(); err != nil {
		return nil, err
	}
	onlyTexts := true
	for _, t := range x.Tensors {
		g, err := a.newGrid(t, o.Patch)
		if err != nil {
			return nil, err
		}
		at.grids, onlyTexts = append(at.grids, g), onlyTexts && g.text
	}
	at.labels = a.columnLabels(x, p.Bundle().Base.Columns)
	if onlyTexts {
		return at, nil
	}
	if reference.Len() == 0 {
		return nil, errors.New("there are no reference rows; pass in-distribution rows, for example calibration rows")
	}
	return at, at.drawReferences(reference)
}

// newGrid divides the rows of a tensor into elements.
func (a *Attached) newGrid(t ood.Tensor, patch int) (grid, error) {
	in := slices.IndexFunc(a.inputs, func(in input) bool { return a.inputs.tensorFor([]ood.Tensor{t}, in) != nil })
	if in < 0 && t.Strings != nil && a.tokenizer != nil {
		return grid{text: true}, nil
	}
	if t.Lengths != nil || in >= 0 && roleOf(a.inputs[in].name) != noRole {
		return grid{}, fmt.Errorf("the scores of rows of tokens cannot be attributed: pass their texts instead of the tensor %q", t.Name)
	}
	shape := t.Shape[1:]
	width := product(shape)
	height, length, inner := width, 1, 1 // element (i, j) of a height×length map has inner consecutive numbers
	g := grid{shape: []int{width}}
	image := ""
	if in >= 0 && len(t.Shape) == 4 {
		image = a.inputs[in].layout()
	}
	switch {
	case image == "nchw":
		height, length = shape[1], shape[2]
	case image == "nhwc":
		height, length, inner = shape[0], shape[1], shape[2]
	case len(shape) > 1: // for example time steps
		height, inner = shape[0], width/shape[0]
		g.shape = []int{height}
	}
	if image == "" {
		patch = 1
	} else {
		g.image = true
		g.patch = cmp.Or(patch, (max(height, length)+7)/8)
		patch = g.patch
		g.shape = []int{(height + patch - 1) / patch, (length + patch - 1) / patch}
	}
	g.members = make([][]int, product(g.shape))
	across := (length + patch - 1) / patch
	for i := range width {
		pixel := i / inner % (height * length)
		e := pixel/length/patch*across + pixel%length/patch
		g.members[e] = append(g.members[e], i)
	}
	return g, nil
}

// columnLabels returns the names of the columns of each tensor, or nil if the columns do not
// match the tensors.
func (a *Attached) columnLabels(x ood.InputBlock, columns []string) [][]string {
	labels := make([][]string, len(x.Tensors))
	for _, in := range a.inputs {
		for i, t := range x.Tensors {
			if a.inputs.tensorFor(x.Tensors[i:i+1], in) == nil || len(t.Shape) > 2 {
				continue
			}
			width := product(t.Shape[1:])
			if width > len(columns) {
				return make([][]string, len(x.Tensors))
			}
			labels[i], columns = columns[:width], columns[width:]
		}
	}
	if len(columns) > 0 {
		return make([][]string, len(x.Tensors))
	}
	return labels
}

// drawReferences draws reference rows and computes their mean.
func (at *attributor) drawReferences(reference ood.InputBlock) error {
	if err := reference.Check(); err != nil {
		return fmt.Errorf("reference rows: %w", err)
	}
	n := reference.Len()
	ordered := make([]ood.Tensor, len(at.x.Tensors)) // in the order of x
	for i, t := range at.x.Tensors {
		r := reference.Find(t.Name)
		if r == nil || !slices.Equal(r.Shape[1:], t.Shape[1:]) && !at.grids[i].text || (r.Strings == nil) != (t.Strings == nil) {
			return fmt.Errorf("the reference rows lack the tensor %q with the type and shape that it has in the rows", t.Name)
		}
		ordered[i] = *r
	}
	reference.Tensors = ordered
	order := rand.New(rand.NewPCG(at.opts.Seed, 0)).Perm(n)[:min(n, at.opts.References)]
	at.reference = reference.Select(order).(ood.InputBlock)
	at.mean = reference.Slice(0, 1)
	at.mean.Tensors = slices.Clone(at.mean.Tensors)
	for i, t := range reference.Tensors {
		if !at.grids[i].image {
			continue
		}
		mean := make([]float64, product(t.Shape[1:]))
		for j, v := range t.Data {
			mean[j%len(mean)] += float64(v) / float64(n)
		}
		data := make([]float32, len(mean))
		for j, v := range mean {
			data[j] = float32(v)
		}
		at.mean.Tensors[i].Data = data
	}
	return nil
}

// newTensors returns empty attributions for row i.
func (at *attributor) newTensors(i int) []TensorAttribution {
	list := make([]TensorAttribution, len(at.x.Tensors))
	for k, t := range at.x.Tensors {
		g := at.grids[k]
		list[k] = TensorAttribution{Name: t.Name, Shape: g.shape, Patch: g.patch, Labels: at.labels[k]}
		if g.text {
			list[k].Offsets = words(t.Strings[i])
			for _, w := range list[k].Offsets {
				list[k].Labels = append(list[k].Labels, t.Strings[i][w[0]:w[1]])
			}
			list[k].Shape = []int{len(list[k].Offsets)}
		}
		list[k].Values = make([]float64, product(list[k].Shape))
	}
	return list
}

// words returns the first byte of each word and the byte after its last.
func words(text string) (list [][2]int) {
	start := 0
	for start < len(text) {
		trimmed := strings.TrimLeftFunc(text[start:], unicode.IsSpace)
		start = len(text) - len(trimmed)
		end := strings.IndexFunc(trimmed, unicode.IsSpace)
		if end < 0 {
			end = len(trimmed)
		}
		if end > 0 {
			list = append(list, [2]int{start, start + end})
		}
		start += end
	}
	return list
}

// gradientCost is the approximate time of a gradient, in units of one prediction.
const gradientCost = 3

// prefersGradient reports whether the default method for row i is the gradient, if it exists.
func (at *attributor) prefersGradient(i int, score float64) bool {
	replaced, image := 0, false
	for k, g := range at.grids {
		replaced, image = replaced+len(g.members)*at.draws(k), image || g.image
	}
	if math.IsInf(score, 0) || !image && replaced <= gradientCost*at.reference.Len()*at.opts.Steps {
		return false
	}
	for _, t := range at.x.Slice(i, i+1).Tensors {
		if rows.FirstNotFinite(t.Data) >= 0 {
			return false
		}
	}
	return true
}

// scores returns the scores of rows in memory.
func (at *attributor) scores(ctx context.Context, x ood.InputBlock) (scores []float64, err error) {
	for s, err := range at.stream(ctx, x.Blocks(ctx, at.blockRows())) {
		if err != nil {
			return nil, err
		}
		scores = append(scores, s)
	}
	return scores, nil
}
