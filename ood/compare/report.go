package compare

import (
	"cmp"
	"slices"

	"github.com/attach-uncertainty/attach/ood"
)

// Report is the result of a comparison. Its JSON form is stable: keys keep their names and
// order, and no number is NaN or infinite.
type Report struct {
	Model string `json:"model"` // file of the model; Run leaves it empty for the caller to set
	// ModelSHA256 is the SHA-256 of the model in hexadecimal digits. Run leaves it empty for
	// the caller to set.
	ModelSHA256 string `json:"model_sha256,omitempty"`
	FitRows     int    `json:"fit_rows"`
	TestRows    int    `json:"test_rows"`
	OODRows     int    `json:"ood_rows"` // number of rows of all sets together
	Sweep       bool   `json:"sweep"`
	Seed        uint64 `json:"seed"`
	// OODSets describes the out-of-distribution sets. It is nil if there is one set without
	// a name. The fields named Sets hold metrics for each set, and those named Groups for
	// each group of sets. Other metrics of out-of-distribution detection are means over all
	// sets, with equal weights.
	OODSets []Set `json:"ood_sets,omitempty"`
	// Resamples is the number of bootstrap resamples. 0 means that there are no intervals.
	Resamples int `json:"resamples,omitempty"`
	// ErrorRate is the error rate of the model on the in-distribution rows. It is nil without
	// labels or logits.
	ErrorRate *float64       `json:"error_rate,omitempty"`
	Methods   []MethodReport `json:"methods"` // in the order of Options.Methods
	Skipped   []Skipped      `json:"skipped"`

	// Wrong reports, for each in-distribution row, whether the model misclassifies it. It is
	// nil without labels or logits, and absent from the JSON form.
	Wrong []bool `json:"-"`
}

// MethodReport holds the results of one method.
type MethodReport struct {
	Name    string `json:"name"`
	Control bool   `json:"control,omitempty"` // whether the method is a control (random scores or an oracle) and not a competitor

	// OutliersFitted is the number of out-of-distribution rows that an oracle was fitted on,
	// and OODRows the number of other rows that it was measured on. For other methods, which
	// are measured on all rows, both are 0 and absent from the JSON form.
	OutliersFitted int `json:"outliers_fitted,omitempty"`
	OODRows        int `json:"ood_rows,omitempty"`

	// Variant names a variant of the method that was used instead of the method itself, such
	// as "inserted dropout". Otherwise it is empty and absent from the JSON form.
	Variant string `json:"variant,omitempty"`

	// Summaries holds the summaries over the configurations. In the JSON form, its fields are
	// inlined.
	Summaries
	AURC Summary `json:"aurc,omitzero"` // absent if it is unknown which predictions of the model are wrong
	// CI holds confidence intervals of the means over configurations.
	CI *Intervals `json:"ci,omitempty"`
	// Sets and Groups hold the summaries for each set and for each group of sets. They are
	// absent if the only set has no name.
	Sets   []SetSummaries `json:"sets,omitempty"`
	Groups []SetSummaries `json:"groups,omitempty"`

	// FitSeconds is the wall-clock time to fit all configurations.
	FitSeconds float64 `json:"fit_seconds"`
	// ScoreMicroseconds is the wall-clock time to score one row with one configuration.
	ScoreMicroseconds float64 `json:"score_microseconds_per_row"`

	Configs []Config `json:"configs"`
	Failed  []Failed `json:"failed,omitempty"`

	unsupported error // reason why the model does not support the method or memory does not suffice; nil if there is none
}

// Config holds the results of one configuration.
type Config struct {
	Params ood.Params `json:"params"`
	// Metrics holds the means over the sets. In the JSON form, its fields are inlined.
	Metrics
	// AURC is the area under the risk–coverage curve of the in-distribution rows, in which
	// risk is the error rate of the model. It is nil if the errors of the model are unknown.
	AURC *float64   `json:"aurc,omitempty"`
	CI   *Intervals `json:"ci,omitempty"` // intervals of Metrics and AURC
	// Sets and Groups hold the metrics for each set and for each group of sets. They are
	// absent if the only set has no name.
	Sets   []SetMetrics `json:"sets,omitempty"`
	Groups []SetMetrics `json:"groups,omitempty"`
	// TestScores holds the scores of the in-distribution rows, and OODScores those of the
	// out-of-distribution rows of each set. Both are absent from the JSON form.
	TestScores []float64   `json:"-"`
	OODScores  [][]float64 `json:"-"`
}

// Failed describes a configuration that could not be fitted or scored.
type Failed struct {
	Params ood.Params `json:"params"`
	Error  string     `json:"error"`
}

// Skipped describes a method that needs something that the data or the model lack, or too
// much memory.
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
