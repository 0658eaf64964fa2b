package attach

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rowhash"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/trees"
	"github.com/attach-uncertainty/attach/ood"
)

// These are the values of Calibration.IntervalErrors.
const (
	ownErrors       = ""
	outOfFoldErrors = "out-of-fold"
	surrogateErrors = "surrogate"
)

const (
	surrogateFolds   = 5
	minSurrogateRows = 50
	// maxSurrogateRows limits the rows that a surrogate model is trained on, which takes a few
	// seconds for this number. An interval model that learns the targets themselves needs no
	// surrogate. It learns from the same rows only to keep the fit short.
	maxSurrogateRows = 20_000
	// surrogateTolerance is the factor by which the model's own errors may differ more than
	// those of the surrogate from its errors on calibration rows. It is above 1 because own
	// errors also show what is particular to the model.
	surrogateTolerance = 2
)

// learningRows holds the rows that the interval model learns from, and how its errors arise: see
// Calibration.IntervalErrors.
type learningRows struct {
	batch    ood.Batch
	unscaled blas32.General // the features before scaling
	targets  blas32.General
	errors   string
}

// learningRows returns the rows that the interval model learns from: the fit rows, with
// out-of-fold predictions if there are any. For a model whose errors on the fit rows are too
// small, because it has memorised them, it replaces predictions by those of a surrogate model.
func (in FitOptions) learningRows(ctx context.Context, d rowSplit, scaling rows.Scaling, hashed string) (learningRows, error) {
	own := learningRows{d.fit, d.unscaled, d.fitTargets, ownErrors}
	if in.OutOfFold.Rows > 0 {
		return own.withPredictions(d.outOfFold, scaling, outOfFoldErrors), nil
	}
	if in.IntervalFit == "" && (!in.Base.Residual || d.heldOut != rows.Given) || in.IntervalFit == "fit" {
		return own, nil
	}
	known := own
	if n := own.batch.Len(); n > maxSurrogateRows {
		_, selected := rows.Split(n, maxSurrogateRows/float64(n), in.Seed)
		known.batch, known.targets = own.batch.Select(selected), rows.Select(own.targets, selected)
		known.unscaled = rows.Select(own.unscaled, selected)
	}
	predictions, err := known.surrogatePredictions(ctx, hashed, in.Seed, in.report(0, 0.4))
	if err != nil || predictions.Rows == 0 && in.IntervalFit == "" {
		return own, err
	}
	if predictions.Rows == 0 {
		return own, fmt.Errorf("a surrogate model needs %d different fit rows with features that are not the model's predictions", minSurrogateRows)
	}
	surrogate := known.withPredictions(predictions, scaling, surrogateErrors)
	if in.IntervalFit == "" && own.difference(d) <= surrogateTolerance*surrogate.difference(d) {
		return own, nil
	}
	return surrogate, nil
}

// predictionColumns returns, for each feature, the output of the model that equals it in all
// rows, or −1. The features of trees contain the predictions.
func (l learningRows) predictionColumns() []int {
	columns := make([]int, l.unscaled.Cols)
	for j := range columns {
		columns[j] = -1
		for k := range l.batch.Logits.Cols {
			i := 0
			for i < l.unscaled.Rows && rows.Row(l.unscaled, i)[j] == rows.Row(l.batch.Logits, i)[k] {
				i++
			}
			if i == l.unscaled.Rows {
				columns[j] = k
			}
		}
	}
	return columns
}

// withPredictions returns l with other predictions of the model, also where they are features.
func (l learningRows) withPredictions(predictions blas32.General, scaling rows.Scaling, errors string) learningRows {
	unscaled := rows.New(l.unscaled.Rows, l.unscaled.Cols)
	columns := l.predictionColumns()
	for i := range unscaled.Rows {
		row := rows.Row(unscaled, i)
		copy(row, rows.Row(l.unscaled, i))
		for j, k := range columns {
			if k >= 0 {
				row[j] = rows.Row(predictions, i)[k]
			}
		}
	}
	l.batch.Features, l.batch.Logits, l.unscaled, l.errors = scaling.Apply(unscaled), predictions, unscaled, errors
	return l
}

// withoutPredictions returns the features with 0 in the place of the model's predictions.
func (l learningRows) withoutPredictions() blas32.General {
	features := rows.New(l.batch.Features.Rows, l.batch.Features.Cols)
	columns := l.predictionColumns()
	for i := range features.Rows {
		row := rows.Row(features, i)
		copy(row, rows.Row(l.batch.Features, i))
		for j, k := range columns {
			if k >= 0 {
				row[j] = 0
			}
		}
	}
	return features
}

// surrogatePredictions returns predictions of the targets by gradient boosting of their median.
// No row is predicted by trees that have seen this row or a copy of it. It returns no
// predictions if there are too few rows, or if all features are predictions of the model.
func (l learningRows) surrogatePredictions(ctx context.Context, hashed string, seed uint64, progress func(float64)) (blas32.General, error) {
	distinct := distinctRows(l.batch, l.targets, hashed)
	if len(distinct) < minSurrogateRows || !slices.Contains(l.predictionColumns(), -1) {
		return blas32.General{}, nil
	}
	features, targets := l.withoutPredictions(), l.targets.Cols
	predictions := rows.New(features.Rows, targets)
	folds := rows.Folds(len(distinct), surrogateFolds, seed)
	o := trees.BoostOptions{Options: trees.Options{MaxDepth: 6, MinLeaf: 10, MaxFeatures: 1}, Trees: 200, LearningRate: 0.1, Level: 0.5, Seed: seed, Threads: 1}
	var lock sync.Mutex
	done := 0
	o.Grown = func() {
		lock.Lock()
		defer lock.Unlock()
		done++
		progress(float64(done) / float64(o.Trees*len(folds)*targets))
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for k, fold := range folds {
		group.Go(func() error {
			others, held := expand(distinct, otherFolds(folds, k)), expand(distinct, fold)
			data, err := trees.NewData(rows.Select(features, others), 255)
			if err != nil {
				return err
			}
			heldOut, predicted := rows.Select(features, held), make([]float64, len(held))
			for t := range targets {
				boosted, err := trees.Boost(ctx, data, column(rows.Select(l.targets, others), t), o)
				if err != nil {
					return err
				}
				boosted.Predict(predicted, heldOut)
				for i, row := range held {
					rows.Row(predictions, row)[t] = float32(predicted[i])
				}
			}
			return nil
		})
	}
	return predictions, group.Wait()
}

// column returns a copy of column t of m.
func column(m blas32.General, t int) []float32 {
	values := make([]float32, m.Rows)
	for i := range values {
		values[i] = rows.Row(m, i)[t]
	}
	return values
}

// otherFolds returns the members of all folds but one.
func otherFolds(folds [][]int, k int) []int {
	return slices.Concat(slices.Concat(folds[:k]...), slices.Concat(folds[k+1:]...))
}

// distinctRows returns the indices of rows, with copies of a row in one list. Copies must stay
// together: if a model learned one, the other would not be new.
func distinctRows(b ood.Batch, targets blas32.General, hashed string) (distinct [][]int) {
	hashes := rowhash.Of(b, hashed)
	addTargets(hashes, nil, targets)
	known := map[rowhash.Hash]int{}
	for i, h := range hashes {
		at, found := known[h]
		if !found {
			at = len(distinct)
			known[h], distinct = at, append(distinct, nil)
		}
		distinct[at] = append(distinct[at], i)
	}
	return distinct
}

// expand returns the rows of some lists, in increasing order.
func expand(lists [][]int, selected []int) (all []int) {
	for _, i := range selected {
		all = append(all, lists[i]...)
	}
	slices.Sort(all)
	return all
}

// difference measures how the absolute errors in l differ from those on the calibration rows: the
// mean absolute logarithm of the ratio of their quantiles from the median to 0.95. Quantiles
// below a hundredth of the largest calibration one count as this hundredth. Otherwise exact
// predictions of half of the rows, as of whole numbers, would outweigh all other errors.
func (l learningRows) difference(d rowSplit) (mean float64) {
	levels := []float64{0.5, 0.6, 0.7, 0.8, 0.9, 0.95}
	for t := range l.targets.Cols {
		mine, cal := absoluteErrors(l.batch.Logits, l.targets, t), absoluteErrors(d.cal.Logits, d.calTargets, t)
		least := quantileOf(cal, levels[len(levels)-1]) / 100
		for _, level := range levels {
			ratio := max(quantileOf(mine, level), least) / max(quantileOf(cal, level), least)
			mean += math.Abs(math.Log(ratio)) / float64(len(levels)*l.targets.Cols)
		}
	}
	return mean
}

// absoluteErrors returns the absolute errors of target t in increasing order.
func absoluteErrors(predictions, targets blas32.General, t int) []float64 {
	list := make([]float64, targets.Rows)
	for i := range list {
		list[i] = math.Abs(float64(rows.Row(targets, i)[t]) - float64(rows.Row(predictions, i)[t]))
	}
	slices.Sort(list)
	return list
}

// quantileOf returns a quantile of sorted positive numbers. It is never 0.
func quantileOf(sorted []float64, level float64) float64 {
	return max(sorted[int(level*float64(len(sorted)))], math.SmallestNonzeroFloat64)
}
