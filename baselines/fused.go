package baselines

import (
	"context"
	"fmt"
	"strings"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// Combination is how a fused method makes one number of several p-values.
type Combination string

const (
	// Fisher is −2 Σ log p (Fisher 1932, Statistical Methods for Research
	// Workers, section 21.1).
	Fisher Combination = "fisher"
	// HarmonicMean is −log of the harmonic mean of the p-values (Wilson 2019,
	// "The harmonic mean p-value for combining dependent tests", with equal
	// weights).
	HarmonicMean Combination = "harmonic"
)

// FusedPValues fuses two detectors that see different things: certificates
// how features lie about their class's mean, whatever their length, and ViM what is left of them
// outside the space that the network uses. Both weigh in the logits.
var FusedPValues = Fused("fused", HarmonicMean, fusedComponents()...)

// fusedComponents are fused, each in its default configuration.
func fusedComponents() []ood.Method { return []ood.Method{CertificatesCoupled, ViM} }

// Fused returns a method that combines the conformal p-values of its
// components, each fitted in its default configuration; combine is the default of
// its parameter of that name. A fifth of the rows, drawn by the seed,
// calibrates the components, which are fitted with the others alone. It panics
// if there are no components or two of them have one name.
func Fused(name string, combine Combination, components ...ood.Method) ood.Method {
	f := fusion{name: name, combine: combine, components: components}
	names := f.names()
	if len(components) == 0 || repeated(names) {
		panic("baselines: a fused method needs components, each of them once")
	}
	if combine != Fisher && combine != HarmonicMean {
		panic("baselines: no such combination: " + string(combine))
	}
	m := ood.Method{
		Name: name,
		Doc: "The conformal p-values of " + strings.Join(names, ", ") + " as one number: combine=fisher is −2 Σ log p, combine=harmonic " +
			"minus the logarithm of their harmonic mean. A fifth of the training rows calibrates the components, which are fitted with the " +
			"others. Between calibration scores log p is interpolated, and beyond the largest it follows a generalised Pareto " +
			"distribution fitted to the upper tenth, so that far rows keep their order. The components depend on each other: the " +
			"result is a score, and a p-value only once it is calibrated itself.",
		Ref:     "Fisher 1932; Wilson 2019, doi:10.1073/pnas.1814092116; Pickands 1975 for the tail",
		Needs:   f.needs(),
		Default: ood.Params{"combine": string(combine)},
		Grid:    []ood.Params{{"combine": string(Fisher)}, {"combine": string(HarmonicMean)}},
		Fit: func(ctx context.Context, t ood.Training, p ood.Params) (ood.Scorer, error) {
			return one(f.fit(ctx, t, []ood.Params{p}))
		},
		FitGrid: f.fit,
		Restore: f.restore,
	}
	for _, c := range components {
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
}

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
	if err := heads.CheckFinite("features", t.Features); err != nil && f.needs()&ood.NeedFeatures != 0 {
		return nil, err
	}
	if err := heads.CheckFinite("logits", t.Logits); err != nil && f.needs()&ood.NeedLogits != 0 {
		return nil, err
	}
	if t.Len() < 2 {
		return nil, &heads.TooFewRowsError{What: f.name, Have: t.Len(), Need: 2}
	}
	fit, cal := calibrate.Split(t.Len(), calibrate.DefaultFraction, t.Seed)
	held := t.Batch.Select(cal)
	parts := make([]fusedPart, len(f.components))
	for i, m := range f.components {
		part := t
		part.Batch = t.Batch.Select(fit)
		if t.Progress != nil {
			part.Progress = func(share float64) { t.Progress((float64(i) + share) / float64(len(parts))) }
		}
		s, err := m.Fit(ctx, part, m.Default)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		scores, err := s.Score(ctx, nil, held)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		c, err := calibrate.NewConformal(scores)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		parts[i] = fusedPart{m.Name, s, newSurprise(c)}
	}
	scorers := make([]ood.Scorer, len(grid))
	for i, c := range combine {
		scorers[i] = newFused(c, parts)
	}
	return scorers, ctx.Err()
}
