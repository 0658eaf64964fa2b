package ood

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/rows"
)

// Spec describes a method by what is its own: which rows it is fitted to and
// scores, and with which parameters. All rows, parameters and states are checked
// before it sees them.
type Spec struct {
	Name, Doc, Ref string // as in Method
	Needs          Needs
	Control        bool
	// Params declares the parameters; their defaults are the configuration used
	// without a sweep.
	Params []Param
	// Grid is the sweep where it is not every combination of what the
	// parameters are swept over.
	Grid []Params
	// Memory is as in Method.
	Memory func(t Training, p Params) float64
	// Fit fits one configuration. The training rows have what Needs asks for:
	// at least one row, finite, as many of each part, two logits or more, a last
	// layer of their widths.
	Fit func(ctx context.Context, t Training, p Values) (Fitted, error)
	// New returns what Fit returns, empty: a state is restored into it.
	New func() Fitted
}

// Fitted is a fitted method: a pointer to a struct whose tagged fields are its
// state, as rows.Save has it: lengths called features, logits and layer_0 are
// those of the rows. It is safe for concurrent use.
type Fitted interface {
	// Score writes one score per row of b to dst, which has as many elements.
	// The rows have what the method needs, with the widths that it was fitted
	// with; they may not be finite.
	Score(ctx context.Context, dst []float64, b Batch) error
}

// Define makes a method of what is its own.
func Define(s Spec) Method {
	m := Method{
		Name: s.Name, Doc: s.Doc, Ref: s.Ref, Needs: s.Needs, Memory: s.Memory, Control: s.Control, Grid: s.Grid,
	}
	if m.Grid == nil {
		m.Grid = grid(s.Params)
	}
	if len(s.Params) > 0 {
		m.Default = Params{}
		for _, p := range s.Params {
			m.Default[p.Name] = p.Default
		}
	}
	m.FitGrid = func(ctx context.Context, t Training, grid []Params) ([]Scorer, error) { return s.fit(ctx, m, t, grid) }
	m.Fit = func(ctx context.Context, t Training, p Params) (Scorer, error) {
		fitted, err := s.fit(ctx, m, t, []Params{p})
		if err != nil {
			return nil, err
		}
		return fitted[0], nil
	}
	m.Restore = func(st heads.State) (Scorer, error) { return s.restore(m, st) }
	return m
}

func (s Spec) fit(ctx context.Context, m Method, t Training, grid []Params) ([]Scorer, error) {
	values := make([]Values, len(grid))
	for i, p := range grid {
		var err error
		if values[i], err = resolve(s.Params, p); err != nil {
			return nil, err
		}
	}
	if err := s.check(m, t); err != nil {
		return nil, err
	}
	if t.Cache == nil {
		t.Cache = &Cache{}
	}
	t.Grid = values
	progress := t.Progress
	scorers := make([]Scorer, len(grid))
	for i, v := range values {
		if progress != nil {
			t.Progress = func(share float64) { progress((float64(i) + share) / float64(len(grid))) }
		}
		t.At = i
		f, err := s.Fit(ctx, t, v)
		if err != nil {
			return nil, err
		}
		b := &bounded{method: m, fitted: f, widths: widthsOf(m.Needs, t.Batch), network: t.Network}
		scorers[i] = b.scorer()
	}
	return scorers, ctx.Err()
}

// check refuses rows that no method can be fitted to.
func (s Spec) check(m Method, t Training) error {
	if err := m.CheckTraining(t); err != nil {
		return err
	}
	if err := t.Validate(); err != nil {
		return err
	}
	if t.Len() == 0 {
		return &heads.TooFewRowsError{What: s.Name, Need: 1}
	}
	for _, part := range t.parts() {
		if err := heads.CheckFinite(part.name, part.rows); err != nil {
			return err
		}
	}
	if s.Needs&NeedLogits != 0 && t.Logits.Cols < 2 {
		// A single logit has a softmax of 1, whatever it is.
		return fmt.Errorf("%d logits a row, but at least 2 are needed: one per class", t.Logits.Cols)
	}
	if s.Needs&NeedWeights != 0 {
		return t.Last.Check(t.Features.Cols, t.Logits.Cols)
	}
	return nil
}

// Check says what is wrong with a layer on h features; c is the number of
// logits, or 0.
func (l *Linear) Check(h, c int) error {
	switch w := l.Weight; {
	case w.Cols != h:
		return fmt.Errorf("the last layer's weights are for %d features, and the rows have %d", w.Cols, h)
	case c > 0 && w.Rows != c:
		return fmt.Errorf("the last layer has %d outputs, and the rows have %d logits", w.Rows, c)
	case len(l.Bias) > 0 && len(l.Bias) != w.Rows:
		return fmt.Errorf("the last layer has %d biases for %d outputs", len(l.Bias), w.Rows)
	}
	for i, b := range l.Bias {
		if b-b != 0 {
			return fmt.Errorf("bias %d of the last layer is %v", i, b)
		}
	}
	return heads.CheckFinite("the last layer's weights", l.Weight)
}

// matrix is one of a batch under the name that errors and files have for it.
type matrix struct {
	name string
	need Needs
	rows blas32.General
}

// parts are the matrices that the batch has.
func (b Batch) parts() []matrix {
	var parts []matrix
	if b.HasFeatures() {
		parts = append(parts, matrix{"features", NeedFeatures, b.Features})
	}
	if b.HasLogits() {
		parts = append(parts, matrix{"logits", NeedLogits, b.Logits})
	}
	for i, l := range b.Layers {
		parts = append(parts, matrix{fmt.Sprintf("layer_%d", i), NeedLayers, l})
	}
	return parts
}

// widthsOf are the widths of the parts that are needed.
func widthsOf(needs Needs, b Batch) map[string]int {
	widths := map[string]int{}
	for _, p := range b.parts() {
		if p.need&needs != 0 {
			widths[p.name] = p.rows.Cols
		}
	}
	return widths
}

// bounded is a fitted method behind the checks of what it is given.
type bounded struct {
	method Method
	fitted Fitted
	widths map[string]int // of the parts it was fitted with
	// network is the one that the method runs, if it runs any; nil in a scorer
	// that was restored and not bound yet.
	network Network
}

// bindable is a scorer that runs the network.
type bindable struct{ *bounded }

// Bind implements NetworkBound.
func (s bindable) Bind(n Network) Scorer {
	b := *s.bounded
	b.network = n
	return bindable{&b}
}

// scorer is s as what it can do.
func (s *bounded) scorer() Scorer {
	if s.method.Needs&needsNetwork != 0 {
		return bindable{s}
	}
	return s
}

// boundedOf is what Define made, or nil.
func boundedOf(s Scorer) *bounded {
	switch s := s.(type) {
	case *bounded:
		return s
	case bindable:
		return s.bounded
	}
	return nil
}

// FittedOf returns what the method of a scorer fitted, or nil for scorers of
// methods that Define did not make.
func FittedOf(s Scorer) Fitted {
	if b := boundedOf(s); b != nil {
		return b.fitted
	}
	return nil
}

// blockRows is the number of rows that are scored between two looks at the
// context.
const blockRows = 1024

// Score implements Scorer.
func (s *bounded) Score(ctx context.Context, dst []float64, b Batch) ([]float64, error) {
	if dst == nil {
		dst = make([]float64, b.Len())
	} else if len(dst) != b.Len() {
		panic(fmt.Sprintf("ood: room for %d scores but %d rows", len(dst), b.Len()))
	}
	return dst, s.score(ctx, []Scorer{s}, [][]float64{dst}, b)
}

// ScoreGrid implements GridScorer: what configurations share is computed once a
// block.
func (s *bounded) ScoreGrid(ctx context.Context, grid []Scorer, b Batch) ([][]float64, error) {
	dst := make([][]float64, len(grid))
	for i := range dst {
		dst[i] = make([]float64, b.Len())
	}
	return dst, s.score(ctx, grid, dst, b)
}

func (s *bounded) score(ctx context.Context, grid []Scorer, dst [][]float64, b Batch) error {
	if err := s.check(b); err != nil {
		return err
	}
	if s.method.Needs&needsNetwork != 0 {
		return s.scoreInputs(ctx, grid, dst, b)
	}
	for i := 0; i < b.Len(); i += blockRows {
		if err := scoreBlock(ctx, grid, dst, i, b.Slice(i, min(i+blockRows, b.Len()))); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// scoreBlock scores consecutive rows, from the one called first.
func scoreBlock(ctx context.Context, grid []Scorer, dst [][]float64, first int, block Batch) error {
	block.Cache = &Cache{}
	for k, other := range grid {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := boundedOf(other).fitted.Score(ctx, dst[k][first:first+block.Len()], block); err != nil {
			return err
		}
	}
	return nil
}

// needsNetwork are the needs of methods that run the network.
const needsNetwork = NeedNetwork | NeedDropout

// inputRows is the number of inputs that a method runs the network on at once.
const inputRows = 64

// scoreInputs scores rows as their inputs are read.
func (s *bounded) scoreInputs(ctx context.Context, grid []Scorer, dst [][]float64, b Batch) error {
	if s.network == nil {
		return &NeedError{Method: s.method.Name, Need: s.method.Needs & needsNetwork, Where: "scorers that were stored"}
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
		block.Block, block.Network = x, s.network
		err := scoreBlock(ctx, grid, dst, x.Start, block)
		switch {
		case errors.Is(err, ErrNotDifferentiable) || errors.Is(err, ErrNoDropout):
			return err // which is of no row
		case err != nil:
			return fmt.Errorf("inputs %d to %d: %w", x.Start, x.Start+x.Rows()-1, err)
		}
		done += x.Rows()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if done != b.Len() {
		return fmt.Errorf("%d rows of inputs came where %d were announced", done, b.Len())
	}
	return nil
}

func (s *bounded) check(b Batch) error {
	if err := s.method.CheckBatch(b); err != nil {
		return err
	}
	n, have := b.Len(), map[string]bool{}
	for _, p := range b.parts() {
		want, fitted := s.widths[p.name]
		if p.need&s.method.Needs == 0 {
			continue
		}
		have[p.name] = true
		switch {
		case !fitted:
			return fmt.Errorf("the rows have %s, and method %q was fitted without", p.name, s.method.Name)
		case p.rows.Cols != want:
			return fmt.Errorf("the rows have %d columns of %s, and method %q was fitted with %d", p.rows.Cols, p.name, s.method.Name, want)
		case p.rows.Rows != n:
			return fmt.Errorf("%d rows but %d of %s", n, p.rows.Rows, p.name)
		}
	}
	for name := range s.widths {
		if !have[name] {
			return fmt.Errorf("the rows have no %s, and method %q was fitted with them", name, s.method.Name)
		}
	}
	return nil
}

// Variant implements Variant, for methods that have something to say.
func (s *bounded) Variant() string {
	if v, ok := s.fitted.(interface{ Variant(Network) string }); ok {
		return v.Variant(s.network)
	}
	return ""
}

// widthPrefix begins the parameters that hold widths, which no method's own
// state has.
const widthPrefix = "width of "

// State implements heads.Stater.
func (s *bounded) State() heads.State {
	st := rows.Save(s.fitted)
	for name, n := range s.widths {
		st.Params[widthPrefix+name] = float64(n)
	}
	return st
}

func (s Spec) restore(m Method, st heads.State) (Scorer, error) {
	own := heads.State{Params: map[string]any{}, Arrays: st.Arrays}
	b := &bounded{method: m, fitted: s.New(), widths: map[string]int{}}
	for name, v := range st.Params {
		part, isWidth := strings.CutPrefix(name, widthPrefix)
		if !isWidth {
			own.Params[name] = v
			continue
		}
		n, ok := v.(float64)
		if !ok || n != math.Trunc(n) || n < 1 || n > math.MaxInt32 {
			return nil, fmt.Errorf("parameter %q must be a whole number of at least 1, not %v", name, v)
		}
		b.widths[part] = int(n)
	}
	for _, need := range []struct {
		need Needs
		name string
	}{{NeedFeatures, "features"}, {NeedLogits, "logits"}, {NeedLayers, "layer_0"}} {
		if _, ok := b.widths[need.name]; ok != (s.Needs&need.need != 0) {
			return nil, fmt.Errorf("parameter %q: the method needs %s", widthPrefix+need.name, s.Needs)
		}
	}
	if err := rows.Restore(b.fitted, own, b.widths); err != nil {
		return nil, err
	}
	return b.scorer(), b.try()
}

// try scores a row of zeros, which finds out whether the state fits the widths.
func (s *bounded) try() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("its arrays do not fit the widths of the rows")
		}
	}()
	b := Batch{}
	zeros := func(name string) blas32.General {
		w := s.widths[name]
		return blas32.General{Rows: min(w, 1), Cols: w, Stride: max(w, 1), Data: make([]float32, w)}
	}
	b.Features, b.Logits = zeros("features"), zeros("logits")
	for i := 0; s.widths[fmt.Sprintf("layer_%d", i)] > 0; i++ {
		b.Layers = append(b.Layers, zeros(fmt.Sprintf("layer_%d", i)))
	}
	if s.method.Needs&(NeedInputs|NeedNetwork|NeedDropout) != 0 || s.method.Needs == 0 {
		return nil
	}
	return s.fitted.Score(context.Background(), make([]float64, 1), b)
}
