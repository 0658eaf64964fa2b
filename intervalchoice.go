package attach

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
	"github.com/attach-uncertainty/attach/ood"
)

// IntervalCandidate is an interval model with a nonconformity score that Fit compared with
// others, and how good its intervals were.
type IntervalCandidate struct {
	Method string     `json:"method"`
	Params ood.Params `json:"params,omitempty"`
	// Direct reports whether the interval model learned the targets from features without the
	// model's predictions. Otherwise it learned the errors of the predictions.
	Direct bool   `json:"direct,omitempty"`
	Score  string `json:"score"` // see calibrate.IntervalOptions
	// Winkler is the mean Winkler score of the intervals over that of intervals of constant
	// width around the predictions; with several targets, their geometric mean. Smaller is
	// better.
	Winkler float64 `json:"winkler"`
	// WorstDecile is the coverage of the decile of the predictions that is covered least.
	WorstDecile float64 `json:"worst_decile"`

	method    ood.Method
	criterion float64
}

const (
	maxChoiceRows = 4000 // rows on which candidates are compared
	minChoiceRows = 100  // with fewer different rows, the comparison would be noise
	choiceFolds   = 4
	// A score that exported graphs do not support must be better by this factor.
	exportFactor = 0.98
)

// candidates returns the interval models to compare, or nil if the options or the rows leave no
// choice. Only their method, parameters and rows are set.
func (in FitOptions) candidates(l learningRows) (list []IntervalCandidate) {
	if !in.choosesIntervals || !in.Base.Residual || l.batch.Len() > maxForestRows {
		return nil
	}
	boosting := IntervalCandidate{method: methodsByName("gradient-boosting")[0], Params: ood.Params{"bins": 255, "min_samples_leaf": 10}}
	forest := IntervalCandidate{method: methodsByName("quantile-forest")[0], Params: ood.Params{"n_estimators": 50, "min_samples_leaf": 10}}
	symmetric := IntervalCandidate{method: methodsByName("symmetric-boosting")[0], Params: boosting.Params}
	list = append(list, boosting, forest, symmetric)
	if slices.Contains(l.predictionColumns(), -1) {
		boosting.Direct = true
		list = append(list, boosting)
	}
	for i := range list {
		list[i].Method = list[i].method.Name
	}
	return list
}

// with returns the options that fit this candidate.
func (in FitOptions) with(c IntervalCandidate) (FitOptions, error) {
	in.IntervalModel, in.IntervalScore, in.Base.Residual = c.method, c.Score, in.Base.Residual && !c.Direct
	var err error
	in.IntervalParams, err = fitting.With(c.method, c.Params)
	return in, err
}

// rowsFor returns the rows that the candidate learns from.
func (l learningRows) rowsFor(c IntervalCandidate) ood.Batch {
	b := l.batch
	if c.Direct {
		b.Features = l.withoutPredictions()
	}
	return b
}

// chooseIntervals compares interval models and nonconformity scores by cross-fitting on the
// learning rows. It returns all of them, the best first. The calibration rows have no part in
// it, so the choice does not change the guarantee of the intervals.
func (in FitOptions) chooseIntervals(ctx context.Context, l learningRows, hashed string, progress func(float64)) ([]IntervalCandidate, error) {
	models := in.candidates(l)
	if models == nil {
		return nil, nil
	}
	if n := l.batch.Len(); n > maxChoiceRows {
		_, selected := rows.Split(n, maxChoiceRows/float64(n), in.Seed)
		l.batch, l.targets, l.unscaled = l.batch.Select(selected), rows.Select(l.targets, selected), rows.Select(l.unscaled, selected)
	}
	distinct := distinctRows(l.batch, l.targets, hashed)
	if len(distinct) < minChoiceRows {
		return nil, nil
	}
	scores := []string{conformal.CQR, conformal.CQRR, conformal.CQRM, conformal.CIR}
	if in.IntervalScore != "" {
		scores = []string{in.IntervalScore}
	}
	if in.IntervalScore == conformal.Ridge { // on thousands of rows it takes long, and cqr-r has the same widths
		scores = []string{conformal.CQRR}
	}
	constant := l.constantWidth(in.Level)
	if slices.Contains(constant, 0) {
		return nil, nil // nothing is better than predictions without errors
	}
	var list []IntervalCandidate
	for i, c := range models {
		part := func(done float64) { progress((float64(i) + done) / float64(len(models))) }
		q, err := in.crossFitted(ctx, c, l, distinct, part)
		if err != nil {
			return nil, err
		}
		for _, score := range scores {
			c.Score = score
			if c.WorstDecile, c.Winkler, c.criterion, err = l.judge(q, constant, score, in.Level); err != nil {
				return nil, err
			}
			if score == conformal.CIR {
				c.criterion /= exportFactor
			}
			if c.criterion < math.Inf(1) { // intervals with the score cqr-m can be infinite
				list = append(list, c)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b IntervalCandidate) int { return cmp.Compare(a.criterion, b.criterion) })
	return list, nil
}

// crossFitted returns the quantiles of the learning rows by interval models that have not seen
// them. Each list in distinct holds the copies of a row.
func (in FitOptions) crossFitted(ctx context.Context, c IntervalCandidate, l learningRows, distinct [][]int, progress func(float64)) ([]calibrate.QuantileCalibration, error) {
	in, err := in.with(c)
	if err != nil {
		return nil, err
	}
	batch, levels := l.rowsFor(c), quantile.Levels()
	all := ood.NewQuantiles(batch.Len(), l.targets.Cols, levels)
	folds := rows.Folds(len(distinct), choiceFolds, in.Seed)
	for k, fold := range folds {
		others, held := expand(distinct, otherFolds(folds, k)), expand(distinct, fold)
		part := func(done float64) { progress((float64(k) + done) / float64(len(folds))) }
		model, err := in.fitOn(ctx, batch.Select(others), rows.Select(l.targets, others), true, part)
		if err != nil {
			return nil, err
		}
		q, err := in.Base.quantilesOf(model, batch.Select(held), levels)
		if err != nil {
			return nil, err
		}
		copyQuantiles(all, held, q)
	}
	return calibrateQuantiles(all, l.targets)
}

// judge returns how good the calibrated intervals of the learning rows are. The criterion is the
// relative Winkler score times 1 plus the variance of the coverage of deciles, beyond chance and
// as a multiple of level·(1−level).
func (l learningRows) judge(q []calibrate.QuantileCalibration, constant []float64, score string, level float64) (worst, winkler, criterion float64, err error) {
	intervals, err := calibrate.NewIntervals(q, calibrate.IntervalOptions{Score: score}, 1-level)
	if err != nil {
		return 0, 0, 0, err
	}
	n, targets := l.targets.Rows, len(q)
	lower, upper, bands := make([]float64, targets), make([]float64, targets), make([][]float32, targets)
	sums, covered := make([]float64, targets), make([][]bool, targets)
	for i := range n {
		for t := range targets {
			bands[t] = q[t].Grid[i*len(q[t].Levels):][:len(q[t].Levels)]
		}
		intervals.Predict(lower, upper, bands, uint64(i))
		for t := range targets {
			y := float64(rows.Row(l.targets, i)[t])
			sums[t] += winklerScore(lower[t], upper[t], y, level)
			covered[t] = append(covered[t], lower[t] <= y && y <= upper[t])
		}
	}
	worst, criterion = 1, 1
	for t := range targets {
		relative := sums[t] / float64(n) / constant[t]
		excess := 0.
		for _, decile := range deciles(l.batch.Logits, t) {
			rate := 0.
			for _, i := range decile {
				if covered[t][i] {
					rate += 1 / float64(len(decile))
				}
			}
			worst = min(worst, rate)
			excess += ((rate-level)*(rate-level)/(level*(1-level)) - 1/float64(len(decile))) / 10
		}
		winkler += math.Log(relative) / float64(targets)
		criterion *= math.Pow(relative*(1+max(0, excess)), 1/float64(targets))
	}
	return worst, math.Exp(winkler), criterion, nil
}

// winklerScore returns the Winkler score of an interval (Winkler 1972): its width and, for a
// target outside, also the distance times 2/(1 − level).
func winklerScore(lower, upper, y, level float64) float64 {
	return upper - lower + 2/(1-level)*max(0, lower-y, y-upper)
}

// deciles returns the rows of each decile of the predictions of target t.
func deciles(predictions blas32.General, t int) [][]int {
	order := make([]int, predictions.Rows)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rows.Row(predictions, a)[t], rows.Row(predictions, b)[t]) })
	list := make([][]int, 10)
	for d := range list {
		list[d] = order[d*len(order)/10 : (d+1)*len(order)/10]
	}
	return list
}

// constantWidth returns, for each target, the mean Winkler score of split conformal prediction,
// whose intervals have the same width for all rows.
func (l learningRows) constantWidth(level float64) []float64 {
	scores := make([]float64, l.targets.Cols)
	for t := range scores {
		errors := absoluteErrors(l.batch.Logits, l.targets, t)
		margin := errors[min(len(errors)-1, int(math.Ceil(level*float64(len(errors)+1)))-1)]
		for _, e := range errors {
			scores[t] += winklerScore(-margin, margin, e, level) / float64(len(errors))
		}
	}
	return scores
}
