package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/heads"
)

// table1Experiment is the paper's table of prediction intervals: data sets by
// methods, each method over its grid and over random splits. Results are kept
// as they are measured, and a run that was ended goes on where it stood.
var table1Experiment = experiment{
	name:  "table1",
	doc:   "95 % intervals of every method on the UCI regression sets, beside the paper's",
	uses:  []string{"data", "sets", "seeds", "epochs", "ort-lib"},
	flags: table1Flags,
	run:   runTable1,
}

// intervalSettings are the flags of table1 beyond those that experiments share.
type intervalSettings struct {
	methods   string
	grid      string
	out       string
	coverages string
	dropout   string
	averaging float64
	keep      string
	parallel  int
	report    bool
}

func table1Flags(flags *flag.FlagSet, s *settings) {
	i := &s.intervals
	flags.StringVar(&i.methods, "methods", "", "only these methods, `a,b`")
	flags.StringVar(&i.grid, "grid", "full", "settings to choose among: `full` (the paper's) or small")
	flags.StringVar(&i.out, "out", "table1", "`folder` for results, table and picture; results in it are not measured again")
	flags.StringVar(&i.coverages, "coverage", ".95", "coverages of intervals, `.95,.9,.99`")
	flags.StringVar(&i.dropout, "dropout", "0", "dropout `rates` in the grid of networks that have none of their own")
	flags.Float64Var(&i.averaging, "averaging", .9, "`factor` of a running mean of the weights of networks over epochs (0: none)")
	flags.StringVar(&i.keep, "keep", "best", "weights of networks to keep: of the `best` epoch on validation rows, or the last")
	flags.IntVar(&i.parallel, "parallel", 1, "`jobs` at once")
	flags.BoolVar(&i.report, "report", false, "measure nothing: the table of what --out has, of a run that goes on or is of several grids")
}

// intervalPlan is the flags, checked.
type intervalPlan struct {
	sets      []uciSet
	methods   []heads.QuantileMethod
	coverages []float64
	dropout   []float64
	tested    map[string]int // test rows of each set, as they are read
}

func runTable1(ctx context.Context, s settings) error {
	p, err := planTable1(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.intervals.out, 0o755); err != nil {
		return err
	}
	results, err := openStore[configKey, record](filepath.Join(s.intervals.out, "table1.jsonl"))
	if err != nil {
		return err
	}
	defer results.close()
	jobs, keys, err := p.jobs(ctx, s, results)
	if err != nil {
		return err
	}
	if s.intervals.report {
		if jobs, keys = nil, known(keys, results); len(keys) == 0 {
			return fmt.Errorf("%s has no results of these sets, methods, epochs and seeds", s.intervals.out)
		}
	}
	if err := runJobs(ctx, s, jobs); err != nil {
		return err
	}
	return p.report(s, keys, results)
}

// known are the keys that have results.
func known(keys []configKey, results *store[configKey, record]) []configKey {
	return slices.DeleteFunc(keys, func(k configKey) bool { return !results.has(k) })
}

func planTable1(s settings) (p intervalPlan, err error) {
	if p.sets, err = uciByName(s.sets); err != nil {
		return p, err
	}
	if p.coverages, err = coveragesOf(s); err != nil {
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
	for _, d := range p.dropout {
		if !(d >= 0 && d < 1) {
			return p, fmt.Errorf("%w: a dropout rate lies in [0, 1), not %v", errUsage, d)
		}
	}
	p.methods, err = quantileMethods(s.intervals.methods)
	return p, err
}

// coveragesOf reads --coverage, and checks --parallel beside it.
func coveragesOf(s settings) ([]float64, error) {
	if s.intervals.parallel < 1 {
		return nil, fmt.Errorf("%w: --parallel is at least 1, not %d", errUsage, s.intervals.parallel)
	}
	coverages, err := numbers("--coverage", s.intervals.coverages)
	if err != nil {
		return nil, err
	}
	for _, c := range coverages {
		if !(c > 0 && c < 1) {
			return nil, fmt.Errorf("%w: a coverage lies between 0 and 1, not %v", errUsage, c)
		}
	}
	return coverages, distinct("--coverage", coverages)
}

// quantileMethods are those that --methods names; an empty list is all.
func quantileMethods(names string) ([]heads.QuantileMethod, error) {
	if names == "" {
		return baselines.QuantileMethods, nil
	}
	var methods []heads.QuantileMethod
	each := strings.Split(names, ",")
	if err := distinct("--methods", each); err != nil {
		return nil, err
	}
	for _, name := range each {
		m, ok := baselines.QuantileByName(name)
		if !ok {
			var known []string
			for _, m := range baselines.QuantileMethods {
				known = append(known, m.Name)
			}
			return nil, fmt.Errorf("%w: there is no method %q: choose among %s", errUsage, name, strings.Join(known, ", "))
		}
		methods = append(methods, m)
	}
	return methods, nil
}

// jobs lists what is not measured yet, seed after seed, so that an unfinished
// run has something of everything; keys are all results that the table needs.
func (p *intervalPlan) jobs(ctx context.Context, s settings, results *store[configKey, record]) (jobs []job, keys []configKey, err error) {
	p.tested = map[string]int{}
	var seedOf []int
	for _, set := range p.sets {
		data, err := set.read(ctx, s.data)
		if err != nil {
			return nil, nil, err
		}
		p.tested[set.name] = len(splitRows(data.x.Rows, 0).test)
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
					keys = append(keys, job.plan(*p, s, results)...)
					if len(job.configs) > 0 {
						jobs = append(jobs, job.job(s, results))
						seedOf = append(seedOf, seed)
					}
				}
			}
		}
	}
	return inOrderOf(seedOf, jobs), keys, nil
}

// job measures the settings and keeps the results.
func (j intervalJob) job(s settings, results *store[configKey, record]) job {
	return job{
		kind: j.method.Name, cost: j.cost(), what: fmt.Sprintf("%s, seed %d, %s, %d settings", j.set.name, j.seed, j.method.Name, len(j.configs)),
		run: func(ctx context.Context, progress func(share float64)) error {
			records, err := j.run(ctx, s.trainer, progress)
			if err != nil {
				return err
			}
			return results.add(records)
		},
	}
}

// plan fills in the settings that have no results, and returns the keys of all.
func (j *intervalJob) plan(p intervalPlan, s settings, results *store[configKey, record]) (all []configKey) {
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
