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

// Options holds the methods, the data and the choices of a comparison.
type Options struct {
	Methods  []ood.Method
	Training ood.Training
	Test     ood.Batch // in-distribution rows that no method is fitted on
	OOD      ood.Batch // out-of-distribution rows, if there is only one set
	// OODSets holds several sets of out-of-distribution rows, instead of OOD. Each method is
	// fitted once for all sets.
	OODSets []OODSet
	// OutlierFraction is the fraction of each out-of-distribution set that is reserved for
	// fitting oracles, which need outliers. Training.Seed determines which rows are
	// reserved. Oracles are measured on the rest of the set. 0 means 0.5. If
	// Training.Outliers is given, oracles are fitted on it and measured on all
	// out-of-distribution rows. Training.Outliers and the sets must then have no rows in
	// common.
	OutlierFraction float64
	// Sweep fits all configurations of the grid of each method. Otherwise only the default
	// configuration is fitted.
	Sweep bool
	// Parallel is the number of methods that run at the same time. Values below 1 mean 1. It
	// changes only the reported times.
	Parallel int
	// Resamples is the number of bootstrap resamples for confidence intervals. Training.Seed
	// determines the resamples. 0 means no intervals.
	Resamples int
	// Progress, if not nil, is called with the name of a method and the fraction of its work
	// that is done. Calls do not overlap.
	Progress func(method string, fraction float64)

	memory *semaphore.Weighted // limits the bytes that concurrent fits use
}

// errPanicked cancels the work on other methods after a method panicked.
var errPanicked = errors.New("a method panicked")

// Run fits every method, and scores the in-distribution and the out-of-distribution rows with
// it. The single logit z of a binary classifier is replaced by the two logits 0 and z.
//
// The report lists a method as skipped, with the reason, if the data or the model lack
// what the method needs, or if no configuration fits into memory. It lists a configuration
// as failed if it cannot be fitted or scored. Run returns an error if the options are
// invalid, if the parts of the data do not match, or if the context is cancelled. If a
// method panics, Run panics with the same message.
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
	var pending []*methodRun
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
		w := c.newMethodRun(m, r.Wrong)
		if c.Progress != nil {
			w.progress = func(fraction float64) {
				mu.Lock()
				defer mu.Unlock()
				c.Progress(m.Name, fraction)
			}
		}
		pending = append(pending, w)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(c.Parallel, 1))
	for _, w := range pending {
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
	for _, w := range pending {
		if w.panicked != "" {
			panic(w.panicked)
		}
	}
	if err != nil {
		return nil, err
	}
	for _, w := range pending {
		r.Methods = append(r.Methods, w.report())
	}
	r.skipUnsupported()
	return r, nil
}

// withTwoLogits replaces the single logit z of a binary classifier by the two logits 0 and z,
// in all rows.
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

// misclassified reports, for each row, whether the predicted class differs from the label. It
// returns nil if the batch lacks labels or logits.
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

// skipUnsupported moves methods without a result from the results to the skipped methods
// if fitting showed that the model does not support them or that memory does not suffice.
func (r *Report) skipUnsupported() {
	r.Methods = slices.DeleteFunc(r.Methods, func(m MethodReport) bool {
		if m.unsupported == nil || len(m.Configs) > 0 {
			return false
		}
		prefix := fmt.Sprintf("method %q", m.Name)
		reason := m.unsupported.Error()
		if !strings.HasPrefix(reason, prefix) {
			reason = prefix + ": " + reason
		}
		r.Skipped = append(r.Skipped, Skipped{Name: m.Name, Reason: reason})
		return true
	})
}

func (c Options) validate() error {
	if err := c.checkOODSets(); err != nil {
		return err
	}
	type namedBatch struct {
		name string
		b    ood.Batch
	}
	parts := []namedBatch{{"fit rows", c.Training.Batch}, {"in-distribution rows", c.Test}}
	for _, s := range c.oodSets() {
		parts = append(parts, namedBatch{s.describe(), s.Batch})
	}
	needLayers := slices.ContainsFunc(c.Methods, func(m ood.Method) bool { return m.Needs.Layers })
	widthsOf := func(b ood.Batch) batchparts.Widths {
		if !needLayers {
			b.Layers = nil
		}
		return batchparts.Of(&b).Widths()
	}
	want := widthsOf(c.Training.Batch)
	for _, part := range parts {
		if err := batchparts.Validate(part.b); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		if part.b.Len() == 0 {
			return fmt.Errorf("%s: there are none", part.name)
		}
		if err := widthsOf(part.b).Check(want, part.name, "the fit rows have"); err != nil {
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
	// Only a NeedError concerns the whole method. Other errors, for example too little memory,
	// concern single configurations.
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
