// Package table2 reproduces the paper's table of OOD detection with additional networks,
// methods and OOD sets. It saves features and results as soon as they are computed, so an
// interrupted run can resume.
//
// It reads SET_train.npz and SET_test.npz from --data, with uint8 images of shape n×H×W or
// n×H×W×3 and n labels. It reads NETWORK.onnx and the network's preprocessing file from
// --models.
package table2

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/networks"
)

// Experiment is the command "reproduce table2".
var Experiment = experiment.Experiment{
	Name:    "table2",
	Doc:     "out-of-domain detection by every method on image classifiers, beside the paper's",
	Shared:  []string{"data", "models", "sets", "methods", "parallel", "out", "ort-lib"},
	Resumes: true,
	New: func(flags *flag.FlagSet, shared *experiment.Settings) func(ctx context.Context) error {
		s := &settings{Plan: networks.Plan{Settings: shared}}
		s.Define(flags, "0")
		flags.StringVar(&s.grid, "grid", "default", "configurations of each method: its `default` alone, its full grid, or the paper's, for a table of the paper's figures beside ours; mean and standard deviation over a grid are shown")
		flags.BoolVar(&s.networkMethods, "network-methods", true, "measure methods that run the network on every row too")
		flags.IntVar(&s.NetworkRows, "network-rows", 500, "at most `N` rows of every set for methods that run the network (0: as all others)")
		flags.DurationVar(&s.limit, "limit", 0, "longest `time` for a method on a network, such as 10m; beyond it the table says so (0: none)")
		flags.StringVar(&s.attached, "attached", networks.Attached, "the `methods` to rank against single detectors: the defaults of attach fit")
		flags.BoolVar(&s.reportOnly, "report", false, "measure nothing: tables and picture of what --out has, of a run that goes on or was ended")
		return s.run
	},
}

type settings struct {
	networks.Plan
	grid, attached             string
	networkMethods, reportOnly bool
	limit                      time.Duration
}

type store = experiment.Store[key, record]

func (s *settings) run(ctx context.Context) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	results, err := experiment.OpenStore[key, record](filepath.Join(s.Out, "table2.jsonl"))
	if err != nil {
		return err
	}
	if !s.reportOnly {
		err = s.measure(ctx, results)
	} else if !slices.ContainsFunc(s.pairs(results), pair.measured) {
		err = fmt.Errorf("%s has no results of these networks and methods with these --rows, --network-rows, --grid and --seed: give the flags that they were measured with", s.Out)
	}
	if err != nil {
		return errors.Join(err, results.Close())
	}
	return errors.Join(s.report(results), results.Close())
}

func (s *settings) check(ctx context.Context) error {
	switch {
	case s.grid != "full" && s.grid != "default" && s.grid != "paper":
		return experiment.Usagef("--grid is default, full or paper, not %q", s.grid)
	case s.NetworkRows < 0 || s.limit < 0:
		return experiment.Usagef("--network-rows and --limit must not be negative")
	}
	exclude := func(m ood.Method) bool {
		unpublished := s.grid == "paper" && !slices.ContainsFunc(paperRows(), func(r paperRow) bool { return r.method == m.Name })
		return unpublished || !s.networkMethods && networks.RunsNetwork(m)
	}
	if err := s.Check(ctx, exclude, "only methods that --network-methods=false or --grid=paper leaves out"); err != nil {
		return err
	}
	// Sort methods that run the network to the end because they take longest.
	slices.SortStableFunc(s.Methods, func(a, b ood.Method) int {
		return int(experiment.Indicator(networks.RunsNetwork(a)) - experiment.Indicator(networks.RunsNetwork(b)))
	})
	return nil
}

// measure measures the missing results, network by network.
func (s *settings) measure(ctx context.Context, results *store) error {
	progress := experiment.NewProgress(s.Stderr, s.Parallel)
	jobs := make([][]fitJob, len(s.Networks))
	for i, n := range s.Networks {
		for _, m := range s.Methods {
			if f := s.newFitJob(n, m, results); len(f.configs) > 0 {
				jobs[i] = append(jobs[i], f)
				progress.Expect(f.job(nil, results))
			}
		}
		if len(jobs[i]) > 0 {
			progress.Expect(s.features(n, nil))
		}
	}
	for i, n := range s.Networks {
		if len(jobs[i]) > 0 {
			if err := s.measureNetwork(ctx, n, jobs[i], results, progress); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *settings) measureNetwork(ctx context.Context, n networks.Measured, fittings []fitJob, results *store, progress *experiment.Progress) error {
	var im *networks.Images
	if err := progress.Run(ctx, s.features(n, &im)); err != nil {
		return err
	}
	defer im.Model.Close()
	var jobs []experiment.Job
	for _, f := range fittings {
		jobs = append(jobs, f.job(im, results))
	}
	return progress.Run(ctx, jobs...)
}

// features returns the job that runs a network on its images and stores the result in dst.
func (s *settings) features(n networks.Measured, dst **networks.Images) experiment.Job {
	return experiment.Job{
		Kind: "features", Cost: n.Megabytes, What: n.Name + ", features",
		Run: func(ctx context.Context, progress func(fraction float64)) (err error) {
			*dst, err = s.Load(ctx, n, progress)
			return err
		},
	}
}

func (f fitJob) job(im *networks.Images, results *store) experiment.Job {
	return experiment.Job{
		Kind: f.method.Name, Cost: float64(len(f.configs)) * f.network.Megabytes,
		What: fmt.Sprintf("%s, %s, %d configurations", f.network.Name, f.method.Name, len(f.configs)),
		Run: results.Keep(func(ctx context.Context, progress func(fraction float64)) ([]record, error) {
			return f.run(ctx, im, progress)
		}),
	}
}
