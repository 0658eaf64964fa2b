package ood_test

import (
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

func matrix(n, h int) blas32.General {
	m := blas32.General{Rows: n, Cols: h, Stride: h, Data: make([]float32, n*h)}
	for i := range m.Data {
		m.Data[i] = float32(i)
	}
	return m
}

func TestBatchSlice(t *testing.T) {
	b := ood.Batch{Features: matrix(5, 3), Logits: matrix(5, 2), Labels: []int{0, 1, 0, 1, 0}}
	b.Features.Cols = 2 // the third number of each row is then only padding
	for i := range 6 {
		for j := i; j <= 5; j++ {
			s := b.Slice(i, j)
			if s.Len() != j-i || s.Features.Cols == 0 || s.Logits.Cols == 0 || len(s.Labels) != j-i {
				t.Fatalf("rows %d to %d: %+v", i, j, s)
			}
			if err := batchparts.Validate(s); err != nil {
				t.Fatal(err)
			}
			for r := range s.Len() {
				if got, want := s.Features.Data[r*s.Features.Stride+1], b.Features.Data[(i+r)*3+1]; got != want {
					t.Fatalf("rows %d to %d: row %d has %v, want %v", i, j, r, got, want)
				}
			}
		}
	}
	if got := (ood.Batch{Logits: matrix(4, 2)}).Slice(1, 3); got.Features.Cols > 0 || got.Labels != nil || got.Len() != 2 {
		t.Errorf("%+v", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic beyond the last row")
		}
	}()
	b.Slice(3, 6)
}

// TestBatchLayers checks that Slice and Select apply to earlier layers like to the other
// matrices of a batch.
func TestBatchLayers(t *testing.T) {
	b := ood.Batch{Features: matrix(4, 2), Layers: []blas32.General{matrix(4, 3), matrix(4, 1)}}
	for name, got := range map[string]ood.Batch{"slice": b.Slice(1, 3), "select": b.Select([]int{1, 2})} {
		if len(got.Layers) != 2 || got.Layers[0].Rows != 2 || got.Layers[0].Data[0] != 3 || got.Layers[1].Data[1] != 2 {
			t.Errorf("%s: %+v", name, got.Layers)
		}
		if err := batchparts.Validate(got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if onlyLayers := (ood.Batch{Layers: b.Layers}); onlyLayers.Len() != 4 || len(onlyLayers.Layers) == 0 {
		t.Errorf("layers alone are %d rows", onlyLayers.Len())
	}
	if b.Slice(0, 4).Select(nil).Layers[0].Rows != 0 || len((ood.Batch{Features: b.Features}).Select([]int{1}).Layers) > 0 {
		t.Error("Select adds layers to a batch without any")
	}
}
