package batches_test

import (
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/batches"
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
		if err := batches.Append(&all, part); err != nil {
			t.Fatal(err)
		}
	}
	if err := all.Validate(); err != nil || all.Len() != 5 || all.Features.Data[9] != 13 || all.Layers[1].Data[19] != 19 {
		t.Errorf("%+v, %v", all, err)
	}
	parent := matrix(3, 2)
	for _, begun := range []ood.Batch{{Features: gaps.Features}, ood.Batch{Features: parent}.Slice(0, 2)} {
		n := begun.Len()
		if err := batches.Append(&begun, ood.Batch{Features: whole.Features}); err != nil {
			t.Fatal(err)
		}
		if err := begun.Validate(); err != nil || begun.Len() != n+5 || parent.Data[4] != 4 || begun.Features.Data[n*begun.Features.Stride+2] != 2 {
			t.Errorf("%+v below %+v, %v", begun, parent, err)
		}
	}
	for want, other := range map[string]ood.Batch{
		"rows have other parts (features)":                             {Features: whole.Features},
		"rows have other parts (features, logits, layer_0)":            {Features: matrix(1, 2), Logits: matrix(1, 3), Layers: whole.Layers[:1]},
		"rows have 1 columns of layer_1, and those before them have 4": {Features: matrix(1, 2), Logits: matrix(1, 3), Layers: []blas32.General{matrix(1, 1), matrix(1, 1)}},
		"rows have 2 logits, and those before them have 3":             {Features: matrix(1, 2), Logits: matrix(1, 2), Layers: whole.Layers},
	} {
		if err := batches.Append(&all, other); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
