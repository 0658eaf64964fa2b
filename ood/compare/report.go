package compare

import (
	"cmp"
	"slices"

	"github.com/attach-uncertainty/attach/ood"
)

// Report is a side-by-side comparison. Its JSON form is stable: keys keep
// their names and order, and no number in it is NaN or infinite.
type Report struct {
	Model string `json:"model"` // what the rows come from, for the reader; Run leaves it empty
	// ModelSHA256 is for the reader too, in hexadecimal.
	ModelSHA256 string `json:"model_sha256,omitempty"`
	FitRows     int    `json:"fit_rows"`
	TestRows    int    `json:"test_rows"`
	OODRows     int    `json:"ood_rows"` // rows of all sets together
	Sweep       bool   `json:"sweep"`
	Seed        uint64 `json:"seed"`
	// Sets are the out-of-domain sets, each its Name, its Group and N rows; nil where
	// there is but one without a name. All other figures are then means over the sets, each set counted
	// alike however many rows it has.
	OODSets []Set `json:"ood_sets,omitempty"`
	// Resamples is how many the confidence intervals come from; 0 means that
	// there are none.
	Resamples int `json:"resamples,omitempty"`
	// InError is the network's own share of in-domain rows classified
	// wrongly; nil where labels or logits are absent.
	ErrorRate *float64       `json:"error_rate,omitempty"`
	Methods   []MethodReport `json:"methods"` // in the order asked for
	Skipped   []Skipped      `json:"skipped"`

	// Wrong says which in-domain rows the network classifies wrongly, or is
	// nil; absent from the JSON form.
	Wrong []bool `json:"-"`
}

// MethodReport is what one method reached.
type MethodReport struct {
	Name    string `json:"name"`
	Control bool   `json:"control,omitempty"` // no competitor: random or an oracle

	// NOutliers is the number of out-of-domain rows that the method was fitted
	// with and NOut the number of others that it was measured on: an oracle's,
	// whose rows are part of the report's NOut unless it was given some apart.
	// 0, and absent from the JSON form, for methods that are fitted with none,
	// which are measured on all of them.
	OutliersFitted int `json:"outliers_fitted,omitempty"`
	OODRows        int `json:"ood_rows,omitempty"`

	// Variant is what stands in for the method, such as "inserted dropout";
	// absent from the JSON form where nothing does.
	Variant string `json:"variant,omitempty"`

	// Summaries of the configurations are inlined.
	Summaries
	AURC Summary `json:"aurc,omitzero"` // absent where the network's errors are not known
	// CI holds the intervals of the means over the configurations.
	CI *Intervals `json:"ci,omitempty"`
	// Sets and Groups are the same by set and by group of sets, whose Name they have;
	// absent where the only set has no name.
	Sets   []SetSummaries `json:"sets,omitempty"`
	Groups []SetSummaries `json:"groups,omitempty"`

	// FitSeconds is the wall-clock time that fitting all configurations took,
	// added up where several were fitted at a time.
	FitSeconds float64 `json:"fit_seconds"`
	// ScoreMicroseconds is the wall-clock time per row and configuration.
	ScoreMicroseconds float64 `json:"score_microseconds_per_row"`

	Configs []Config `json:"configs"`
	Failed  []Failed `json:"failed,omitempty"`

	unable error // why the network cannot do what the method asks of it, or nil
}

// Config is what one configuration reached.
type Config struct {
	Params ood.Params `json:"params"`
	// Metrics are inlined. They are means over the sets where there are several.
	Metrics
	// AURC is the area under the risk–coverage curve of the in-domain rows,
	// with an error of the network as the risk; nil where it is not known.
	AURC *float64   `json:"aurc,omitempty"`
	CI   *Intervals `json:"ci,omitempty"` // as MethodReport has them
	// Sets and Groups are the same by set and by group of sets, whose Name they have;
	// absent where the only set has no name.
	Sets   []SetMetrics `json:"sets,omitempty"`
	Groups []SetMetrics `json:"groups,omitempty"`
	// In and Out are the scores of the in-domain rows and, set by set, of the
	// out-of-domain rows measured on; absent from the JSON form.
	TestScores []float64   `json:"-"`
	OODScores  [][]float64 `json:"-"`
}

// Failed is a configuration that could not be fitted or scored.
type Failed struct {
	Params ood.Params `json:"params"`
	Error  string     `json:"error"`
}

// Skipped is a method that needs what the data lacks.
type Skipped struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Ranked returns the methods by falling mean AUROC, those with no result last.
func (r *Report) Ranked() []MethodReport {
	ranked := slices.Clone(r.Methods)
	slices.SortStableFunc(ranked, func(a, b MethodReport) int { return cmp.Compare(b.AUROC.Mean, a.AUROC.Mean) })
	return ranked
}
