package compare

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/internal/fitting/binarylogit"
	"github.com/attach-uncertainty/attach/ood"
)

// Options holds the methods and the data of a comparison.
type Options struct {
	Methods  []ood.Method
	Training ood.Training
	Test     ood.Batch // in-distribution rows that no method was fitted with
	OOD      ood.Batch // out-of-distribution rows
	// OODSets are several sets of out-of-distribution rows, instead of OOD. Each method is
	// fitted once for all of them.
	OODSets []OODSet
	// OutlierFraction is the fraction of the out-of-distribution rows of each set that methods
	// that need outliers are fitted with, and not measured on. Training.Seed draws them. 0
	// stands for 0.5. If Training.Outliers are given, such methods are fitted with these and
	// measured on all rows, which must not include them.
	OutlierFraction float64
	// Sweep fits the whole grid of each method, and not only its default.
	Sweep bool
	// Parallel is the number of methods fitted and scored at a time. Values below 1 mean 1.
	// Larger values change the reported times, and no other result.
	Parallel int
	// Resamples is the number of bootstrap resamples for confidence intervals, drawn by
	// Training.Seed. 0 means no intervals.
	Resamples int
	// Progress, if not nil, is called with the name of a method and the fraction of its work
	// that is done, by one goroutine at a time.
	Progress func(method string, share float64)

	memory *semaphore.Weighted // bytes for concurrent fits
}

// errPanicked ends the work of other methods.
var errPanicked = errors.New("a method panicked")

// Run fits every method and scores the in-distribution and out-of-distribution rows with it. A
// classifier with a single logit z is treated as one with the logits 0 and z.
//
// The report lists a method as skipped, with the reason, if the data or the model lack what
// it needs, and a configuration as failed if it cannot be fitted or scored. Run returns an
// error if rows do not fit together or if the context is cancelled. If a method panics, Run
// panics too.
func Run(ctx context.Context, c Options) (*Report, error) {
	c = c.withTwoLogits()
	if err := c.validate(); err != nil {
		return nil, err
	}
	c.Training.MayRetain = true
	c.memory = semaphore.NewWeighted(rows.MostMemory)
	r := &Report{
		FitRows: c.Training.Len(), TestRows: c.Test.Len(),
		Sweep: c.Sweep, Seed: c.Training.Seed, Resamples: max(c.Resamples, 0),
		Methods: []MethodReport{}, Skipped: []Skipped{}, Wrong: misclassified(c.Test),
	}
	for _, s := range c.oodSets() {
		r.OODRows += s.Len()
		if s.Name != "" {
			r.OODSets = append(r.OODSets, Set{Name: s.Name, Group: s.Group, Rows: s.Len()})
		}
	}
	if r.Wrong != nil {
		rate := fractionTrue(r.Wrong)
		r.ErrorRate = &rate
	}
	var todo []*work
	var mu sync.Mutex
	for _, m := range c.Methods {
		c, err := c.withOutliers(m)
		if err == nil {
			err = c.check(m)
		}
		if err != nil {
			r.Skipped = append(r.Skipped, Skipped{Name: m.Name, Reason: err.Error()})
			continue
		}
		w := c.plan(m, r.Wrong)
		if c.Progress != nil {
			w.progress = func(share float64) {
				mu.Lock()
				defer mu.Unlock()
				c.Progress(m.Name, share)
			}
		}
		todo = append(todo, w)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(c.Parallel, 1))
	for _, w := range todo {
		g.Go(func() (err error) {
			defer func() {
				if p := recover(); p != nil {
					w.panicked = fmt.Sprintf("method %q: %v\n\n%s", w.m.Name, p, debug.Stack())
					err = errPanicked
				}
			}()
			return w.run(ctx)
		})
	}
	err := g.Wait()
	for _, w := range todo {
		if w.panicked != "" {
			panic(w.panicked)
		}
	}
	if err != nil {
		return nil, err
	}
	for _, w := range todo {
		r.Methods = append(r.Methods, w.report())
	}
	r.skipUnable()
	return r, nil
}

// withTwoLogits turns the single logit of a binary classifier into two.
func (c Options) withTwoLogits() Options {
	if c.Training.Regression || c.Training.Logits.Cols != 1 {
		return c
	}
	c.Training, c.Test, c.OOD, c.OODSets = binarylogit.Training(c.Training), binarylogit.Batch(c.Test), binarylogit.Batch(c.OOD), slices.Clone(c.OODSets)
	for i := range c.OODSets {
		c.OODSets[i].Batch = binarylogit.Batch(c.OODSets[i].Batch)
	}
	return c
}

// misclassified returns, for each row, whether the predicted class differs from the label. It is
// nil if the batch lacks labels or logits.
func misclassified(b ood.Batch) []bool {
	if b.Labels == nil || b.Logits.Cols == 0 {
		return nil
	}
	wrong := make([]bool, b.Len())
	for i, top := range rows.Argmax(b.Logits) {
		wrong[i] = top != b.Labels[i]
	}
	return wrong
}

func fractionTrue(wrong []bool) float64 {
	n := 0
	for _, w := range wrong {
		if w {
			n++
		}
	}
	return float64(n) / float64(len(wrong))
}

// skipUnable moves methods from the results to the skipped ones if fitting showed that the
// model or the data lack what they need.
func (r *Report) skipUnable() {
	r.Methods = slices.DeleteFunc(r.Methods, func(m MethodReport) bool {
		if m.unsupported == nil || len(m.Configs) > 0 {
			return false
		}
		named := fmt.Sprintf("method %q", m.Name)
		reason := m.unsupported.Error()
		if !strings.HasPrefix(reason, named) {
			reason = named + ": " + reason
		}
		r.Skipped = append(r.Skipped, Skipped{Name: m.Name, Reason: reason})
		return true
	})
}

func (c Options) validate() error {
	if err := c.checkOODSets(); err != nil {
		return err
	}
	type named struct {
		name string
		b    ood.Batch
	}
	given := []named{{"fit rows", c.Training.Batch}, {"in-distribution rows", c.Test}}
	for _, s := range c.oodSets() {
		given = append(given, named{s.describe(), s.Batch})
	}
	layers := slices.ContainsFunc(c.Methods, func(m ood.Method) bool { return m.Needs.Layers })
	read := func(b ood.Batch) batchparts.Widths {
		if !layers {
			b.Layers = nil
		}
		return batchparts.Of(&b).Widths()
	}
	want := read(c.Training.Batch)
	for _, part := range given {
		if err := batchparts.Validate(part.b); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		if part.b.Len() == 0 {
			return fmt.Errorf("%s: there are none", part.name)
		}
		if err := read(part.b).Check(want, part.name, "the fit rows have"); err != nil {
			return err
		}
	}
	if !(c.OutlierFraction >= 0 && c.OutlierFraction < 1) {
		return fmt.Errorf("the fraction of out-of-distribution rows to fit oracles with is %v; it must be at least 0 and below 1", c.OutlierFraction)
	}
	if err := batchparts.Validate(c.Training.Outliers); err != nil {
		return fmt.Errorf("out-of-distribution rows to fit with: %w", err)
	}
	return nil
}

func (c Options) check(m ood.Method) error {
	// Too much memory is a failure of single configurations, and not of the method.
	if need, ok := errors.AsType[*ood.NeedError](fitting.Check(m, c.Training, nil)); ok {
		return need
	}
	if err := fitting.CheckBatch(m, c.Test, "the rows to score"); err != nil {
		return err
	}
	for _, s := range c.oodSets() {
		where := "the rows to score"
		if s.Name != "" {
			where = "the rows of " + s.Name
		}
		if err := fitting.CheckBatch(m, s.Batch, where); err != nil {
			return err
		}
	}
	return nil
}
