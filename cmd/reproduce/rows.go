package main

import (
	"context"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/inputs"
)

// rowSplit is test rows (a tenth), and of the others rows to calibrate on (a
// fifth) and rows to fit on.
type rowSplit struct{ fit, cal, test []int }

func splitRows(n int, seed uint64) rowSplit {
	order := rand.New(rand.NewPCG(seed, 0)).Perm(n)
	test, rest := order[:n/10], order[n/10:]
	cal := len(rest) / 5
	return rowSplit{fit: rest[cal:], cal: rest[:cal], test: test}
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
