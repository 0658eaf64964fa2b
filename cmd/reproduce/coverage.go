package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/inputs"
)

// coverageExperiment measures what conformalized quantile regression promises:
// over random splits, the mean coverage on test rows is
// ⌈(1−α)(n_cal+1)⌉/(n_cal+1).
var coverageExperiment = experiment{
	name: "coverage",
	doc:  "coverage of 95 % conformalized intervals on the UCI regression sets",
	run:  runCoverage,
}

func uciSets() []string {
	return []string{"bostonHousing", "concrete", "energy", "kin8nm", "naval-propulsion-plant", "power-plant", "wine-quality-red", "yacht"}
}

func runCoverage(ctx context.Context, s settings) error {
	const alpha = .05
	sets := s.sets
	if sets == nil {
		sets = uciSets()
	}
	fmt.Fprintf(s.stdout, "%-24s %6s %6s %9s %9s %9s %7s %9s %9s\n", "set", "n_cal", "seeds", "expected", "coverage", "std.err.", "z", "raw SQR", "width")
	for _, set := range sets {
		x, y, err := readTable(ctx, filepath.Join(s.data, "uci", set+".txt"), "last")
		if err != nil {
			return err
		}
		spread := slices.Max(column(y)) - slices.Min(column(y))
		var covered, raw, width []float64
		nCal := 0
		for seed := range s.seeds {
			parts := splitRows(x.Rows, uint64(seed))
			nCal = len(parts.cal)
			head, err := heads.FitSQR(ctx, pick(x, parts.fit), pick(y, parts.fit), s.trainer, heads.SQROptions{Epochs: s.epochs, Seed: uint64(seed)})
			if err != nil {
				return fmt.Errorf("%s, seed %d: %w", set, seed, err)
			}
			calY, testY := column(pick(y, parts.cal)), column(pick(y, parts.test))
			calLo, calHi := interval(head, pick(x, parts.cal), alpha)
			testLo, testHi := interval(head, pick(x, parts.test), alpha)
			cqr, err := calibrate.NewCQR(calLo, calHi, calY)
			if err != nil {
				return err
			}
			var in, inRaw, w float64
			for i, v := range testY {
				lo, hi := cqr.Interval(testLo[i], testHi[i], alpha)
				in += indicator(lo <= v && v <= hi)
				inRaw += indicator(testLo[i] <= v && v <= testHi[i])
				w += hi - lo
			}
			n := float64(len(testY))
			covered, raw, width = append(covered, in/n), append(raw, inRaw/n), append(width, w/n/spread)
			fmt.Fprintf(s.stderr, "%s: split %d of %d\n", set, seed+1, s.seeds)
		}
		mean, sd := stat.MeanStdDev(covered, nil)
		expected := calibrate.ExpectedCoverage(nCal, alpha)
		se := sd / math.Sqrt(float64(len(covered)))
		fmt.Fprintf(s.stdout, "%-24s %6d %6d %9.4f %9.4f %9.4f %7.2f %9.4f %9.4f\n",
			set, nCal, s.seeds, expected, mean, se, (mean-expected)/se, stat.Mean(raw, nil), stat.Mean(width, nil))
	}
	return nil
}

// rowSplit is test rows (a tenth), and of the others rows to calibrate on (a
// fifth) and rows to fit on.
type rowSplit struct{ fit, cal, test []int }

func splitRows(n int, seed uint64) rowSplit {
	order := rand.New(rand.NewPCG(seed, 0)).Perm(n)
	test, rest := order[:n/10], order[n/10:]
	cal := len(rest) / 5
	return rowSplit{fit: rest[cal:], cal: rest[:cal], test: test}
}

func interval(head *heads.SQR, x blas32.General, alpha float64) (lo, hi []float64) {
	q := head.Quantiles(x, []float64{alpha / 2, 1 - alpha/2})
	for i := range x.Rows {
		lo, hi = append(lo, q.At(i, 0, 0)), append(hi, q.At(i, 0, 1))
	}
	return lo, hi
}

func readTable(ctx context.Context, path, target string) (x, y blas32.General, err error) {
	set, err := inputs.Open(ctx, path, inputs.Options{Target: target})
	if err != nil {
		return x, y, err
	}
	if x, err = set.All(ctx); err != nil {
		return x, y, err
	}
	y, _ = set.Targets()
	return x, y, nil
}

func pick(m blas32.General, rows []int) blas32.General {
	out := blas32.General{Rows: len(rows), Cols: m.Cols, Stride: m.Cols, Data: make([]float32, len(rows)*m.Cols)}
	for i, r := range rows {
		copy(out.Data[i*out.Stride:], m.Data[r*m.Stride:r*m.Stride+m.Cols])
	}
	return out
}

func column(m blas32.General) []float64 {
	out := make([]float64, m.Rows)
	for i := range out {
		out[i] = float64(m.Data[i*m.Stride])
	}
	return out
}

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
