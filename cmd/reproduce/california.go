package main

import (
	"context"
	"fmt"
	"path/filepath"

	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/heads/bundle"
	"github.com/attach-uncertainty/attach/ood"
)

// californiaExperiment attaches intervals to a regressor that others trained,
// and compares them with the constant-width interval of split conformal
// prediction around the network's own answer, on the same calibration rows.
var californiaExperiment = experiment{
	name: "california",
	doc:  "intervals attached to a trained regressor, beside constant-width ones",
	uses: []string{"data", "models", "seeds", "epochs", "ort-lib"},
	run:  runCalifornia,
}

func runCalifornia(ctx context.Context, s settings) error {
	models := s.models
	if models == "" {
		models = filepath.Join(s.data, "..", "models")
	}
	model, err := featurize.Open(ctx, filepath.Join(models, "california_mlp.onnx"), featurize.Options{Library: s.library})
	if err != nil {
		return err
	}
	defer model.Close()
	x, y, err := readTable(ctx, filepath.Join(s.data, "california.csv"), "MedHouseVal")
	if err != nil {
		return err
	}
	rows, err := model.All(ctx, featurize.Slice([]int{x.Rows, x.Cols}, x.Data), x.Rows, nil)
	if err != nil {
		return err
	}
	levels := []float64{.8, .9, .95}
	type result struct{ covered, width, constantCovered, constantWidth []float64 }
	results := make([]result, len(levels))
	nCal := 0
	for seed := range s.seeds {
		parts := splitRows(x.Rows, uint64(seed))
		nCal = len(parts.cal)
		in := bundle.Inputs{
			Base:  bundle.Base{Task: bundle.Regression},
			Batch: pickBatch(rows, parts.fit), Targets: pick(y, parts.fit),
			Cal: pickBatch(rows, parts.cal), CalTargets: pick(y, parts.cal),
			Trainer: s.trainer, Seed: uint64(seed), SkipDetector: true,
		}
		in.SQR.Epochs = s.epochs
		b, err := bundle.Fit(ctx, in)
		if err != nil {
			return err
		}
		test, testY := pickBatch(rows, parts.test), column(pick(y, parts.test))
		constant, err := calibrate.NewResidual(column(in.Cal.Logits), column(in.CalTargets))
		if err != nil {
			return err
		}
		for l, level := range levels {
			p, err := b.Predict(ctx, test, bundle.PredictOptions{Level: level})
			if err != nil {
				return err
			}
			var covered, width, constantCovered, constantWidth float64
			for i, v := range testY {
				covered += indicator(p.Lower[i] <= v && v <= p.Upper[i])
				width += p.Upper[i] - p.Lower[i]
				lo, hi := constant.Interval(p.Value[i], p.Value[i], 1-level)
				constantCovered += indicator(lo <= v && v <= hi)
				constantWidth += hi - lo
			}
			n, r := float64(len(testY)), &results[l]
			r.covered, r.width = append(r.covered, covered/n), append(r.width, width/n)
			r.constantCovered, r.constantWidth = append(r.constantCovered, constantCovered/n), append(r.constantWidth, constantWidth/n)
		}
		fmt.Fprintf(s.stderr, "split %d of %d\n", seed+1, s.seeds)
	}
	fmt.Fprintf(s.stdout, "%d rows, %d to calibrate on, %d splits; target in 100 000 dollars\n", x.Rows, nCal, s.seeds)
	fmt.Fprintf(s.stdout, "%5s  %20s  %20s  %6s\n", "level", "attached: cover width", "constant: cover width", "ratio")
	for l, level := range levels {
		r := results[l]
		w, cw := stat.Mean(r.width, nil), stat.Mean(r.constantWidth, nil)
		fmt.Fprintf(s.stdout, "%5.2f  %14.4f %6.3f  %14.4f %6.3f  %6.3f\n", level, stat.Mean(r.covered, nil), w, stat.Mean(r.constantCovered, nil), cw, w/cw)
	}
	return nil
}

func pickBatch(b ood.Batch, rows []int) ood.Batch {
	out := ood.Batch{Features: pick(b.Features, rows)}
	if b.HasLogits() {
		out.Logits = pick(b.Logits, rows)
	}
	return out
}
