package heads_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
)

// given is a method that scores a row by its only feature.
var given = ood.Method{
	Name: "given", Doc: "The feature.", Needs: ood.Needs{Features: true},
	Fit: func(context.Context, ood.Training, ood.Params) (any, error) { return &feature{}, nil },
	New: func() any { return &feature{} },
}

// feature is the detector of method given.
type feature struct{}

func (*feature) Score(_ context.Context, dst []float64, b ood.Batch) error {
	for i := range dst {
		dst[i] = float64(b.Features.Data[i*b.Features.Stride])
	}
	return nil
}

// column returns a batch of rows with one feature.
func column(x ...float32) ood.Batch {
	b := ood.Batch{Features: rows.New(len(x), 1)}
	copy(b.Features.Data, x)
	return b
}

// TestFusedOrder checks a fusion with a single component. Its score must be finite, and
// must not decrease if the score of the component grows. Beyond the calibration scores, it
// must strictly increase.
func TestFusedOrder(t *testing.T) {
	ramp := make([]float32, 50)
	for i := range ramp {
		ramp[i] = float32(i)
	}
	heavy := make([]float32, 50)
	for i := range heavy {
		heavy[i] = float32(1 / (1 - (float64(i)+.5)/50))
	}
	probes := []float32{-1e30, 0, 1, 1.5, 2, 17.3, 48, 49, 49.001, 50, 60, 500, 1e4, 1e10, 1e38}
	for name, fit := range map[string][]float32{
		"ramp": ramp, "heavy tail": heavy, "all alike": slices.Repeat([]float32{3}, 50), "two rows": {1, 2}, "one above others": append(make([]float32, 49), 5),
	} {
		m := heads.Fused("alone", "harmonic", heads.Component{Method: given})
		s, err := fitting.Fit(context.Background(), m, ood.Training{Batch: column(fit...)}, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := score(t, s, column(probes...))
		if !slices.IsSorted(got) {
			t.Errorf("%s: scores %v are not in order", name, got)
		}
		for i, v := range got {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%s: score of %v is %v", name, probes[i], v)
			}
			if probes[i] > 50 && v <= got[i-1] {
				t.Errorf("%s: %v ties with %v", name, probes[i], probes[i-1])
			}
		}
	}
}

// TestFusedIsConservative checks a fusion with a single component. Its score must be −log
// p. Within the range of the calibration scores, p must be at least the conformal p-value,
// and at a calibration score it must be equal.
func TestFusedIsConservative(t *testing.T) {
	fit := make([]float32, 100)
	for i := range fit {
		fit[i] = float32(i*i%101) / 7
	}
	training := ood.Training{Batch: column(fit...), Seed: 2}
	s, err := fitting.Fit(context.Background(), heads.Fused("alone", "harmonic", heads.Component{Method: given}), training, nil)
	if err != nil {
		t.Fatal(err)
	}
	var at []float64
	for _, v := range fit {
		at = append(at, float64(v))
	}
	c, err := calibrate.NewConformal(at)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range append(fit, 3.3, 8.1) {
		if float64(x) > slices.Max(at) {
			continue
		}
		p, conformal := math.Exp(-score(t, s, column(x))[0]), c.PValue(float64(x))
		if p < conformal-1e-12 || slices.Contains(at, float64(x)) && p > conformal+1e-12 {
			t.Errorf("at %v: p is %v, the conformal one %v", x, p, conformal)
		}
	}
}

// TestFusedCalibratesOutOfFold checks that each calibration row is scored by components
// fitted to other rows, and that new rows are scored by components fitted to all rows.
func TestFusedCalibratesOutOfFold(t *testing.T) {
	n := 20
	all := make([]float32, n)
	for i := range all {
		all[i] = float32(i)
	}
	var fits []int
	seen := ood.Method{
		Name: "seen", Doc: "1 for a row fitted with, else 0.", Needs: ood.Needs{Features: true},
		Fit: func(_ context.Context, t ood.Training, _ ood.Params) (any, error) {
			fits = append(fits, t.Len())
			return &knownRows{slices.Clone(t.Features.Data)}, nil
		},
	}
	s, err := fitting.Fit(context.Background(), heads.Fused("alone", "harmonic", heads.Component{Method: seen}), ood.Training{Batch: column(all...), Seed: 3}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{16, 16, 16, 16, 16, 20}; !slices.Equal(fits, want) {
		t.Errorf("fitted with %v rows, want %v", fits, want)
	}
	for i, got := range score(t, s, column(append(all, -1)...)) {
		// All calibration rows have score 0, so p is 1 at 0 and nearly 0 above.
		if i < n && got < 10 || i == n && math.Abs(got) > 1e-12 {
			t.Errorf("row %d: −log p is %v", i, got)
		}
	}
}

// TestFusedCountsAllRows checks that an error about too few rows gives the number of all
// rows, not of the rows in a fit. It also checks that progress runs from 0 to 1 even if
// components do not report their own progress.
func TestFusedCountsAllRows(t *testing.T) {
	picky := given
	picky.Fit = func(_ context.Context, t ood.Training, _ ood.Params) (any, error) {
		if t.Len() < 3 {
			return nil, &rows.TooFewRowsError{What: "picky", Have: t.Len(), Need: 3}
		}
		return &feature{}, nil
	}
	m := heads.Fused("alone", "harmonic", heads.Component{Method: picky})
	var few *rows.TooFewRowsError
	if _, err := fitting.Fit(context.Background(), m, ood.Training{Batch: column(1, 2, 3)}, nil); !errors.As(err, &few) || few.Have != 3 || few.Need != 4 {
		t.Errorf("3 rows, and 4 are needed: %v", err)
	}
	var reported []float64
	training := ood.Training{Batch: column(1, 2, 3, 4), Progress: func(fraction float64) { reported = append(reported, fraction) }}
	if _, err := fitting.Fit(context.Background(), m, training, nil); err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(reported) || !slices.Contains(reported, .2) || reported[len(reported)-1] != 1 {
		t.Errorf("progress %v", reported)
	}
}

// knownRows is a detector that gives the score 1 to the rows that it was fitted to, and 0
// to others.
type knownRows struct{ rows []float32 }

func (k *knownRows) Score(_ context.Context, dst []float64, b ood.Batch) error {
	for i := range dst {
		if slices.Contains(k.rows, b.Features.Data[i*b.Features.Stride]) {
			dst[i] = 1
		}
	}
	return nil
}

func TestFusedRestoreErrors(t *testing.T) {
	m := heads.Fused("alone", "fisher", heads.Component{Method: given})
	s, err := fitting.Fit(context.Background(), m, ood.Training{Batch: column(1, 2, 3, 4, 5, 6)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	state := s.State
	if _, err := fitting.Restore(m, state()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spoil func(rows.State)
		want  string
	}{
		{func(s rows.State) { s.Params["combine"] = "sum" }, "fisher, harmonic"},
		{func(s rows.State) { s.Params["parts"] = 2. }, "number of parts differs"},
		{func(s rows.State) { s.Params["parts.0.method"] = "energy" }, `the part is "energy"`},
		{func(s rows.State) { s.Params["parts.0.weight"] = .5 }, "sum to 0.5, not to 1"},
		{func(s rows.State) { s.Params["parts.0.fitted.width"] = 3. }, `"width" belongs to nothing`},
		{func(s rows.State) { s.Arrays["knn.train"] = rows.Vector([]float64{1}) }, "knn.train"},
		{func(s rows.State) { s.Arrays["parts.0.calibration"] = rows.Vector([]float64{2, 1}) }, "falls"},
		{func(s rows.State) { s.Arrays["parts.0.calibration"] = rows.Vector([]float64{math.NaN()}) }, "NaN"},
	} {
		spoilt := state()
		c.spoil(spoilt)
		if _, err := fitting.Restore(m, spoilt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

func score(t *testing.T, s *fitting.Scorer, b ood.Batch) []float64 {
	t.Helper()
	got, err := s.Score(context.Background(), nil, b)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
