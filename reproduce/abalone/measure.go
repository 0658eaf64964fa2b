package abalone

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/attach-uncertainty/attach/internal/numeric/measure"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// formResult is one form on all splits, and its rows of the first.
type formResult struct {
	form   classForm
	splits []classMeasures
	judged []judgement
	old    []bool
}

// classMeasures are figures of the test rows of one split.
type classMeasures struct {
	accuracy, auc         float64 // of the median
	meanAccuracy, meanAUC float64 // of the mean over levels
	// unsureRight and unsureWrong are the mean of judgement.unsure over rows
	// classed rightly and wrongly; errorAUC is the probability that a row
	// classed wrongly is the less sure one of the two.
	unsureRight, unsureWrong, errorAUC float64
	// covered is the share of rows whose class the interval holds, undecided
	// of those where it holds both, and decidedWrong the share of errors among
	// the others.
	covered, undecided, decidedWrong float64
	// tenths is the error rate in tenths of the rows, the surest first.
	tenths [10]float64
}

func measureClasses(judged []judgement, old []bool) (classMeasures, error) {
	var m classMeasures
	var medians, means, unsure [2][]float64 // of the young and old; of right and wrong
	n, decided := float64(len(judged)), 0.
	errors := make([]float64, len(judged))
	for i, j := range judged {
		class := 0
		if old[i] {
			class = 1
		}
		medians[class], means[class] = append(medians[class], j.score), append(means[class], j.mean)
		wrong := 0
		if j.old != old[i] {
			wrong = 1
		}
		errors[i] = float64(wrong)
		unsure[wrong] = append(unsure[wrong], j.unsure)
		m.accuracy += float64(1-wrong) / n
		m.meanAccuracy += experiment.Indicator((j.mean > .5) == old[i]) / n
		m.covered += experiment.Indicator(old[i] && j.mayBeOld || !old[i] && j.mayBeYoung) / n
		if j.mayBeOld && j.mayBeYoung {
			m.undecided += 1 / n
		} else {
			decided++
			m.decidedWrong += float64(wrong)
		}
	}
	m.decidedWrong /= max(decided, 1)
	var err error
	for _, area := range []struct {
		to        *float64
		low, high []float64
	}{{&m.auc, medians[0], medians[1]}, {&m.meanAUC, means[0], means[1]}, {&m.errorAUC, unsure[0], unsure[1]}} {
		if *area.to, err = measure.AUROC(area.low, area.high); err != nil {
			return m, fmt.Errorf("area under the curve: %w", err)
		}
	}
	m.unsureRight, m.unsureWrong = stat.Mean(unsure[0], nil), stat.Mean(unsure[1], nil)
	order := experiment.Indices(len(judged))
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(judged[a].unsure, judged[b].unsure) })
	for t := range m.tenths {
		rows := order[t*len(order)/10 : (t+1)*len(order)/10]
		for _, i := range rows {
			m.tenths[t] += errors[i] / float64(len(rows))
		}
	}
	return m, nil
}

// across are the values of one measure on all splits.
func (r formResult) across(of func(classMeasures) float64) []float64 {
	return experiment.Values(r.splits, of)
}

// difference is a mean difference of two forms on the same splits.
type difference struct {
	mean, std float64
	// stderr allows for splits that share rows: the variance is multiplied by
	// 1/J + n_test/n_fit and not by 1/J (Nadeau & Bengio 2003, Inference for
	// the Generalization Error, section 3). p is of the two-sided t test.
	stderr, p float64
}

func pairedDifference(a, b []float64, fit, test int) difference {
	d := make([]float64, len(a))
	for i := range d {
		d[i] = a[i] - b[i]
	}
	var r difference
	r.mean, r.std = stat.MeanStdDev(d, nil)
	j := float64(len(d))
	r.stderr = r.std * math.Sqrt(1/j+float64(test)/float64(fit))
	if r.stderr == 0 {
		r.p = experiment.Indicator(r.mean == 0)
		return r
	}
	r.p = 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: j - 1}.Survival(math.Abs(r.mean)/r.stderr)
	return r
}
