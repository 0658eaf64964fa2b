package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/heads/bundle"
	"github.com/attach-uncertainty/attach/internal/ort"
	"github.com/attach-uncertainty/attach/ood"
)

// table2Experiment is the paper's table of out-of-domain detection, with
// further networks, methods and out-of-domain sets: trained networks by
// methods. Features and results are kept as they are made, and a run that was
// ended goes on where it stood.
//
// It reads SET_train.npz and SET_test.npz (images uint8 n×H×W or n×H×W×3,
// labels n) from --data, and NETWORK.onnx with its preprocessing from --models.
var table2Experiment = experiment{
	name:  "table2",
	doc:   "out-of-domain detection by every method on image classifiers, beside the paper's",
	uses:  []string{"data", "models", "sets", "ort-lib"},
	flags: table2Flags,
	run:   runTable2,
}

// detectionSettings are the flags of table2 beyond those that experiments share;
// --sets names networks.
type detectionSettings struct {
	methods, grid, out, rows, attached string
	networkRows, parallel              int
	networkMethods, report             bool
	seed                               uint64
	limit                              time.Duration
}

func table2Flags(flags *flag.FlagSet, s *settings) {
	d := &s.detection
	flags.StringVar(&d.methods, "methods", "", "only these methods, `a,b`")
	flags.StringVar(&d.grid, "grid", "default", "configurations of each method: its `default` alone, or its full grid, the mean and standard deviation over which are shown")
	flags.StringVar(&d.out, "out", "table2", "`folder` for features, results, tables and picture; results in it are not measured again")
	flags.StringVar(&d.rows, "rows", "0", "at most `N` rows to fit with and in every set to measure on, or FIT,IN,OUT (0: all)")
	flags.BoolVar(&d.networkMethods, "network-methods", true, "measure methods that run the network on every row too")
	flags.IntVar(&d.networkRows, "network-rows", 500, "at most `N` rows of every set for methods that run the network (0: as all others)")
	flags.Uint64Var(&d.seed, "seed", 0, "seed of the rows drawn and of methods")
	flags.DurationVar(&d.limit, "limit", 0, "longest `time` for a method on a network, such as 10m; beyond it the table says so (0: none)")
	flags.IntVar(&d.parallel, "parallel", 1, "`methods` at once")
	var attached []string
	flags.Lookup("sets").Usage = networksUsage()
	for _, m := range bundle.DefaultMethods() {
		attached = append(attached, m.Name)
	}
	flags.StringVar(&d.attached, "attached", strings.Join(attached, ","), "the `methods` whose standing among single ones is told: those that attach fit uses")
	flags.BoolVar(&d.report, "report", false, "measure nothing: tables and picture of what --out has, of a run that goes on or was ended")
}

// networksUsage is what --sets means to experiments on trained networks.
func networksUsage() string {
	var networks []string
	for _, n := range trainedNetworks() {
		networks = append(networks, n.name)
	}
	return "only these networks, `a,b`, of " + strings.Join(networks, ", ")
}

// measuredNetwork is a network that is there.
type measuredNetwork struct {
	trainedNetwork
	sha256    string // its first digits
	megabytes float64
}

// detectionPlan is the flags, checked.
type detectionPlan struct {
	networks    []measuredNetwork
	notRun      []string // why others are not measured
	methods     []ood.Method
	models, out string
	full        bool
	rows        [3]int
	networkRows int
	parallel    int
	seed        uint64
	limit       time.Duration
	attached    string
}

func runTable2(ctx context.Context, s settings) error {
	p, err := planTable2(ctx, s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(p.out, 0o755); err != nil {
		return err
	}
	results, err := openStore[detectionKey, detectionRecord](filepath.Join(p.out, "table2.jsonl"))
	if err != nil {
		return err
	}
	if !s.detection.report {
		err = p.measure(ctx, s, results)
	} else if !slices.ContainsFunc(p.pairs(results), pair.measured) {
		err = fmt.Errorf("%s has no results of these networks and methods with these --rows, --network-rows, --grid and --seed: give the flags that they were measured with", p.out)
	}
	if err != nil {
		return errors.Join(err, results.close())
	}
	return errors.Join(p.report(s, results), results.close())
}

func planTable2(ctx context.Context, s settings) (p detectionPlan, err error) {
	d := s.detection
	p = detectionPlan{
		models: s.models, out: d.out, full: d.grid == "full", networkRows: d.networkRows, parallel: d.parallel, seed: d.seed, limit: d.limit,
		attached: d.attached,
	}
	switch {
	case d.grid != "full" && d.grid != "default":
		return p, fmt.Errorf("%w: --grid is default or full, not %q", errUsage, d.grid)
	case d.networkRows < 0 || d.parallel < 1 || d.limit < 0:
		return p, fmt.Errorf("%w: --parallel must be at least 1, --network-rows and --limit not negative", errUsage)
	}
	if p.models == "" {
		p.models = filepath.Join(s.data, "..", "models")
	}
	if p.rows, err = rowLimits(d.rows); err != nil {
		return p, err
	}
	if p.methods, err = detectionMethods(d.methods, d.networkMethods); err != nil {
		return p, err
	}
	networks, err := networksByName(s.sets)
	if err != nil {
		return p, err
	}
	for _, n := range networks {
		if file := n.missing(s.data, p.models); file != "" {
			if s.sets != nil {
				return p, fmt.Errorf("%s cannot be measured: there is no %s; fetch it, or leave the network out of --sets", n.name, file)
			}
			p.notRun = append(p.notRun, fmt.Sprintf("%s: not run: there is no %s", n.name, filepath.Base(file)))
			continue
		}
		sha, err := featurize.SHA256(ctx, n.file(p.models))
		if err != nil {
			return p, err
		}
		info, err := os.Stat(n.file(p.models))
		if err != nil {
			return p, err
		}
		p.networks = append(p.networks, measuredNetwork{n, sha[:12], float64(info.Size()) / 1e6})
	}
	if len(p.networks) == 0 {
		return p, fmt.Errorf("there are no networks in %s: say where they are with --models", p.models)
	}
	return p, nil
}

// rowLimits reads --rows.
func rowLimits(text string) (rows [3]int, err error) {
	fields := strings.Split(text, ",")
	if len(fields) == 1 {
		fields = []string{fields[0], fields[0], fields[0]}
	}
	if len(fields) == 3 {
		for i, f := range fields {
			if rows[i], err = strconv.Atoi(strings.TrimSpace(f)); err != nil || rows[i] < 0 {
				break
			}
		}
	}
	if len(fields) != 3 || err != nil || slices.Min(rows[:]) < 0 {
		return rows, fmt.Errorf("%w: --rows is N or FIT,IN,OUT, whole numbers that are not negative, not %q", errUsage, text)
	}
	return rows, nil
}

// detectionMethods are those that --methods names, or all; those that run the
// network come last.
func detectionMethods(names string, network bool) ([]ood.Method, error) {
	methods := slices.Clone(baselines.All)
	if names != "" {
		methods = nil
		for name := range strings.SplitSeq(names, ",") {
			m, ok := baselines.ByName(name)
			if !ok {
				return nil, fmt.Errorf("%w: there is no method %q; `attach methods` lists them", errUsage, name)
			}
			if slices.ContainsFunc(methods, func(other ood.Method) bool { return other.Name == m.Name }) {
				return nil, fmt.Errorf("%w: --methods names %s twice", errUsage, name)
			}
			methods = append(methods, m)
		}
	}
	if !network {
		methods = slices.DeleteFunc(methods, runsNetwork)
	}
	if len(methods) == 0 {
		return nil, fmt.Errorf("%w: --methods names only methods that run the network, which --network-methods=false leaves out", errUsage)
	}
	slices.SortStableFunc(methods, func(a, b ood.Method) int { return int(indicator(runsNetwork(a)) - indicator(runsNetwork(b))) })
	return methods, nil
}

// useRuntimeBLAS has large products computed by ONNX Runtime until stop is
// called.
func useRuntimeBLAS(ctx context.Context, library string) (stop func(), err error) {
	r, err := ort.Open(ctx, ort.Options{Library: library})
	if err != nil {
		return nil, err
	}
	return r.UseBLAS(), nil
}

// measure fills in the results that are missing, network by network.
func (p detectionPlan) measure(ctx context.Context, s settings, results *store[detectionKey, detectionRecord]) error {
	stop, err := useRuntimeBLAS(ctx, s.library)
	if err != nil {
		return err
	}
	defer stop()
	shown := newProgress(s.stderr, p.parallel)
	jobs := make([][]detectionJob, len(p.networks))
	for i, n := range p.networks {
		for _, m := range p.methods {
			if j := p.job(n, m, results); len(j.configs) > 0 {
				jobs[i] = append(jobs[i], j)
				shown.expect(m.Name, j.cost())
			}
		}
		if len(jobs[i]) > 0 {
			shown.expect("features", n.megabytes)
		}
	}
	id := 0
	for i, n := range p.networks {
		if len(jobs[i]) == 0 {
			continue
		}
		if err := p.measureOne(ctx, s, n, jobs[i], results, shown, id); err != nil {
			return err
		}
		id += len(jobs[i]) + 1
	}
	return nil
}

func (p detectionPlan) measureOne(
	ctx context.Context, s settings, n measuredNetwork, jobs []detectionJob, results *store[detectionKey, detectionRecord], shown *progress, id int,
) error {
	shown.start(id, "features", n.megabytes)
	im, err := p.load(ctx, s, n, func(share float64) { shown.advance(id, share) })
	if err != nil {
		return err
	}
	defer im.model.Close()
	shown.finish(id, n.name+", features")
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(p.parallel)
	for i, j := range jobs {
		at := id + 1 + i
		group.Go(func() error {
			shown.start(at, j.method.Name, j.cost())
			records, err := j.run(ctx, im, func(share float64) { shown.advance(at, share) })
			if err != nil {
				return fmt.Errorf("%s: %w", n.name, err)
			}
			if err := results.add(records); err != nil {
				return err
			}
			shown.finish(at, fmt.Sprintf("%s, %s, %d configurations", n.name, j.method.Name, len(j.configs)))
			return nil
		})
	}
	return group.Wait()
}
