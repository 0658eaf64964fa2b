package compare

import (
	"cmp"
	"slices"

	"github.com/attach-uncertainty/attach/ood"
)

// Report is the result of a comparison. Its JSON form is stable: keys keep their names and
// order, and no number is NaN or infinite.
type Report struct {
	Model string `json:"model"` // file of the model; the caller sets it
	// ModelSHA256 is its digest in hexadecimal; the caller sets it.
	ModelSHA256 string `json:"model_sha256,omitempty"`
	FitRows     int    `json:"fit_rows"`
	TestRows    int    `json:"test_rows"`
	OODRows     int    `json:"ood_rows"` // in all sets together
	Sweep       bool   `json:"sweep"`
	Seed        uint64 `json:"seed"`
	// OODSets are the out-of-distribution sets, or nil if there is one set without a name. All
	// other figures are means over the sets, with equal weights.
	OODSets []Set `json:"ood_sets,omitempty"`
	// Resamples is the number of bootstrap resamples. 0 means that there are no intervals.
	Resamples int `json:"resamples,omitempty"`
	// ErrorRate is the error rate of the model on the in-distribution rows, or nil without
	// labels or logits.
	ErrorRate *float64       `json:"error_rate,omitempty"`
	Methods   []MethodReport `json:"methods"` // in the order of Options.Methods
	Skipped   []Skipped      `json:"skipped"`

	// Wrong marks the in-distribution rows that the model misclassifies, or is nil. It is
	// absent from the JSON form.
	Wrong []bool `json:"-"`
}

// MethodReport is the result of one method.
type MethodReport struct {
	Name    string `json:"name"`
	Control bool   `json:"control,omitempty"` // a control (random or an oracle), and not a competitor

	// OutliersFitted is the number of out-of-distribution rows that an oracle was fitted with,
	// and OODRows the number of others that it was measured on. Both are 0, and absent from
	// the JSON form, for methods that are fitted without outliers and measured on all rows.
	OutliersFitted int `json:"outliers_fitted,omitempty"`
	OODRows        int `json:"ood_rows,omitempty"`

	// Variant is the variant of the method that was used, such as "inserted dropout". It is
	// absent from the JSON form if the method itself was used.
	Variant string `json:"variant,omitempty"`

	// Summaries summarise the configurations. Their keys are inlined.
	Summaries
	AURC Summary `json:"aurc,omitzero"` // absent if the errors of the model are unknown
	// CI holds the intervals of the means over configurations.
	CI *Intervals `json:"ci,omitempty"`
	// Sets and Groups are the summaries by set and by group of sets. They are absent if the
	// only set has no name.
	Sets   []SetSummaries `json:"sets,omitempty"`
	Groups []SetSummaries `json:"groups,omitempty"`

	// FitSeconds is the wall-clock time to fit all configurations.
	FitSeconds float64 `json:"fit_seconds"`
	// ScoreMicroseconds is the wall-clock time to score one row with one configuration.
	ScoreMicroseconds float64 `json:"score_microseconds_per_row"`

	Configs []Config `json:"configs"`
	Failed  []Failed `json:"failed,omitempty"`

	unsupported error // why the model cannot do what the method needs, or nil
}

// Config is the result of one configuration.
type Config struct {
	Params ood.Params `json:"params"`
	// Metrics are means over the sets. Their keys are inlined.
	Metrics
	// AURC is the area under the risk–coverage curve of the in-distribution rows, whose risk
	// is the error rate of the model. It is nil if the errors are unknown.
	AURC *float64   `json:"aurc,omitempty"`
	CI   *Intervals `json:"ci,omitempty"` // intervals of Metrics and AURC
	// Sets and Groups are the metrics by set and by group of sets. They are absent if the only
	// set has no name.
	Sets   []SetMetrics `json:"sets,omitempty"`
	Groups []SetMetrics `json:"groups,omitempty"`
	// TestScores are the scores of the in-distribution rows, and OODScores those of the
	// out-of-distribution rows, set by set. Both are absent from the JSON form.
	TestScores []float64   `json:"-"`
	OODScores  [][]float64 `json:"-"`
}

// Failed is a configuration that could not be fitted or scored.
type Failed struct {
	Params ood.Params `json:"params"`
	Error  string     `json:"error"`
}

// Skipped is a method that needs what the data or the model lack.
type Skipped struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Ranked returns the methods by decreasing mean AUROC. Methods without a result come last.
func (r *Report) Ranked() []MethodReport {
	ranked := slices.Clone(r.Methods)
	slices.SortStableFunc(ranked, func(a, b MethodReport) int { return cmp.Compare(b.AUROC.Mean, a.AUROC.Mean) })
	return ranked
}
