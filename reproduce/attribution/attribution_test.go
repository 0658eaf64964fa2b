package attribution

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/networks"
)

// TestRanks checks the probabilities of ranks, also for equal values.
func TestRanks(t *testing.T) {
	for _, c := range []struct {
		values       []float64
		places       []int
		first, three float64
	}{
		{[]float64{3, 2, 1, 0}, []int{0}, 1, 1},
		{[]float64{3, 2, 1, 0}, []int{1, 3}, 0, 1},
		{[]float64{3, 2, 1, 0}, []int{3}, 0, 0},
		{[]float64{1, 1, 1, 1}, []int{2}, .25, .75},
		{[]float64{1, 1, 1, 1}, []int{0, 2}, .5, 1},
		{[]float64{9, 1, 1, 1, 1}, []int{2}, 0, .5},
	} {
		if first, three := ranks(c.values, c.places); math.Abs(first-c.first) > 1e-12 || math.Abs(three-c.three) > 1e-12 {
			t.Errorf("%v at %v: %v and %v, want %v and %v", c.values, c.places, first, three, c.first, c.three)
		}
	}
}

// TestPlants checks that exactly the named places of a row change.
func TestPlants(t *testing.T) {
	x := blas32.General{Rows: 20, Cols: 3, Stride: 3, Data: make([]float32, 60)}
	for i := range x.Data {
		x.Data[i] = float32(i)
	}
	for _, fault := range []string{"shift", "extreme", "swap"} {
		f := plantCells(x, x, fault, 1)
		for i, places := range f.places {
			row := f.rows.Slice(i, i+1).Tensors[0].Data
			intact := (places[0] + 1) % 3
			first := row[intact] - float32(intact) // the number of the row, times 3
			for j, v := range row {
				if wrong := v != first+float32(j); wrong != (j == places[0]) {
					t.Errorf("%s: row %v must change at %v only", fault, row, places)
				}
			}
			if fault == "shift" && f.suspicion[i][places[0]] != slices.Max(f.suspicion[i]) {
				t.Errorf("%s: z-scores %v", fault, f.suspicion[i])
			}
		}
	}
	image := func(v float32) ood.InputBlock {
		data := make([]float32, 2*8*16)
		for i := range data {
			data[i] = v
		}
		return ood.BlockOf([]int{2, 1, 8, 16}, data)
	}
	f := pastePatches(image(0), image(0), image(1), "nchw", 4, 1)
	for i, places := range f.places {
		changed := 0
		for pixel, v := range f.rows.Slice(i, i+1).Tensors[0].Data {
			place := pixel/16/2*8 + pixel%16/2
			if v != 0 {
				changed++
			}
			if v != 0 && (!slices.Contains(places, place) || f.suspicion[i][place] <= 0) {
				t.Errorf("image %d: pixel %d changed outside of %v", i, pixel, places)
			}
		}
		if changed != 16 {
			t.Errorf("image %d: %d pixels changed, want 4×4", i, changed)
		}
	}
	f = insertWords([]string{"play a song", "a b"}, []string{"play a song"}, 1)
	words, at := strings.Fields(f.rows.Tensors[0].Strings[0]), f.places[0][0]
	if !slices.Contains(foreignWords(), words[at]) || !slices.Equal(slices.Delete(words, at, at+1), []string{"play", "a", "song"}) || f.suspicion[0][at] != 0 || slices.Min(f.suspicion[0]) != -2 {
		t.Errorf("the words are %v, the fault at %d, rarities %v", words, at, f.suspicion[0])
	}
}

// TestRankByWords checks that new words come first, and then words by their attribution.
func TestRankByWords(t *testing.T) {
	a := featurize.Attribution{Tensors: []featurize.TensorAttribution{{Labels: []string{"play", "kayak", "song", "viking"}, Values: []float64{9, -2, 3, 1}}}}
	got := rankByWords("new", []string{"Play a song"}).values(0, a)
	if !(got[3] > got[1] && got[1] > got[0] && got[0] > got[2]) {
		t.Errorf("values %v", got)
	}
}

// TestTable measures a table with one column, whose cell always ranks first. The files for captum
// must hold the reference rows that Attribute drew: their mean score is its baseline.
func TestTable(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	arrays := map[string]rows.Array{}
	for _, part := range []string{"fit", "cal", "test"} {
		z, err := npy.OpenNPZ("../../testmodels/toy_" + part + ".npz")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range z.Names() {
			entry, _ := z.Entry(name)
			a, err := entry.Read()
			if err != nil {
				t.Fatal(err)
			}
			arrays[name+"_"+part] = rows.Array{Shape: []int{a.Shape[0], 1}, Data: a.Data}
		}
	}
	model, err := os.ReadFile("../../testmodels/toy_regressor.onnx")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "toy-mlp.onnx"), model, 0o644)
	}
	if err == nil {
		err = experiment.WriteFile(filepath.Join(dir, "toy.npz"), func(w io.Writer) error { return npy.WriteNPZ(w, arrays, false) })
	}
	m := &measurement{plan: &networks.Plan{Settings: &experiment.Settings{Stdout: io.Discard}}, captum: filepath.Join(dir, "captum"), options: featurize.AttributeOptions{References: 5, Seed: 3}}
	if err == nil {
		err = m.table(ctx, dir, tableModel{"toy", "mlp", []string{"gradient", "replacement"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range m.results {
		if r.planted != planted || r.flagged == 0 || r.first < 1-1e-9 || r.fault == "shift" && r.flagged < planted*9/10 {
			t.Errorf("%+v", r)
		}
	}
	z, err := npy.OpenNPZ(filepath.Join(dir, "captum", "toy-mlp-certificates-shift.npz"))
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) rows.Array {
		entry, err := z.Entry(name)
		if err != nil {
			t.Fatal(err)
		}
		a, err := entry.Read()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	runtime, err := ort.Open(ctx, ort.Options{})
	if err != nil {
		t.Fatal(err)
	}
	exported, err := onnx.Load(filepath.Join(dir, "captum", "toy-mlp-certificates-shift.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	session, err := runtime.NewSession(ctx, ort.Model{Proto: exported.Model}, nil, []string{"attach.ood_score"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	score := func(x []float32) (list []float64) {
		in, err := ort.NewTensor([]int64{int64(len(x)), 1}, x)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		out, err := session.Run(ctx, []*ort.Tensor{in})
		if err != nil {
			t.Fatal(err)
		}
		defer out[0].Close()
		for _, v := range out[0].Float32s() {
			list = append(list, float64(v))
		}
		return list
	}
	want := read("scores").Data.([]float64)
	for i, got := range score(read("rows").Data.([]float32)) {
		if math.Abs(got/want[i]-1) > 1e-4 {
			t.Errorf("row %d has the score %v, want %v", i, got, want[i])
		}
	}
	var drawn []float32
	for _, i := range read("drawn").Data.([]int64) {
		drawn = append(drawn, read("reference").Data.([]float32)[i])
	}
	if got, want := stat.Mean(score(drawn), nil), read("baseline").Data.([]float64)[0]; len(drawn) != 5 || math.Abs(got/want-1) > 1e-4 {
		t.Errorf("the mean score of %d reference rows is %v, want %v", len(drawn), got, want)
	}
}
