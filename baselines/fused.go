package baselines

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// Combination is how a fused method makes one number of several p-values.
type Combination string

const (
	// Fisher is −2 Σ log p (Fisher 1932, Statistical Methods for Research
	// Workers, section 21.1); of n components with weights w that add up to 1,
	// −2n Σ w log p.
	Fisher Combination = "fisher"
	// HarmonicMean is −log of the harmonic mean of the p-values (Wilson 2019,
	// "The harmonic mean p-value for combining dependent tests").
	HarmonicMean Combination = "harmonic"
)

// FusedPValues fuses two detectors that see different things: certificates
// how features lie about their class's mean, whatever their length, and ViM what is left of them
// outside the space that the network uses. Both weigh in the logits.
var FusedPValues = Fused("fused", HarmonicMean, CertificatesCoupled, ViM)

// Component is a detector to fuse with others.
type Component struct {
	Method ood.Method
	// Params replace its default parameters.
	Params ood.Params
	// Weight is how much its p-value counts; those of all components are
	// divided by their sum.
	Weight float64
}

// Fused is WeightedFused with equal weights.
func Fused(name string, combine Combination, components ...ood.Method) ood.Method {
	equal := make([]Component, len(components))
	for i, m := range components {
		equal[i] = Component{Method: m, Weight: 1}
	}
	return WeightedFused(name, combine, equal...)
}

// WeightedFused returns a method that combines the conformal p-values of its
// components; combine is the default of its parameter of that name. Each fifth
// of the rows, drawn by the seed, is scored by components fitted with the
// others, which calibrates those fitted with all rows. It panics if there are no
// components, two of them have one name, a method lacks a parameter, a weight
// is not positive and finite or there is no such combination.
func WeightedFused(name string, combine Combination, components ...Component) ood.Method {
	f := fusion{name: name, combine: combine}
	var sum float64
	for _, c := range components {
		if !(c.Weight > 0) || math.IsInf(c.Weight, 1) {
			panic(fmt.Sprintf("baselines: weight %v of %s is not positive", c.Weight, c.Method.Name))
		}
		params, err := c.Method.With(c.Params)
		if err != nil {
			panic("baselines: " + err.Error())
		}
		c.Method.Default = params
		f.components = append(f.components, c.Method)
		sum += c.Weight
	}
	names := f.names()
	if len(components) == 0 || repeated(names) {
		panic("baselines: a fused method needs components, each of them once")
	}
	if combine != Fisher && combine != HarmonicMean {
		panic("baselines: no such combination: " + string(combine))
	}
	for _, c := range components {
		f.weights = append(f.weights, c.Weight/sum)
	}
	var listed []string
	weighing := ""
	for i, c := range components {
		says := names[i]
		if len(c.Params) > 0 {
			says += " (" + c.Params.String() + ")"
		}
		listed = append(listed, says)
	}
	if !f.equal() {
		var shares []string
		for _, w := range f.weights {
			shares = append(shares, fmt.Sprintf("%.2g", w))
		}
		weighing = ", in both of which they count " + strings.Join(shares, ", ")
	}
	m := ood.Method{
		Name: name,
		Doc: "The conformal p-values of " + strings.Join(listed, ", ") + " as one number: combine=fisher is −2 Σ log p, combine=harmonic " +
			"minus the logarithm of their harmonic mean" + weighing + ". Each fifth of the training rows, drawn by the seed, is scored by components fitted with the others, and so " +
			"all rows calibrate the components, which are fitted with all. Between calibration scores log p is interpolated, and beyond the largest it follows a generalised Pareto " +
			"distribution fitted to the upper tenth, so that far rows keep their order. The components depend on each other: the " +
			"result is a score, and a p-value only once it is calibrated itself.",
		Ref:     "Fisher 1932; Wilson 2019, doi:10.1073/pnas.1814092116; Pickands 1975 for the tail",
		Needs:   f.needs(),
		Memory:  f.memory,
		Default: ood.Params{"combine": string(combine)},
		Grid:    []ood.Params{{"combine": string(Fisher)}, {"combine": string(HarmonicMean)}},
		Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
			return one(f.fit(ctx, t, []ood.Params{p}))
		},
		FitGrid: f.fit,
		Restore: f.restore,
	}
	for _, c := range f.components {
		m.Control = m.Control || c.Control
	}
	return m
}

func repeated(names []string) bool {
	seen := map[string]bool{}
	for _, n := range names {
		if seen[n] {
			return true
		}
		seen[n] = true
	}
	return false
}

// fusion is a fused method before it is fitted.
type fusion struct {
	name       string
	combine    Combination // where nothing is said
	components []ood.Method
	weights    []float64 // of the components; they add up to 1
}

// equalWeights add up to 1.
func equalWeights(n int) []float64 {
	weights := make([]float64, n)
	for i := range weights {
		weights[i] = 1 / float64(n)
	}
	return weights
}

func (f fusion) equal() bool { return slices.Equal(f.weights, equalWeights(len(f.weights))) }

func (f fusion) names() []string {
	names := make([]string, len(f.components))
	for i, c := range f.components {
		names[i] = c.Name
	}
	return names
}

func (f fusion) needs() (n ood.Needs) {
	for _, c := range f.components {
		n |= c.Needs
	}
	return n
}

// memory is that of the largest component, while scorers of the others are
// held, which are a quarter of what their fit holds.
func (f fusion) memory(t ood.Training, _ ood.Params) float64 {
	var largest, all float64
	for _, c := range f.components {
		if c.Memory != nil {
			own := c.Memory(t, c.Default)
			largest, all = max(largest, own), all+own
		}
	}
	return largest + (all-largest)/4
}

func (f fusion) fit(ctx context.Context, t ood.Training, grid []ood.Params) ([]ood.Scorer, error) {
	combine := make([]Combination, len(grid))
	other := Fisher
	if f.combine == Fisher {
		other = HarmonicMean
	}
	for i, p := range grid {
		r := p.Reader()
		combine[i] = Combination(r.OneOf("combine", string(f.combine), string(other)))
		if err := r.Err(); err != nil {
			return nil, err
		}
	}
	if err := (ood.Method{Name: f.name, Needs: f.needs()}).CheckTraining(t); err != nil {
		return nil, err
	}
	if err := t.Validate(); err != nil {
		return nil, err
	}
	// A component would count the rows that it is given.
	needs := f.needs()
	if needs&ood.NeedFeatures != 0 {
		if err := heads.CheckFinite("features", t.Features); err != nil {
			return nil, err
		}
	}
	if needs&ood.NeedLogits != 0 {
		if err := heads.CheckFinite("logits", t.Logits); err != nil {
			return nil, err
		}
	}
	if needs&ood.NeedLayers != 0 {
		if err := checkLayers(t.Layers); err != nil {
			return nil, err
		}
	}
	if t.Len() < 2 {
		return nil, &heads.TooFewRowsError{What: f.name, Have: t.Len(), Need: 2}
	}
	parts, err := f.crossFit(ctx, t)
	if err != nil {
		return nil, err
	}
	scorers := make([]ood.Scorer, len(grid))
	for i, c := range combine {
		scorers[i] = newFused(c, parts)
	}
	return scorers, ctx.Err()
}
