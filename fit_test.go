package attach_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/attachtest"
	"github.com/attach-uncertainty/attach/ood"
)

func TestFitSplits(t *testing.T) {
	var problem train.Problem
	in := regressor(1, 100, 2)
	in.Trainer = attachtest.LinearTrainer{Problem: &problem}
	in.CalFraction = 0.3
	stages := map[string]float64{}
	in.Progress = func(stage string, fraction float64) { stages[stage] = fraction }
	b := mustFit(t, in)
	c := b.Calibration
	if c.NFit != 70 || c.NCal != 30 || len(c.OOD) != 30 || len(c.Quantiles) != 2 || len(c.Quantiles[1].Y) != 30 || problem.X.Rows != 70 {
		t.Errorf("fitted %d (trained on %d), calibrated %d: want 70 and 30", c.NFit, problem.X.Rows, c.NCal)
	}
	if c.HeldOut != "split" || !strings.Contains(b.Guarantee(), "too many rows are flagged") {
		t.Errorf("calibration rows are %q: %s", c.HeldOut, b.Guarantee())
	}
	if b.Base.Width != 4 || b.Base.Outputs != 2 {
		t.Errorf("width %d, outputs %d", b.Base.Width, b.Base.Outputs)
	}
	for _, stage := range []string{"detector", "quantiles", "calibration"} {
		if stages[stage] != 1 {
			t.Errorf("stage %s ended at %v", stage, stages[stage])
		}
	}
}

func TestFitGivenCalibrationRows(t *testing.T) {
	in := regressor(1, 100, 1)
	other := regressor(2, 17, 1)
	in.Cal, in.CalTargets = other.Batch, other.Targets
	b := mustFit(t, in)
	c := b.Calibration
	if c.NFit != 100 || c.NCal != 17 || c.HeldOut != "given" {
		t.Errorf("fitted %d, calibrated %d rows that are %q", c.NFit, c.NCal, c.HeldOut)
	}
	if !slices.Equal(c.Quantiles[0].Y, other.Targets.Data) {
		t.Error("calibrated on other targets than those given")
	}
	if strings.Contains(b.Guarantee(), "too many rows are flagged") {
		t.Errorf("the guarantee for held-out rows is the one for rows that were split off: %s", b.Guarantee())
	}
}

func TestFitParams(t *testing.T) {
	in := classifier(60)
	in.Detector, in.DetectorParams = method("distance"), ood.Params{"percentile": 50.0}
	b := mustFit(t, in)
	if b.Detector.Method != "distance" || b.Detector.Params["percentile"] != 50.0 {
		t.Errorf("fitted %s %v", b.Detector.Method, b.Detector.Params)
	}
	in.DetectorParams = ood.Params{"percentage": 50.0}
	if _, err := attach.Fit(context.Background(), in); err == nil || !strings.Contains(err.Error(), "percentage") {
		t.Errorf("an unknown parameter gives %v", err)
	}
}

func TestFitErrors(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	tests := []struct {
		name string
		in   attach.FitOptions
		edit func(*attach.FitOptions)
		want string
	}{
		{"empty", classifier(30), func(in *attach.FitOptions) { in.Batch = ood.Batch{} }, "there are no fit rows"},
		{"no features", classifier(30), func(in *attach.FitOptions) { in.Batch.Features = blas32.General{} }, "the fit rows have no features"},
		{"features of a regressor", classifier(30), func(in *attach.FitOptions) { in.Base.Residual = true }, "the features are inputs and predictions of a regressor, and the task is classification"},
		{"outputs of a classifier", regressor(1, 30, 1), func(in *attach.FitOptions) { in.Base.Sigmoid = true }, "the outputs are probabilities of a classifier, and the task is not classification"},
		{"no task", classifier(30), func(in *attach.FitOptions) { in.Base.Task = "" }, `the task is ""; it must be classification, regression or embedding`},
		{"one row", regressor(1, 1, 1), func(in *attach.FitOptions) {}, "need at least 2 rows, have 1"},
		{"NaN in features", classifier(30), func(in *attach.FitOptions) { in.Batch.Features.Data[8*7+2] = nan }, "row 7, column 2"},
		{"Inf in logits", classifier(30), func(in *attach.FitOptions) { in.Batch.Logits.Data[3*9] = inf }, "row 9, column 0"},
		{"NaN in targets", regressor(1, 30, 1), func(in *attach.FitOptions) { in.Targets.Data[12] = nan }, "targets has NaN in row 12"},
		{"label out of range", classifier(30), func(in *attach.FitOptions) { in.Batch.Labels[4] = 3 }, "label 3 of row 4"},
		{"short labels", classifier(30), func(in *attach.FitOptions) { in.Batch.Labels = in.Batch.Labels[:29] }, "29 labels"},
		{"no targets", regressor(1, 30, 1), func(in *attach.FitOptions) { in.Targets = blas32.General{} }, "no targets"},
		{"short targets", regressor(1, 30, 1), func(in *attach.FitOptions) { in.Targets.Rows = 29 }, "30 fit rows, but 29 rows of targets"},
		{"other targets", regressor(1, 30, 1), func(in *attach.FitOptions) { in.Targets = matrix(30, 2) }, "predicts 1 target"},
		{"no trainer", regressor(1, 30, 1), func(in *attach.FitOptions) { in.Trainer = nil }, "this interval model needs a trainer, such as that of package heads/fit; a quantile forest needs none"},
		{"nothing", classifier(30), func(in *attach.FitOptions) { in.SkipDetector, in.Detector = true, ood.Method{} }, "nothing to fit"},
		{"fraction", classifier(30), func(in *attach.FitOptions) { in.CalFraction = 1 }, "calibration fraction 1"},
		{"alpha", classifier(30), func(in *attach.FitOptions) { in.Alpha = 5 }, "false-alarm rate 5"},
		{"level", classifier(30), func(in *attach.FitOptions) { in.Level = 95 }, "level 95"},
		{"names of more classes", classifier(30), func(in *attach.FitOptions) { in.Base.Classes = make([]string, 4) }, "4 class names for 3 outputs"},
		{"layout", classifier(30), func(in *attach.FitOptions) { in.Layout = "hwcn" }, `the layout is "hwcn"`},
		{"preprocessing", classifier(30), func(in *attach.FitOptions) { in.Preprocess = []byte("[1]") }, "the preprocessing is not a JSON object"},
		{"probabilities of a regressor", regressor(1, 30, 1), func(in *attach.FitOptions) { in.Base.Sigmoid = true }, "probabilities"},
		{"NaN in calibration rows", classifier(30), func(in *attach.FitOptions) {
			in.Cal = blob(2, 10, 8, 3, 0)
			in.Cal.Features.Data[8] = nan
		}, "calibration rows: features has NaN in row 1"},
		{"calibration width", classifier(30), func(in *attach.FitOptions) { in.Cal = blob(2, 10, 7, 3, 0) }, "calibration rows have 7 features, but fit rows have 8"},
		{"calibration logits", classifier(30), func(in *attach.FitOptions) { in.Cal = blob(2, 10, 8, 4, 0) }, "calibration rows have 4 logits"},
		{"calibration targets", regressor(1, 30, 1), func(in *attach.FitOptions) { in.Cal = in.Batch }, "calibration rows have no targets"},
		{"calibration rows and a share", classifier(30), func(in *attach.FitOptions) { in.Cal, in.CalFraction = blob(2, 10, 8, 3, 0), .3 }, "both calibration rows and a calibration fraction are given; choose one of them"},
		{"a classifier's targets", classifier(30), func(in *attach.FitOptions) { in.Targets = matrix(30, 1) }, "the task \"classification\" has no targets, but the fit rows have 1"},
		{"a classifier's calibration targets", classifier(30), func(in *attach.FitOptions) { in.Cal, in.CalTargets = blob(2, 10, 8, 3, 0), matrix(10, 1) }, "the task \"classification\" has no targets, but the calibration rows have 1"},
		{"a classifier's quantiles", classifier(30), func(in *attach.FitOptions) { in.IntervalModel = method("sqr") }, `interval method "sqr" or its parameters are given, but no interval model is fitted, because the`},
		{"a classifier's parameters of quantiles", classifier(30), func(in *attach.FitOptions) { in.IntervalParams = ood.Params{"epochs": 1} }, "but no interval model is fitted"},
		{"quantiles left out", regressor(1, 30, 1), func(in *attach.FitOptions) { in.IntervalModel, in.SkipIntervals = method("sqr"), true }, "but no interval model is fitted"},
		{"a detector left out", regressor(1, 30, 1), func(in *attach.FitOptions) { in.Detector, in.SkipDetector = method("distance"), true }, "no detector is fitted"},
		{"another width", classifier(30), func(in *attach.FitOptions) { in.Base.Width = 3 }, "8 features"},
		{"other outputs", classifier(30), func(in *attach.FitOptions) { in.Base.Outputs = 4 }, "3 logits"},
		{"a last layer of other features", classifier(30), func(in *attach.FitOptions) { in.Last = &ood.Linear{Weight: matrix(3, 4)} }, "weights are for 4 features"},
		{"a last layer of other logits", classifier(30), func(in *attach.FitOptions) { in.Last = &ood.Linear{Weight: matrix(2, 8)} }, "has 2 outputs"},
		{"calibration targets alone", regressor(1, 30, 1), func(in *attach.FitOptions) { in.CalTargets = in.Targets }, "there are no calibration rows"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.edit(&tt.in)
			b, err := attach.Fit(context.Background(), tt.in)
			if err == nil || b != nil {
				t.Fatalf("bundle %v, error %v", b, err)
			}
			if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error is %q, want one line that says %q", err, tt.want)
			}
		})
	}
}

func TestFitCancelled(t *testing.T) {
	for _, in := range []attach.FitOptions{classifier(30), regressor(1, 30, 1)} {
		ctx, cancel := context.WithCancel(context.Background())
		in.Progress = func(string, float64) { cancel() }
		if b, err := attach.Fit(ctx, in); !errors.Is(err, context.Canceled) || b != nil {
			t.Errorf("bundle %v, error %v, want %v", b, err, context.Canceled)
		}
		if _, err := attach.Fit(ctx, in); !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v, want %v", err, context.Canceled)
		}
	}
}

// TestPure checks that this package and its dependencies need no C compiler.
func TestPure(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{if and .CgoFiles (not .Standard)}}{{.ImportPath}}{{end}}", ".")
	list.Env = append(list.Environ(), "CGO_ENABLED=1")
	out, err := list.Output()
	if err != nil {
		t.Skip("the go command is not at hand:", err)
	}
	if s := strings.TrimSpace(string(out)); s != "" {
		t.Errorf("these packages, on which attach depends, need cgo: %s", s)
	}
}

// TestOneLogitLastLayer checks that a method gets a last layer with two outputs for a model
// with a single logit, and that this layer computes the two logits that the method gets.
func TestOneLogitLastLayer(t *testing.T) {
	in := classifier(40)
	in.Batch.Labels = nil
	in.Last = &ood.Linear{Weight: matrix(1, 8), Bias: []float32{0.5}}
	in.Base.Classes = nil
	in.Batch.Logits = matrix(40, 1)
	for j := range 8 {
		in.Last.Weight.Data[j] = float32(j) - 3
	}
	for i := range 40 {
		in.Batch.Logits.Data[i] = 0.5
		for j := range 8 {
			in.Batch.Logits.Data[i] += in.Batch.Features.Data[8*i+j] * in.Last.Weight.Data[j]
		}
	}
	entropy := method("entropy")
	logits := 0
	in.Detector = entropy
	in.Detector.Fit = func(ctx context.Context, tr ood.Training, p ood.Params) (any, error) {
		for i := range tr.Logits.Rows {
			for k := range 2 {
				z := tr.Last.Bias[k]
				for j := range 8 {
					z += tr.Features.Data[8*i+j] * tr.Last.Weight.Data[8*k+j]
				}
				if !isClose(float64(z), float64(tr.Logits.Data[2*i+k]), 1e-5) {
					t.Errorf("row %d: the last layer makes logit %d %v, want %v", i, k, z, tr.Logits.Data[2*i+k])
				}
				logits++
			}
		}
		return entropy.Fit(ctx, tr, p)
	}
	mustFit(t, in)
	if logits != 64 {
		t.Errorf("%d logits were seen, want 64", logits)
	}
}

// TestDefaultDetector checks that Fit selects the first default detector that the available
// data allow.
func TestDefaultDetector(t *testing.T) {
	withLastLayer := classifier(60)
	withLastLayer.Last = &ood.Linear{Weight: matrix(3, 8), Bias: make([]float32, 3)}
	for i := range withLastLayer.Last.Weight.Data {
		withLastLayer.Last.Weight.Data[i] = float32((i*7)%5) - 2
	}
	negative := classifier(60)
	negative.Batch.Logits = matrix(60, 3)
	for i := range negative.Batch.Logits.Data {
		negative.Batch.Logits.Data[i] = -float32(1 + i%3)
	}
	features := classifier(60)
	features.Batch.Logits = blas32.General{}
	for want, in := range map[string]attach.FitOptions{
		"fused": withLastLayer, "certificates-coupled": classifier(60), "certificates": negative,
	} {
		in.Detector = ood.Method{}
		var log bytes.Buffer
		in.Log = slog.New(slog.NewTextHandler(&log, nil))
		if got := mustFit(t, in).Detector.Method; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		// Only the fits on negative logits fail. The other inputs lack data, which is not
		// logged.
		if logged := strings.Contains(log.String(), "largest logit"); logged != (want == "certificates") {
			t.Errorf("%s: the log says %q", want, log.String())
		}
	}
	for name, in := range map[string]attach.FitOptions{"regression": regressor(1, 60, 1), "features alone": features} {
		in.Detector, in.SkipIntervals = ood.Method{}, true
		if got := mustFit(t, in).Detector.Method; got != "certificates" {
			t.Errorf("%s: got %s, want certificates", name, got)
		}
	}
	withLastLayer.Detector, withLastLayer.DetectorParams = ood.Method{}, ood.Params{"k": 2.}
	if _, err := attach.Fit(context.Background(), withLastLayer); err == nil {
		t.Error("parameters of no detector are accepted")
	}
}

// TestFitRefusesShortMatrices checks that Fit returns an error for a matrix with less data
// than its shape needs. The error names the matrix.
func TestFitRefusesShortMatrices(t *testing.T) {
	short := blas32.General{Rows: 60, Cols: 2, Stride: 2, Data: make([]float32, 5)}
	last := &ood.Linear{Weight: blas32.General{Rows: 3, Cols: 8, Stride: 8, Data: make([]float32, 2)}}
	single := &ood.Linear{Weight: blas32.General{Rows: 1, Cols: 8, Stride: 8, Data: make([]float32, 2)}}
	for what, in := range map[string]attach.FitOptions{
		"targets":                  modified(regressor(1, 60, 2), func(in *attach.FitOptions) { in.Targets = short }),
		"calibration rows":         modified(regressor(1, 60, 2), func(in *attach.FitOptions) { in.Cal, in.CalTargets = in.Batch, short }),
		"the last layer's weights": modified(classifier(60), func(in *attach.FitOptions) { in.Last, in.Detector = last, method("vim") }),
		"weights are for 8": modified(classifier(60), func(in *attach.FitOptions) {
			in.Last, in.Detector, in.Batch, in.Base.Classes = single, method("vim"), blob(1, 60, 5, 1, 0), nil
		}),
	} {
		_, err := attach.Fit(context.Background(), in)
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func modified(in attach.FitOptions, change func(*attach.FitOptions)) attach.FitOptions {
	change(&in)
	return in
}

// TestFitAsksForInputsFirst checks that Fit reports missing inputs of the calibration rows
// before it calls the method, whether these rows are given or split off.
func TestFitAsksForInputsFirst(t *testing.T) {
	fitted := false
	m := ood.Method{
		Name: "m", Needs: ood.Needs{Features: true, Inputs: true, Network: true},
		Fit: func(context.Context, ood.Training, ood.Params) (any, error) {
			fitted = true
			return nil, errors.New("fitted")
		},
		New: func() any { return nil },
	}
	for _, cal := range []ood.Batch{{}, blob(2, 30, 8, 3, 0)} {
		in := modified(classifier(60), func(in *attach.FitOptions) { in.Detector, in.Cal, in.Batch.Network = m, cal, sumNetwork{3} })
		need := (*ood.NeedError)(nil)
		if _, err := attach.Fit(context.Background(), in); !errors.As(err, &need) || !need.Need.Inputs || fitted {
			t.Errorf("%d rows: %v", cal.Len(), err)
		}
	}
}

func TestFitRefusesIntervalMethodsAsDetectors(t *testing.T) {
	in := modified(regressor(1, 60, 1), func(in *attach.FitOptions) { in.Detector = method("sqr") })
	if _, err := attach.Fit(context.Background(), in); err == nil || !strings.Contains(err.Error(), "is an interval method, not a detector") {
		t.Error(err)
	}
}
