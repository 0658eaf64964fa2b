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

// formResult holds the measures of one form on all splits, and its predictions on the first
// split.
type formResult struct {
	form        classForm
	splits      []classMeasures
	predictions []prediction
	old         []bool
}

// classMeasures holds measures of the test rows of one split.
type classMeasures struct {
	accuracy, auc         float64 // from the median
	meanAccuracy, meanAUC float64 // from the mean over levels
	// uncertaintyRight is the mean uncertainty of correctly classified rows, and
	// uncertaintyWrong that of misclassified rows. errorAUC is the probability that a
	// misclassified row has a larger uncertainty than a correctly classified one.
	uncertaintyRight, uncertaintyWrong, errorAUC float64
	// covered is the fraction of rows whose interval contains the true class. undecided is
	// the fraction of rows whose interval contains both classes. decidedWrong is the error
	// rate on the remaining rows.
	covered, undecided, decidedWrong float64
	// decileErrors holds the error rate of each decile of the rows, most certain first.
	decileErrors [10]float64
}

func measureClasses(predictions []prediction, old []bool) (classMeasures, error) {
	var m classMeasures
	var medians, means, uncertainties [2][]float64 // medians and means by class (young, old); uncertainties by error (right, wrong)
	n, decided := float64(len(predictions)), 0.
	errors := make([]float64, len(predictions))
	for i, p := range predictions {
		class := 0
		if old[i] {
			class = 1
		}
		medians[class], means[class] = append(medians[class], p.score), append(means[class], p.mean)
		wrong := 0
		if p.predictedOld != old[i] {
			wrong = 1
		}
		errors[i] = float64(wrong)
		uncertainties[wrong] = append(uncertainties[wrong], p.uncertainty)
		m.accuracy += float64(1-wrong) / n
		m.meanAccuracy += experiment.Indicator((p.mean > .5) == old[i]) / n
		m.covered += experiment.Indicator(old[i] && p.mayBeOld || !old[i] && p.mayBeYoung) / n
		if p.mayBeOld && p.mayBeYoung {
			m.undecided += 1 / n
		} else {
			decided++
			m.decidedWrong += float64(wrong)
		}
	}
	m.decidedWrong /= max(decided, 1)
	var err error
	for _, area := range []struct {
		dst       *float64
		low, high []float64
	}{{&m.auc, medians[0], medians[1]}, {&m.meanAUC, means[0], means[1]}, {&m.errorAUC, uncertainties[0], uncertainties[1]}} {
		if *area.dst, err = measure.AUROC(area.low, area.high); err != nil {
			return m, fmt.Errorf("area under the curve: %w", err)
		}
	}
	m.uncertaintyRight, m.uncertaintyWrong = stat.Mean(uncertainties[0], nil), stat.Mean(uncertainties[1], nil)
	order := experiment.Indices(len(predictions))
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(predictions[a].uncertainty, predictions[b].uncertainty) })
	for t := range m.decileErrors {
		rows := order[t*len(order)/10 : (t+1)*len(order)/10]
		for _, i := range rows {
			m.decileErrors[t] += errors[i] / float64(len(rows))
		}
	}
	return m, nil
}

// values returns one measure on all splits.
func (r formResult) values(value func(classMeasures) float64) []float64 {
	return experiment.Values(r.splits, value)
}

// difference summarises the paired differences of two forms on the same splits.
type difference struct {
	mean, std float64
	// stderr is corrected because the splits share rows. The variance is multiplied by 1/J
	// + n_test/n_fit instead of 1/J for J splits (Nadeau & Bengio 2003, Inference for the
	// Generalization Error, section 3). p is the p-value of the two-sided t test.
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
