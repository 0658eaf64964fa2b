package featurize_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/preprocess"
)

// fitOn fits a detector for the model at path on rows x, and opens the model for it.
func fitOn(t *testing.T, path, method string, x ood.InputBlock, columns ...string) (*featurize.Attached, *attach.Predictor) {
	t.Helper()
	m := open(t, runtime(t), path, featurize.Options{})
	task := m.Info().Task
	if task != attach.Regression {
		task = attach.Classification
	}
	o := attach.FitOptions{Base: m.Base(task), Last: m.Last(), SkipIntervals: task == attach.Regression}
	if method != "" {
		o.Detector, _ = attach.MethodByName(method)
	}
	o.Base.Columns = columns
	var err error
	if o.Batch, err = m.Network().Forward(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	if o.Base.Task == attach.Classification {
		for i := range x.Len() {
			o.Batch.Labels = append(o.Batch.Labels, i%o.Batch.Logits.Cols)
		}
	} else {
		o.Targets = o.Batch.Logits
	}
	b, err := attach.Fit(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	a, err := featurize.OpenFor(t.Context(), b, path, featurize.Options{Runtime: featurize.Runtime{Library: runtime(t).Library().Path, Provider: "cpu", Threads: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	p, err := b.Predictor(attach.PredictOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return a, p
}

// scoresOf returns the scores of rows.
func scoresOf(t *testing.T, a *featurize.Attached, p *attach.Predictor, x ood.InputBlock) (scores []float64) {
	t.Helper()
	r, err := a.Run(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	predictions, err := p.Predict(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range predictions {
		scores = append(scores, p.Score)
	}
	return scores
}

// normalRows returns n rows of k standard normal numbers.
func normalRows(n, k int, seed uint64) ood.InputBlock {
	rng := rand.New(rand.NewPCG(seed, 1))
	data := make([]float32, n*k)
	for i := range data {
		data[i] = float32(rng.NormFloat64())
	}
	return ood.BlockOf([]int{n, k}, data)
}

// TestAttributeGradient compares gradients of scores with central differences of the scores
// that the predictor computes, along the same lines. It also checks that the attributions add
// up to the difference of the scores.
func TestAttributeGradient(t *testing.T) {
	path := tiny(t, 17, func(b *onnx.Builder, x string) {
		z := b.Node("MatMul", []string{x, b.Initializer("trunk", trunk, 3, h)})
		addOutput(b, gemm(b, b.Node("Tanh", []string{b.Node("Mul", []string{z, b.Const(float32(.4))})})))
	}, "n", 3)
	fit := normalRows(400, 3, 1)
	x := ood.BlockOf([]int{2, 3}, []float32{2, -1.5, .5, .25, 4, 1})
	for _, method := range []string{"certificates", "mahalanobis", "energy", "vim", "relative-mahalanobis", "react", "gaussian-mixture", "distance", "knn"} {
		t.Run(method, func(t *testing.T) {
			steps, h := 256, float32(1e-2)
			if method == "distance" || method == "knn" { // the slope changes with the nearest row
				steps, h = 8192, 1e-3
			}
			a, p := fitOn(t, path, method, fit)
			reference := ood.BlockOf([]int{1, 3}, []float32{.3, .2, -.4})
			got, err := a.Attribute(t.Context(), p, x, reference, featurize.AttributeOptions{Method: "gradient", Steps: steps})
			if err != nil {
				t.Fatal(err)
			}
			scores := scoresOf(t, a, p, x)
			baseline := scoresOf(t, a, p, reference)[0]
			for i, at := range got {
				if at.Method != "gradient" || math.Abs(at.Score-scores[i]) > 1e-6*math.Abs(scores[i]) || at.Baseline != baseline {
					t.Errorf("row %d: method %s, score %v, baseline %v; want %v and %v", i, at.Method, at.Score, at.Baseline, scores[i], baseline)
				}
				values := at.Tensors[0].Values
				sum, size := 0., 0.
				for k, v := range values {
					var around []float32 // pairs of points beside the points of the line
					for s := range steps {
						for _, side := range []float32{h, -h} {
							for j := range 3 {
								r := reference.Tensors[0].Data[j]
								around = append(around, r+(float32(s)+.5)/float32(steps)*(x.Tensors[0].Data[3*i+j]-r))
							}
							around[len(around)-3+k] += side
						}
					}
					near := scoresOf(t, a, p, ood.BlockOf([]int{2 * steps, 3}, around))
					want := 0.
					for s := range steps {
						want += (near[2*s] - near[2*s+1]) / (2 * float64(h)) / float64(steps)
					}
					want *= float64(x.Tensors[0].Data[3*i+k] - reference.Tensors[0].Data[k])
					if math.Abs(v-want) > .02*math.Abs(want)+.02*math.Abs(scores[i]-baseline) {
						t.Errorf("row %d: column %d has the attribution %v, by differences %v", i, k, v, want)
					}
					sum, size = sum+v, size+math.Abs(v)
				}
				if math.Abs(sum-(at.Score-at.Baseline)) > .02*size {
					t.Errorf("row %d: the attributions add up to %v, the difference of scores is %v", i, sum, at.Score-at.Baseline)
				}
			}
		})
	}
}

// TestAttributeClosedForm checks the gradient method where the integral is known. The model is
// linear and the score of Mahalanobis is quadratic, so that the attribution of column k is
// (x−r)_k times the gradient at the midpoint. A central difference gives that gradient exactly.
func TestAttributeClosedForm(t *testing.T) {
	path := tiny(t, 17, func(b *onnx.Builder, x string) {
		addOutput(b, b.Node("Gemm", []string{x, b.Initializer("W", []float32{1, 2, -1, .5, 0, 1}, 2, 3), b.Initializer("b", headB)}, onnx.Attr("transB", 1)))
	}, "n", 3)
	a, p := fitOn(t, path, "covariance", normalRows(400, 3, 1))
	x, r := []float32{3, -2, 1}, []float32{.5, .25, -.5}
	got, err := a.Attribute(t.Context(), p, ood.BlockOf([]int{1, 3}, x), ood.BlockOf([]int{1, 3}, r), featurize.AttributeOptions{Method: "gradient", Steps: 1})
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.
	for k, v := range got[0].Tensors[0].Values {
		var around []float32
		for _, side := range []float32{1, -1} {
			for j := range x {
				around = append(around, (x[j]+r[j])/2)
			}
			around[len(around)-3+k] += side
		}
		s := scoresOf(t, a, p, ood.BlockOf([]int{2, 3}, around))
		if want := (s[0] - s[1]) / 2 * float64(x[k]-r[k]); math.Abs(v-want) > 1e-4*math.Abs(got[0].Score) {
			t.Errorf("column %d: %v, want %v", k, v, want)
		}
		sum += v
	}
	if math.Abs(sum-(got[0].Score-got[0].Baseline)) > 1e-4*math.Abs(got[0].Score) {
		t.Errorf("the attributions add up to %v, want %v", sum, got[0].Score-got[0].Baseline)
	}
	// Attributions of several references are the mean of those of each, in any order.
	references := ood.BlockOf([]int{2, 3}, append(slices.Clone(r), -1, 2, 0))
	var each [3][]featurize.Attribution
	for i, block := range []ood.InputBlock{references.Slice(0, 1), references.Slice(1, 2), references} {
		if each[i], err = a.Attribute(t.Context(), p, ood.BlockOf([]int{1, 3}, x), block, featurize.AttributeOptions{Method: "gradient", Steps: 200}); err != nil {
			t.Fatal(err)
		}
	}
	for k, v := range each[2][0].Tensors[0].Values {
		if want := (each[0][0].Tensors[0].Values[k] + each[1][0].Tensors[0].Values[k]) / 2; math.Abs(v-want) > .01*math.Abs(want) {
			t.Errorf("column %d of two references: %v, want %v", k, v, want)
		}
	}
}

// TestAttributeTrees checks replacement for a forest, which has no gradient: against scores of
// rows that the test changes itself, and that a planted cell comes first.
func TestAttributeTrees(t *testing.T) {
	fit := normalRows(300, 4, 2)
	a, p := fitOn(t, "../testmodels/tables/forest_regressor.onnx", "", fit, "a", "b", "c", "d")
	x := normalRows(3, 4, 3)
	x.Tensors[0].Data[6] = 9 // row 1, column c
	reference := fit.Slice(0, 2)
	got, err := a.Attribute(t.Context(), p, x, reference, featurize.AttributeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	scores := scoresOf(t, a, p, x)
	for i := range 3 {
		for k := range 4 {
			want := 0.
			for draw := range 2 {
				changed := slices.Clone(x.Tensors[0].Data[4*i : 4*i+4])
				changed[k] = reference.Tensors[0].Data[4*draw+k]
				want += (scores[i] - scoresOf(t, a, p, ood.BlockOf([]int{1, 4}, changed))[0]) / 2
			}
			if v := got[i].Tensors[0].Values[k]; got[i].Method != "replacement" || math.Abs(v-want) > 1e-5*(1+math.Abs(want)) {
				t.Errorf("row %d, column %d: %v by %s, want %v", i, k, v, got[i].Method, want)
			}
		}
	}
	top := got[1].Top(1)
	if len(top) != 1 || top[0].Label != "c" || top[0].Index != 2 || top[0].Value != slices.Max(got[1].Tensors[0].Values) {
		t.Errorf("the first element is %+v of %v", top, got[1].Tensors[0])
	}
	if all := got[1].Top(10); !slices.IsSortedFunc(all, func(a, b featurize.Element) int { return int(math.Copysign(1, b.Value-a.Value)) }) || all[len(all)-1].Value <= 0 {
		t.Errorf("the elements are %+v", all)
	}
	if _, err := a.Attribute(t.Context(), p, x, reference, featurize.AttributeOptions{Method: "gradient"}); !errors.Is(err, ood.ErrNotDifferentiable) {
		t.Errorf("the gradient of a forest gives the error %v", err)
	}
}

// TestAttributeImages checks that a pasted patch comes first with both methods, and that an
// attribution of pixels adds up to the attribution of their patch.
func TestAttributeImages(t *testing.T) {
	path, err := fitDigits(t.Context(), t.TempDir(), ood.Method{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := attach.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	a, err := featurize.OpenFor(t.Context(), b, "", featurize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	p, err := b.Predictor(attach.PredictOptions{})
	if err != nil {
		t.Fatal(err)
	}
	reference := digitRows(t, a, "0", "1", "2", "3")
	x := reference.Select([]int{3}).(ood.InputBlock)
	for y := range 6 {
		for k := range 6 {
			x.Tensors[0].Data[(y+18)*24+k] = float32((y + k) % 2 * 3) // the patches in the lower left corner
		}
	}
	place := []int{6 * 8, 6*8 + 1, 7 * 8, 7*8 + 1}
	for _, method := range []string{"gradient", "replacement"} {
		got, err := a.Attribute(t.Context(), p, x, reference, featurize.AttributeOptions{Method: method})
		if err != nil {
			t.Fatal(err)
		}
		at := got[0].Tensors[0]
		if got[0].Method != method || !slices.Equal(at.Shape, []int{8, 8}) || at.Patch != 3 || !slices.Contains(place, got[0].Top(1)[0].Index) {
			t.Errorf("%s: shape %v of patches of %d, first %+v", method, at.Shape, at.Patch, got[0].Top(3))
		}
		if method != "gradient" {
			changed := ood.BlockOf(x.Tensors[0].Shape, slices.Clone(x.Tensors[0].Data))
			for y := 18; y < 21; y++ {
				for k := range 3 {
					mean := float32(0)
					for i := range reference.Len() {
						mean += reference.Tensors[0].Data[i*24*24+y*24+k] / float32(reference.Len())
					}
					changed.Tensors[0].Data[y*24+k] = mean
				}
			}
			if want := got[0].Score - scoresOf(t, a, p, changed)[0]; math.Abs(at.Values[6*8]-want) > 1e-4*(1+math.Abs(want)) {
				t.Errorf("the attribution of a patch is %v, want %v", at.Values[6*8], want)
			}
			continue
		}
		pixels, err := a.Attribute(t.Context(), p, x, reference, featurize.AttributeOptions{Patch: 1})
		if err != nil || pixels[0].Method != "gradient" { // the default for images
			t.Fatalf("the method is %v, error %v", pixels, err)
		}
		sum := 0.
		for y := range 3 {
			for k := range 3 {
				sum += pixels[0].Tensors[0].Values[(y+18)*24+k]
			}
		}
		if want := at.Values[6*8]; math.Abs(sum-want) > 1e-6*(1+math.Abs(want)) {
			t.Errorf("the pixels of a patch have %v together, the patch %v", sum, want)
		}
	}
}

// digitRows returns prepared images of the given digits.
func digitRows(t *testing.T, a *featurize.Attached, digits ...string) ood.InputBlock {
	t.Helper()
	var data []float32
	var shape []int
	for _, d := range digits {
		content, err := os.ReadFile("../testmodels/images/" + d + "/0.png")
		if err != nil {
			t.Fatal(err)
		}
		img, err := preprocess.Decode(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		if data, shape, err = a.Preprocess.Append(data, img); err != nil {
			t.Fatal(err)
		}
	}
	return ood.BlockOf(append([]int{len(digits)}, shape...), data)
}

// TestAttributeDefault checks which method is the default for a table of 4 columns: the gradient
// if it takes less time than replacement.
func TestAttributeDefault(t *testing.T) {
	fit := normalRows(300, 4, 2)
	a, p := fitOn(t, "../testmodels/tables/mlp.onnx", "", fit)
	for steps, want := range map[int]string{0: "replacement", 1: "gradient", 2: "replacement"} {
		got, err := a.Attribute(t.Context(), p, normalRows(2, 4, 3), fit, featurize.AttributeOptions{Steps: steps})
		if err != nil || got[0].Method != want || got[1].Method != want {
			t.Errorf("with %d steps: %v, error %v, want %s", steps, got, err, want)
		}
	}
}

// TestAttributeRefuses checks errors.
func TestAttributeRefuses(t *testing.T) {
	fit := normalRows(300, 4, 2)
	a, p := fitOn(t, "../testmodels/tables/forest_regressor.onnx", "", fit)
	x := normalRows(2, 4, 3)
	for want, c := range map[string]struct {
		p            *attach.Predictor
		x, reference ood.InputBlock
		o            featurize.AttributeOptions
	}{
		`the method of attribution is "lime"`: {p, x, fit, featurize.AttributeOptions{Method: "lime"}},
		"References -1":                       {p, x, fit, featurize.AttributeOptions{References: -1}},
		"the predictor is empty":              {&attach.Predictor{}, x, fit, featurize.AttributeOptions{}},
		"there are no rows":                   {p, ood.InputBlock{}, fit, featurize.AttributeOptions{}},
		"there are no reference rows":         {p, x, ood.InputBlock{}, featurize.AttributeOptions{}},
		"the reference rows lack the tensor":  {p, x, normalRows(3, 5, 1), featurize.AttributeOptions{}},
	} {
		if _, err := a.Attribute(t.Context(), c.p, c.x, c.reference, c.o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}

// columnRows returns rows of columns for the model columns_regressor: four of numbers and one of
// texts.
func columnRows(t *testing.T, m *featurize.Model, n int, seed uint64) (x ood.InputBlock, names []string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 2))
	for j, in := range m.Base(attach.Regression).Inputs {
		column := ood.Tensor{Name: in.Name, Shape: []int{n, 1}}
		for range n {
			if j == 4 {
				column.Strings = append(column.Strings, []string{"steel", "glass"}[rng.IntN(2)])
			} else {
				column.Data = append(column.Data, float32(rng.NormFloat64()))
			}
		}
		x.Tensors, names = append(x.Tensors, column), append(names, in.Name)
	}
	return x, names
}

// TestAttributeColumns checks a model with one tensor for each column: an unusual cell comes
// first under the name of its column, and so does an empty cell, which makes the score infinite.
func TestAttributeColumns(t *testing.T) {
	const path = "../testmodels/tables/columns_regressor.onnx"
	m := open(t, runtime(t), path, featurize.Options{})
	fit, names := columnRows(t, m, 400, 4)
	a, p := fitOn(t, path, "", fit, names...)
	x, _ := columnRows(t, m, 2, 5)
	x.Tensors[1].Data[0] = 40
	x.Tensors[2].Data[1] = float32(math.NaN())
	slices.Reverse(fit.Tensors) // the order of tensors does not matter
	got, err := a.Attribute(t.Context(), p, x, fit, featurize.AttributeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if top := got[0].Top(1); len(top) != 1 || top[0].Label != names[1] || top[0].Tensor != 1 || len(got[0].Tensors) != 5 {
		t.Errorf("the first element is %+v of %+v", top, got[0])
	}
	if top := got[1].Top(5); len(top) != 1 || top[0].Label != names[2] || !math.IsInf(top[0].Value, 1) || !math.IsInf(got[1].Score, 1) {
		t.Errorf("the elements of a row with an empty cell are %+v of %+v", top, got[1])
	}
}

// TestAttributeTexts checks words and their places, and compares their attributions with the
// scores of texts without the word.
func TestAttributeTexts(t *testing.T) {
	const path = "../testmodels/text"
	m := open(t, runtime(t), path, featurize.Options{})
	file, err := os.ReadFile(path + "/fit.csv")
	if err != nil {
		t.Fatal(err)
	}
	textRows := func(texts ...string) ood.InputBlock {
		return ood.InputBlock{Tensors: []ood.Tensor{{Shape: []int{len(texts)}, Strings: texts}}}
	}
	var texts []string
	numbers, o := map[string]int{}, attach.FitOptions{Base: m.Base(attach.Classification), Text: m.Info().Text, Last: m.Last()}
	for _, line := range strings.Split(strings.TrimSpace(string(file)), "\n")[1:] {
		text, intent, _ := strings.Cut(line, ",")
		if _, known := numbers[intent]; !known {
			numbers[intent] = len(numbers)
		}
		texts, o.Batch.Labels = append(texts, text), append(o.Batch.Labels, numbers[intent])
	}
	labels := o.Batch.Labels
	if o.Batch, err = m.Network().Forward(t.Context(), textRows(texts...)); err != nil {
		t.Fatal(err)
	}
	o.Batch.Labels = labels
	b, err := attach.Fit(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	a, err := featurize.OpenFor(t.Context(), b, "", featurize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	p, err := b.Predictor(attach.PredictOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := a.Attribute(t.Context(), p, textRows(" set\tan élan alarm ", "money"), ood.InputBlock{}, featurize.AttributeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	words := got[0].Tensors[0]
	if !slices.Equal(words.Labels, []string{"set", "an", "élan", "alarm"}) || !slices.Equal(words.Offsets, [][2]int{{1, 4}, {5, 7}, {8, 13}, {14, 19}}) ||
		!slices.Equal(words.Shape, []int{4}) || !math.IsNaN(got[0].Baseline) || len(got[1].Tensors[0].Values) != 1 {
		t.Errorf("the words are %+v", got)
	}
	without := scoresOf(t, a, p, textRows("an élan alarm", "set élan alarm", "set an alarm", "set an élan"))
	for i, v := range words.Values {
		if want := got[0].Score - without[i]; math.Abs(v-want) > 1e-5*(1+math.Abs(want)) {
			t.Errorf("%s has the attribution %v, want %v", words.Labels[i], v, want)
		}
	}
	if _, err := a.Attribute(t.Context(), p, textRows("a"), ood.InputBlock{}, featurize.AttributeOptions{Method: "gradient"}); !errors.Is(err, ood.ErrNotDifferentiable) {
		t.Errorf("the gradient of a text gives the error %v", err)
	}
	tokens := ood.InputBlock{Tensors: []ood.Tensor{{Name: "input_ids", Shape: []int{1, 2}, Data: []float32{1, 2}}}}
	if _, err := a.Attribute(t.Context(), p, tokens, tokens, featurize.AttributeOptions{}); err == nil || !strings.Contains(err.Error(), "pass their texts") {
		t.Errorf("tokens give the error %v", err)
	}
}
