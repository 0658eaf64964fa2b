// Package table1 reproduces the paper's table of prediction intervals. It measures every
// method on every data set, with all configurations of its grid and several random splits.
// Each result is saved as soon as it is measured, so an interrupted run can resume.
package table1

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/fitting/mlp"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/intervals"
)

// Experiment is the command "reproduce table1".
var Experiment = experiment.Experiment{
	Name:    "table1",
	Doc:     "95 % intervals of every method on the UCI regression sets, beside the paper's",
	Shared:  []string{"data", "sets", "methods", "seeds", "epochs", "parallel", "out", "ort-lib"},
	Resumes: true,
	New: func(flags *flag.FlagSet, shared *experiment.Settings) func(ctx context.Context) error {
		s := &settings{Settings: shared, testRows: map[string]int{}, plan: intervals.Define(flags, shared)}
		flags.StringVar(&s.grid, "grid", "full", "settings to choose among: `full` (the paper's) or small")
		flags.StringVar(&s.rates, "dropout", "0", "dropout `rates` in the grid of networks that have none of their own")
		flags.Float64Var(&s.averaging, "averaging", .9, "`factor` of a running mean of the weights of networks over epochs (0: none)")
		flags.StringVar(&s.keep, "keep", "best", "weights of networks to keep: of the `best` epoch on validation rows, or the last")
		flags.BoolVar(&s.reportOnly, "report", false, "measure nothing: the table of what --out has, of a run that goes on or is of several grids")
		return s.run
	},
}

// settings holds the flags.
type settings struct {
	*experiment.Settings
	plan func() (intervals.Plan, error)
	intervals.Plan
	grid, keep, rates string
	averaging         float64
	reportOnly        bool

	dropout  []float64      // parsed dropout rates
	testRows map[string]int // number of test rows by set; the method jobs fills it
}

type store = experiment.Store[intervals.Case, record]

func (s *settings) run(ctx context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	results, err := experiment.OpenStore[intervals.Case, record](filepath.Join(s.Out, "table1.jsonl"))
	if err != nil {
		return err
	}
	defer results.Close()
	jobs, keys, err := s.jobs(ctx, results)
	if err != nil {
		return err
	}
	if s.reportOnly {
		jobs, keys = nil, slices.DeleteFunc(keys, func(k intervals.Case) bool { return !results.Has(k) })
		if len(keys) == 0 {
			return fmt.Errorf("%s has no results of these sets, methods, epochs and seeds", s.Out)
		}
	}
	if err := experiment.RunJobs(ctx, s.Settings, jobs); err != nil {
		return err
	}
	return s.report(keys, results)
}

func (s *settings) check() (err error) {
	if s.Plan, err = s.plan(); err != nil {
		return err
	}
	if s.dropout, err = experiment.Numbers("--dropout", s.rates); err != nil {
		return err
	}
	switch {
	case s.grid != "full" && s.grid != "small":
		return experiment.Usagef("--grid is full or small, not %q", s.grid)
	case s.keep != "best" && s.keep != "last":
		return experiment.Usagef("--keep is best or last, not %q", s.keep)
	case !(s.averaging >= 0 && s.averaging < 1):
		return experiment.Usagef("--averaging lies in [0, 1), not %v", s.averaging)
	}
	for _, d := range s.dropout {
		if !(d >= 0 && d < 1) {
			return experiment.Usagef("a dropout rate lies in [0, 1), not %v", d)
		}
	}
	return nil
}

// jobs returns jobs that measure the missing results, and the keys of all results that the
// table needs.
func (s *settings) jobs(ctx context.Context, results *store) (jobs []experiment.Job, keys []intervals.Case, err error) {
	for _, set := range s.Plan.Sets {
		data, err := set.Read(ctx, s.Data)
		if err != nil {
			return nil, nil, err
		}
		s.testRows[set.Name] = len(experiment.SplitRows(data.X.Rows, 0).Test)
		for seed := range s.Seeds {
			for _, m := range s.Methods {
				coverageGroups := [][]float64{s.Coverages}
				if m.Needs.Levels || m.Needs.Ends {
					coverageGroups = nil
					for _, c := range s.Coverages {
						coverageGroups = append(coverageGroups, []float64{c})
					}
				}
				for _, coverages := range coverageGroups {
					f := fitJob{set: set, data: data, seed: seed, method: m, coverages: coverages}
					keys = append(keys, f.addMissing(s, results)...)
					if len(f.configs) > 0 {
						jobs = append(jobs, f.job(s.Trainer, results))
					}
				}
			}
		}
	}
	return jobs, keys, nil
}

// job returns a Job that measures the configurations and stores the results.
func (f fitJob) job(trainer train.Trainer, results *store) experiment.Job {
	return experiment.Job{
		Kind: f.method.Name, Cost: f.cost(), Seed: f.seed,
		What: fmt.Sprintf("%s, seed %d, %s, %d settings", f.set.Name, f.seed, f.method.Name, len(f.configs)),
		Run: results.Keep(func(ctx context.Context, progress func(fraction float64)) ([]record, error) {
			return f.run(ctx, trainer, progress)
		}),
	}
}

// addMissing adds the configurations without results to the job. It returns the keys of all
// configurations.
func (f *fitJob) addMissing(s *settings, results *store) (all []intervals.Case) {
	keep := ""
	if f.method.Needs.Trainer {
		f.best, keep = s.keep == "best", s.keep
		if f.epochs = s.Epochs; f.epochs == 0 {
			f.epochs = mlp.DefaultEpochs(len(experiment.SplitRows(f.data.X.Rows, 0).Fit), 64)
		}
	}
	f.keys = make([][]intervals.Case, len(f.coverages))
	for _, config := range settingsOf(f.method, s.grid == "small", s.dropout, s.averaging) {
		var keys []intervals.Case
		missing := false
		for _, c := range f.coverages {
			k := intervals.CaseOf(f.set.Name, f.seed, f.method.Name, config, c)
			k.Epochs, k.Keep = f.epochs, keep
			keys = append(keys, k)
			missing = missing || !results.Has(k)
		}
		all = append(all, keys...)
		if !missing {
			continue
		}
		f.configs = append(f.configs, config)
		for c, k := range keys {
			f.keys[c] = append(f.keys[c], k)
		}
	}
	return all
}

// cost returns a number proportional to the fitting time.
func (f fitJob) cost() float64 {
	return float64(f.data.X.Rows*len(f.configs)) * float64(max(f.epochs, 1))
}
