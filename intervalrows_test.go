package attach_test

import (
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

// TestIntervalRowsCoverage checks over many fits that intervals keep their coverage if the
// model has memorised the fit rows, and that they are then better than intervals that learned
// from the fit rows.
func TestIntervalRowsCoverage(t *testing.T) {
	const fits, nCal, nTest = 100, 800, 400
	rng := rand.New(rand.NewPCG(11, 1))
	covered, winkler := map[string]float64{}, map[string]float64{}
	taught := 0 // fits whose interval model learned from calibration rows
	for range fits {
		in := noisyFit(rng, nCal, 0.97)
		test, y := noisyRows(rng, nTest, 0)
		for _, way := range []string{"", "fit"} {
			in.IntervalFit = way
			b := mustFit(t, in)
			if c := b.Calibration; way == "" && c.NInterval == nCal/2 && c.TaughtByCalibration && c.ErrorRatio > 10 {
				taught++
			}
			p, err := b.Predictor(attach.PredictOptions{})
			if err != nil {
				t.Fatal(err)
			}
			list, err := p.Predict(t.Context(), attach.Rows{Batch: test})
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range list {
				target, v := r.Targets[0], float64(y.Data[i])
				if target.Lower <= v && v <= target.Upper {
					covered[way]++
				}
				winkler[way] += target.Upper - target.Lower + 20*max(0, target.Lower-v, v-target.Upper)
			}
		}
	}
	n := float64(fits * nTest)
	standardError := math.Sqrt(0.9 * 0.1 / fits * (1./nTest + 2./nCal))
	if rate := covered[""] / n; math.Abs(rate-361./401) > 3*standardError {
		t.Errorf("%.4f of the targets are covered, with the standard error %.4f", rate, standardError)
	}
	if ratio := winkler[""] / winkler["fit"]; ratio > 0.9 {
		t.Errorf("the Winkler score is %.3f times that of intervals that learned from the fit rows", ratio)
	}
	t.Logf("coverage %.4f, standard error %.4f", covered[""]/n, standardError)
	if taught < fits*9/10 {
		t.Errorf("%d of %d interval models learned from calibration rows", taught, fits)
	}
}

// TestIntervalRowsChoice checks when calibration rows teach the interval model.
func TestIntervalRowsChoice(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 1))
	for _, c := range []struct {
		name      string
		in        attach.FitOptions
		way       string
		nInterval int
		taught    bool
	}{
		{"a model that has memorised nothing", noisyFit(rng, 600, 0), "", 0, false},
		{"too few calibration rows", noisyFit(rng, 490, 0.97), "", 0, false},
		{"memorised, but fit rows are requested", noisyFit(rng, 600, 0.97), "fit", 0, false},
		{"calibration rows are requested", noisyFit(rng, 50, 0), "calibration", 25, true},
	} {
		c.in.IntervalFit = c.way
		b := mustFit(t, c.in)
		if got := b.Calibration; got.NInterval != c.nInterval || got.TaughtByCalibration != c.taught || len(got.Quantiles[0].Y) != got.IntervalRows() {
			t.Errorf("%s: %d rows calibrate intervals, taught by calibration rows: %v", c.name, got.NInterval, got.TaughtByCalibration)
		}
		back, err := read(mustWrite(t, b))
		if err != nil {
			t.Fatal(err)
		}
		if back.Calibration.NInterval != c.nInterval || back.Calibration.TaughtByCalibration != c.taught {
			t.Errorf("%s: the restored file has %d rows", c.name, back.Calibration.NInterval)
		}
	}
	in := noisyFit(rng, 600, 0.97)
	in.Groups, in.CalGroups = make([]string, 600), make([]string, 600)
	for i := range in.CalGroups {
		in.Groups[i], in.CalGroups[i] = "large", "large"
		if i%8 == 0 {
			in.CalGroups[i] = "small"
		}
	}
	if b := mustFit(t, in); b.Calibration.NInterval != 0 || len(b.Calibration.Groups) != 600 {
		t.Errorf("a group would keep too few rows: %d rows calibrate intervals", b.Calibration.NInterval)
	}
	// A group whose rows all fall into one half is not forgotten.
	for seed := range uint64(8) {
		in.Seed = seed
		for i := range in.CalGroups {
			in.CalGroups[i] = "large"
		}
		in.CalGroups[17] = "rare"
		in.IntervalFit = ""
		if b := mustFit(t, in); b.Calibration.NInterval != 0 {
			t.Errorf("seed %d: a group has too few rows: %d rows calibrate intervals", seed, b.Calibration.NInterval)
		}
		in.IntervalFit = "calibration"
		if b, err := attach.Fit(t.Context(), in); err == nil && !slices.Contains(b.Calibration.Groups, "rare") {
			t.Errorf("seed %d: group rare has no calibration rows", seed)
		} else if err != nil && !strings.Contains(err.Error(), `in group "rare"`) {
			t.Error(err)
		}
	}
	in.IntervalFit = "half"
	if _, err := attach.Fit(t.Context(), in); err == nil || !strings.Contains(err.Error(), `IntervalFit is "half"`) {
		t.Errorf("error %v", err)
	}
	in.IntervalFit, in.SkipIntervals = "fit", true
	in.IntervalModel, in.IntervalParams, in.SkipDetector = ood.Method{}, nil, false
	if _, err := attach.Fit(t.Context(), in); err == nil || !strings.Contains(err.Error(), "no interval model is fitted") {
		t.Errorf("error %v", err)
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
