package ood

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/attach-uncertainty/attach/internal/parts"
	"github.com/attach-uncertainty/attach/internal/rows"
)

// Detector is what the fit of a detector returns.
type Detector interface {
	// Score writes one score per row of b to dst, which has as many elements.
	// The rows have what the method needs, with the widths that it was fitted
	// with; they may not be finite.
	Score(ctx context.Context, dst []float64, b Batch) error
}

// Fit fits one configuration of a method; parameters that p lacks have their
// defaults. Rows that lack what the method needs are a *NeedError, and other
// errors say what is wrong with rows or parameters.
func Fit(ctx context.Context, m Method, t Training, p Params) (*Scorer, error) {
	fitted, err := FitGrid(ctx, m, t, []Params{p})
	if err != nil {
		return nil, err
	}
	return fitted[0], nil
}

// FitGrid fits several configurations, in order, at less cost than one by one. An
// error of one of them alone, here or in ScoreGrid, has a method Config() int that
// says which.
func FitGrid(ctx context.Context, m Method, t Training, grid []Params) ([]*Scorer, error) {
	if m.Fit == nil {
		return nil, fmt.Errorf("method %q is not whole: it has no Fit", m.Name)
	}
	t.Grid = make([]Params, len(grid))
	for i, p := range grid {
		var err error
		if t.Grid[i], err = m.resolve(p); err != nil {
			return nil, &configError{i, err}
		}
	}
	t.Levels = slices.Sorted(slices.Values(t.Levels))
	if err := m.checkTraining(t); err != nil {
		return nil, err
	}
	if t.Cache == nil {
		t.Cache = &sync.Map{}
	}
	if t.Trainer != nil {
		t.Trainer = checkedTrainer{t.Trainer}
	}
	// What is trained together is told before its turn.
	if t.Progress == nil {
		t.Progress = func(float64) {}
	}
	progress := rows.Progress(t.Progress).Rising()
	scorers := make([]*Scorer, len(grid))
	for i, v := range t.Grid {
		t.Progress, t.At = progress.Part(i, len(grid)), i
		fitted, err := m.Fit(ctx, t, v)
		if err != nil {
			return nil, &configError{i, err}
		}
		if err := m.checkFitted("Fit", fitted); err != nil {
			return nil, err
		}
		scorers[i] = &Scorer{method: m, fitted: fitted, widths: t.needed(m.Needs).Widths(), network: t.Network}
		t.Progress(1)
	}
	return scorers, ctx.Err()
}

// checkFitted refuses what has no scores or quantiles, or no state.
func (m Method) checkFitted(maker string, fitted any) error {
	_, able := fitted.(Detector)
	want := "Detector"
	if m.Needs.Targets {
		_, able = fitted.(QuantileRegressor)
		want = "QuantileRegressor"
	}
	t := reflect.TypeOf(fitted)
	if !able || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("method %q: its %s returned %T, and not a pointer to a struct that is a %s", m.Name, maker, fitted, want)
	}
	for _, f := range reflect.VisibleFields(t.Elem()) {
		if _, tagged := f.Tag.Lookup("state"); tagged && !f.IsExported() {
			return fmt.Errorf("method %q: the field %s of %T has a tag, and is not exported", m.Name, f.Name, fitted)
		}
	}
	return nil
}

// configError says which configuration of a grid could not be fitted or scored;
// alone, others may be.
type configError struct {
	at int
	error
}

func (e *configError) Config() int { return e.at }

func (e *configError) Unwrap() error { return e.error }

// checkTraining refuses rows that the method cannot be fitted to.
func (m Method) checkTraining(t Training) error {
	if err := m.checkNeeds(t); err != nil {
		return err
	}
	if err := t.Validate(); err != nil {
		return err
	}
	if t.Len() == 0 {
		return &rows.TooFewRowsError{What: m.Name, Need: 1}
	}
	if err := t.Parts().CheckFinite(""); err != nil {
		return err
	}
	if m.Needs.Targets {
		if err := m.checkTargets(t); err != nil {
			return err
		}
	}
	if m.Needs.Logits && t.Logits.Cols < 2 && !(t.Regression && m.Needs.Dropout) {
		// A single logit has a softmax of 1, whatever it is. Passes with dropout are
		// compared without one.
		return fmt.Errorf("%d logits a row, but at least 2 are needed: one per class", t.Logits.Cols)
	}
	if m.Needs.Weights {
		return t.Last.check(t.Features.Cols, t.Logits.Cols)
	}
	return nil
}

// checkTargets refuses targets and levels that the method cannot learn.
func (m Method) checkTargets(t Training) error {
	v := t.Validation
	switch {
	case t.Targets.Rows != t.Len():
		return fmt.Errorf("%d rows but %d of targets", t.Len(), t.Targets.Rows)
	case m.Needs.Ends && len(t.Levels) != 2:
		return fmt.Errorf("the ends of an interval are two levels, not %d", len(t.Levels))
	case v.Rows > 0 && (v.Cols != t.Features.Cols || t.ValidationTargets.Cols != t.Targets.Cols || t.ValidationTargets.Rows != v.Rows):
		return fmt.Errorf("validation rows are of %d×%d and their targets of %d×%d, those to train on of %d and %d columns",
			v.Rows, v.Cols, t.ValidationTargets.Rows, t.ValidationTargets.Cols, t.Features.Cols, t.Targets.Cols)
	}
	for i, l := range t.Levels {
		if !(l > 0 && l < 1) || i > 0 && l == t.Levels[i-1] {
			return fmt.Errorf("quantile level %v does not lie between 0 and 1, or is given twice", l)
		}
	}
	return cmp.Or(
		rows.CheckFinite("targets", t.Targets),
		rows.CheckFinite("validation rows", v), rows.CheckFinite("validation targets", t.ValidationTargets))
}

// Scorer is a fitted method behind the checks of what it is given: that of a
// detector has scores, that of an interval method quantiles. It is safe for
// concurrent use.
type Scorer struct {
	method  Method
	fitted  any
	widths  parts.Widths // of the parts it was fitted with
	network Network      // that it was fitted with, or nil
}

// Widths are the columns of the parts that it was fitted with, by name.
func (s *Scorer) Widths() parts.Widths { return s.widths }

// Method is what was fitted.
func (s *Scorer) Method() Method { return s.method }

// Fitted is what the method fitted.
func (s *Scorer) Fitted() any { return s.fitted }

// Variant says in a few words what stands in for what the method does, such as
// "inserted dropout", or is empty where nothing does. n is the network, nil the
// one that the method was fitted with.
func (s *Scorer) Variant(n Network) string {
	if n == nil {
		n = s.network
	}
	if v, ok := s.fitted.(interface{ Variant(Network) string }); ok {
		return v.Variant(n)
	}
	return ""
}

// blockRows is the number of rows that are scored between two looks at the
// context.
const blockRows = 1024

// Score writes one score per row of b to dst and returns it; a nil dst is
// allocated, any other has the batch's length. A score grows with uncertainty:
// higher is more likely out-of-domain.
func (s *Scorer) Score(ctx context.Context, dst []float64, b Batch) ([]float64, error) {
	if dst == nil {
		dst = make([]float64, b.Len())
	} else if len(dst) != b.Len() {
		panic(fmt.Sprintf("ood: room for %d scores but %d rows", len(dst), b.Len()))
	}
	return dst, score(ctx, []*Scorer{s}, [][]float64{dst}, b, nil)
}

// ScoreGrid scores b with each of the scorers that one call of FitGrid
// returned: what they share is computed once a block. progress, if not nil, is
// called with the share of the rows that is scored.
func ScoreGrid(ctx context.Context, grid []*Scorer, b Batch, progress func(share float64)) ([][]float64, error) {
	dst := make([][]float64, len(grid))
	for i := range dst {
		dst[i] = make([]float64, b.Len())
	}
	return dst, score(ctx, grid, dst, b, progress)
}

func score(ctx context.Context, grid []*Scorer, dst [][]float64, b Batch, progress rows.Progress) error {
	if len(grid) == 0 {
		return nil
	}
	s := grid[0]
	if err := s.check(b); err != nil {
		return err
	}
	if s.method.Needs.Network || s.method.Needs.Dropout {
		return scoreInputs(ctx, grid, dst, b, progress)
	}
	n := b.Len()
	b.Inputs, b.Cache = nil, nil // of the former every block would copy its own
	for i := 0; i < n; i += blockRows {
		end := min(i+blockRows, n)
		block := b
		if n > blockRows {
			block = b.Slice(i, end)
		}
		if err := scoreBlock(ctx, grid, dst, i, block); err != nil {
			return err
		}
		progress.Tell(float64(end) / float64(n))
	}
	return ctx.Err()
}

// scoreBlock scores consecutive rows, from the one called first.
func scoreBlock(ctx context.Context, grid []*Scorer, dst [][]float64, first int, block Batch) error {
	if len(grid) > 1 {
		block.Cache = &sync.Map{}
	}
	for k, other := range grid {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := other.fitted.(Detector).Score(ctx, dst[k][first:first+block.Len()], block); err != nil {
			return &configError{k, err}
		}
	}
	return nil
}

// inputRows is the number of inputs that a method runs the network on at once.
const inputRows = 64

// scoreInputs scores rows as their inputs are read.
func scoreInputs(ctx context.Context, grid []*Scorer, dst [][]float64, b Batch, progress rows.Progress) error {
	s := grid[0]
	if b.Network == nil {
		b.Network = s.network
	}
	if b.Network == nil {
		return &NeedError{Method: s.method.Name, Need: Needs{Network: s.method.Needs.Network, Dropout: s.method.Needs.Dropout}, Where: "scorers that were stored"}
	}
	if b.Inputs.Len() != b.Len() {
		return fmt.Errorf("%d rows but %d of inputs", b.Len(), b.Inputs.Len())
	}
	inputs := b.Inputs
	b.Inputs = nil
	done := 0
	for x, err := range inputs.Blocks(ctx, inputRows) {
		if err != nil {
			return err
		}
		block := b.Slice(x.Start, x.Start+x.Rows())
		block.Block = x
		err := scoreBlock(ctx, grid, dst, x.Start, block)
		switch {
		case errors.Is(err, ErrNotDifferentiable) || errors.Is(err, ErrNoDropout):
			return err // which is of no row
		case err != nil:
			return fmt.Errorf("inputs %d to %d: %w", x.Start, x.Start+x.Rows()-1, err)
		}
		done += x.Rows()
		progress.Tell(float64(done) / float64(b.Len()))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if done != b.Len() {
		return fmt.Errorf("%d rows of inputs came where %d were announced", done, b.Len())
	}
	return nil
}

func (s *Scorer) check(b Batch) error {
	if err := s.method.CheckBatch(b, "the rows to score"); err != nil {
		return err
	}
	needed := b.needed(s.method.Needs)
	if err := needed.Widths().Check(s.widths, "the rows", fmt.Sprintf("method %q was fitted with", s.method.Name)); err != nil {
		return err
	}
	n := b.Len()
	for _, p := range needed {
		if p.Rows != n {
			return fmt.Errorf("%d rows but %d of %s", n, p.Rows, p.Name)
		}
	}
	return nil
}

// widthPrefix begins the parameters that hold widths, which no method's own
// state has.
const widthPrefix = "width of "

// State is what Restore takes.
func (s *Scorer) State() rows.State {
	st := rows.Save(s.fitted)
	for name, n := range s.widths {
		st.Params[widthPrefix+name] = float64(n)
	}
	return st
}

// Restore rebuilds a scorer from what its State method returned. A state that no
// fit of the method can have is an error.
func Restore(m Method, st rows.State) (*Scorer, error) {
	own := rows.State{Params: map[string]any{}, Arrays: st.Arrays}
	s := &Scorer{method: m, fitted: m.New(), widths: parts.Widths{}}
	if err := m.checkFitted("New", s.fitted); err != nil {
		return nil, err
	}
	room := maxWidths
	for name, v := range st.Params {
		part, isWidth := strings.CutPrefix(name, widthPrefix)
		if !isWidth {
			own.Params[name] = v
			continue
		}
		n, ok := v.(float64)
		if !ok || n != math.Trunc(n) || n < 1 || n > float64(min(room, rows.MaxWidth)) {
			return nil, fmt.Errorf("parameter %q must be a whole number of at least 1, at most %d and with all widths at most %d, not %v", name, rows.MaxWidth, maxWidths, v)
		}
		s.widths[part] = int(n)
		room -= int(n)
	}
	if names := s.widths.Names(); s.zeros().has() != m.Needs.parts() || len(names) != len(s.widths) {
		return nil, fmt.Errorf("it was fitted on rows of %s, and the method needs %s", cmp.Or(strings.Join(names, ", "), "no widths"), m.Needs)
	}
	if err := rows.Restore(s.fitted, own, s.widths); err != nil {
		return nil, err
	}
	return s, s.try()
}

// zeros is one row of zeros.
func (s *Scorer) zeros() Batch {
	var b Batch
	for _, name := range s.widths.Names() {
		parts.Set(&b.Features, &b.Logits, &b.Layers, name, rows.New(1, s.widths[name]))
	}
	return b
}

// maxWidths bounds the row that a state is tried on: features, logits and all
// earlier layers.
const maxWidths = 3 * rows.MaxWidth

// try scores a row of zeros, which finds out whether the state fits the widths.
func (s *Scorer) try() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("its arrays do not fit the widths of the rows")
		}
	}()
	if s.method.Needs.Inputs || s.method.Needs.Network || s.method.Needs.Dropout || s.method.Needs == (Needs{}) {
		return nil
	}
	if s.method.Needs.Targets {
		s.Quantiles(s.zeros().Features, []float64{.5})
		return nil
	}
	return s.fitted.(Detector).Score(context.Background(), make([]float64, 1), s.zeros())
}
