package baselines_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/internal/fitting/classes"
	"github.com/attach-uncertainty/attach/internal/numeric/measure"
	"github.com/attach-uncertainty/attach/ood"
)

var background = context.Background()

// Collect garbage less often. This is faster, because thousands of small fits make much
// garbage but retain little memory.
func init() { debug.SetGCPercent(800) }

// method returns the method with the given name.
func method(name string) ood.Method {
	m, ok := attach.MethodByName(name)
	if !ok {
		panic("no method " + name)
	}
	return m
}

var detectors = slices.DeleteFunc(attach.Methods(), func(m ood.Method) bool { return m.Needs.Targets })

// conformance tests a method against the contract of ood.Method.
type conformance struct {
	ood.Method
	toyRows
	configs []ood.Params
	scorers []*fitting.Scorer // one per element of configs, fitted together
}

// levels are the quantile levels at which interval methods are tested.
var levels = []float64{.001, .1, .3, .5, .9, .999}

// TestConformance checks every method against the contract of ood.Method. It only uses what
// the method declares.
func TestConformance(t *testing.T) {
	for _, all := range [][]ood.Method{baselines.All(), heads.All()} {
		if !slices.IsSortedFunc(all, func(a, b ood.Method) int { return strings.Compare(a.Name, b.Name) }) {
			t.Error("All is not in order")
		}
	}
	data := newToyRows()
	for _, m := range attach.Methods() {
		t.Run(m.Name, func(t *testing.T) { newConformance(t, m, data).check(t) })
	}
}

func newConformance(t *testing.T, m ood.Method, data toyRows) conformance {
	t.Helper()
	c := conformance{Method: m, toyRows: data, configs: configurations(m)}
	training, last := data.training, 0.
	training.Progress = func(share float64) {
		if share < last || share > 1 {
			t.Errorf("progress %v after %v", share, last)
		}
		last = share
	}
	var err error
	if c.scorers, err = fitting.FitGrid(background, m, training, c.configs); err != nil {
		t.Fatal(err)
	}
	if len(c.scorers) != len(c.configs) || last != 1 {
		t.Fatalf("%d scorers of %d configurations, and progress ends at %v", len(c.scorers), len(c.configs), last)
	}
	return c
}

func (c conformance) check(t *testing.T) {
	for _, check := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"description", c.description},
		{"finite", c.finite},
		{"row order", c.rowOrder},
		{"grid", c.grid},
		{"seed", c.seed},
		{"better than chance", c.betterThanChance},
		{"needs", c.needs},
		{"state", c.state},
		{"graph", c.graph},
		{"damaged state", c.damagedState},
		{"concurrent", c.concurrent},
		{"sizes", c.sizes},
		{"cancelled", c.cancelled},
		{"parameters", c.parameters},
		{"targets", c.targets},
		{"input untouched", c.untouched},
		{"not finite", c.notFinite},
		{"huge", c.huge},
		{"degenerate", c.degenerate},
		{"wide", c.wide},
	} {
		t.Run(check.name, check.run)
	}
}

// configurations returns the default and some configurations of the sweep. It reduces sizes
// so that fits are fast.
func configurations(m ood.Method) []ood.Params {
	all := fitting.Grid(m)
	configs := []ood.Params{fitting.Default(m)}
	for i := 0; i < len(all); i += 1 + len(all)/4 {
		p, err := fitting.With(m, all[i])
		if err != nil {
			panic(err)
		}
		configs = append(configs, p)
	}
	for _, p := range configs {
		for name, most := range map[string]float64{"hidden": 8, "n_estimators": 20} {
			if v, ok := p[name].(float64); ok {
				p[name] = min(v, most)
			}
		}
	}
	return configs
}

func (c conformance) fit(t *testing.T, training ood.Training, p ood.Params) *fitting.Scorer {
	t.Helper()
	s, err := fitting.Fit(background, c.Method, training, p)
	if err != nil {
		t.Fatalf("fit %v: %v", p, err)
	}
	return s
}

// refit fits the first configuration to the given training data.
func (c conformance) refit(training ood.Training) (*fitting.Scorer, error) {
	return fitting.Fit(background, c.Method, training, c.configs[0])
}

// intersect returns the needs that are both in n and in the needs of the method.
func (c conformance) intersect(n ood.Needs) ood.Needs {
	all, has := reflect.ValueOf(&n).Elem(), reflect.ValueOf(c.Needs)
	for i := range all.NumField() {
		all.Field(i).SetBool(all.Field(i).Bool() && has.Field(i).Bool())
	}
	return n
}

func score(t *testing.T, s *fitting.Scorer, b ood.Batch) []float64 {
	t.Helper()
	got, err := s.Score(background, nil, b)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != b.Len() {
		t.Fatalf("%d scores of %d rows", len(got), b.Len())
	}
	return got
}

// predictions returns the scores of a detector, or the quantiles of an interval model
// ordered by row, then by target, then by level.
func predictions(t *testing.T, s *fitting.Scorer, b ood.Batch, levels []float64) []float64 {
	t.Helper()
	if !s.Method().Needs.Targets {
		return score(t, s, b)
	}
	var all []float64
	for _, v := range s.Quantiles(b.Features, levels).Data {
		all = append(all, float64(v))
	}
	return all
}

func (c conformance) predict(t *testing.T, s *fitting.Scorer, b ood.Batch) []float64 {
	t.Helper()
	return predictions(t, s, b, levels)
}

// perRow returns the number of predictions for a row.
func (c conformance) perRow() int {
	if c.Needs.Targets {
		return c.training.Targets.Cols * len(levels)
	}
	return 1
}

// at returns the predictions for row i.
func (c conformance) at(all []float64, i int) []float64 { return all[i*c.perRow() : (i+1)*c.perRow()] }

func nearlyEqual(a, b []float64, tolerance float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool {
		return math.Abs(x-y) <= tolerance*max(math.Abs(x), math.Abs(y), 1e-3)
	})
}

// nearlyEqual reports whether predictions are nearly equal. It tolerates rounding: results of
// matrix products depend on the position of a row, and float32 quantiles are differences of
// larger numbers.
func (c conformance) nearlyEqual(a, b []float64) bool {
	if c.Needs.Targets {
		return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Abs(x-y) <= 1e-5*max(math.Abs(x), 1) })
	}
	return nearlyEqual(a, b, 1e-6)
}

func finite(all []float64) bool {
	return !slices.ContainsFunc(all, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
}

var methodName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

func (c conformance) description(t *testing.T) {
	if !methodName.MatchString(c.Name) {
		t.Errorf("name %q", c.Name)
	}
	if found, ok := attach.MethodByName(c.Name); !ok || found.Doc != c.Doc {
		t.Error("MethodByName finds another method")
	}
	if !strings.HasSuffix(c.Doc, ".") || len(c.Doc) < 20 || c.Ref == "" {
		t.Errorf("doc %q, reference %q", c.Doc, c.Ref)
	}
	seen := map[string]bool{}
	for _, p := range fitting.Grid(c.Method) {
		if seen[p.String()] {
			t.Errorf("%v is twice in the grid", p)
		}
		seen[p.String()] = true
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var back ood.Params
		if err := json.Unmarshal(b, &back); err != nil || back.String() != p.String() {
			t.Errorf("%v is %v after JSON (%v)", p, back, err)
		}
	}
}

func (c conformance) finite(t *testing.T) {
	for k, s := range c.scorers {
		for _, b := range []ood.Batch{c.training.Batch, c.in, c.out} {
			all := c.predict(t, s, b)
			if !finite(all) {
				t.Fatalf("%v: not all of %v are finite", c.configs[k], all)
			}
			if !c.Needs.Targets {
				continue
			}
			for q := range slices.Chunk(all, len(levels)) {
				if !slices.IsSorted(q) {
					t.Fatalf("%v: quantiles %v cross", c.configs[k], q)
				}
			}
		}
	}
}

func (c conformance) rowOrder(t *testing.T) {
	n := c.out.Len()
	indices := make([]int, n)
	for i := range indices {
		indices[i] = n - 1 - i
	}
	picked := c.out.Select(indices)
	reversed := batchparts.Map(picked, strided)
	reversed.Labels, reversed.Inputs = picked.Labels, picked.Inputs
	for k, s := range c.scorers {
		want, got := c.predict(t, s, c.out), c.predict(t, s, reversed)
		for i := range n {
			if !c.nearlyEqual(c.at(got, n-1-i), c.at(want, i)) {
				t.Fatalf("%v: row %d depends on the order of rows or on the stride", c.configs[k], i)
			}
		}
		for i := range 5 {
			if alone := c.predict(t, s, c.out.Slice(i, i+1)); !c.nearlyEqual(alone, c.at(want, i)) {
				t.Errorf("%v: row %d alone has %v, with others %v", c.configs[k], i, alone, c.at(want, i))
			}
			if level := i + 1; c.Needs.Targets && !c.nearlyEqual(predictions(t, s, c.out.Slice(i, i+1), levels[level:level+1])[:1], c.at(want, i)[level:level+1]) {
				t.Errorf("%v: level %v of row %d depends on the levels beside it", c.configs[k], levels[level], i)
			}
		}
	}
}

// grid checks that fitting and scoring several configurations together gives the same
// predictions as fitting and scoring each separately.
func (c conformance) grid(t *testing.T) {
	var together [][]float64
	if !c.Needs.Targets {
		var err error
		if together, err = fitting.ScoreGrid(background, c.scorers, c.out, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range c.configs {
		want := c.predict(t, c.fit(t, c.training, p), c.out)
		if !c.nearlyEqual(c.predict(t, c.scorers[i], c.out), want) {
			t.Errorf("%v: it scores differently if it is fitted together with others", p)
		}
		if together != nil && !nearlyEqual(together[i], want, 1e-6) {
			t.Errorf("%v: it scores differently if it is scored together with others", p)
		}
	}
}

func (c conformance) seed(t *testing.T) {
	otherSeed := c.training
	otherSeed.Seed++
	for _, p := range c.configs {
		want := c.predict(t, c.fit(t, c.training, p), c.out)
		if !slices.Equal(c.predict(t, c.fit(t, c.training, p), c.out), want) {
			t.Errorf("%v: two fits with one seed differ", p)
		}
		if c.Needs == (ood.Needs{}) && slices.Equal(c.predict(t, c.fit(t, otherSeed, p), c.out), want) {
			t.Errorf("%v: the method reads nothing, but the seed does not change the scores", p)
		}
	}
}

// betterThanChance checks that a detector separates OOD rows from in-distribution rows, or
// that an interval method predicts better than constant quantiles. A control that sees no
// OOD rows must not separate them.
func (c conformance) betterThanChance(t *testing.T) {
	training := c.many
	if c.Needs.Targets {
		training = c.spread
	}
	p := c.configs[0]
	if c.Needs.Trainer {
		training.Trainer = engine(t)
		p = nil // use the default, because the 8 hidden units of configurations are too few
		// The loss of quality-driven needs the default of 10,000 steps. Other methods learn
		// faster.
		if fitting.Default(c.Method)["epochs"] == 0. && c.Name != "quality-driven" {
			p = ood.Params{"epochs": 40.}
		}
	}
	s := c.fit(t, training, p)
	if c.Needs.Targets {
		y, all := c.outTargets, training.Targets
		q := s.Quantiles(c.out.Features, training.Levels)
		for target := range y.Cols {
			var column []float32
			for i := range all.Rows {
				column = append(column, all.Data[i*all.Stride+target])
			}
			slices.Sort(column)
			var loss, constant float64
			for i := range y.Rows {
				for l, tau := range training.Levels {
					v := float64(y.Data[i*y.Stride+target])
					pinball := func(q float64) float64 { return max(tau*(v-q), (tau-1)*(v-q)) }
					loss += pinball(float64(q.Row(i, target)[l]))
					constant += pinball(float64(column[int(tau*float64(len(column)))]))
				}
			}
			if loss > .7*constant {
				t.Errorf("target %d: the loss is %.3f, and that of constant quantiles %.3f", target, loss, constant)
			}
		}
		return
	}
	auroc, err := measure.AUROC(score(t, s, c.in), score(t, s, c.out))
	if err != nil {
		t.Fatal(err)
	}
	switch blind := c.Control && !c.Needs.Outliers; {
	case blind && (auroc < .35 || auroc > .65):
		t.Errorf("AUROC of a control is %.3f", auroc)
	case !blind && auroc < .75:
		t.Errorf("AUROC %.3f", auroc)
	}
}

func (c conformance) needs(t *testing.T) {
	sufficient := c.training
	for need, remove := range map[ood.Needs]func(*ood.Training){
		{Features: true}: func(t *ood.Training) { t.Features = blas32.General{} },
		{Logits: true}:   func(t *ood.Training) { t.Logits = blas32.General{} },
		{Labels: true}:   func(t *ood.Training) { t.Labels = nil },
		{Weights: true}:  func(t *ood.Training) { t.Last = nil },
		{Trainer: true}:  func(t *ood.Training) { t.Trainer = nil },
		{Outliers: true}: func(t *ood.Training) { t.Outliers = ood.Batch{} },
		{Layers: true}:   func(t *ood.Training) { t.Layers = nil },
		{Targets: true}:  func(t *ood.Training) { t.Targets = blas32.General{} },

		{Network: true, Dropout: true}: func(t *ood.Training) { t.Network = nil },
		{Levels: true, Ends: true}:     func(t *ood.Training) { t.Levels = nil },
	} {
		if need = c.intersect(need); need == (ood.Needs{}) {
			remove(&sufficient)
			continue
		}
		lacking := c.training
		remove(&lacking)
		_, err := c.refit(lacking)
		var absent *ood.NeedError
		if !errors.As(err, &absent) || absent.Need != need || !strings.Contains(err.Error(), `"`+c.Name+`" needs `+need.String()) {
			t.Errorf("without %v: %v", need, err)
		}
	}
	sufficient.Inputs = nil
	var absent *ood.NeedError
	if _, err := c.refit(sufficient); c.Needs != (ood.Needs{}) && err != nil && !errors.Is(err, classes.ErrNoClasses) && !(errors.As(err, &absent) && absent.Need.Inputs) {
		t.Errorf("does not fit with only what it needs: %v", err)
	}
	s := c.scorers[0]
	if c.Needs.Targets {
		return
	}
	if _, err := s.Score(background, nil, ood.Batch{}); err == nil && c.Needs != (ood.Needs{}) {
		t.Error("scores an empty batch")
	}
	bare := c.out
	bare.Inputs = nil
	if _, err := s.Score(background, nil, bare); c.Needs.Inputs && (!errors.As(err, &absent) || !absent.Need.Inputs) {
		t.Errorf("without inputs it scores (%v)", err)
	}
}

func (c conformance) concurrent(t *testing.T) {
	want := c.predict(t, c.scorers[0], c.out)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if !slices.Equal(c.predict(t, c.scorers[0], c.out), want) {
				t.Error("concurrent calls give different scores")
			}
		})
	}
	wg.Wait()
}

func (c conformance) sizes(t *testing.T) {
	s := c.scorers[0]
	if got := c.predict(t, s, c.out.Slice(0, 0)); len(got) != 0 {
		t.Errorf("no rows have scores %v", got)
	}
	panics := func(what string, f func()) {
		defer func() {
			if recover() == nil {
				t.Errorf("no panic at %s", what)
			}
		}()
		f()
	}
	if c.Needs.Targets {
		panics("rows of the wrong width", func() { s.Quantiles(zeros(2, toyWidth+1), levels) })
		return
	}
	dst := slices.Repeat([]float64{math.NaN()}, c.out.Len())
	got, err := s.Score(background, dst, c.out)
	if err != nil {
		t.Fatal(err)
	}
	if &got[0] != &dst[0] || !slices.Equal(got, score(t, s, c.out)) {
		t.Error("the scores are not in dst")
	}
	for _, cols := range []int{1, toyWidth - 1, toyWidth + 1} {
		b := ood.Batch{Features: zeros(4, cols), Logits: zeros(4, cols+20)}
		if _, err := s.Score(background, nil, b); err == nil && c.Needs != (ood.Needs{}) {
			t.Errorf("scores rows of %d features and %d logits", cols, cols+20)
		}
	}
	panics("a dst of the wrong length", func() { _, _ = s.Score(background, make([]float64, 3), c.out) })
}

func (c conformance) cancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	cancel()
	if _, err := fitting.Fit(ctx, c.Method, c.training, c.configs[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("fit: %v", err)
	}
	if c.Needs.Targets {
		return
	}
	if _, err := c.scorers[0].Score(ctx, nil, c.out); !errors.Is(err, context.Canceled) {
		t.Errorf("score: %v", err)
	}
}

// bound matches a bound of a parameter in an error message.
var bound = regexp.MustCompile(`(at least|above|at most|below) (-?[0-9.e+-]*[0-9])`)

// parameters checks that parameters are accepted exactly within the bounds that error
// messages state, and that missing parameters get their defaults.
func (c conformance) parameters(t *testing.T) {
	refused := func(name string, v any) {
		t.Helper()
		if _, err := fitting.Fit(background, c.Method, c.training, ood.Params{name: v}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s = %v: %v", name, v, err)
		}
	}
	refused("nonsense", 1.)
	for name, defaultValue := range fitting.Default(c.Method) {
		for _, v := range []any{"nonsense", -3., math.NaN(), math.Inf(1), []int{1}, nil} {
			refused(name, v)
		}
		if _, ok := defaultValue.(float64); !ok {
			continue
		}
		_, err := fitting.With(c.Method, ood.Params{name: math.NaN()})
		message := strings.ReplaceAll(err.Error(), "a fraction below 1", "a fraction")
		if strings.Contains(message, "whole number") && !strings.Contains(message, "fraction") {
			refused(name, defaultValue.(float64)+.5)
		}
		for _, b := range bound.FindAllStringSubmatch(message, -1) {
			v, err := strconv.ParseFloat(b[2], 64)
			if err != nil {
				t.Fatal(err)
			}
			switch b[1] {
			case "at least":
				refused(name, v-1)
			case "at most":
				refused(name, v+1)
			default:
				refused(name, v)
				continue
			}
			if _, err := fitting.With(c.Method, ood.Params{name: v}); err != nil {
				t.Errorf("%s is %s %v, and: %v", name, b[1], v, err)
			}
		}
	}
	// Missing parameters must get their defaults.
	if !slices.Equal(c.predict(t, c.fit(t, c.training, nil), c.out), c.predict(t, c.fit(t, c.training, fitting.Default(c.Method)), c.out)) {
		t.Error("without parameters it does not use the defaults")
	}
}

// targets checks that invalid targets and levels are rejected.
func (c conformance) targets(t *testing.T) {
	if !c.Needs.Targets {
		return
	}
	for what, change := range map[string]func(*ood.Training){
		"fewer targets than rows": func(t *ood.Training) { t.Targets.Rows-- },
		"a level of 0":            func(t *ood.Training) { t.Levels = []float64{0, .5} },
		"a level of 1":            func(t *ood.Training) { t.Levels = []float64{.1, 1} },
		"a level twice":           func(t *ood.Training) { t.Levels = []float64{.1, .1} },
	} {
		training := c.training
		change(&training)
		if _, err := c.refit(training); err == nil {
			t.Errorf("%s: it fits", what)
		}
	}
	threeLevels := c.training
	threeLevels.Levels = []float64{.1, .5, .9}
	if _, err := c.refit(threeLevels); c.Needs.Ends != (err != nil) {
		t.Errorf("three levels: %v", err)
	}
}

func (c conformance) untouched(t *testing.T) {
	snapshot := func() []byte {
		b, err := json.Marshal([]any{c.training.Batch, c.training.Targets, c.in})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	before := snapshot()
	c.predict(t, c.fit(t, c.training, c.configs[0]), c.in)
	if !bytes.Equal(before, snapshot()) {
		t.Error("fit or score changes its input")
	}
	// A fitted method must not depend on later changes of its training rows.
	copied := c.training
	copied.Batch, copied.Targets = batchparts.Map(c.training.Batch, strided), strided(c.training.Targets)
	copied.Labels, copied.Inputs, copied.Network = c.training.Labels, c.training.Inputs, c.training.Network
	s := c.fit(t, copied, c.configs[0])
	want := c.predict(t, s, c.in)
	for _, p := range batchparts.Of(&copied.Batch) {
		clear(p.Data)
	}
	if !slices.Equal(c.predict(t, s, c.in), want) {
		t.Error("the scorer shares memory with the training rows")
	}
}

// withValue returns a copy of m with the value v in one row.
func withValue(m blas32.General, row int, v float64) blas32.General {
	m = strided(m)
	m.Data[row*m.Stride+1] = float32(v)
	return m
}

func (c conformance) notFinite(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for need, spoil := range map[ood.Needs]func(*ood.Training){
			{Features: true}: func(t *ood.Training) { t.Features = withValue(t.Features, 17, v) },
			{Logits: true}:   func(t *ood.Training) { t.Logits = withValue(t.Logits, 17, v) },
			{Layers: true}:   func(t *ood.Training) { t.Layers = []blas32.General{t.Layers[0], withValue(t.Layers[1], 17, v)} },
			{Outliers: true}: func(t *ood.Training) { t.Outliers.Features = withValue(t.Outliers.Features, 17, v) },
			{Targets: true}:  func(t *ood.Training) { t.Targets = withValue(t.Targets, 17, v) },
		} {
			training := c.training
			spoil(&training)
			var broken *rows.NotFiniteError
			if _, err := c.refit(training); c.intersect(need) == need && (!errors.As(err, &broken) || broken.Row != 17) {
				t.Errorf("%v in row 17 of %v to fit with: %v", v, need, err)
			}
		}
	}
	// When rows are scored, NaN in one row must not affect other rows.
	b := batchparts.Map(c.in, func(m blas32.General) blas32.General { return withValue(m, 3, math.NaN()) })
	for x, err := range c.in.Inputs.Blocks(background, c.in.Len()) {
		if err != nil {
			t.Fatal(err)
		}
		data := slices.Clone(x.Tensors[0].Data)
		data[3*len(data)/x.Len()] = float32(math.NaN())
		b.Inputs = ood.BlockOf(x.Tensors[0].Shape, data)
	}
	want, got := c.predict(t, c.scorers[0], c.in), c.predict(t, c.scorers[0], b)
	for i := range c.in.Len() {
		switch at := c.at(got, i); {
		case i == 3 && c.Needs != (ood.Needs{}) && slices.ContainsFunc(at, func(v float64) bool { return !math.IsNaN(v) }):
			t.Errorf("a row with NaN has %v", at)
		case i != 3 && !c.nearlyEqual(at, c.at(want, i)):
			t.Errorf("NaN in row 3 changes row %d", i)
		}
	}
}

// huge checks that no row of finite numbers scores −Inf, however large the numbers are. The
// score may be NaN if arithmetic overflows, because package attach flags NaN.
func (c conformance) huge(t *testing.T) {
	shapes := map[string]func(v float32, i, j int) float32{
		"all":         func(v float32, _, _ int) float32 { return v },
		"alternating": func(v float32, i, j int) float32 { return v * float32(1-(i+j)%2*2) },
		"one": func(v float32, i, j int) float32 {
			if i == j {
				return v
			}
			return 0
		},
	}
	for k, s := range c.scorers {
		for _, v := range []float32{1e-38, 1e20, 3e38, -3e38} {
			for name, value := range shapes {
				few := c.in.Slice(0, 3)
				both := batchparts.Map(few, func(m blas32.General) blas32.General {
					m = strided(m)
					for i := range m.Rows {
						for j := range m.Cols {
							m.Data[i*m.Stride+j] = value(v, i, j)
						}
					}
					return m
				})
				both.Labels, both.Inputs = few.Labels, few.Inputs
				features := both
				features.Logits = few.Logits
				for _, b := range []ood.Batch{features, both} {
					if got := c.predict(t, s, b); !c.Needs.Targets && slices.Contains(got, math.Inf(-1)) {
						t.Errorf("%v: rows of %v (%s) score %v", c.configs[k], v, name, got)
					}
				}
			}
		}
	}
}

// degenerate checks fits to rows with a singular covariance. It also checks that scores of
// unusual rows are finite: zeros, equal features, the mean, and logits beyond the range of
// exp.
func (c conformance) degenerate(t *testing.T) {
	unusual := batchparts.Map(c.in.Slice(0, 5), func(m blas32.General) blas32.General { return zeros(m.Rows, m.Cols) })
	unusual.Inputs = c.in.Slice(0, 5).Inputs
	for j := range toyWidth {
		unusual.Features.Data[toyWidth+j] = 1
		for i := range c.training.Len() {
			unusual.Features.Data[2*toyWidth+j] += c.training.Features.Data[i*toyWidth+j] / float32(c.training.Len())
		}
	}
	copy(unusual.Logits.Data[3*toyClasses:], []float32{3000, 3000, 3000, 3e4, -3e4, 0})
	for k, s := range c.scorers {
		if all := c.predict(t, s, unusual); !finite(all) {
			t.Errorf("%v: odd rows have %v", c.configs[k], all)
		}
	}
	for _, d := range []struct {
		name    string
		rows    int
		mustFit bool
		change  func(row []float32)
	}{
		{"a dead and a doubled feature", 60, true, func(row []float32) { row[3], row[5] = 0, row[4] }},
		{"a feature of another scale", 60, true, func(row []float32) { row[3] *= 1e4 }},
		{"fewer rows than features", 5, false, func([]float32) {}},
		{"one row", 1, false, func([]float32) {}},
		{"equal rows", 20, false, func(row []float32) { clear(row); row[1] = 1 }},
		{"zeros", 20, false, func(row []float32) { clear(row) }},
	} {
		training := c.training
		training.Batch, training.Targets = training.Batch.Slice(0, d.rows), rows.Slice(training.Targets, 0, d.rows)
		changed := batchparts.Map(training.Batch, strided)
		changed.Labels, changed.Inputs, changed.Network = training.Labels, training.Inputs, training.Network
		for _, p := range batchparts.Of(&changed) {
			for i := range d.rows {
				if p.Name == "features" || !d.mustFit {
					d.change(rows.Row(*p.General, i))
				}
			}
		}
		training.Batch = changed
		s, err := c.refit(training)
		if err != nil {
			if d.mustFit || err.Error() == "" {
				t.Errorf("%s: %v", d.name, err)
			}
			continue
		}
		for _, b := range []ood.Batch{c.in, c.out, training.Batch} {
			if all := c.predict(t, s, b); !finite(all) {
				t.Errorf("%s: not all of %v are finite", d.name, all)
			}
		}
	}
}

// wide checks that a method declares Memory if its fit allocates a matrix with one row and
// one column per feature.
func (c conformance) wide(t *testing.T) {
	const width, n = 9000, 12
	rng := rand.New(rand.NewPCG(3, 3))
	draw := func(n int) blas32.General {
		x := zeros(n, width)
		for i := range x.Data {
			x.Data[i] = rng.Float32()
		}
		return x
	}
	wide := c.training
	wide.Batch, wide.Targets = wide.Batch.Slice(0, n), rows.Slice(wide.Targets, 0, n)
	wide.Outliers = wide.Outliers.Slice(0, n)
	wide.Features, wide.Layers, wide.Outliers.Features = draw(n), []blas32.General{draw(n)}, draw(n)
	wide.Last = &ood.Linear{Weight: draw(toyClasses), Bias: make([]float32, toyClasses)}
	if err := fitting.Check(c.Method, wide, fitting.Default(c.Method)); err != nil {
		if !errors.Is(err, fitting.ErrMemory) || !strings.Contains(err.Error(), strconv.Quote(c.Name)) {
			t.Error(err)
		}
		return
	}
	if fitting.Memory(c.Method, wide, nil) > width*width {
		return // Memory covers such a matrix
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c.fit(t, wide, c.configs[0])
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 8*width*width {
		t.Errorf("the fit of %d rows of %d features takes %d MB, but the method does not declare Memory", n, width, used>>20)
	}
}

// TestFusedBindsItsComponents checks that a fusion needs the network if one of its
// components runs the network.
func TestFusedBindsItsComponents(t *testing.T) {
	geometrical := method("geometrical")
	m := heads.Fused("with-network", "fisher", heads.Component{Method: geometrical}, heads.Component{Method: method("certificates")})
	if m.Needs != fitting.Union(geometrical.Needs, ood.Needs{Features: true}) {
		t.Errorf("needs %v", m.Needs)
	}
	c := newConformance(t, m, newToyRows())
	c.state(t)
	c.Method = method("fused")
	if c.fit(t, c.training, nil).Method().Needs.Network {
		t.Error("a method that does not run the network is bound to one")
	}
}
