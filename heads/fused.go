package heads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/numeric/gaussian"
	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

// These are the ways to combine the p-values of several components into one number.
const (
	// fisher is −2 Σ log p (Fisher 1932, Statistical Methods for Research Workers, section
	// 21.1). With n components and weights w that sum to 1, it is −2n Σ w log p.
	fisher = "fisher"
	// harmonic is −log of the weighted harmonic mean of the p-values (Wilson 2019, "The
	// harmonic mean p-value for combining dependent tests").
	harmonic = "harmonic"
)

// fusedMethod fuses two detectors that measure different properties of the features.
// Certificates with unit norm compare the direction of the features with that of the class
// mean, and ignore their length. ViM measures the part of the features outside their
// principal components. Both detectors also use the logits.
var fusedMethod = Fused("fused", harmonic, Component{Method: certificatesCoupledMethod}, Component{Method: baseline("vim")})

// fusedLayersMethod fuses certificates of the last layer with two detectors on earlier
// layers. The last layer detects new classes. The earlier layers detect other kinds of
// inputs, one detector by the length of rows and one by their direction.
//
// Surprises of the earlier layers are squared, because only their large values are
// informative. The earlier layers get more weight if the model is not confident on its
// training rows, because its last layer is then less useful.
var fusedLayersMethod = Fused("fused-layers", fisher,
	Component{Method: certificatesCoupledMethod},
	Component{Method: baseline("mahalanobis-layers"), Weight: .075, Unsure: .4, Squared: true},
	Component{Method: baseline("mahalanobis-layers"), Params: ood.Params{"unit_norm": true}, Weight: .075, Unsure: .4, Squared: true})

// baseline returns the method of package baselines with the given name.
func baseline(name string) ood.Method {
	all := baselines.All()
	return all[slices.IndexFunc(all, func(m ood.Method) bool { return m.Name == name })]
}

// Component is a detector to fuse with other detectors.
type Component struct {
	Method ood.Method
	// Params override the default parameters of Method.
	Params ood.Params
	// Weight is the weight of −log p, where p is the p-value of the component. 0 means 1.
	// Weights are divided by their sum over all components.
	Weight float64
	// Unsure increases the weight if the model is less confident. The increase is Unsure
	// times the mean of 1 − (largest probability) over the training rows.
	Unsure float64
	// Squared replaces −log p by its square.
	Squared bool
}

// describe returns a description of the component.
func (c Component) describe() string {
	s := c.Method.Name
	if len(c.Params) > 0 {
		s += " with " + c.Params.String()
	}
	if c.Squared {
		s += " (squared)"
	}
	return s
}

// Fused returns a method that combines the conformal p-values of its components. The
// argument combine, "fisher" or "harmonic", is the default of the parameter "combine" of
// the method.
//
// The calibration scores of the components are out-of-fold scores. For this, the rows are
// divided at random into five folds, and each fold is scored by components that are fitted
// to the other folds. New rows are scored by components that are fitted to all rows.
//
// Fused panics if there are no components, if two components have the same method and
// parameters, or if combine is unknown. It also panics if a component has invalid
// parameters, or if its Weight or Unsure is negative or not finite.
func Fused(name, combine string, components ...Component) ood.Method {
	var f fusion
	keys := map[string]bool{}
	for _, c := range components {
		c.Weight = cmp.Or(c.Weight, 1)
		if !(c.Weight > 0 && c.Unsure >= 0) || math.IsInf(c.Weight+c.Unsure, 1) {
			panic(fmt.Sprintf("heads: weights %v and %v of %s are not positive", c.Weight, c.Unsure, c.Method.Name))
		}
		if _, err := fitting.With(c.Method, c.Params); err != nil {
			panic("heads: " + err.Error())
		}
		keys[c.Method.Name+c.Params.String()] = true
		f = append(f, c)
	}
	if len(components) == 0 || len(keys) < len(components) {
		panic("heads: a fused method needs components, each only once")
	}
	other, ok := map[string]string{fisher: harmonic, harmonic: fisher}[combine]
	if !ok {
		panic("heads: unknown combination: " + combine)
	}
	var descriptions, weightTexts []string
	unsureText := ""
	for _, c := range f {
		descriptions = append(descriptions, c.describe())
		weightText := fmt.Sprintf("%.3g", c.Weight)
		if c.Unsure > 0 {
			weightText += fmt.Sprintf(" + %.3g u", c.Unsure)
			unsureText = ", where u is the mean of 1 − (largest probability) on the training rows"
		}
		weightTexts = append(weightTexts, weightText)
	}
	weightsText := ""
	if slices.ContainsFunc(weightTexts, func(s string) bool { return s != weightTexts[0] }) {
		weightsText = ", both with weights " + strings.Join(weightTexts, ", ") + unsureText
	}
	m := ood.Method{
		Name: name,
		Doc: "Several detectors in one score, by their conformal p-values: " + strings.Join(descriptions, ", ") + ". " +
			"Use it to detect OOD inputs of several kinds, because each component detects another kind. " +
			"combine=fisher is −2 Σ log p, and combine=harmonic minus the logarithm of the harmonic mean" + weightsText + ". All training rows calibrate the components: each fifth of them, drawn by the seed, is scored by " +
			"components that were fitted with the others. Between calibration scores log p is interpolated. Beyond the largest it follows a generalised Pareto " +
			"distribution fitted to the largest tenth, so that far rows keep their order. Because the components depend on each other, the result is a " +
			"score; calibration turns it into a p-value.",
		Ref:    "an unpublished combination of published parts: Fisher 1932; Wilson 2019, doi:10.1073/pnas.1814092116; Pickands 1975 for the tail",
		Memory: f.memory,
		Params: []ood.Param{{Name: "combine", Default: combine, Takes: "of=" + combine + "|" + other, Sweep: []any{fisher, harmonic}}},
		Fit:    f.fit,
		New:    f.newFused,
	}
	for _, c := range f {
		m.Needs = fitting.Union(m.Needs, c.Method.Needs)
		m.Needs.Logits = m.Needs.Logits || c.Unsure > 0
		m.Control = m.Control || c.Method.Control
	}
	return m
}

// fusion holds the components of a fused method. It has not been fitted.
type fusion []Component

// weights returns the weights of the components, which sum to 1. If a component has Unsure,
// they depend on the logits of the training rows.
func (f fusion) weights(logits blas32.General) []float64 {
	var confidence, sum float64
	for r := range logits.Rows {
		confidence += softmax.New(rows.Row(logits, r), 1).Largest() / float64(logits.Rows)
	}
	w := make([]float64, len(f))
	for i, c := range f {
		w[i] = c.Weight + c.Unsure*(1-confidence)
		sum += w[i]
	}
	for i := range w {
		w[i] /= sum
	}
	return w
}

// memory estimates the memory that a fit needs. This is the memory of the largest
// component, plus a quarter of the memory of the others, because only their scorers stay in
// memory.
func (f fusion) memory(t ood.Training, _ ood.Params) float64 {
	var largest, all float64
	for _, c := range f {
		own := fitting.Memory(c.Method, t, c.Params)
		largest, all = max(largest, own), all+own
	}
	return largest + (all-largest)/4
}

// fused is the detector that a fit of a fusion returns.
type fused struct {
	Combine string       `state:"combine,of=fisher|harmonic"`
	Parts   []*fusedPart `state:"parts,least=1"`
}

// fusedPart is a fitted component of a fusion.
type fusedPart struct {
	Name    string    `state:"method"`
	Weight  float64   `state:"weight,positive"` // the weights of all parts sum to 1
	Squared bool      `state:"squared"`
	Fitted  component `state:"fitted"`
	Scores  []float64 `state:"calibration[n],rising"` // out-of-fold scores, sorted
	log     surprise
}

// component is the fitted method of a fusedPart. It can restore its own state.
type component struct {
	method ood.Method
	*fitting.Scorer
}

// Restore implements rows.Coder.
func (c *component) Restore(s rows.State) (err error) {
	if c.method.New == nil {
		return errors.New("the number of parts differs from that of the method")
	}
	c.Scorer, err = fitting.Restore(c.method, s)
	return err
}

// newFused returns a fused that a saved state can be restored into.
func (f fusion) newFused() any {
	s := &fused{}
	for _, c := range f {
		s.Parts = append(s.Parts, &fusedPart{Fitted: component{method: c.Method}})
	}
	return s
}

func (p *fusedPart) Restored() error {
	if p.Name != p.Fitted.method.Name {
		return fmt.Errorf("the part is %q, but the method has %q", p.Name, p.Fitted.method.Name)
	}
	p.log = newSurprise(calibrate.Conformal{Scores: p.Scores})
	return nil
}

func (s *fused) Restored() error {
	var sum float64
	for _, p := range s.Parts {
		sum += p.Weight
	}
	if !(math.Abs(sum-1) <= 1e-9) {
		return fmt.Errorf("weights sum to %v, not to 1", sum)
	}
	return nil
}

// fusedFolds is the number of folds for the out-of-fold scores.
const fusedFolds = 5

func (f fusion) fit(ctx context.Context, t ood.Training, _ ood.Params) (any, error) {
	if t.Len() < 2 {
		return nil, &rows.TooFewRowsError{What: "fused detectors", Have: t.Len(), Need: 2}
	}
	// All values of the parameter "combine" share the same parts.
	return memo.OncePerKey(ctx, t, func(ood.Params) bool { return true }, func(same []ood.Params, report func(float64)) ([]*fused, error) {
		parts, err := f.crossFit(ctx, t, report)
		var all []*fused
		for _, p := range same {
			all = append(all, &fused{p["combine"].(string), parts})
		}
		return all, err
	})
}

// crossFit fits the components to all rows, and calibrates them with out-of-fold scores. An
// out-of-fold score of a row comes from components that were fitted to the other folds
// (Vovk 2015, "Cross-conformal predictors").
func (f fusion) crossFit(ctx context.Context, t ood.Training, report func(fraction float64)) ([]*fusedPart, error) {
	folds := rows.Folds(t.Len(), fusedFolds, t.Seed)
	outOfFold := make([][]float64, len(f))
	done, fits := 0, (len(folds)+1)*len(f)
	fit := func(ctx context.Context, c Component, part ood.Training) (*fitting.Scorer, error) {
		part.Progress = func(fraction float64) { report((float64(done) + fraction) / float64(fits)) }
		s, err := fitting.Fit(ctx, c.Method, part, c.Params)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Method.Name, err)
		}
		done++
		return s, nil
	}
	for _, fold := range folds {
		foldCtx, part := memo.Without(ctx, t, fold)
		out := t.Batch.Select(fold)
		for i, c := range f {
			s, err := fit(foldCtx, c, part)
			if err != nil {
				return nil, explainFewerRows(err, part.Len(), t.Len())
			}
			scores, err := s.Score(ctx, nil, out)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.Method.Name, err)
			}
			outOfFold[i] = append(outOfFold[i], scores...)
		}
	}
	parts, weights := make([]*fusedPart, len(f)), f.weights(t.Logits)
	for i, c := range f {
		s, err := fit(ctx, c, t)
		if err != nil {
			return nil, err
		}
		p, err := calibrate.NewConformal(outOfFold[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Method.Name, err)
		}
		parts[i] = &fusedPart{c.Method.Name, weights[i], c.Squared, component{c.Method, s}, p.Scores, newSurprise(p)}
	}
	return parts, nil
}

// explainFewerRows explains an error of a fit to only some of the rows. If there were too
// few rows, it returns an error with the number of rows that are needed in total.
func explainFewerRows(err error, some, all int) error {
	if few, ok := errors.AsType[*rows.TooFewRowsError](err); ok {
		return &rows.TooFewRowsError{What: few.What, Have: all, Need: few.Need + (few.Need+fusedFolds-2)/(fusedFolds-1)}
	}
	return fmt.Errorf("fitted with %d of %d rows, because the others calibrate: %w", some, all, err)
}

// Score implements ood.Detector. Scorers that differ only in Combine share the p-values.
func (s *fused) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	surprises, err := memo.Cached(ctx, b, s.Parts[0], func() ([][]float64, error) { return s.surprises(ctx, b) })
	if err != nil {
		return err
	}
	row := make([]float64, len(s.Parts))
	for r := range dst {
		for i := range row {
			row[i] = surprises[i][r]
		}
		dst[r] = s.combine(row)
	}
	return nil
}

// surprises returns, for each component, −log p of each row, or the square of −log p if
// Squared is set.
func (s *fused) surprises(ctx context.Context, b ood.Batch) ([][]float64, error) {
	all := make([][]float64, len(s.Parts))
	for i, p := range s.Parts {
		all[i] = make([]float64, b.Len())
		// The rows were already checked for all components together.
		if err := p.Fitted.Fitted().(ood.Detector).Score(ctx, all[i], b); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		for r, v := range all[i] {
			all[i][r] = p.log.minusLogP(v)
			if p.Squared {
				all[i][r] = min(all[i][r]*all[i][r], largestSurprise)
			}
		}
	}
	return all, nil
}

// combine combines the surprises of the components into one score.
func (s *fused) combine(surprises []float64) float64 {
	var sum float64
	if s.Combine == fisher {
		for i, v := range surprises {
			sum += s.Parts[i].Weight * v
		}
		return 2 * float64(len(surprises)) * sum
	}
	largest := slices.Max(surprises) // NaN if a surprise is NaN
	for i, v := range surprises {
		sum += s.Parts[i].Weight * math.Exp(v-largest)
	}
	return largest + math.Log(sum)
}

// PropagatesNaN implements graph.NaNPropagator.
func (s *fused) PropagatesNaN() bool {
	return !slices.ContainsFunc(s.Parts, func(p *fusedPart) bool { return !graph.PropagatesNaN(p.Fitted.Fitted()) })
}

func (s *fused) ScoreGraph(b graph.Batch) (graph.Tensor, error) {
	var logs []surprise
	sums, powers := make([]gaussian.Sum, len(s.Parts)), make([]float64, len(s.Parts))
	weights := blas64.General{Rows: len(s.Parts), Cols: 1, Stride: 1, Data: make([]float64, len(s.Parts))}
	for i, p := range s.Parts {
		if d, ok := p.Fitted.Fitted().(gaussian.Summed); ok {
			sums[i] = d.Sum(b)
		} else {
			score, err := graph.Unguarded(p.Fitted.Fitted(), b)
			if err != nil {
				return score, fmt.Errorf("%s: %w", p.Name, err)
			}
			sums[i] = gaussian.Sum{Others: []graph.Tensor{score}, Weights: []float64{1}}
		}
		logs, weights.Data[i], powers[i] = append(logs, p.log), p.Weight, 1
		if p.Squared {
			powers[i] = 2
		}
	}
	columns, columnWeights := gaussian.Columns(sums)
	all := surprises(logs, columns.MatMul(columnWeights))
	if slices.Contains(powers, 2) {
		all = all.Pow(powers)
	}
	if s.Combine == fisher {
		for i := range weights.Data {
			weights.Data[i] *= 2 * float64(len(s.Parts))
		}
		return all.MatMul(weights), nil
	}
	largest := all.RowMax()
	return all.Sub(largest).Exp().MatMul(weights).Log().Add(largest), nil
}
