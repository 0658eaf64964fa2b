package compare

import (
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Metrics measure how well scores separate out-of-distribution rows, the positive class, from
// in-distribution rows. All are in [0,1].
type Metrics struct {
	// AUROC is the area under the receiver operating characteristic: the probability that an
	// out-of-distribution row scores above an in-distribution row. Ties count one half
	// (Mann–Whitney). Higher is better.
	AUROC float64 `json:"auroc"`
	// FPR95 is the fraction of in-distribution rows flagged at the threshold that flags at
	// least 95 % of the out-of-distribution rows: the smallest false-positive rate on the ROC
	// curve with a true-positive rate of at least 0.95. Lower is better. Papers with
	// in-distribution as the positive class report FPR95In.
	FPR95 float64 `json:"fpr95"`
	// AUPRIn is the average precision with in-distribution as the positive class and negated
	// scores. Higher is better.
	AUPRIn float64 `json:"aupr_in"`
	// AUPROut is the average precision with out-of-distribution as the positive class. Higher
	// is better.
	AUPROut float64 `json:"aupr_out"`
	// FPR95In is the fraction of out-of-distribution rows accepted at the threshold that
	// accepts at least 95 % of the in-distribution rows. It is the FPR@95 of OpenOOD and of
	// most papers on images. Lower is better.
	FPR95In float64 `json:"fpr95_in"`
	// DetectionError is the smallest probability, over all thresholds, to misjudge a row if
	// both kinds are equally likely: min ½·FPR + ½·(1−TPR), as in Lee et al. (2018), "A Simple
	// Unified Framework for Detecting Out-of-Distribution Samples". It is at most ½. Lower is
	// better.
	DetectionError float64 `json:"detection_error"`
}

// Intervals holds a 95 % bootstrap confidence interval [low, high] for each metric.
type Intervals struct {
	AUROC          [2]float64  `json:"auroc"`
	FPR95          [2]float64  `json:"fpr95"`
	AUPRIn         [2]float64  `json:"aupr_in"`
	AUPROut        [2]float64  `json:"aupr_out"`
	FPR95In        [2]float64  `json:"fpr95_in"`
	DetectionError [2]float64  `json:"detection_error"`
	AURC           *[2]float64 `json:"aurc,omitempty"` // nil if there is no AURC
}

// Summary is the mean, the standard deviation and the largest value over the configurations
// of a method. The standard deviation is divided by n, as by numpy.std, so it is 0 for a
// single configuration.
type Summary struct {
	Mean float64 `json:"mean"`
	Std  float64 `json:"std"`
	Max  float64 `json:"max"`
	N    int     `json:"-"` // number of configurations; 0 means no value
}

// summarise summarises x, which may be empty.
func summarise(x []float64) Summary {
	if len(x) == 0 {
		return Summary{}
	}
	mean, std := stat.PopMeanStdDev(x, nil)
	return Summary{Mean: mean, Std: std, Max: slices.Max(x), N: len(x)}
}

// Summaries summarise each metric over the configurations that did not fail. If all failed,
// they are absent from the JSON form.
type Summaries struct {
	AUROC          Summary `json:"auroc,omitzero"`
	FPR95          Summary `json:"fpr95,omitzero"`
	AUPRIn         Summary `json:"aupr_in,omitzero"`
	AUPROut        Summary `json:"aupr_out,omitzero"`
	FPR95In        Summary `json:"fpr95_in,omitzero"`
	DetectionError Summary `json:"detection_error,omitzero"`
}

// Set is an out-of-distribution set.
type Set struct {
	Name  string `json:"name"`
	Group string `json:"group,omitempty"`
	Rows  int    `json:"rows"`
}

// SetSummaries are the summaries on one out-of-distribution set, or of the mean over the sets
// of a group.
type SetSummaries struct {
	Name string `json:"name"`
	Summaries
	CI *Intervals `json:"ci,omitempty"`
}

// SetMetrics are the metrics on one out-of-distribution set, or their mean over the sets of a
// group.
type SetMetrics struct {
	Name string `json:"name"`
	Metrics
	CI *Intervals `json:"ci,omitempty"`
}
