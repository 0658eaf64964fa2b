package compare

import (
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Metrics are the usual figures of merit for telling out-of-domain rows (the
// positive class) from in-domain ones. All are in [0,1].
type Metrics struct {
	// AUROC is the area under the receiver operating characteristic: the
	// probability that an out-of-domain row scores above an in-domain row,
	// ties counted as one half (Mann-Whitney).
	AUROC float64 `json:"auroc"`
	// FPR95 is the share of in-domain rows flagged at the threshold that
	// flags at least 95 % of the out-of-domain rows: the smallest false
	// positive rate on the ROC curve with true positive rate ≥ .95. Lower is
	// better. (Papers that take in-domain as the positive class ask for 95 %
	// of the in-domain rows: that is FPR95In.)
	FPR95 float64 `json:"fpr95"`
	// AUPRIn is the average precision with in-domain as the positive class
	// and scores negated.
	AUPRIn float64 `json:"aupr_in"`
	// AUPROut is the average precision with out-of-domain as the positive
	// class.
	AUPROut float64 `json:"aupr_out"`
	// FPR95In is the share of out-of-domain rows accepted at the threshold
	// that accepts at least 95 % of the in-domain rows: the smallest false
	// positive rate with true positive rate ≥ .95 where in-domain is the
	// positive class, as OpenOOD and most papers on images have it. Lower is
	// better.
	FPR95In float64 `json:"fpr95_in"`
	// DetectionError is the least probability, over all thresholds, of
	// judging a row wrongly where both sides are equally likely:
	// min ½·FPR + ½·(1−TPR), as in Lee et al. (2018), "A Simple Unified
	// Framework for Detecting Out-of-Distribution Samples". At most ½; lower
	// is better.
	DetectionError float64 `json:"detection_error"`
}

// Intervals holds a bootstrap confidence interval of 95 % for every metric, its lower
// end first.
type Intervals struct {
	AUROC          [2]float64  `json:"auroc"`
	FPR95          [2]float64  `json:"fpr95"`
	AUPRIn         [2]float64  `json:"aupr_in"`
	AUPROut        [2]float64  `json:"aupr_out"`
	FPR95In        [2]float64  `json:"fpr95_in"`
	DetectionError [2]float64  `json:"detection_error"`
	AURC           *[2]float64 `json:"aurc,omitempty"` // nil where there is no AURC
}

// Summary is the mean, the standard deviation and the largest value over the
// configurations of a method. The standard deviation is that of a population
// (divided by n, as numpy.std), so that a single configuration has 0.
type Summary struct {
	Mean float64 `json:"mean"`
	Std  float64 `json:"std"`
	Max  float64 `json:"max"`
	N    int     `json:"-"` // configurations summarised; 0 means there is no value
}

// summarise summarises x, which may be empty.
func summarise(x []float64) Summary {
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
	Rows  int    `json:"rows"`
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
