package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/heads"
)

// table1Experiment is the paper's table of prediction intervals: data sets by
// methods, each method over its grid and over random splits. Results are kept
// as they are measured, and a run that was ended goes on where it stood.
var table1Experiment = experiment{
	name:  "table1",
	doc:   "95 % intervals of every method on the UCI regression sets, beside the paper's",
	flags: table1Flags,
	run:   runTable1,
}

// intervalSettings are the flags of table1 beyond those of every experiment.
type intervalSettings struct {
	methods   string
	grid      string
	out       string
	coverages string
	dropout   string
	averaging float64
	keep      string
	parallel  int
}

func table1Flags(flags *flag.FlagSet, s *settings) {
	i := &s.intervals
	flags.StringVar(&i.methods, "methods", "", "only these methods, `a,b`")
	flags.StringVar(&i.grid, "grid", "full", "settings to choose among: `full` (the paper's) or small")
	flags.StringVar(&i.out, "out", "table1", "`folder` for results, table and picture; results in it are not measured again")
	flags.StringVar(&i.coverages, "coverage", ".95", "coverages of intervals, `.95,.9,.99`")
	flags.StringVar(&i.dropout, "dropout", "0", "dropout `rates` in the grid of networks that have none of their own")
	flags.Float64Var(&i.averaging, "averaging", 0, "`factor` of a running mean of the weights of networks over epochs")
	flags.StringVar(&i.keep, "keep", "best", "weights of networks to keep: of the `best` epoch on validation rows, or the last")
	flags.IntVar(&i.parallel, "parallel", 1, "`jobs` at once")
}

// intervalPlan is the flags, checked.
type intervalPlan struct {
	sets      []uciSet
	methods   []heads.QuantileMethod
	coverages []float64
	dropout   []float64
}

func runTable1(ctx context.Context, s settings) error {
	p, err := planTable1(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.intervals.out, 0o755); err != nil {
		return err
	}
	results, err := openStore(filepath.Join(s.intervals.out, "table1.jsonl"))
	if err != nil {
		return err
	}
	defer results.close()
	jobs, keys, err := p.jobs(ctx, s, results)
	if err != nil {
		return err
	}
	if err := runJobs(ctx, s, jobs, results); err != nil {
		return err
	}
	return p.report(s, keys, results)
}

func planTable1(s settings) (p intervalPlan, err error) {
	if p.sets, err = uciByName(s.sets); err != nil {
		return p, err
	}
	if p.coverages, err = numbers("--coverage", s.intervals.coverages); err != nil {
		return p, err
	}
	if p.dropout, err = numbers("--dropout", s.intervals.dropout); err != nil {
		return p, err
	}
	if g := s.intervals.grid; g != "full" && g != "small" {
		return p, fmt.Errorf("%w: --grid is full or small, not %q", errUsage, g)
	}
	if k := s.intervals.keep; k != "best" && k != "last" {
		return p, fmt.Errorf("%w: --keep is best or last, not %q", errUsage, k)
	}
	if a := s.intervals.averaging; !(a >= 0 && a < 1) {
		return p, fmt.Errorf("%w: --averaging lies in [0, 1), not %v", errUsage, a)
	}
	if s.intervals.parallel < 1 {
		return p, fmt.Errorf("%w: --parallel is at least 1, not %d", errUsage, s.intervals.parallel)
	}
	for _, c := range p.coverages {
		if !(c > 0 && c < 1) {
			return p, fmt.Errorf("%w: a coverage lies between 0 and 1, not %v", errUsage, c)
		}
	}
	for _, d := range p.dropout {
		if !(d >= 0 && d < 1) {
			return p, fmt.Errorf("%w: a dropout rate lies in [0, 1), not %v", errUsage, d)
		}
	}
	p.methods = baselines.QuantileMethods
	if s.intervals.methods == "" {
		return p, nil
	}
	p.methods = nil
	for name := range strings.SplitSeq(s.intervals.methods, ",") {
		m, ok := baselines.QuantileByName(name)
		if !ok {
			var known []string
			for _, m := range baselines.QuantileMethods {
				known = append(known, m.Name)
			}
			return p, fmt.Errorf("%w: there is no method %q: choose among %s", errUsage, name, strings.Join(known, ", "))
		}
		p.methods = append(p.methods, m)
	}
	return p, nil
}

// jobs lists what is not measured yet, seed after seed, so that an unfinished
// run has something of everything; keys are all results that the table needs.
func (p intervalPlan) jobs(ctx context.Context, s settings, results *store) (jobs []intervalJob, keys []configKey, err error) {
	for _, set := range p.sets {
		data, err := set.read(ctx, s.data)
		if err != nil {
			return nil, nil, err
		}
		for seed := range s.seeds {
			for _, m := range p.methods {
				together := [][]float64{p.coverages}
				if m.LevelsOnly {
					together = nil
					for _, c := range p.coverages {
						together = append(together, []float64{c})
					}
				}
				for _, coverages := range together {
					job := intervalJob{set: set, data: data, seed: seed, method: m, coverages: coverages}
					keys = append(keys, job.plan(p, s, results)...)
					if len(job.configs) > 0 {
						jobs = append(jobs, job)
					}
				}
			}
		}
	}
	slices.SortStableFunc(jobs, func(a, b intervalJob) int { return a.seed - b.seed })
	return jobs, keys, nil
}

// plan fills in the settings that have no results, and returns the keys of all.
func (j *intervalJob) plan(p intervalPlan, s settings, results *store) (all []configKey) {
	keep := ""
	if j.method.NeedsTrainer {
		j.best, keep = s.intervals.keep == "best", s.intervals.keep
		if j.epochs = s.epochs; j.epochs == 0 {
			j.epochs = heads.DefaultSQREpochs(len(splitRows(j.data.x.Rows, 0).fit), 64)
		}
	}
	j.keys = make([][]configKey, len(j.coverages))
	for _, config := range settingsOf(j.method, s.intervals.grid == "small", p.dropout, s.intervals.averaging) {
		var keys []configKey
		missing := false
		for _, c := range j.coverages {
			k := keyOf(j.set.name, j.seed, j.method.Name, config, c)
			k.Epochs, k.Keep = j.epochs, keep
			keys = append(keys, k)
			missing = missing || !results.has(k)
		}
		all = append(all, keys...)
		if !missing {
			continue
		}
		j.configs = append(j.configs, config)
		for c, k := range keys {
			j.keys[c] = append(j.keys[c], k)
		}
	}
	return all
}

// cost is in proportion to the time that a method needs.
func (j intervalJob) cost() float64 {
	return float64(j.data.x.Rows*len(j.configs)) * float64(max(j.epochs, 1))
}

func runJobs(ctx context.Context, s settings, jobs []intervalJob, results *store) error {
	if len(jobs) == 0 {
		return nil
	}
	shown := newProgress(s.stderr, s.intervals.parallel)
	for _, j := range jobs {
		shown.expect(j.method.Name, j.cost())
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.intervals.parallel)
	for id, j := range jobs {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			shown.start(id, j.method.Name, j.cost())
			records, err := j.run(ctx, s.trainer, func(share float64) { shown.advance(id, share) })
			if err != nil {
				return fmt.Errorf("%s, seed %d, %s: %w", j.set.name, j.seed, j.method.Name, err)
			}
			shown.finish(id, fmt.Sprintf("%s, seed %d, %s, %d settings", j.set.name, j.seed, j.method.Name, len(j.configs)))
			return results.add(records)
		})
	}
	return group.Wait()
}
