package baselines_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// Labels that agree with no prediction are of some other numbering.
func TestLabelsOfAnotherNumbering(t *testing.T) {
	training := newToy().training(60)
	for _, m := range []ood.Method{baselines.SHE, baselines.OpenMax} {
		for _, labels := range [][]int{slices.Repeat([]int{7}, 60), {0, 1}, slices.Repeat([]int{-1}, 60)} {
			training.Labels = labels
			if _, err := ood.Fit(background, m, training, nil); err == nil || !strings.Contains(err.Error(), "label") {
				t.Errorf("%s with labels such as %v: %v", m.Name, labels[:2], err)
			}
		}
		training.Labels = make([]int, 60)
		for i := range training.Labels {
			training.Labels[i] = (1 + slices.Index(top(training.Logits, i), true)) % toyClasses
		}
		if _, err := ood.Fit(background, m, training, nil); err == nil || !strings.Contains(err.Error(), "numbered") {
			t.Errorf("%s where no label is predicted: %v", m.Name, err)
		}
	}
}

// top says of every logit of a row whether it is the largest.
func top(z blas32.General, i int) []bool {
	r := z.Data[i*z.Stride : i*z.Stride+z.Cols]
	is := make([]bool, len(r))
	for k, v := range r {
		is[k] = v == slices.Max(r)
	}
	return is
}

// Features that are all zero, all equal, or equal to the training mean have
// scores too.
func TestDegenerateActivations(t *testing.T) {
	c := rectifiedConformance()
	rows := zeros(3, rectifiedWidth)
	for j := range rectifiedWidth {
		rows.Data[rectifiedWidth+j] = 1
		var mean float64
		for i := range c.training.Features.Rows {
			mean += float64(c.training.Features.Data[i*rectifiedWidth+j])
		}
		rows.Data[2*rectifiedWidth+j] = float32(mean / float64(c.training.Features.Rows))
	}
	b := ood.Batch{Features: rows, Logits: zeros(3, toyClasses)}
	constant := c.training
	constant.Features = zeros(c.training.Features.Rows, rectifiedWidth)
	constant.Logits = zeros(c.training.Features.Rows, toyClasses)
	constant.Labels = nil
	for _, m := range detectors {
		if m.Control || m.Needs&^(ood.NeedFeatures|ood.NeedLogits|ood.NeedWeights) != 0 {
			continue
		}
		for _, training := range []ood.Training{c.training, constant} {
			for _, p := range configurations(m) {
				s, err := ood.Fit(background, m, training, p)
				if err != nil && training.Labels == nil {
					continue // rows that are all alike may be refused
				}
				if err != nil {
					t.Fatalf("%s %v: %v", m.Name, p, err)
				}
				for i, v := range score(t, s, b) {
					if math.IsNaN(v) || math.IsInf(v, 0) {
						t.Errorf("%s %v: row %d scores %v", m.Name, p, i, v)
					}
				}
			}
		}
	}
}

// A row of large logits that all agree, and one of logits beyond exp, have
// finite scores.
func TestLargeLogits(t *testing.T) {
	training := newToy().training(60)
	b := ood.Batch{Features: zeros(2, toyWidth), Logits: zeros(2, toyClasses)}
	copy(b.Logits.Data, []float32{3000, 3000, 3000, 3e4, -3e4, 0})
	for _, m := range []ood.Method{baselines.Energy, baselines.GEN, baselines.KLMatching, baselines.MaxLogit, baselines.OpenMax, baselines.NNGuide} {
		for _, p := range configurations(m) {
			s, err := ood.Fit(background, m, training, p)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range score(t, s, b) {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					t.Errorf("%s %v: row %d scores %v", m.Name, p, i, v)
				}
			}
		}
	}
}

func TestRestoreRefusesNonsense(t *testing.T) {
	training := newToy().training(60)
	for _, c := range []struct {
		method ood.Method
		damage func(rows.State)
	}{
		{baselines.GEN, func(s rows.State) { s.Params["top"] = 0. }},
		{baselines.GEN, func(s rows.State) { s.Params["gamma"] = -1. }},
		{baselines.ASHB, func(s rows.State) { s.Params["percentile"] = 100. }},
		{baselines.BALDFeatures, func(s rows.State) { s.Params["passes"] = 1e9 }},
		{baselines.NCI, func(s rows.State) { s.Params["alpha"] = -1. }},
		{baselines.NCI, func(s rows.State) { s.Params["width of features"] = toyWidth - 1. }},
		{baselines.OpenMax, func(s rows.State) { s.Arrays["tail_shape"].Data.([]float64)[0] = -1 }},
		{baselines.OpenMax, func(s rows.State) { s.Arrays["tail_at"].Data.([]float64)[0] = 0 }},
		{baselines.KLMatching, func(s rows.State) { s.Params["width of logits"] = 2. }},
		{baselines.NNGuide, func(s rows.State) { s.Arrays["bank"].Data.([]float32)[0] = float32(math.NaN()) }},
	} {
		s, err := ood.Fit(background, c.method, training, nil)
		if err != nil {
			t.Fatal(err)
		}
		st := throughJSON(t, s.State())
		if _, err := ood.Restore(c.method, st); err != nil {
			t.Fatalf("%s: %v", c.method.Name, err)
		}
		c.damage(st)
		if _, err := ood.Restore(c.method, st); err == nil {
			t.Errorf("%s restores from %v", c.method.Name, st.Params)
		}
	}
}
