package compare

import (
	"context"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/ood"
)

// Pseudo-outliers carry layers that were made as their features were.
func TestPseudoOutliersHaveLayers(t *testing.T) {
	column := func(scale float32) blas32.General {
		m := blas32.General{Rows: 6, Cols: 1, Stride: 1}
		for i := range m.Rows {
			m.Data = append(m.Data, scale*float32(i*i))
		}
		return m
	}
	b := ood.Batch{Features: column(1), Layers: []blas32.General{column(2), column(-4)}}
	b.Labels = []int{0, 1, 0, 1, 0, 1}
	mixed, err := mixed(b, 3)
	if err != nil {
		t.Fatal(err)
	}
	shuffled := shuffled(b, 3)
	if len(mixed.Layers) != 2 || len(shuffled.Layers) != 2 {
		t.Fatalf("mixed: layers %v; shuffled: %v", mixed.Layers, shuffled.Layers)
	}
	for i, layer := range mixed.Layers {
		for r, v := range layer.Data {
			if want := mixed.Features.Data[r] * []float32{2, -4}[i]; v != want {
				t.Errorf("mixed: row %d of layer %d is %v, want %v", r, i, v, want)
			}
		}
	}
	for i, layer := range shuffled.Layers {
		if got, want := slices.Sorted(slices.Values(layer.Data)), slices.Sorted(slices.Values(b.Layers[i].Data)); !slices.Equal(got, want) || slices.Equal(layer.Data, b.Layers[i].Data) {
			t.Errorf("shuffled: layer %d is %v", i, layer.Data)
		}
	}
	got, err := corrupted(context.Background(), squares{}, ood.InputsOf(ood.BlockOf([]int{300, 1, 2, 2}, make([]float32, 1200))), 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Layers) != 1 || got.Layers[0].Rows != 300 {
		t.Fatalf("corrupted: layers %+v", got.Layers)
	}
	for r, v := range got.Layers[0].Data {
		if x := got.Features.Data[r]; v != x*x {
			t.Errorf("corrupted: row %d of the layer is %v, of the features %v", r, v, x)
		}
	}
}

// squares gives the first number of a row as its feature, and its square as a
// layer.
type squares struct{ ood.Network }

func (squares) Forward(_ context.Context, x ood.InputBlock) (ood.Batch, error) {
	n, in := x.Rows(), x.Tensors[0].Data
	b := ood.Batch{Layers: make([]blas32.General, 1)}
	for _, m := range []*blas32.General{&b.Features, &b.Layers[0]} {
		*m = blas32.General{Rows: n, Cols: 1, Stride: 1, Data: make([]float32, n)}
	}
	for r := range n {
		v := in[r*len(in)/n]
		b.Features.Data[r], b.Layers[0].Data[r] = v, v*v
	}
	return b, nil
}
