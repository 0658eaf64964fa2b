// Package regions compares boxes and ellipsoids that cover several targets at once: how often
// they cover, and which has the smaller volume.
package regions

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// Experiment is the regions command.
var Experiment = experiment.Experiment{
	Name:         "regions",
	Doc:          "boxes and ellipsoids for several targets: coverage and volume on four tables and three drawn sets",
	Shared:       []string{"data", "sets", "methods", "seeds", "out"},
	OptionalData: true,
	New: func(flags *flag.FlagSet, s *experiment.Settings) func(ctx context.Context) error {
		experiment.Redefine(flags, "seeds", "10", "number of random splits")
		level := flags.Float64("level", .9, "guaranteed `coverage`")
		return func(ctx context.Context) error {
			chosen, err := experiment.Choose("--sets", "set", s.Sets, sets(), func(d set) string { return d.name })
			if err != nil {
				return err
			}
			methods, err := experiment.Choose("--methods", "method", s.MethodNames, methods(), func(m ood.Method) string { return m.Name })
			if err != nil {
				return err
			}
			if !(*level > 0 && *level < 1) {
				return experiment.Usagef("--level is %v, and must lie between 0 and 1", *level)
			}
			return run(ctx, s, chosen, methods, *level)
		}
	},
}

// maxRows is the largest number of rows of a set that are used.
const maxRows = 8000

// methods returns the interval methods that need no network.
func methods() (list []ood.Method) {
	for _, m := range attach.Methods() {
		if m.Name == "quantile-forest" || m.Name == "gradient-boosting" {
			list = append(list, m)
		}
	}
	return list
}

func run(ctx context.Context, s *experiment.Settings, chosen []set, methods []ood.Method, level float64) error {
	fmt.Fprintf(s.Stdout, "level %g, %d splits; volume: ellipsoid divided by box, geometric mean, smallest and largest of the splits\n", level, s.Seeds)
	fmt.Fprintln(s.Stdout, "set          targets  calibration  method             box    ellipsoid  volume")
	lines := [][]string{{"set", "targets", "calibration", "method", "seeds", "box", "ellipsoid", "volume", "volume_min", "volume_max"}}
	for _, d := range chosen {
		x, y, err := d.read(s.Data)
		if err != nil {
			return err
		}
		for _, m := range methods {
			box, ellipsoid, logs, low, high := 0., 0., 0., math.Inf(1), 0.
			var calibration int
			for seed := range s.Seeds {
				split, err := fit(ctx, x, y, m, level, uint64(seed))
				if err != nil {
					return fmt.Errorf("%s, %s: %w", d.name, m.Name, err)
				}
				r, err := split.compare(ctx)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", d.name, m.Name, err)
				}
				if r.VolumeRatio == nil {
					return fmt.Errorf("%s, %s: regions are unbounded: choose a lower --level", d.name, m.Name)
				}
				n := float64(s.Seeds)
				box, ellipsoid, logs = box+r.Box.Fraction/n, ellipsoid+r.Ellipsoid.Fraction/n, logs+math.Log(*r.VolumeRatio)/n
				low, high, calibration = min(low, *r.VolumeRatio), max(high, *r.VolumeRatio), split.bundle.Calibration.NCal
			}
			fmt.Fprintf(s.Stdout, "%-11s  %7d  %11d  %-17s  %.3f  %9.3f  %.2f (%.2f to %.2f)\n", d.name, y.Cols, calibration, m.Name, box, ellipsoid, math.Exp(logs), low, high)
			lines = append(lines, experiment.Cells(4, d.name, y.Cols, calibration, m.Name, s.Seeds, box, ellipsoid, math.Exp(logs), low, high))
		}
		if d.name == "star" {
			if err := drawStar(ctx, x, y, level, filepath.Join(s.Out, "regions.svg")); err != nil {
				return err
			}
		}
	}
	return experiment.WriteCSV(filepath.Join(s.Out, "regions.csv"), lines)
}

// fitted holds an interval model and the rows that test it.
type fitted struct {
	bundle *attach.Bundle
	test   attach.Rows
	seed   uint64
}

// fit fits on half of the rows and calibrates on a quarter. The last quarter is for tests.
func fit(ctx context.Context, x, y blas32.General, m ood.Method, level float64, seed uint64) (fitted, error) {
	order := rand.New(rand.NewPCG(seed, 6)).Perm(x.Rows)
	order = order[:min(maxRows, len(order))]
	n := len(order)
	training, calibration, test := order[:n/2], order[n/2:n*3/4], order[n*3/4:]
	b, err := attach.Fit(ctx, attach.FitOptions{
		Base:  attach.Base{Task: attach.Regression},
		Batch: ood.Batch{Features: rows.Select(x, training)}, Targets: rows.Select(y, training),
		Cal: ood.Batch{Features: rows.Select(x, calibration)}, CalTargets: rows.Select(y, calibration),
		IntervalModel: m, SkipDetector: true, Level: level, Seed: seed,
	})
	return fitted{b, attach.Rows{Batch: ood.Batch{Features: rows.Select(x, test)}, Targets: rows.Select(y, test)}, seed}, err
}

// compare compares the regions on the test rows.
func (f fitted) compare(ctx context.Context) (*evaluate.Regions, error) {
	p, err := f.bundle.Predictor(attach.PredictOptions{Region: "ellipsoid", Seed: f.seed})
	if err != nil {
		return nil, err
	}
	e, err := evaluate.Rows(ctx, p, func(yield func(attach.Rows, error) bool) { yield(f.test, nil) }, evaluate.Options{})
	if err != nil {
		return nil, err
	}
	return e.Regions, nil
}

// predict returns the predictions of the test rows with one kind of region.
func (f fitted) predict(ctx context.Context, region string) ([]attach.Prediction, error) {
	p, err := f.bundle.Predictor(attach.PredictOptions{Region: region, Seed: f.seed})
	if err != nil {
		return nil, err
	}
	return p.Predict(ctx, f.test)
}

// nearest returns the index of the row whose medians are nearest to their means, and then the
// indices of the other rows, from the nearest to it to the farthest. Distances are in standard
// deviations.
func nearest(p []attach.Prediction) []int {
	targets := len(p[0].Targets)
	centre, deviation := make([]float64, targets), make([]float64, targets)
	for t := range targets {
		for _, row := range p {
			centre[t] += row.Targets[t].Median / float64(len(p))
		}
		for _, row := range p {
			deviation[t] += math.Pow(row.Targets[t].Median-centre[t], 2) / float64(len(p))
		}
	}
	sort := func(order []int) {
		distance := func(i int) (sum float64) {
			for t, target := range p[i].Targets {
				sum += math.Pow(target.Median-centre[t], 2) / deviation[t]
			}
			return sum
		}
		sortBy(order, distance)
	}
	order := experiment.Indices(len(p))
	sort(order)
	for t, target := range p[order[0]].Targets {
		centre[t] = target.Median
	}
	sort(order)
	return order
}
