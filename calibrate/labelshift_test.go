package calibrate

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/ood"
)

// TestLabelShift compares shares, their standard errors and the test of the features with
// NumPy's.
func TestLabelShift(t *testing.T) {
	content, err := os.ReadFile("testdata/labelshift.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		LabelShift
		Labels                                         []int
		Logits, Features, TargetLogits, TargetFeatures []float32
	}
	if err := json.Unmarshal(content, &want); err != nil {
		t.Fatal(err)
	}
	want.LabelShift.PValue = 0 // its key in files is another one
	var named struct{ PValue float64 }
	if err := json.Unmarshal(content, &named); err != nil {
		t.Fatal(err)
	}
	k := len(want.Shares)
	h := len(want.Features) / len(want.Labels)
	got, err := NewLabelShift(t.Context(), ood.Batch{Logits: matrix(want.Logits, k), Features: matrix(want.Features, h), Labels: want.Labels},
		ood.Batch{Logits: matrix(want.TargetLogits, k), Features: matrix(want.TargetFeatures, h)})
	if err != nil {
		t.Fatal(err)
	}
	for c := range k {
		if math.Abs(got.Shares[c]-want.Shares[c]) > 1e-6 || math.Abs(got.Errors[c]/want.Errors[c]-1) > 1e-5 || math.Abs(got.Weights[c]/want.Weights[c]-1) > 1e-5 {
			t.Errorf("class %d: share %v ± %v and weight %v, want %v ± %v and %v", c, got.Shares[c], got.Errors[c], got.Weights[c], want.Shares[c], want.Errors[c], want.Weights[c])
		}
	}
	if math.Abs(got.PValue/named.PValue-1) > 1e-4 {
		t.Errorf("the p-value is %v, want %v", got.PValue, named.PValue)
	}
}

// classRows draws rows of normal features, with a mean for each class. The classifier is too
// confident, and prefers class 0. offset is added to the first feature of each row.
func classRows(r *rand.Rand, n int, shares []float64, offset float64) ood.Batch {
	k := len(shares)
	b := ood.Batch{Features: rows.New(n, k), Logits: rows.New(n, k), Labels: make([]int, n)}
	for i := range n {
		u := r.Float64()
		for b.Labels[i] = 0; b.Labels[i] < k-1 && u >= shares[b.Labels[i]]; b.Labels[i]++ {
			u -= shares[b.Labels[i]]
		}
		x := rows.Row(b.Features, i)
		for j := range x {
			x[j] = float32(r.NormFloat64())
		}
		x[b.Labels[i]] += 2
		x[0] += float32(offset)
		for c, v := range x {
			rows.Row(b.Logits, i)[c] = 4 * v
		}
		rows.Row(b.Logits, i)[0] += 2
	}
	return b
}

// TestLabelShiftCoverage checks the coverage of sets, the errors of shares and the p-values of
// the test over draws of calibration rows and target rows.
func TestLabelShiftCoverage(t *testing.T) {
	const draws, tests, alpha = 60, 200, .1
	source, shares := []float64{.8, .1, .1}, []float64{.1, .3, .6}
	r := rand.New(rand.NewPCG(3, 8))
	var weighted, plain, within, rejected, detected float64
	for range draws {
		cal := classRows(r, 400, source, 0)
		s, err := NewLabelShift(t.Context(), cal, classRows(r, 300, shares, 0))
		if err != nil {
			t.Fatal(err)
		}
		for c, q := range shares {
			if math.Abs(s.Shares[c]-q) <= 1.96*s.Errors[c] {
				within += 1. / draws / 3
			}
		}
		if s.PValue < .05 {
			rejected += 1. / draws
		}
		if other, err := NewLabelShift(t.Context(), cal, classRows(r, 300, shares, .7)); err == nil && other.PValue < .05 {
			detected += 1. / draws
		}
		classes, err := NewClassCalibration(cal.Logits, cal.Labels)
		if err != nil {
			t.Fatal(err)
		}
		without, err := classes.Sets(SetOptions{}, alpha)
		if err != nil {
			t.Fatal(err)
		}
		for _, label := range cal.Labels {
			classes.Weights = append(classes.Weights, s.Weights[label])
		}
		with, err := classes.Sets(SetOptions{}, alpha)
		if err != nil {
			t.Fatal(err)
		}
		with = with.WithClassWeights(s.Weights)
		fresh := classRows(r, tests, shares, 0)
		a, b := with.Predict(fresh.Logits, 0), without.Predict(fresh.Logits, 0)
		for i, label := range fresh.Labels {
			if slices.Contains(a[i], label) {
				weighted += 1. / draws / tests
			}
			if slices.Contains(b[i], label) {
				plain += 1. / draws / tests
			}
		}
	}
	t.Logf("coverage %.3f with weights and %.3f without; %.3f of intervals of shares cover; the test rejects %.3f, and %.3f after other shifts", weighted, plain, within, rejected, detected)
	if math.Abs(weighted-.9) > .025 || plain > .84 {
		t.Errorf("coverage is %.3f with weights and %.3f without", weighted, plain)
	}
	if within < .9 || within == 1 {
		t.Errorf("%.3f of the 95 %% intervals hold the share", within)
	}
	if rejected > .15 || detected < .9 {
		t.Errorf("the test rejects %.3f of label shifts and %.3f of other shifts", rejected, detected)
	}
}

// TestLabelShiftFewRows checks that the test of the features holds its level if few rows count:
// 15 calibration rows of each frequent class make all of them worth 37 rows. A χ² test rejects
// 0.034 at level 0.01, and 0.086 at level 0.05.
func TestLabelShiftFewRows(t *testing.T) {
	source, shares := []float64{.8, .1, .1}, []float64{.1, .3, .6}
	rejections := func(offset float64) (at01, at05 float64) {
		r := rand.New(rand.NewPCG(3, 8))
		var p []float64
		for range 500 {
			s, err := NewLabelShift(t.Context(), classRows(r, 150, source, 0), classRows(r, 500, shares, offset))
			if err == nil {
				p = append(p, s.PValue)
			}
		}
		for _, v := range p {
			if v < .01 {
				at01 += 1 / float64(len(p))
			}
			if v < .05 {
				at05 += 1 / float64(len(p))
			}
		}
		return at01, at05
	}
	at01, at05 := rejections(0)
	_, power := rejections(.7)
	t.Logf("the test rejects %.3f at 0.01 and %.3f at 0.05, and %.3f at 0.05 after another shift", at01, at05, power)
	if at01 > .025 || at05 > .085 || power < .65 {
		t.Errorf("the test rejects %.3f at 0.01 and %.3f at 0.05, and %.3f at 0.05 after another shift", at01, at05, power)
	}
}

// TestClassWeights checks sets with weights of classes: p-values that are computed by hand, sets
// that agree with p-values, and sets by class, which weights do not change.
func TestClassWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	cal := classRows(r, 200, []float64{.5, .3, .2}, 0)
	weights := []float64{.5, 2, 1.25}
	classes, err := NewClassCalibration(cal.Logits, cal.Labels)
	if err != nil {
		t.Fatal(err)
	}
	plain := classes
	for _, label := range cal.Labels {
		classes.Weights = append(classes.Weights, weights[label])
	}
	fresh := classRows(r, 50, []float64{.1, .3, .6}, 0)
	for _, score := range conformal.SetScores() {
		for _, byClass := range []bool{false, score != conformal.Ordinal} {
			o := SetOptions{Score: score, ByClass: byClass}
			s, err := classes.Sets(o, .1)
			if err != nil {
				t.Fatal(err)
			}
			s = s.WithClassWeights(weights)
			sets, p := s.Predict(fresh.Logits, 0), s.PValues(fresh.Logits, 0)
			for i, set := range sets {
				for c := range weights {
					if slices.Contains(set, c) != (p[i*3+c] > .1) {
						t.Fatalf("%+v: row %d has the set %v and the p-values %v", o, i, set, p[i*3:i*3+3])
					}
				}
			}
			if byClass {
				same, err := plain.Sets(o, .1)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.EqualFunc(sets, same.Predict(fresh.Logits, 0), slices.Equal) || !slices.Equal(p, same.PValues(fresh.Logits, 0)) {
					t.Errorf("%+v: weights change sets by class", o)
				}
				continue
			}
			if score != conformal.LAC {
				continue
			}
			scores, z := classes.Scores(o), rows.Row(fresh.Logits, 0)
			for c, w := range weights {
				sum := 0.
				for _, v := range z {
					sum += math.Exp(float64(v) - float64(z[c]))
				}
				tail, all := w, w
				for i, label := range cal.Labels {
					all += weights[label]
					if scores[i] >= 1-1/sum {
						tail += weights[label]
					}
				}
				if math.Abs(p[c]-tail/all) > 1e-9 {
					t.Errorf("class %d has the p-value %v, want %v", c, p[c], tail/all)
				}
			}
		}
	}
	if s, err := plain.Sets(SetOptions{}, .1); err != nil || !slices.EqualFunc(s.Predict(fresh.Logits, 0), s.WithClassWeights(weights).Predict(fresh.Logits, 0), slices.Equal) {
		t.Errorf("weights of classes change sets without weights of calibration rows (%v)", err)
	}
}

// TestAdjustedLogits checks probabilities among rows with other shares against Bayes' rule.
func TestAdjustedLogits(t *testing.T) {
	p := []float64{.2, .5, .3}
	s := LabelShift{Weights: []float64{2, .4, 1}}
	z := make([]float32, 3)
	for c, v := range p {
		z[c] = float32(2*math.Log(v) + 5)
	}
	for c, v := range s.Logits(z, 2) {
		want := p[c] * s.Weights[c] / (.4 + .2 + .3)
		if got := math.Exp(float64(v)-2.5) / .9; math.Abs(got-want) > 1e-6 {
			t.Errorf("class %d has the probability %v, want %v", c, got, want)
		}
	}
}

// TestLabelShiftRefused checks rows that determine no weights.
func TestLabelShiftRefused(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	shares := []float64{.4, .3, .3}
	good, target := classRows(r, 400, shares, 0), classRows(r, 200, shares, 0)
	same, confused, constant := classRows(r, 400, shares, 0), classRows(r, 400, shares, 0), classRows(r, 400, shares, 0)
	for i := range same.Labels { // classes 1 and 2 have the same inputs
		rows.Row(confused.Logits, i)[1], rows.Row(confused.Logits, i)[2] = float32(r.NormFloat64()), float32(r.NormFloat64())
		copy(rows.Row(constant.Logits, i), []float32{1, 2, 3})
	}
	other, infinite := target, classRows(r, 200, shares, 0)
	other.Features = rows.New(200, 2)
	infinite.Logits.Data[4] = float32(math.Inf(1))
	noLabels := good
	noLabels.Labels = nil
	rare := classRows(r, 2000, []float64{.01, .495, .495}, 0)
	for name, c := range map[string]struct {
		cal, target ood.Batch
		want        string
	}{
		"too few target rows": {good, target.Slice(0, 29), "29 target rows"},
		"rare class":          {good.Slice(0, 30), target, "each class needs at least 10"},
		"confused classes":    {confused, target, "standard error"},
		"constant classifier": {constant, target, "cannot be told apart"},
		"other features":      {good, other, "same features"},
		"infinite logit":      {good, infinite, "row 1"},
		"no labels":           {noLabels, target, "0 labels"},
		"other classes":       {good, ood.Batch{Logits: rows.New(200, 4)}, "have 4"},
		"few rows worth":      {rare, classRows(r, 2000, []float64{.98, .01, .01}, 0), "are worth only"},
	} {
		if _, err := NewLabelShift(t.Context(), c.cal, c.target); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, without %q", name, err, c.want)
		}
	}
}

// TestProjectSimplex checks the projection on examples that are computed by hand.
func TestProjectSimplex(t *testing.T) {
	for _, c := range [][2][]float64{{{.2, .3, .5}, {.2, .3, .5}}, {{.6, .6, -.2}, {.5, .5, 0}}, {{3, 1}, {1, 0}}, {{0, 0}, {.5, .5}}} {
		for i, v := range projectSimplex(c[0]) {
			if math.Abs(v-c[1][i]) > 1e-12 {
				t.Errorf("the projection of %v is %v, want %v", c[0], projectSimplex(c[0]), c[1])
			}
		}
	}
}
