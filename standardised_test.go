package attach_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// tableRegressor returns options for a regressor of table rows. Column 1 is multiplied by
// units and, if gaps is true, has empty cells.
func tableRegressor(seed uint64, units float32, gaps bool) attach.FitOptions {
	in := regressor(seed, 300, 1)
	in.Base.Standardised, in.Base.Residual, in.Trainer = true, true, nil
	for i := range in.Batch.Features.Rows {
		rows.Row(in.Batch.Features, i)[1] = rows.Row(in.Batch.Features, i)[1] * units
	}
	if gaps {
		for i := 7; i < 300; i += 30 {
			rows.Row(in.Batch.Features, i)[1] = float32(math.NaN())
		}
	}
	return in
}

// TestStandardised checks that predictions do not depend on the units of columns, that rows
// with empty cells have finite scores, and that a file restores the fit.
func TestStandardised(t *testing.T) {
	in, scaled := tableRegressor(1, 1, true), tableRegressor(1, 1024, true)
	b := mustFit(t, in)
	if b.Detector.Method != "distance" || b.IntervalModel.Method != "symmetric-boosting" {
		t.Errorf("fitted %s and %s", b.Detector.Method, b.IntervalModel.Method)
	}
	if !strings.Contains(b.Guarantee(), "as trees do") {
		t.Errorf("the guarantee is %s", b.Guarantee())
	}
	restored, err := read(mustWrite(t, b))
	if err != nil {
		t.Fatal(err)
	}
	want := mustPredict(t, b, in.Batch, attach.PredictOptions{Samples: 2})
	for name, got := range map[string][]attach.Prediction{
		"read":        mustPredict(t, restored, in.Batch, attach.PredictOptions{Samples: 2}),
		"other units": mustPredict(t, mustFit(t, scaled), scaled.Batch, attach.PredictOptions{Samples: 2}),
	} {
		for i := range want {
			w, g := want[i].Targets[0], got[i].Targets[0]
			if want[i].PValue != got[i].PValue || w.Value != g.Value || w.Lower != g.Lower || w.Upper != g.Upper || !slices.Equal(w.Samples, g.Samples) {
				t.Fatalf("%s: row %d is %+v, want %+v", name, i, got[i], want[i])
			}
		}
	}
	evaluated := func(in attach.FitOptions) evaluate.Coverage {
		return mustEvaluate(t, mustFit(t, in), blocksOf(in.Batch, in.Targets, nil), attach.PredictOptions{}, evaluate.Options{}).Targets[0].Coverage[0]
	}
	if w, g := evaluated(in), evaluated(scaled); w.WorstSlab == nil || w.WorstSlab.Rows < 5 || *w.WorstSlab != *g.WorstSlab {
		t.Errorf("the slab covered worst of rows with gaps is %+v, in other units %+v", w.WorstSlab, g.WorstSlab)
	}
	if math.IsNaN(want[7].Score) || math.IsInf(want[7].Score, 0) {
		t.Errorf("a row with a gap scores %v", want[7].Score)
	}
	infinite := tableRegressor(1, 1, false)
	infinite.Batch.Features.Data[9] = float32(math.Inf(1))
	if _, err := attach.Fit(t.Context(), infinite); err == nil || !strings.Contains(err.Error(), "features has +Inf in row 2, column 1") {
		t.Errorf("error %v", err)
	}
}

// TestResidual checks that intervals move by 1,024 if all predictions of the model do.
func TestResidual(t *testing.T) {
	in := tableRegressor(2, 1, false)
	b := mustFit(t, in)
	before := mustPredict(t, b, in.Batch, attach.PredictOptions{})
	moved := in.Batch
	moved.Logits = blas32.General{Rows: 300, Cols: 1, Stride: 1}
	for _, v := range in.Batch.Logits.Data {
		moved.Logits.Data = append(moved.Logits.Data, v+1024)
	}
	covered := 0
	for i, after := range mustPredict(t, b, moved, attach.PredictOptions{}) {
		n, f := before[i].Targets[0], after.Targets[0]
		if y := float64(in.Targets.Data[i]); n.Lower <= y && y <= n.Upper {
			covered++
		}
		if math.Abs(f.Lower-n.Lower-1024) > 1e-3 || math.Abs(f.Median-n.Median-1024) > 1e-3 || f.Value != float64(moved.Logits.Data[i]) {
			t.Fatalf("row %d is %+v, and was %+v", i, f, n)
		}
	}
	if covered < 255 {
		t.Errorf("%d of 300 rows are covered", covered)
	}
	in.Batch.Logits = blas32.General{}
	if _, err := attach.Fit(t.Context(), in); err == nil || !strings.Contains(err.Error(), "lack the model's predictions") {
		t.Errorf("error %v without predictions", err)
	}
}

// TestStandardisedMany checks that the default detector for more than 20,000 rows is not the
// distance to the nearest row, which would be slow.
func TestStandardisedMany(t *testing.T) {
	const n = 20_001
	in := attach.FitOptions{Base: attach.Base{Task: attach.Regression, Standardised: true}, SkipIntervals: true}
	in.Batch.Features = matrix(n, 1)
	for i := range n {
		in.Batch.Features.Data[i] = float32(i % 97)
	}
	if b := mustFit(t, in); b.Detector.Method != "gaussian-mixture" {
		t.Errorf("fitted %s", b.Detector.Method)
	}
}

// TestStandardisedResealed checks that Read rejects a file unless it has one finite mean and
// one non-negative deviation for each feature.
func TestStandardisedResealed(t *testing.T) {
	in := attach.FitOptions{Base: attach.Base{Task: attach.Regression, Standardised: true}, SkipIntervals: true}
	in.Batch.Features = matrix(60, 2)
	for i := range in.Batch.Features.Data {
		in.Batch.Features.Data[i] = float32(i*i%97) / 7
	}
	file := mustWrite(t, mustFit(t, in))
	for name, change := range map[string]func(map[string][]byte){
		"NaN mean":           replaceArray("features/mean.npy", []float64{math.NaN(), 1}, 2),
		"negative deviation": replaceArray("features/deviation.npy", []float64{1, -1}, 2),
		"one mean":           replaceArray("features/mean.npy", []float64{1}, 1),
	} {
		if _, err := read(resealedBytes(t, file, change)); !errors.Is(err, attach.ErrDamaged) {
			t.Errorf("%s: error is %v, want %v", name, err, attach.ErrDamaged)
		}
	}
}
