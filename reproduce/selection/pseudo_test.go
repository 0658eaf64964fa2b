package selection

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

// classRows returns n rows of two features near the centre of their class. The logits come
// from a last layer for three classes: feature 0, feature 1 and minus their sum, plus a
// bias.
func classRows(n int) ood.Training {
	centres := [3][2]float32{{8, 0}, {0, 8}, {-8, -8}}
	weight := blas32.General{Rows: 3, Cols: 2, Stride: 2, Data: []float32{1, 0, 0, 1, -1, -1}}
	last := &ood.Linear{Weight: weight, Bias: []float32{.5, 0, -.5}}
	t := ood.Training{Last: last, Seed: 4}
	t.Features = blas32.General{Rows: n, Cols: 2, Stride: 2, Data: make([]float32, 2*n)}
	for i := range n {
		for j := range 2 {
			t.Features.Data[2*i+j] = centres[i%3][j] + float32((i*(7+j))%601)/601
		}
		t.Labels = append(t.Labels, i%3)
	}
	t.Logits = rows.Linear(t.Features, last.Weight, last.Bias)
	return t
}

// mustMakeTasks returns the tasks of a criterion and checks that their batches are valid.
func mustMakeTasks(t *testing.T, criterion string, training ood.Training) []task {
	t.Helper()
	tasks, err := makeTasks(t.Context(), criterion, training)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		for _, b := range []ood.Batch{task.training.Batch, task.in, task.out} {
			if err := batchparts.Validate(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	return tasks
}

func rowsOf(m blas32.General) [][]float32 {
	var rows [][]float32
	for i := range m.Rows {
		rows = append(rows, m.Data[i*m.Stride:i*m.Stride+m.Cols])
	}
	return rows
}

func containsRow(rows [][]float32, r []float32) bool {
	return slices.ContainsFunc(rows, func(other []float32) bool { return slices.Equal(other, r) })
}

func TestMixed(t *testing.T) {
	training := classRows(60)
	tasks := mustMakeTasks(t, mixedRows, training)
	in, out := tasks[0].in, tasks[0].out
	if tasks[0].training.Len() != 48 || in.Len() != 12 || out.Len() != 12 {
		t.Fatalf("%d rows fitted with, %d in-domain and %d out-of-domain", tasks[0].training.Len(), in.Len(), out.Len())
	}
	fitted, heldOut := rowsOf(tasks[0].training.Features), rowsOf(in.Features)
	for _, r := range heldOut {
		if containsRow(fitted, r) {
			t.Errorf("row %v is both fitted with and measured on", r)
		}
	}
	class := func(r []float32) int {
		switch {
		case r[0] >= 8:
			return 0
		case r[1] >= 8:
			return 1
		}
		return 2
	}
	for i, r := range rowsOf(out.Features) {
		other := []float32{2*r[0] - heldOut[i][0], 2*r[1] - heldOut[i][1]}
		isOther := func(a []float32) bool {
			return math.Abs(float64(a[0]-other[0]))+math.Abs(float64(a[1]-other[1])) < 1e-5
		}
		if k := slices.IndexFunc(heldOut, isOther); k < 0 || class(heldOut[k]) == class(heldOut[i]) {
			t.Errorf("%v is not half-way from %v to a row of another class", r, heldOut[i])
		}
		if z := out.Logits.Data[3*i : 3*i+3]; math.Abs(float64(z[2]+r[0]+r[1]+.5)) > 1e-5 {
			t.Errorf("logits %v of features %v", z, r)
		}
	}
}

func TestShuffled(t *testing.T) {
	training := classRows(600)
	tasks := mustMakeTasks(t, shuffledRows, training)
	in, out := rowsOf(tasks[0].in.Features), rowsOf(tasks[0].out.Features)
	for j := range 2 {
		column := func(rows [][]float32) (values []float32) {
			for _, r := range rows {
				values = append(values, r[j])
			}
			return values
		}
		before, after := column(in), column(out)
		same := 0
		for i := range before {
			if before[i] == after[i] {
				same++
			}
		}
		slices.Sort(before)
		slices.Sort(after)
		if !slices.Equal(before, after) || same > 20 {
			t.Errorf("column %d has other values, or %d of %d in their place", j, same, len(in))
		}
	}
	unchanged := 0
	for _, r := range out {
		if containsRow(in, r) {
			unchanged++
		}
	}
	if unchanged > 20 {
		t.Errorf("%d of %d rows are as they were", unchanged, len(in))
	}
}

func TestHeldOutClasses(t *testing.T) {
	training := classRows(60)
	tasks := mustMakeTasks(t, heldOutClasses, training)
	if len(tasks) != 3 {
		t.Fatalf("%d folds of 3 classes", len(tasks))
	}
	total := 0
	for _, s := range tasks {
		in, out := s.in, s.out
		total += out.Len()
		for _, b := range []ood.Batch{s.training.Batch, in, out} {
			if b.Logits.Cols != 2 {
				t.Fatalf("%d logits", b.Logits.Cols)
			}
			if z := rows.Linear(b.Features, s.training.Last.Weight, s.training.Last.Bias); !slices.Equal(z.Data, b.Logits.Data) {
				t.Error("the last layer gives other logits")
			}
		}
		heldOutRow := out.Features.Data[:2]
		for _, r := range append(rowsOf(s.training.Features), rowsOf(in.Features)...) {
			if math.Abs(float64(r[0]-heldOutRow[0]))+math.Abs(float64(r[1]-heldOutRow[1])) < 4 {
				t.Errorf("row %v is of the class of %v, which is held out", r, heldOutRow)
			}
		}
	}
	if total != 12 {
		t.Errorf("%d rows held out in all", total)
	}
	if training.Last.Weight.Rows != 3 || training.Logits.Cols != 3 {
		t.Error("the training rows were changed")
	}
}

func TestTooFewClasses(t *testing.T) {
	oneClass, twoClasses, noLabels := classRows(60), classRows(60), classRows(60)
	oneClass.Labels = slices.Repeat([]int{1}, 60)
	for i := range twoClasses.Labels {
		twoClasses.Labels[i] = i % 2
	}
	noLabels.Labels = nil
	for _, c := range []struct {
		training  ood.Training
		criterion string
		want      string
	}{
		{oneClass, mixedRows, "single class"},
		{twoClasses, heldOutClasses, "2 classes"},
		{noLabels, mixedRows, "no labels"},
	} {
		if _, err := makeTasks(t.Context(), c.criterion, c.training); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.criterion, err, c.want)
		}
	}
}

// TestPseudoOutliersHaveLayers checks that the layers of pseudo-outliers are made like
// their features.
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
	mixed, err := mixRows(b, 3)
	if err != nil {
		t.Fatal(err)
	}
	shuffled := shuffleColumns(b, 3)
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
	got, err := corruptImages(t.Context(), squares{}, ood.BlockOf([]int{300, 1, 2, 2}, make([]float32, 1200)), 3)
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

// squares is a network that returns the first value of a row as its feature and the square
// of this value as a layer.
type squares struct{ ood.Network }

func (squares) Forward(_ context.Context, x ood.InputBlock) (ood.Batch, error) {
	n, in := x.Len(), x.Tensors[0].Data
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
