package measure

import (
	"reflect"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Summary is the mean, the standard deviation and the largest value over the
// configurations of a method. The standard deviation is that of a population
// (divided by n, as numpy.std), so that a single configuration has 0.
type Summary struct {
	Mean float64 `json:"mean"`
	Std  float64 `json:"std"`
	Max  float64 `json:"max"`
	N    int     `json:"-"` // configurations summarised; 0 means there is no value
}

// Summarise summarises x, which may be empty.
func Summarise(x []float64) Summary {
	if len(x) == 0 {
		return Summary{}
	}
	mean, std := stat.PopMeanStdDev(x, nil)
	return Summary{Mean: mean, Std: std, Max: slices.Max(x), N: len(x)}
}

// Summaries are those of every metric over the configurations that did not
// fail; each is absent from the JSON form where all failed.
type Summaries struct {
	AUROC          Summary `json:"auroc,omitzero"`
	FPR95          Summary `json:"fpr95,omitzero"`
	AUPRIn         Summary `json:"aupr_in,omitzero"`
	AUPROut        Summary `json:"aupr_out,omitzero"`
	FPR95In        Summary `json:"fpr95_in,omitzero"`
	DetectionError Summary `json:"detection_error,omitzero"`
}

// Set is an out-of-domain set of N rows.
type Set struct {
	Name  string `json:"name"`
	Group string `json:"group,omitempty"`
	N     int    `json:"n"`
}

// SetSummaries are the summaries on one out-of-domain set, or of the mean over
// the sets of a group.
type SetSummaries struct {
	Name string `json:"name"`
	Summaries
	CI *Intervals `json:"ci,omitempty"`
}

// SetMetrics are those on one out-of-domain set, or their mean over the sets of
// a group.
type SetMetrics struct {
	Name string `json:"name"`
	Metrics
	CI *Intervals `json:"ci,omitempty"`
}

// Figures points at the fields of type T of the struct that s points to, in order.
func Figures[T any](s any) []*T {
	var all []*T
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if f, ok := v.Field(i).Addr().Interface().(*T); ok {
			all = append(all, f)
		}
	}
	return all
}
