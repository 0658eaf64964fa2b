package fitting

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/ood"
)

// Scorer is a fitted method that checks its inputs. A fitted detector has scores, and a
// fitted interval model has quantiles. A Scorer is safe for concurrent use.
type Scorer struct {
	method  ood.Method
	fitted  any
	widths  batchparts.Widths // number of columns of each part in the fit
	network ood.Network       // the model that was used in the fit, or nil
}

// Widths returns the number of columns of each part that the method was fitted with, by
// name.
func (s *Scorer) Widths() batchparts.Widths { return s.widths }

// Method returns the method that was fitted.
func (s *Scorer) Method() ood.Method { return s.method }

// Fitted returns the result of the method's Fit.
func (s *Scorer) Fitted() any { return s.fitted }

// blockRows is the number of rows that are scored between two checks of the context.
const blockRows = 1024

// Score writes one score per row of b to dst and returns dst. If dst is nil, Score
// allocates it. Otherwise its length must be the number of rows. A higher score means that
// the row is more likely out-of-distribution.
func (s *Scorer) Score(ctx context.Context, dst []float64, b ood.Batch) ([]float64, error) {
	if dst == nil {
		dst = make([]float64, b.Len())
	} else if len(dst) != b.Len() {
		panic(fmt.Sprintf("fitting: dst has length %d, but there are %d rows", len(dst), b.Len()))
	}
	return dst, score(ctx, []*Scorer{s}, [][]float64{dst}, b, nil)
}

// ScoreGrid scores b with each scorer of one FitGrid call. Scorers share intermediate
// results for each block of rows. If progress is not nil, ScoreGrid calls it with the
// fraction of rows that are scored.
func ScoreGrid(ctx context.Context, grid []*Scorer, b ood.Batch, progress func(fraction float64)) ([][]float64, error) {
	dst := make([][]float64, len(grid))
	for i := range dst {
		dst[i] = make([]float64, b.Len())
	}
	return dst, score(ctx, grid, dst, b, progress)
}

func score(ctx context.Context, grid []*Scorer, dst [][]float64, b ood.Batch, progress rows.Progress) error {
	if len(grid) == 0 {
		return nil
	}
	s := grid[0]
	if err := s.check(b); err != nil {
		return err
	}
	if s.method.Needs.Network || s.method.Needs.Dropout {
		return scoreInputs(ctx, grid, dst, b, progress)
	}
	n := b.Len()
	b.Inputs = nil // without inputs, so that Slice does not copy them for every block
	for i := 0; i < n; i += blockRows {
		end := min(i+blockRows, n)
		block := b
		if n > blockRows {
			block = b.Slice(i, end)
		}
		if err := scoreBlock(ctx, grid, dst, i, block); err != nil {
			return err
		}
		progress.Tell(float64(end) / float64(n))
	}
	return ctx.Err()
}

// scoreBlock scores a block of consecutive rows with each scorer. The scores of the block
// begin at index first of each slice in dst.
func scoreBlock(ctx context.Context, grid []*Scorer, dst [][]float64, first int, block ood.Batch) error {
	if len(grid) > 1 {
		ctx = memo.Share(ctx, block)
	}
	for k, scorer := range grid {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := scorer.fitted.(ood.Detector).Score(ctx, dst[k][first:first+block.Len()], block); err != nil {
			return &configError{k, err}
		}
	}
	return nil
}

// inputRows is the largest number of inputs that the model gets in one run.
const inputRows = 64

// scoreInputs scores rows with methods that run the model. It reads the inputs block by
// block.
func scoreInputs(ctx context.Context, grid []*Scorer, dst [][]float64, b ood.Batch, progress rows.Progress) error {
	s := grid[0]
	if b.Network == nil {
		b.Network = s.network
	}
	if b.Network == nil {
		return &ood.NeedError{Method: s.method.Name, Need: ood.Needs{Network: s.method.Needs.Network, Dropout: s.method.Needs.Dropout}, Where: "detectors that were saved"}
	}
	if err := batchparts.CheckInputs(b.Inputs, b.Len()); err != nil {
		return err
	}
	inputs := b.Inputs
	b.Inputs = nil
	done := 0
	for x, err := range inputs.Blocks(ctx, inputRows) {
		if err != nil {
			return err
		}
		block := b.Slice(x.Start, x.Start+x.Len())
		block.Inputs = x
		err := scoreBlock(ctx, grid, dst, x.Start, block)
		switch {
		case errors.Is(err, ood.ErrNotDifferentiable) || errors.Is(err, ood.ErrNoDropout):
			return err // this error does not depend on the rows
		case err != nil:
			return fmt.Errorf("inputs %d to %d: %w", x.Start, x.Start+x.Len()-1, err)
		}
		done += x.Len()
		progress.Tell(float64(done) / float64(b.Len()))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if done != b.Len() {
		return fmt.Errorf("read %d rows of inputs, want %d", done, b.Len())
	}
	return nil
}

func (s *Scorer) check(b ood.Batch) error {
	if err := CheckBatch(s.method, b, "the rows to score"); err != nil {
		return err
	}
	needed := neededParts(&b, s.method.Needs)
	if err := needed.Widths().Check(s.widths, "the rows", fmt.Sprintf("method %q was fitted with", s.method.Name)); err != nil {
		return err
	}
	n := b.Len()
	for _, p := range needed {
		if p.Rows != n {
			return fmt.Errorf("%d rows but %d of %s", n, p.Rows, p.Name)
		}
	}
	return nil
}

// Quantiles implements ood.QuantileRegressor. It panics if Predict returns an error.
func (s *Scorer) Quantiles(x blas32.General, levels []float64) ood.Quantiles {
	q, err := s.Predict(x, levels)
	if err != nil {
		panic("fitting: " + err.Error())
	}
	return q
}

// Predict returns the quantiles of an interval model. All quantiles of a row that contains
// NaN are NaN. Predict returns an error if the method's quantiles have the wrong number of
// rows or levels, or if they decrease while levels increase. It panics if x has the wrong
// width, or if the method is a detector.
func (s *Scorer) Predict(x blas32.General, levels []float64) (ood.Quantiles, error) {
	if want := s.widths["features"]; x.Rows > 0 && x.Cols != want {
		panic(fmt.Sprintf("fitting: quantiles of %d columns, fitted on %d", x.Cols, want))
	}
	q := s.fitted.(ood.QuantileRegressor).Quantiles(x, levels)
	width := q.Targets * len(levels)
	if q.Rows != x.Rows || q.Targets < 1 || !slices.Equal(q.Levels, levels) || len(q.Data) != x.Rows*width {
		return q, fmt.Errorf("method %q: Quantiles returned %d numbers for %d rows, %d targets and %d levels, want %d rows and %d levels", s.method.Name, len(q.Data), q.Rows, q.Targets, len(q.Levels), x.Rows, len(levels))
	}
	rising := slices.IsSorted(levels)
	for i := range x.Rows {
		if !slices.ContainsFunc(rows.Row(x, i), func(v float32) bool { return v != v }) {
			if rising {
				if err := s.checkRising(q, i); err != nil {
					return q, err
				}
			}
			continue
		}
		for j := range width {
			q.Data[i*width+j] = float32(math.NaN())
		}
	}
	return q, nil
}

// checkRising returns an error if the quantiles of row i decrease from one level to the
// next.
func (s *Scorer) checkRising(q ood.Quantiles, i int) error {
	for t := range q.Targets {
		row := q.Row(i, t)
		for l := 1; l < len(row); l++ {
			if row[l] < row[l-1] {
				return fmt.Errorf("method %q: its quantiles cross: for row %d and target %d, %v at level %v and %v at level %v",
					s.method.Name, i, t, row[l-1], q.Levels[l-1], row[l], q.Levels[l])
			}
		}
	}
	return nil
}
