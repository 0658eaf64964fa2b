package ood_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/attach-uncertainty/attach/ood"
)

func ramp(n int) []float32 {
	x := make([]float32, 2*n)
	for i := range x {
		x[i] = float32(i)
	}
	return x
}

func TestInputsOf(t *testing.T) {
	const n = 11
	in := ood.InputsOf([]int{n, 1, 2}, ramp(n))
	for _, rows := range [][]int{{}, {0}, {10}, {1, 4, 5, 10}, {10, 0, 3, 3, 7}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}} {
		picked := in.Select(rows)
		if picked.Len() != len(rows) {
			t.Fatalf("%d rows, want %d", picked.Len(), len(rows))
		}
		for _, size := range []int{1, 2, 4, 100} {
			next := 0
			for b, err := range picked.Blocks(context.Background(), size) {
				if err != nil {
					t.Fatal(err)
				}
				if b.Start != next || b.Rows() > size || len(b.Shape) != 3 || b.Shape[2] != 2 {
					t.Fatalf("block of shape %v at %d, want it at %d with at most %d rows", b.Shape, b.Start, next, size)
				}
				for i := range b.Rows() {
					r := float32(rows[next])
					if b.Data[2*i] != 2*r || b.Data[2*i+1] != 2*r+1 {
						t.Fatalf("row %d of the selection is %v, want row %v", next, b.Data[2*i:2*i+2], r)
					}
					next++
				}
			}
			if next != len(rows) {
				t.Errorf("%d rows came, want %d", next, len(rows))
			}
		}
	}
}

func TestBatchInputs(t *testing.T) {
	b := ood.Batch{Inputs: ood.InputsOf([]int{4, 2}, ramp(4))}
	if b.Len() != 4 || b.Validate() != nil {
		t.Errorf("length %d (%v), want 4", b.Len(), b.Validate())
	}
	s := b.Slice(1, 3)
	for x, err := range s.Inputs.Blocks(context.Background(), 8) {
		if err != nil || x.Rows() != 2 || x.Data[0] != 2 {
			t.Errorf("slice %v (%v)", x, err)
		}
	}
	b.Labels = []int{0}
	if b.Validate() == nil {
		t.Error("one label for four inputs is accepted")
	}
	m := ood.Method{Name: "m", Needs: ood.NeedInputs | ood.NeedNetwork}
	var need *ood.NeedError
	if err := m.Check(ood.Training{}, nil); !errors.As(err, &need) || need.Need != ood.NeedNetwork {
		t.Errorf("error %v, want that the network is needed", err)
	}
	if err := m.CheckBatch(ood.Batch{}, "the rows to score"); !errors.As(err, &need) || need.Need != ood.NeedInputs {
		t.Errorf("error %v, want that inputs are needed", err)
	}
	if err := m.CheckBatch(b, "the rows to score"); err != nil {
		t.Error(err)
	}
}

func ExampleInputsOf() {
	in := ood.InputsOf([]int{4, 1}, []float32{10, 11, 12, 13})
	some := in.Select([]int{3, 1})
	for b, err := range some.Blocks(context.Background(), 10) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(b.Shape, b.Data)
	}
	// Output: [2 1] [13 11]
}
