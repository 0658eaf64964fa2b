package inputs

import (
	"context"
	"math"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

func TestFeatures(t *testing.T) {
	phi := rows.Array{Shape: []int{3, 2}, Data: sequence[float64](6)}
	z := rows.Array{Shape: []int{3, 4}, Data: sequence[float32](12)}
	y := rows.Array{Shape: []int{3}, Data: []int64{1, -1, 3}}
	for _, names := range [][3]string{{"features", "logits", "labels"}, {"feat_list", "logit_list", "label_list"}} {
		b, err := OpenFeatures(writeNPZ(t, true, map[string]rows.Array{names[0]: phi, names[1]: z, names[2]: y}))
		if err != nil {
			t.Fatal(err)
		}
		if b.Features.Rows != 3 || b.Features.Cols != 2 || b.Features.Data[5] != 5 || b.Logits.Cols != 4 || !slices.Equal(b.Labels, []int{1, -1, 3}) {
			t.Errorf("%v: %+v", names, b)
		}
		b, err = OpenFeatures(writeNPZ(t, true, map[string]rows.Array{names[1]: z}))
		if err != nil || b.Features.Rows != 0 || b.Logits.Rows != 3 || b.Labels != nil {
			t.Errorf("logits alone: %+v, error %v", b, err)
		}
	}
	b, err := OpenFeatures(writeNPZ(t, false, FeatureArrays(ood.Batch{
		Features: matrixOf32(phi), Logits: matrixOf32(z), Labels: []int{1, 2, 0}, Layers: []blas32.General{matrixOf32(z), matrixOf32(phi)},
	})))
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Layers) != 2 || b.Layers[0].Cols != 4 || b.Layers[1].Cols != 2 || b.Layers[0].Data[11] != 11 || b.Labels[1] != 2 {
		t.Errorf("written and read: %+v", b)
	}
	bad := rows.Array{Shape: []int{3, 2}, Data: []float32{0, 0, 0, float32(math.NaN()), 0, 0}}
	big := rows.Array{Shape: []int{1, 1}, Data: []float64{1e300}}
	for words, arrays := range map[string]map[string]rows.Array{
		"it has neither features (or feat_list) nor logits (or logit_list)": {"labels": y},
		"labels has 3 rows":                       {"features": {Shape: []int{2, 2}, Data: sequence[float32](4)}, "labels": y},
		"logits has 3 rows":                       {"features": {Shape: []int{2, 2}, Data: sequence[float32](4)}, "logits": z},
		"row 1, column 1 is NaN":                  {"features": bad},
		"row 0, column 0 is +Inf":                 {"features": big},
		"it must have two axes, rows and columns": {"features": y},
		"there are no rows":                       {"features": {Shape: []int{0, 2}, Data: []float32{}}},
		"element 1 is 0.5":                        {"features": phi, "labels": {Shape: []int{3}, Data: []float32{0, .5, 1}}},
		"labels: its shape is [3 4]; there must be one number for each row": {"features": phi, "labels": z},

		"it has layer_2 but not layer_1": {"features": phi, "layer_0": z, "layer_2": z},
		"it has layer_1 but not layer_0": {"features": phi, "layer_1": z},
		"layer_0 has 2 rows":             {"features": phi, "layer_0": {Shape: []int{2, 2}, Data: sequence[float32](4)}},
		"layer_0: its shape is [3]":      {"features": phi, "layer_0": y},
	} {
		path := writeNPZ(t, false, arrays)
		_, err := OpenFeatures(path)
		wantError(t, err, path, words)
	}
}

func matrixOf32(a rows.Array) blas32.General {
	return blas32.General{Rows: a.Shape[0], Cols: a.Shape[1], Stride: a.Shape[1], Data: npy.Float32s(a)}
}

func TestWeights(t *testing.T) {
	w := rows.Array{Shape: []int{2, 3}, Data: sequence[float32](6)}
	l, err := LoadWeights(writeNPZ(t, false, map[string]rows.Array{"weight": w, "bias": {Shape: []int{2}, Data: []float64{7, 8}}}))
	if err != nil || l.Weight.Rows != 2 || l.Weight.Cols != 3 || !slices.Equal(l.Bias, []float32{7, 8}) {
		t.Errorf("%+v, error %v", l, err)
	}
	l, err = LoadWeights(writeNPZ(t, false, map[string]rows.Array{"weight": w}))
	if err != nil || !slices.Equal(l.Bias, []float32{0, 0}) {
		t.Errorf("without a bias: %+v, error %v", l, err)
	}
	for words, arrays := range map[string]map[string]rows.Array{
		`no such array: "weight"`:      {"w": w},
		"3 biases for a weight of 2×3": {"weight": w, "bias": {Shape: []int{3}, Data: sequence[float32](3)}},
		"entry 1 is -Inf":              {"weight": w, "bias": {Shape: []int{2}, Data: []float64{7, math.Inf(-1)}}},
		"row 0, column 1 is NaN":       {"weight": {Shape: []int{1, 2}, Data: []float64{0, math.NaN()}}},
	} {
		path := writeNPZ(t, false, arrays)
		_, err := LoadWeights(path)
		wantError(t, err, path, words)
	}
	path := writeNPY(t, "weight.npy", w)
	_, err = LoadWeights(path)
	wantError(t, err, path, "read from an .npz file of its weight c×h and bias c")
}

func TestFeaturesAlone(t *testing.T) {
	for words, a := range map[string]rows.Array{
		"": {Shape: []int{3, 2}, Data: sequence[float32](6)},
		"it must have two axes, rows and columns": {Shape: []int{6}, Data: sequence[float32](6)},
		"there are no rows":                       {Shape: []int{0, 2}, Data: []float32{}},
		"row 1, column 1 is NaN":                  {Shape: []int{3, 2}, Data: []float32{0, 0, 0, float32(math.NaN()), 0, 0}},
	} {
		path := writeNPY(t, "features.npy", a)
		b, err := OpenFeatures(path)
		if words != "" {
			wantError(t, err, path, words)
			continue
		}
		if err != nil || b.Features.Rows != 3 || b.Features.Cols != 2 || b.Features.Data[5] != 5 || b.Logits.Rows != 0 || b.Labels != nil {
			t.Errorf("%+v, error %v", b, err)
		}
	}
}

func TestManyLayers(t *testing.T) {
	oneNumber := rows.Array{Shape: []int{1, 1}, Data: []float32{1}}
	arrays := map[string]rows.Array{"features": oneNumber}
	for i := range 3000 {
		arrays[batchparts.Layer(i)] = oneNumber
	}
	path := writeNPZ(t, false, arrays)
	_, err := OpenFeatures(path)
	wantError(t, err, path, "it has layer_1000; at most 1000 earlier layers can be read")
	if _, err := OpenFeatures(path, Widths{Layerless: true}); err != nil {
		t.Errorf("layers that nobody wants: %v", err)
	}
}

// TestFeaturesMemory checks that a small file that inflates to many bytes is read with
// little additional memory. It also checks that wrong widths are reported before rows are
// read.
func TestFeaturesMemory(t *testing.T) {
	const n, cols = 1 << 13, 1 << 10
	path := writeNPZ(t, true, map[string]rows.Array{
		"features": {Shape: []int{n, cols}, Data: make([]float64, n*cols)},
		"logits":   {Shape: []int{n, 4}, Data: make([]float32, n*4)},
	})
	peak := watchHeap(t)
	b, err := OpenFeatures(path)
	if err != nil || b.Features.Cols != cols {
		t.Errorf("%d columns, error %v", b.Features.Cols, err)
	}
	if got, want := peak(), uint64(4*n*cols); got > want+want/4 {
		t.Errorf("reading %d MB took %d MB", want>>20, got>>20)
	}
	b = ood.Batch{}
	wide := rows.Array{Shape: []int{4, cols}, Data: make([]float32, 4*cols)}
	short := writeNPZ(t, true, map[string]rows.Array{"features": wide, "logits": {Shape: []int{3, 1}, Data: make([]float32, 3)}})
	for _, c := range []struct {
		path  string
		wants []Widths
		words string
	}{
		{path, []Widths{{Says: "z.npz has", Widths: batchparts.Widths{"features": cols}}, {Says: "y.npz has", Widths: batchparts.Widths{"features": 64}}}, "the rows have 1024 features, but y.npz has 64"},
		{path, []Widths{{Says: "y.npz has", Widths: batchparts.Widths{"logits": 3}}}, "the rows have 4 logits, but y.npz has 3"},
		{short, nil, "logits has 3 rows, but the other arrays have 4"},
	} {
		peak := watchHeap(t)
		_, err := OpenFeatures(c.path, c.wants...)
		wantError(t, err, c.path, c.words)
		if got := peak(); got > 16<<20 {
			t.Errorf("%s: %d MB taken before it was seen", c.words, got>>20)
		}
	}
	y := writeNPZ(t, true, map[string]rows.Array{"y": wide})
	for words, c := range map[string][2]int{"4 targets for 3 inputs": {3, 1}, "y: it has 1,024 targets per row, but the model predicts 2": {4, 2}} {
		_, err := OpenTargets(context.Background(), y, c[0], c[1], nil)
		wantError(t, err, y, words)
	}
	_, err = LoadWeights(writeNPZ(t, true, map[string]rows.Array{"weight": wide}), Widths{Says: "the fit used", Widths: batchparts.Widths{"features": 3}})
	wantError(t, err, "weight", "it takes 1,024 features, but the fit used 3")
}

func TestFeatureBlocks(t *testing.T) {
	phi, z := rows.Array{Shape: []int{5, 2}, Data: sequence[float64](10)}, rows.Array{Shape: []int{5, 4}, Data: sequence[float32](20)}
	for _, deflate := range []bool{false, true} {
		path := writeNPZ(t, deflate, map[string]rows.Array{"features": phi, "logits": z, "layer_0": z, "labels": {Shape: []int{5}, Data: sequence[int64](5)}})
		want, err := OpenFeatures(path)
		if err != nil {
			t.Fatal(err)
		}
		n, blocks, err := FeatureBlocks(path, Slice{}, 2)
		if err != nil || n != 5 {
			t.Fatalf("%d rows, error %v", n, err)
		}
		var got ood.Batch
		for range 2 { // each loop reads the file again
			got = ood.Batch{}
			for b, err := range blocks {
				if err != nil || b.Len() > 2 || b.Labels != nil {
					t.Fatalf("%+v, error %v", b, err)
				}
				if got.Features.Data = append(got.Features.Data, b.Features.Data...); b.Layers[0].Cols != 4 {
					t.Errorf("%+v", b)
				}
				got.Logits.Data = append(got.Logits.Data, b.Logits.Data...)
			}
		}
		if !slices.Equal(got.Features.Data, want.Features.Data) || !slices.Equal(got.Logits.Data, want.Logits.Data) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	bad := sequence[float32](10)
	bad[9] = float32(math.Inf(1))
	_, blocks, err := FeatureBlocks(writeNPY(t, "x.npy", rows.Array{Shape: []int{5, 2}, Data: bad}), Slice{}, 2)
	if err != nil {
		t.Fatal(err)
	}
	good := 0
	for b, err := range blocks {
		if good += b.Len(); err != nil {
			wantError(t, err, "x.npy", "row 4, column 1 is +Inf")
		}
	}
	if good != 4 {
		t.Errorf("%d rows before the bad one", good)
	}
	if _, _, err := FeatureBlocks("none.npz", Slice{}, 2); err == nil {
		t.Error("no error of a file that is not there")
	}
}

// TestParquetFeatures checks that a Parquet file from pyarrow is read like an archive with
// the same numbers.
func TestParquetFeatures(t *testing.T) {
	const n = 60
	path, ctx := "testdata/features.parquet", context.Background()
	labels, source, site := make([]int64, n), make([]string, n), make([]string, n)
	for i := range n {
		labels[i], source[i], site[i] = int64(i%2), [...]string{"a", "b", "ü"}[i%3], strconv.Itoa(i)
	}
	archive := writeNPZ(t, true, map[string]rows.Array{
		"features": {Shape: []int{n, 3}, Data: sequence[float32](3 * n)},
		"logits":   {Shape: []int{n, 2}, Data: sequence[float32](2 * n)},
		"layer_0":  {Shape: []int{n, 4}, Data: sequence[float32](4 * n)},
		"labels":   {Shape: []int{n}, Data: labels},
		"y":        {Shape: []int{n, 2}, Data: sequence[float32](2 * n)},
	})
	for _, of := range []Slice{{}, {Start: 20, End: 53, Ends: true}} {
		got, all, err := OpenFeatureRows(path, of)
		if err != nil || all != n {
			t.Fatalf("%d rows, error %v", all, err)
		}
		want, _, err := OpenFeatureRows(archive, of)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%v: %+v, want %+v", of, got, want)
		}
		var blocks [2][]ood.Batch
		for k, file := range []string{path, archive} {
			_, all, err := FeatureBlocks(file, of, 7)
			if err != nil {
				t.Fatal(err)
			}
			for b, err := range all {
				if err != nil {
					t.Fatal(err)
				}
				blocks[k] = append(blocks[k], b)
			}
		}
		if !reflect.DeepEqual(blocks[0], blocks[1]) {
			t.Errorf("%v: %+v, want %+v", of, blocks[0], blocks[1])
		}
	}
	got, err := OpenTargets(ctx, path, n, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := OpenTargets(ctx, archive, n, 2, nil)
	if err != nil || !reflect.DeepEqual(got.Values, want.Values) {
		t.Errorf("%+v, want %+v, error %v", got, want, err)
	}
	for name, want := range map[string][]string{"source": source, "site": site} {
		if groups, err := OpenGroups(ctx, path, name, n); err != nil || !slices.Equal(groups, want) {
			t.Errorf("%s: %q, error %v", name, groups, err)
		}
	}
	_, err = OpenFeatures(path, Widths{Says: "the fit used", Widths: batchparts.Widths{"features": 4}})
	wantError(t, err, path, "the rows have 3 features, but the fit used 4")
	_, err = OpenFeatures("testdata/hub.parquet")
	wantError(t, err, "hub.parquet", "it has neither features (or feat_list) nor logits")

	f, err := openArrays(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, words := range map[string]string{
		"ragged": "testdata/features.parquet: ragged: row 30 is a list of 2 numbers, but the first row has 1",
		"gap":    "gap: row 4, column 1 is NaN",
		"halves": "testdata/features.parquet: halves: its shape is [60]; it must have two axes, rows and columns",
		"none":   "testdata/features.parquet: none: its shape is [60 0]; it must have two axes, rows and columns",
		"source": "source: the column holds no numbers",
		"absent": `there is no column "absent"; its columns are feat_list, logits`,
	} {
		a, err := f.entry(name)
		if err == nil {
			err = checkMatrix(a)
		}
		if err == nil {
			_, err = matrixOf(a, 0, n)
		}
		wantError(t, err, path, words)
	}
	a, err := f.entry("halves")
	if err != nil {
		t.Fatal(err)
	}
	_, err = intsOf(a)
	wantError(t, err, path, "element 1 is 0.5, which is not a whole number")
}
