package batchparts_test

import (
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/internal/fitting/binarylogit"
	"github.com/attach-uncertainty/attach/ood"
)

func matrix(n, h int) blas32.General {
	m := blas32.General{Rows: n, Cols: h, Stride: h, Data: make([]float32, n*h)}
	for i := range m.Data {
		m.Data[i] = float32(i)
	}
	return m
}

func TestBatchAppend(t *testing.T) {
	whole := ood.Batch{Features: matrix(5, 2), Logits: matrix(5, 3), Layers: []blas32.General{matrix(5, 1), matrix(5, 4)}}
	gaps := whole
	gaps.Features = blas32.General{Rows: 5, Cols: 2, Stride: 3, Data: matrix(5, 3).Data}
	var all ood.Batch
	for _, part := range []ood.Batch{gaps.Slice(0, 2), gaps.Slice(2, 2), gaps.Slice(2, 5)} {
		if err := batchparts.Append(&all, part); err != nil {
			t.Fatal(err)
		}
	}
	if err := batchparts.Validate(all); err != nil || all.Len() != 5 || all.Features.Data[9] != 13 || all.Layers[1].Data[19] != 19 {
		t.Errorf("%+v, %v", all, err)
	}
	parent := matrix(3, 2)
	for _, begun := range []ood.Batch{{Features: gaps.Features}, ood.Batch{Features: parent}.Slice(0, 2)} {
		n := begun.Len()
		if err := batchparts.Append(&begun, ood.Batch{Features: whole.Features}); err != nil {
			t.Fatal(err)
		}
		if err := batchparts.Validate(begun); err != nil || begun.Len() != n+5 || parent.Data[4] != 4 || begun.Features.Data[n*begun.Features.Stride+2] != 2 {
			t.Errorf("%+v below %+v, %v", begun, parent, err)
		}
	}
	for want, other := range map[string]ood.Batch{
		"rows have the parts features, but earlier rows have features, logits, layer_0, layer_1":                  {Features: whole.Features},
		"rows have the parts features, logits, layer_0, but earlier rows have features, logits, layer_0, layer_1": {Features: matrix(1, 2), Logits: matrix(1, 3), Layers: whole.Layers[:1]},
		"rows have 1 columns of layer_1, but earlier rows have 4":                                                 {Features: matrix(1, 2), Logits: matrix(1, 3), Layers: []blas32.General{matrix(1, 1), matrix(1, 1)}},
		"rows have 2 logits, but earlier rows have 3":                                                             {Features: matrix(1, 2), Logits: matrix(1, 2), Layers: whole.Layers},
	} {
		if err := batchparts.Append(&all, other); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestBatchValidate(t *testing.T) {
	for _, c := range []struct {
		b    ood.Batch
		want string
	}{
		{ood.Batch{}, ""},
		{ood.Batch{Features: matrix(2, 2), Labels: []int{7, 0}}, ""},
		{ood.Batch{Features: matrix(2, 2), Logits: matrix(3, 2)}, "2 rows but logits of 3×2"},
		{ood.Batch{Features: matrix(2, 2), Labels: []int{1}}, "2 rows but 1 labels"},
		{ood.Batch{Logits: matrix(2, 2), Labels: []int{1, 2}}, "label 2 of row 1 is outside [0,2)"},
		{ood.Batch{Features: matrix(2, 2), Labels: []int{1, -1}}, "label -1 of row 1 is negative"},
		{ood.Batch{Features: matrix(2, 2), Layers: []blas32.General{matrix(2, 5), matrix(3, 1)}}, "2 rows but layer_1 of 3×1"},
		{ood.Batch{Features: matrix(2, 2), Layers: []blas32.General{{Rows: 2}}}, "2 rows but layer_0 of 2×0"},
		{ood.Batch{Features: blas32.General{Rows: 1, Cols: 2, Stride: 9, Data: make([]float32, 2)}}, ""},
		{ood.Batch{Features: blas32.General{Cols: 2}}, ""},
		{ood.Batch{Features: blas32.General{Rows: 2, Cols: 2, Data: make([]float32, 4)}}, "features: a stride of 0 is too small for 2 columns"},
		{ood.Batch{Features: matrix(2, 2), Logits: blas32.General{Rows: 2, Cols: 3, Stride: 3, Data: make([]float32, 5, 6)}}, "logits: 5 numbers are too few for 2 rows of stride 3"},
		{ood.Batch{Features: matrix(2, 2), Layers: []blas32.General{{Rows: 2, Cols: 1, Stride: 1}}}, "layer_0: 0 numbers are too few for 2 rows of stride 1"},
		{binarylogit.Batch(ood.Batch{Logits: blas32.General{Rows: 2, Cols: 1, Stride: 1}}), "logits: 0 numbers are too few for 2 rows of stride 1"},
		{binarylogit.Batch(ood.Batch{Logits: matrix(2, 1), Labels: []int{0, 1}}), ""},
		{ood.Batch{Features: blas32.General{Rows: -1, Cols: 2, Stride: 2}}, "features: there are -1 rows"},
	} {
		got := ""
		if err := batchparts.Validate(c.b); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
