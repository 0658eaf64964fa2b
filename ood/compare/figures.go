package compare

import (
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Metrics holds measures of how well scores separate out-of-distribution rows (the positive
// class) from in-distribution rows. All are in [0,1].
type Metrics struct {
	// AUROC is the area under the receiver operating characteristic. It is the probability
	// that an out-of-distribution row has a higher score than an in-distribution row. Ties
	// count one half (Mann–Whitney). Higher is better.
	AUROC float64 `json:"auroc"`
	// FPR95 is the fraction of in-distribution rows that are flagged at the threshold that
	// flags at least 95 % of the out-of-distribution rows. In other words, it is the smallest
	// false-positive rate on the ROC curve with a true-positive rate of at least 0.95. Lower
	// is better. Papers whose positive class is in-distribution report FPR95In instead.
	FPR95 float64 `json:"fpr95"`
	// AUPRIn is the average precision with in-distribution rows as the positive class, for
	// negated scores. Higher is better.
	AUPRIn float64 `json:"aupr_in"`
	// AUPROut is the average precision with out-of-distribution rows as the positive class.
	// Higher is better.
	AUPROut float64 `json:"aupr_out"`
	// FPR95In is the fraction of out-of-distribution rows that are accepted at the threshold
	// that accepts at least 95 % of the in-distribution rows. OpenOOD before August 2023, and
	// many papers on images, call it FPR@95. Lower is better.
	FPR95In float64 `json:"fpr95_in"`
	// DetectionError is the smallest error rate of any threshold if in-distribution and
	// out-of-distribution rows are equally likely: min ½·FPR + ½·(1−TPR). See Lee et al.
	// (2018), "A Simple Unified Framework for Detecting Out-of-Distribution Samples". It is at
	// most ½. Lower is better.
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

// Summary holds the mean, the standard deviation and the largest value over the configurations
// of a method. The standard deviation is that of numpy.std, which divides by n, so it is 0 for
// a single configuration.
type Summary struct {
	Mean float64 `json:"mean"`
	Std  float64 `json:"std"`
	Max  float64 `json:"max"`
	N    int     `json:"-"` // number of configurations; 0 means no value
}

// summarise returns the summary of x, which may be empty.
func summarise(x []float64) Summary {
	if len(x) == 0 {
		return Summary{}
	}
	mean, std := stat.PopMeanStdDev(x, nil)
	return Summary{Mean: mean, Std: std, Max: slices.Max(x), N: len(x)}
}

// Summaries holds the summary of each metric over the configurations that did not fail. If all
// failed, the JSON form lacks the summaries.
type Summaries struct {
	AUROC          Summary `json:"auroc,omitzero"`
	FPR95          Summary `json:"fpr95,omitzero"`
	AUPRIn         Summary `json:"aupr_in,omitzero"`
	AUPROut        Summary `json:"aupr_out,omitzero"`
	FPR95In        Summary `json:"fpr95_in,omitzero"`
	DetectionError Summary `json:"detection_error,omitzero"`
}

// Set describes an out-of-distribution set.
type Set struct {
	Name  string `json:"name"`
	Group string `json:"group,omitempty"`
	Rows  int    `json:"rows"`
}

// SetSummaries holds the summaries for one out-of-distribution set, or for the mean over the
// sets of a group.
type SetSummaries struct {
	Name string `json:"name"`
	Summaries
	CI *Intervals `json:"ci,omitempty"`
}

// SetMetrics holds the metrics for one out-of-distribution set, or their mean over the sets of
// a group.
type SetMetrics struct {
	Name string `json:"name"`
	Metrics
	CI *Intervals `json:"ci,omitempty"`
}
