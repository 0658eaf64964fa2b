// Package california attaches intervals to a regressor that others trained, and
// compares them with the constant-width interval of split conformal prediction
// around the network's own answer, on the same calibration rows.
package california

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"

	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/intervals"
)

// Experiment is what the command runs.
var Experiment = experiment.Experiment{
	Name:   "california",
	Doc:    "intervals attached to a trained regressor, beside constant-width ones",
	Shared: []string{"data", "models", "seeds", "epochs", "ort-lib"},
	New: func(_ *flag.FlagSet, s *experiment.Settings) func(ctx context.Context) error {
		return func(ctx context.Context) error { return run(ctx, s) }
	},
}

func run(ctx context.Context, s *experiment.Settings) error {
	models := s.Models
	if models == "" {
		models = filepath.Join(s.Data, "..", "models")
	}
	model, err := featurize.Open(ctx, filepath.Join(models, "california_mlp.onnx"), featurize.Options{Runtime: featurize.Runtime{Library: s.Library}})
	if err != nil {
		return err
	}
	defer model.Close()
	x, y, err := experiment.ReadTable(ctx, filepath.Join(s.Data, "california.csv"), "MedHouseVal")
	if err != nil {
		return err
	}
	rows, err := model.Network().Forward(ctx, ood.BlockOf([]int{x.Rows, x.Cols}, x.Data))
	if err != nil {
		return err
	}
	levels := []float64{.8, .9, .95}
	type result struct{ covered, width, constantCovered, constantWidth []float64 }
	results := make([]result, len(levels))
	nCal := 0
	for seed := range s.Seeds {
		parts := experiment.SplitRows(x.Rows, uint64(seed))
		nCal = len(parts.Cal)
		in := attach.FitOptions{
			Base:  attach.Base{Task: attach.Regression},
			Batch: pickBatch(rows, parts.Fit), Targets: experiment.Pick(y, parts.Fit),
			Cal: pickBatch(rows, parts.Cal), CalTargets: experiment.Pick(y, parts.Cal),
			Trainer: s.Trainer, Seed: uint64(seed), SkipDetector: true,
		}
		in.QuantileParams = ood.Params{"epochs": s.Epochs}
		b, err := attach.Fit(ctx, in)
		if err != nil {
			return err
		}
		test, testY := pickBatch(rows, parts.Test), experiment.Column(experiment.Pick(y, parts.Test))
		predicted := experiment.Column(in.Cal.Logits)
		cal := intervals.Ends{Lower: predicted, Upper: predicted, Y: experiment.Column(in.CalTargets)}
		for l, level := range levels {
			predictor, err := b.Predictor(attach.PredictOptions{Level: level})
			if err != nil {
				return err
			}
			p, err := predictor.Predict(ctx, attach.Rows{Batch: test})
			if err != nil {
				return err
			}
			attached, constant := intervals.Ends{Y: testY}, intervals.Ends{Y: testY}
			for _, one := range p {
				y := one.Targets[0]
				attached.Lower, attached.Upper = append(attached.Lower, y.Lower), append(attached.Upper, y.Upper)
				constant.Lower = append(constant.Lower, y.Value)
			}
			constant.Upper = constant.Lower
			if constant, err = constant.Calibrated(cal, calibrate.IntervalOptions{}, 1-level); err != nil {
				return err
			}
			r := &results[l]
			r.covered, r.width = append(r.covered, attached.Closed()), append(r.width, experiment.MPIW(attached.Lower, attached.Upper))
			r.constantCovered, r.constantWidth = append(r.constantCovered, constant.Closed()), append(r.constantWidth, experiment.MPIW(constant.Lower, constant.Upper))
		}
		fmt.Fprintf(s.Stderr, "split %d of %d\n", seed+1, s.Seeds)
	}
	fmt.Fprintf(s.Stdout, "%d rows, %d to calibrate on, %d splits; target in 100 000 dollars\n", x.Rows, nCal, s.Seeds)
	fmt.Fprintf(s.Stdout, "%5s  %20s  %20s  %6s\n", "level", "attached: cover width", "constant: cover width", "ratio")
	for l, level := range levels {
		r := results[l]
		w, cw := stat.Mean(r.width, nil), stat.Mean(r.constantWidth, nil)
		fmt.Fprintf(s.Stdout, "%5.2f  %14.4f %6.3f  %14.4f %6.3f  %6.3f\n", level, stat.Mean(r.covered, nil), w, stat.Mean(r.constantCovered, nil), cw, w/cw)
	}
	return nil
}

func pickBatch(b ood.Batch, rows []int) ood.Batch {
	out := ood.Batch{Features: experiment.Pick(b.Features, rows)}
	if b.Logits.Cols > 0 {
		out.Logits = experiment.Pick(b.Logits, rows)
	}
	return out
}
