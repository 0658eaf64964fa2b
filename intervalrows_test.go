package attach_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// noisyRows returns n rows with three features. The standard deviation of the target grows with
// the first feature. The model predicts the mean plus the fraction memory of the noise, so it
// has memorised the rows if memory is near 1.
func noisyRows(rng *rand.Rand, n int, memory float64) (b ood.Batch, targets blas32.General) {
	b = ood.Batch{Features: blas32.General{Rows: n, Cols: 3, Stride: 3}, Logits: blas32.General{Rows: n, Cols: 1, Stride: 1}}
	targets = blas32.General{Rows: n, Cols: 1, Stride: 1}
	for range n {
		x := [3]float64{rng.Float64(), rng.Float64(), rng.NormFloat64()}
		mean, noise := 3*x[1], (0.2+4*x[0])*rng.NormFloat64()
		b.Features.Data = append(b.Features.Data, float32(x[0]), float32(x[1]), float32(x[2]))
		b.Logits.Data = append(b.Logits.Data, float32(mean+memory*noise))
		targets.Data = append(targets.Data, float32(mean+noise))
	}
	return b, targets
}

// noisyFit returns the options of a fit on noisy rows.
func noisyFit(rng *rand.Rand, nCal int, memory float64) attach.FitOptions {
	in := attach.FitOptions{Base: attach.Base{Task: attach.Regression, Residual: true, Standardised: true}, SkipDetector: true}
	in.Batch, in.Targets = noisyRows(rng, 600, memory)
	in.Cal, in.CalTargets = noisyRows(rng, nCal, 0)
	in.IntervalModel, in.IntervalParams = method("quantile-forest"), ood.Params{"n_estimators": 10., "min_samples_leaf": 10.}
	return in
}

// TestWhoseErrors checks whose errors teach the interval model.
func TestWhoseErrors(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 1))
	few := noisyFit(rng, 100, 0.97)
	few.Batch, few.Targets = noisyRows(rng, 49, 0.97)
	copies := noisyFit(rng, 100, 0.97)
	copies.IntervalModel, copies.IntervalParams = ood.Method{}, nil
	copies.Batch, copies.Targets = copies.Batch.Select(make([]int, 200)), rows.Select(copies.Targets, make([]int, 200))
	predicted := noisyFit(rng, 100, 0.97)
	predicted.Batch.Features, predicted.Cal.Features = predicted.Batch.Logits, predicted.Cal.Logits
	whole := noisyFit(rng, 200, 0)
	for _, set := range []struct {
		b       ood.Batch
		targets blas32.General
		error   float64
	}{{whole.Batch, whole.Targets, 0.003}, {whole.Cal, whole.CalTargets, 0.3}} {
		for i := range set.targets.Data { // one in five targets is not the whole number that the features tell
			target := math.Floor(1.4*float64(set.b.Features.Data[3*i+1])) + float64(rng.IntN(5)/4*(1+rng.IntN(3)))
			set.targets.Data[i], set.b.Logits.Data[i] = float32(target), float32(target+set.error*rng.NormFloat64())
		}
	}
	for _, c := range []struct {
		name      string
		in        attach.FitOptions
		way       string
		errors    string
		nInterval int
	}{
		{"a model that has memorised nothing", noisyFit(rng, 300, 0), "", "", 0},
		{"a model that has memorised the fit rows", noisyFit(rng, 60, 0.97), "", "surrogate", 0},
		{"memorised whole numbers, which a surrogate predicts exactly", whole, "", "surrogate", 0},
		{"too few fit rows", few, "", "", 0},
		{"copies of one fit row", copies, "", "", 0},
		{"features that are predictions", predicted, "", "", 0},
		{"memorised, but the own errors are requested", noisyFit(rng, 60, 0.97), "fit", "", 0},
		{"not memorised, but a surrogate is requested", noisyFit(rng, 60, 0), "surrogate", "surrogate", 0},
		{"calibration rows are requested", noisyFit(rng, 50, 0), "calibration", "", 25},
	} {
		c.in.IntervalFit = c.way
		b := mustFit(t, c.in)
		got := b.Calibration
		if got.IntervalErrors != c.errors || got.NInterval != c.nInterval || got.TaughtByCalibration != (c.nInterval > 0) || len(got.Quantiles[0].Y) != got.IntervalRows() {
			t.Errorf("%s: errors %q, %d rows calibrate intervals, taught by calibration rows: %v", c.name, got.IntervalErrors, got.NInterval, got.TaughtByCalibration)
		}
		if byRatio := got.ErrorRatio > 10; byRatio != (c.errors == "surrogate" && c.way == "") {
			t.Errorf("%s: the ratio of errors is %v", c.name, got.ErrorRatio)
		}
		back, err := read(mustWrite(t, b))
		if err != nil {
			t.Fatal(err)
		}
		_, members := unpack(t, mustWrite(t, b))
		if old := !strings.Contains(string(members["manifest.json"]), `"format": 6`); old != (got.ErrorRatio == 0) { // old programs refuse this ratio
			t.Errorf("%s: programs that read format 5 read it: %v", c.name, old)
		}
		if back.Calibration.IntervalErrors != c.errors || back.Calibration.NInterval != c.nInterval || back.Calibration.ErrorRatio != got.ErrorRatio {
			t.Errorf("%s: the restored file has %+v", c.name, back.Calibration)
		}
	}
	for want, change := range map[string]func(*attach.FitOptions){
		`IntervalFit is "half"`: func(in *attach.FitOptions) { in.IntervalFit = "half" },
		"no interval model is fitted": func(in *attach.FitOptions) {
			in.IntervalFit, in.SkipIntervals, in.SkipDetector = "fit", true, false
			in.IntervalModel, in.IntervalParams = ood.Method{}, nil
		},
		"needs 50 different fit rows": func(in *attach.FitOptions) {
			in.IntervalFit = "surrogate"
			in.Batch, in.Targets = noisyRows(rng, 49, 0)
		},
		"surrogate model has no effect":            func(in *attach.FitOptions) { in.IntervalFit, in.Base.Residual = "surrogate", false },
		"are 2×1, but there are 600 fit rows":      func(in *attach.FitOptions) { in.OutOfFold = rows.New(2, 1) },
		"out-of-fold predictions has NaN in row 3": func(in *attach.FitOptions) { in.OutOfFold = nanAt(600, 3) },
		`IntervalFit is "surrogate"`: func(in *attach.FitOptions) {
			in.OutOfFold, in.IntervalFit = in.Batch.Logits, "surrogate"
		},
		"are the targets themselves":    func(in *attach.FitOptions) { in.OutOfFold = in.Targets },
		`unknown interval score "best"`: func(in *attach.FitOptions) { in.IntervalScore = "best" },
	} {
		in := noisyFit(rng, 60, 0)
		change(&in)
		if _, err := attach.Fit(t.Context(), in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// nanAt returns n numbers, NaN in one row.
func nanAt(n, row int) blas32.General {
	m := rows.New(n, 1)
	m.Data[row] = float32(math.NaN())
	return m
}

// TestSurrogateCoverage checks that intervals keep their coverage if a surrogate model teaches
// them, and that they are then better than intervals that learned memorised errors.
func TestSurrogateCoverage(t *testing.T) {
	const fits, nCal, nTest = 40, 99, 500
	rng := rand.New(rand.NewPCG(11, 1))
	covered, winkler := 0., map[string]float64{}
	for range fits {
		in := noisyFit(rng, nCal, 0.97)
		in.Batch, in.Targets = noisyRows(rng, 250, 0.97)
		test, y := noisyRows(rng, nTest, 0)
		for _, way := range []string{"", "fit"} {
			in.IntervalFit = way
			for i, r := range mustPredict(t, mustFit(t, in), test, attach.PredictOptions{}) {
				target, v := r.Targets[0], float64(y.Data[i])
				if way == "" && target.Lower <= v && v <= target.Upper {
					covered++
				}
				winkler[way] += target.Upper - target.Lower + 20*max(0, target.Lower-v, v-target.Upper)
			}
		}
	}
	rate, standardError := covered/(fits*nTest), math.Sqrt(0.9*0.1/fits*(1./nTest+1./(nCal+2)))
	if math.Abs(rate-0.9) > 2.5*standardError {
		t.Errorf("%.4f of the targets are covered, with the standard error %.4f", rate, standardError)
	}
	if ratio := winkler[""] / winkler["fit"]; ratio > 0.95 {
		t.Errorf("the Winkler score is %.3f times that of intervals that learned memorised errors", ratio)
	}
}

// TestOutOfFold checks that out-of-fold predictions have the same effect as fit rows with these
// predictions, in features and in outputs.
func TestOutOfFold(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 1))
	in := noisyFit(rng, 60, 0.97)
	in.Base.Standardised, in.IntervalFit = false, "fit"
	withPredictions := func(b ood.Batch, predictions blas32.General) ood.Batch {
		features := rows.New(b.Len(), 4)
		for i := range b.Len() {
			copy(rows.Row(features, i), rows.Row(b.Features, i))
			rows.Row(features, i)[3] = predictions.Data[i]
		}
		b.Features, b.Logits = features, predictions
		return b
	}
	outOfFold := rows.New(600, 1)
	for i := range outOfFold.Data {
		outOfFold.Data[i] = 3*rows.Row(in.Batch.Features, i)[1] + 0.1*float32(rng.NormFloat64())
	}
	honest := in
	honest.Batch = withPredictions(in.Batch, outOfFold)
	in.Batch, in.OutOfFold = withPredictions(in.Batch, in.Batch.Logits), outOfFold
	in.Cal = withPredictions(in.Cal, in.Cal.Logits)
	honest.Cal = in.Cal
	b := mustFit(t, in)
	if b.Calibration.IntervalErrors != "out-of-fold" {
		t.Errorf("the errors are %q", b.Calibration.IntervalErrors)
	}
	if !samePredictions(mustPredict(t, b, in.Cal, attach.PredictOptions{}), mustPredict(t, mustFit(t, honest), in.Cal, attach.PredictOptions{})) {
		t.Error("the predictions differ")
	}
}

// TestIntervalChoice checks which interval model Fit chooses, and that the file keeps the choice
// and its score.
func TestIntervalChoice(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 1))
	in := noisyFit(rng, 60, 0)
	in.IntervalModel, in.IntervalParams = ood.Method{}, nil
	b := mustFit(t, in)
	list := b.Calibration.IntervalChoice
	if len(list) != 16 || list[0].Direct || list[0].Winkler > 0.9 || list[0].Method != b.IntervalModel.Method || !b.Base.Residual {
		t.Fatalf("%s after the comparison %+v", b.IntervalModel.Method, list)
	}
	for i := range in.Batch.Logits.Data { // a model that says nothing
		in.Batch.Logits.Data[i] = float32(rng.NormFloat64())
	}
	direct := mustFit(t, in)
	if c := direct.Calibration.IntervalChoice[0]; !c.Direct || direct.Base.Residual {
		t.Errorf("the best is %+v", c)
	}
	if c := direct.Calibration; c.IntervalErrors != "" || c.ErrorRatio != 0 {
		t.Errorf("the errors %q with the ratio %v taught a model that learned the targets", c.IntervalErrors, c.ErrorRatio)
	}
	in.IntervalScore = "cir"
	b = mustFit(t, in)
	if c := b.Calibration; len(c.IntervalChoice) != 4 || c.IntervalScore != "cir" {
		t.Fatalf("the score is %q after the comparison %+v", c.IntervalScore, c.IntervalChoice)
	}
	back, err := read(mustWrite(t, b))
	if err != nil {
		t.Fatal(err)
	}
	if !samePredictions(mustPredict(t, back, in.Cal, attach.PredictOptions{}), mustPredict(t, b, in.Cal, attach.PredictOptions{IntervalScore: "cir"})) {
		t.Error("the restored file predicts something else")
	}
	if len(back.Calibration.IntervalChoice) != 4 || back.Calibration.IntervalChoice[3].Score != "cir" {
		t.Errorf("the restored choice is %+v", back.Calibration.IntervalChoice)
	}
	cqr := mustPredict(t, back, in.Cal, attach.PredictOptions{IntervalScore: "cqr"})[0].Targets[0]
	if own := mustPredict(t, back, in.Cal, attach.PredictOptions{})[0].Targets[0]; own.Upper == cqr.Upper {
		t.Error("the score has no effect")
	}
	mustPredict(t, back, in.Cal, attach.PredictOptions{Side: "lower"}) // one end has no choice of score
	in.IntervalScore = "ridge"
	b = mustFit(t, in)
	if c := b.Calibration; c.IntervalScore != "ridge" || c.IntervalChoice[0].Score != "cqr-r" {
		t.Errorf("the score is %q after the comparison %+v", c.IntervalScore, c.IntervalChoice)
	}
	file := mustWrite(t, b)
	if _, err := read(edit(t, file, true, `"format": 7`, `"format": 6`)); !errors.Is(err, attach.ErrDamaged) {
		t.Errorf("with the format of programs that do not know the score: error %v", err)
	}
	in.TargetRows = in.Cal.Features
	if _, err := attach.Fit(t.Context(), in); err == nil || !strings.Contains(err.Error(), "ridge cannot have weights") {
		t.Errorf("with weights: error %v", err)
	}
}

// TestIntervalRowsGroups checks that a group whose rows all fall into one half is not forgotten.
func TestIntervalRowsGroups(t *testing.T) {
	rng := rand.New(rand.NewPCG(16, 1))
	in := noisyFit(rng, 60, 0)
	in.Groups, in.CalGroups, in.IntervalFit = make([]string, 600), make([]string, 60), "calibration"
	for i := range in.CalGroups {
		in.CalGroups[i] = "large"
	}
	in.CalGroups[17] = "rare"
	refused := 0
	for in.Seed = range uint64(8) {
		if b, err := attach.Fit(t.Context(), in); err == nil && !slices.Contains(b.Calibration.Groups, "rare") {
			t.Errorf("seed %d: group rare has no calibration rows", in.Seed)
		} else if err != nil && !strings.Contains(err.Error(), `in group "rare"`) {
			t.Error(err)
		} else if err != nil {
			refused++
		}
	}
	if refused == 0 || refused == 8 {
		t.Errorf("%d of 8 fits were refused", refused)
	}
}

// TestIntervalRowsCopies checks that copies of a calibration row stay in one half, so that
// coverage does not fall.
func TestIntervalRowsCopies(t *testing.T) {
	const fits, nCal, nTest = 40, 300, 400
	rng := rand.New(rand.NewPCG(13, 1))
	covered, taught := 0, 0
	for range fits {
		in := noisyFit(rng, nCal, 0.97)
		idx := make([]int, 3*nCal)
		for i := range idx {
			idx[i] = i % nCal
		}
		in.Cal, in.CalTargets = in.Cal.Select(idx), rows.Select(in.CalTargets, idx)
		in.IntervalFit = "calibration"
		b := mustFit(t, in)
		taught += b.Calibration.NCal - b.Calibration.NInterval
		test, y := noisyRows(rng, nTest, 0)
		for i, r := range mustPredict(t, b, test, attach.PredictOptions{}) {
			if target, v := r.Targets[0], float64(y.Data[i]); target.Lower <= v && v <= target.Upper {
				covered++
			}
		}
	}
	if taught != fits*3*nCal/2 {
		t.Errorf("%d rows taught", taught)
	}
	if rate := float64(covered) / (fits * nTest); rate < 0.885 {
		t.Errorf("%.3f of the targets are covered", rate)
	}
}
