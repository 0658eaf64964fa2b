package labels

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// Targets is the targets command.
var Targets = experiment.Experiment{
	Name:   "targets",
	Doc:    "wrong targets that audits of regressors find, and how many of these are right",
	Shared: []string{"data", "models", "sets", "seeds", "out", "ort-lib"},
	New: func(flags *flag.FlagSet, s *experiment.Settings) func(ctx context.Context) error {
		experiment.Redefine(flags, "seeds", "500", "number of random draws")
		written := flags.Int("draws", 20, "number of draws that compare.py gets, in the folder draws")
		seed := flags.Uint64("seed", 0, "seed of the rows drawn")
		return func(ctx context.Context) error { return runTargets(ctx, s, *seed, *written) }
	},
}

// regressor is a model of a table. The script train.py trains power_lightgbm.
type regressor struct {
	model, table string
	shuffled     bool // whether the rows of the table are in random order
}

func regressors() []regressor {
	return []regressor{{"california_mlp", "california.csv", false}, {"power_lightgbm", filepath.Join("uci", "power-plant.txt"), true}}
}

func runTargets(ctx context.Context, s *experiment.Settings, seed uint64, written int) error {
	chosen, err := experiment.Choose("--sets", "model", s.Sets, regressors(), func(r regressor) string { return r.model })
	if err != nil {
		return err
	}
	lines := [][]string{{"set", "n_cal", "audited", "wrong", "kind", "draws", "fdr", "false_share", "stderr", "power", "bound_violated", "bound_share"}}
	for _, r := range chosen {
		pool, err := r.read(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", r.model, err)
		}
		n := len(pool.q.Y)
		fmt.Fprintf(s.Stdout, "%s: %d rows to draw from; false discoveries ± standard error, and the fraction of wrong targets discovered, at 0.05, 0.1 and 0.2\n", r.model, n)
		for _, kind := range targetKinds() {
			for _, fraction := range []float64{.01, .05, .1} {
				c := targetCell{n: min(5000, n-auditedRows), kind: kind, fraction: fraction}
				if err := c.measure(ctx, pool, s.Seeds, seed, filepath.Join(s.Out, "draws", r.model), written); err != nil {
					return fmt.Errorf("%s: %w", r.model, err)
				}
				fmt.Fprintf(s.Stdout, "  n_cal %4d, %-8s %4.1f %% ", c.n, kind, 100*fraction)
				lines = append(lines, c.print(s.Stdout, r.model, c.n, auditedRows, fraction, kind)...)
			}
		}
	}
	return experiment.WriteCSV(filepath.Join(s.Out, "targets.csv"), lines)
}

// targetPool holds rows that the interval model was not trained on.
type targetPool struct {
	q         calibrate.QuantileCalibration // quantiles and right targets
	predicted blas32.General
	levels    []float64 // of both ends of the interval
}

// read fits an interval model with its defaults on one half of the rows. The other half is the
// pool.
func (r regressor) read(ctx context.Context, s *experiment.Settings) (p targetPool, err error) {
	model, err := featurize.Open(ctx, filepath.Join(s.Models, r.model+".onnx"), featurize.Options{Runtime: featurize.Runtime{Library: s.Library}, Task: attach.Regression})
	if err != nil {
		return p, err
	}
	defer model.Close()
	set, err := inputs.Open(ctx, filepath.Join(s.Data, r.table), inputs.Options{Targets: []string{"last"}})
	if err != nil {
		return p, err
	}
	all, err := model.All(ctx, set.Blocks(ctx, 1024), set.Len(), nil)
	if err != nil {
		return p, err
	}
	order := make([]int, set.Len())
	for i := range order {
		order[i] = i
	}
	if !r.shuffled {
		order = rand.New(rand.NewPCG(1, 2)).Perm(set.Len())
	}
	half := set.Len() / 2
	bundle, err := attach.Fit(ctx, attach.FitOptions{
		Base: model.Base(attach.Regression), SkipDetector: true,
		Batch: all.Select(order[:half]), Targets: rows.Select(set.Targets, order[:half]),
		Cal: all.Select(order[half:]), CalTargets: rows.Select(set.Targets, order[half:]),
	})
	if err != nil {
		return p, err
	}
	level := bundle.Calibration.Level
	return targetPool{bundle.Calibration.Quantiles[0], rows.Select(all.Logits, order[half:]), []float64{(1 - level) / 2, (1 + level) / 2}}, nil
}

// targetKinds returns the kinds of wrong targets: those of other rows, in another unit, or
// shifted.
func targetKinds() []string { return []string{"swapped", "times 10", "shifted"} }

// targetCell holds the results of many draws with the same settings.
type targetCell struct {
	n        int
	kind     string
	fraction float64
	results
}

// measure repeats random draws, and writes the first of them to the folder.
func (c *targetCell) measure(ctx context.Context, pool targetPool, draws int, seed uint64, folder string, written int) error {
	rng := rand.New(rand.NewPCG(seed, uint64(c.n)<<32|uint64(1000*c.fraction)))
	deviation := stat.StdDev(toFloat64(pool.q.Y), nil)
	right := audit.TargetScores(pool.q, pool.levels)
	for draw := range draws {
		if err := ctx.Err(); err != nil {
			return err
		}
		order := rng.Perm(len(pool.q.Y))[:c.n+auditedRows]
		cal := make([]float64, c.n)
		for i, at := range order[:c.n] {
			cal[i] = right[at]
		}
		conformal, err := calibrate.NewConformal(cal)
		if err != nil {
			return err
		}
		audited := order[c.n:]
		given, wrong := c.corrupt(rng, pool.q.Y, audited, deviation)
		q := calibrate.QuantileCalibration{Levels: pool.q.Levels, Y: given}
		for _, at := range audited {
			q.Grid = append(q.Grid, pool.q.Grid[at*len(q.Levels):][:len(q.Levels)]...)
		}
		p := audit.TargetScores(q, pool.levels)
		for i, score := range p {
			p[i] = conformal.PValue(score)
		}
		if err := c.add(audit.Identity{Task: attach.Regression}, []int{c.n}, make([]int, len(p)), p, wrong); err != nil {
			return err
		}
		if draw < written {
			name := fmt.Sprintf("%s-%g-%d.npz", c.kind, c.fraction, draw)
			if err := writeDraw(filepath.Join(folder, name), "predictions", rows.Select(pool.predicted, audited), toFloat64(given), wrong, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// corrupt returns the targets of the audited rows of which a fraction is wrong, and which ones
// are. A swapped target is that of the next wrong row, and may be nearly right.
func (c *targetCell) corrupt(rng *rand.Rand, y []float32, audited []int, deviation float64) (given []float32, wrong []bool) {
	wrong = make([]bool, len(audited))
	for _, at := range audited {
		given = append(given, y[at])
	}
	right := slices.Clone(given)
	mistakes := rng.Perm(len(audited))[:int(c.fraction*float64(len(audited))+.5)]
	for k, i := range mistakes {
		wrong[i] = true
		switch c.kind {
		case "swapped":
			given[i] = right[mistakes[(k+1)%len(mistakes)]]
		case "times 10":
			given[i] *= 10
		case "shifted":
			given[i] += float32(deviation)
		}
	}
	return given, wrong
}

func toFloat64(list []float32) (out []float64) {
	for _, v := range list {
		out = append(out, float64(v))
	}
	return out
}
