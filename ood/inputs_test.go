package ood_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

func ramp(n int) []float32 {
	x := make([]float32, 2*n)
	for i := range x {
		x[i] = float32(i)
	}
	return x
}

func TestBlocks(t *testing.T) {
	const n = 11
	in := ood.BlockOf([]int{n, 1, 2}, ramp(n))
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
				x := b.Tensors[0]
				if b.Start != next || b.Len() > size || len(x.Shape) != 3 || x.Shape[2] != 2 {
					t.Fatalf("block of shape %v at %d, want it at %d with at most %d rows", x.Shape, b.Start, next, size)
				}
				for i := range b.Len() {
					r := float32(rows[next])
					if x.Data[2*i] != 2*r || x.Data[2*i+1] != 2*r+1 {
						t.Fatalf("row %d of the selection is %v, want row %v", next, x.Data[2*i:2*i+2], r)
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

// ragged returns four rows with 2, 0, 3 and 1 steps. The inputs are two numbers for each step,
// one text for each step, and one title for each row.
func ragged() ood.InputBlock {
	lengths := []int{2, 0, 3, 1}
	return ood.InputBlock{Start: 5, Tensors: []ood.Tensor{
		{Name: "steps", Shape: []int{4, 3, 2}, Data: ramp(6), Lengths: lengths},
		{Name: "words", Shape: []int{4, 3}, Strings: []string{"a", "b", "c", "d", "e", "f"}, Lengths: lengths},
		{Name: "title", Shape: []int{4, 1}, Strings: []string{"A", "B", "C", "D"}},
	}}
}

func TestRagged(t *testing.T) {
	want := func(name string, got ood.InputBlock, start int, tensors ...ood.Tensor) {
		t.Helper()
		if err := got.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if wanted := (ood.InputBlock{Start: start, Tensors: tensors}); !reflect.DeepEqual(got, wanted) {
			t.Errorf("%s: %+v, want %+v", name, got, wanted)
		}
	}
	want("rows 1 to 3", ragged().Slice(1, 3), 6,
		ood.Tensor{Name: "steps", Shape: []int{2, 3, 2}, Data: []float32{4, 5, 6, 7, 8, 9}, Lengths: []int{0, 3}},
		ood.Tensor{Name: "words", Shape: []int{2, 3}, Strings: []string{"c", "d", "e"}, Lengths: []int{0, 3}},
		ood.Tensor{Name: "title", Shape: []int{2, 1}, Strings: []string{"B", "C"}})
	for b, err := range ragged().Select([]int{3, 0, 0, 1}).Blocks(context.Background(), 3) {
		if err != nil {
			t.Fatal(err)
		}
		if b.Start == 3 {
			want("the last of the rows selected", b, 3,
				ood.Tensor{Name: "steps", Shape: []int{1, 3, 2}, Data: []float32{}, Lengths: []int{0}},
				ood.Tensor{Name: "words", Shape: []int{1, 3}, Strings: []string{}, Lengths: []int{0}},
				ood.Tensor{Name: "title", Shape: []int{1, 1}, Strings: []string{"B"}})
			continue
		}
		want("the first of the rows selected", b, 0,
			ood.Tensor{Name: "steps", Shape: []int{3, 3, 2}, Data: []float32{10, 11, 0, 1, 2, 3, 0, 1, 2, 3}, Lengths: []int{1, 2, 2}},
			ood.Tensor{Name: "words", Shape: []int{3, 3}, Strings: []string{"f", "a", "b", "a", "b"}, Lengths: []int{1, 2, 2}},
			ood.Tensor{Name: "title", Shape: []int{3, 1}, Strings: []string{"D", "A", "A"}})
	}
	if none := ragged().Select(nil); none.Len() != 0 {
		t.Errorf("%d rows of none", none.Len())
	}
}

func TestCheckInputs(t *testing.T) {
	if err := ragged().Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*ood.InputBlock){
		"no tensor":             func(b *ood.InputBlock) { b.Tensors = nil },
		"no shape":              func(b *ood.InputBlock) { b.Tensors[0].Shape = nil },
		"too few numbers":       func(b *ood.InputBlock) { b.Tensors[0].Data = b.Tensors[0].Data[1:] },
		"too few texts":         func(b *ood.InputBlock) { b.Tensors[2].Strings = b.Tensors[2].Strings[1:] },
		"numbers and texts":     func(b *ood.InputBlock) { b.Tensors[2].Strings, b.Tensors[2].Data = []string{"A", "B"}, ramp(1) },
		"another row":           func(b *ood.InputBlock) { b.Tensors[2] = ood.Tensor{Shape: []int{5}, Strings: make([]string, 5)} },
		"too few lengths":       func(b *ood.InputBlock) { b.Tensors[1].Lengths = []int{2, 0, 4} },
		"a length over largest": func(b *ood.InputBlock) { b.Tensors[1].Lengths = []int{1, 0, 4, 1} },
		"a negative length":     func(b *ood.InputBlock) { b.Tensors[1].Lengths = []int{3, -1, 3, 1} },
		"lengths of no axis": func(b *ood.InputBlock) {
			b.Tensors[0] = ood.Tensor{Shape: []int{4}, Data: ramp(2), Lengths: []int{1, 1, 1, 1}}
		},
	} {
		b := ragged()
		if change(&b); b.Check() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestBatchInputs(t *testing.T) {
	b := ood.Batch{Inputs: ood.BlockOf([]int{4, 2}, ramp(4))}
	if b.Len() != 4 || batchparts.Validate(b) != nil {
		t.Errorf("length %d (%v), want 4", b.Len(), batchparts.Validate(b))
	}
	s := b.Slice(1, 3)
	for x, err := range s.Inputs.Blocks(context.Background(), 8) {
		if err != nil || x.Len() != 2 || x.Tensors[0].Data[0] != 2 {
			t.Errorf("slice %v (%v)", x, err)
		}
	}
	b.Labels = []int{0}
	if batchparts.Validate(b) == nil {
		t.Error("one label for four inputs is accepted")
	}
}

func ExampleInputBlock_Select() {
	in := ood.BlockOf([]int{4, 1}, []float32{10, 11, 12, 13})
	some := in.Select([]int{3, 1})
	for b, err := range some.Blocks(context.Background(), 10) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(b.Tensors[0].Shape, b.Tensors[0].Data)
	}
	// Output: [2 1] [13 11]
}

func TestBlocksOfNothing(t *testing.T) {
	defer func() {
		if r := recover(); r != "ood: blocks of 0 rows" {
			t.Errorf("recovered %v", r)
		}
	}()
	ood.BlockOf([]int{2, 1}, make([]float32, 2)).Blocks(t.Context(), 0)
}
