package rows_test

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

type whitening struct {
	Mean       []float64      `state:"mean[h]"`
	Projection blas64.General `state:"projection[h,r]"`
	derived    float64
}

func (w *whitening) Restored() error {
	if w.derived = w.Mean[0]; w.derived < 0 {
		return errors.New("the first mean is negative")
	}
	return nil
}

type tail struct{ of []float64 }

func (t *tail) State() rows.State {
	return rows.State{Params: map[string]any{"n": float64(len(t.of))}, Arrays: map[string]rows.Array{"of": {Shape: []int{len(t.of)}, Data: t.of}}}
}

func (t *tail) Restore(s rows.State) error {
	v, ok := s.Arrays["of"].Data.([]float64)
	if t.of = v; !ok || s.Params["n"] != float64(len(v)) {
		return errors.New("no tail")
	}
	return nil
}

type scorer interface{ score() }

func (*whitening) score() {}

type kind string

type allFieldTypes struct {
	whitening
	K       int            `state:"k,least=1"`
	Outputs int            `state:"outputs,dim=c"`
	Alpha   float64        `state:"alpha,positive,below=2"`
	Unit    bool           `state:"unit"`
	Kind    kind           `state:"kind,of=top|bottom"`
	Bias    []float32      `state:"bias[c],optional"`
	Seed    uint64         `state:"seed"`
	Means   blas32.General `state:"means[c,h]"`
	Levels  []float64      `state:"levels[l],rising"`
	Counts  []int          `state:"counts[c],least=0"`
	Flags   []uint8        `state:"flags[c]"`
	Single  float32        `state:"single"`
	Large   int64          `state:"large,least=-9"`
	Set     []bool         `state:"set[c]"`
	Names   []string       `state:"names[c]"`
	All     whitening      `state:"all"`
	Layers  []whitening    `state:"layers,least=1"`
	Tail    *tail          `state:"tail"`
	Part    scorer         `state:"part"`
	Cached  []float64
}

func exampleWhitening(h, r int) whitening {
	w := whitening{Mean: make([]float64, h), Projection: blas64.General{Rows: h, Cols: r, Stride: r, Data: make([]float64, h*r)}}
	for i := range w.Projection.Data {
		w.Projection.Data[i] = float64(i) - 2.5
	}
	return w
}

func exampleValue() *allFieldTypes {
	part := exampleWhitening(1, 1)
	return &allFieldTypes{
		whitening: exampleWhitening(3, 2), K: 4, Outputs: 2, Alpha: .5, Unit: true, Kind: "bottom", Seed: math.MaxUint64 - 1,
		Means:  blas32.General{Rows: 2, Cols: 3, Stride: 5, Data: []float32{1, 2, 3, 99, 99, 4, 5, 6}},
		Levels: []float64{.1, .1, .9}, Counts: []int{0, 7}, Flags: []uint8{1, 0}, Single: .1, Large: math.MaxInt64 - 1, Set: []bool{true, false}, Names: []string{"a", ""}, All: exampleWhitening(3, 1),
		Layers: []whitening{exampleWhitening(2, 2), exampleWhitening(5, 1)}, Tail: &tail{[]float64{1}}, Part: &part, Cached: []float64{1},
	}
}

func TestSaveAndRestore(t *testing.T) {
	s := rows.Save(exampleValue())
	if got := s.Params["layers"]; got != 2. {
		t.Errorf("parameter layers is %v", got)
	}
	for _, name := range []string{"mean", "all.projection", "layers.1.mean", "tail.of", "part.mean"} {
		if _, ok := s.Arrays[name]; !ok {
			t.Errorf("no array %q", name)
		}
	}
	restored := &allFieldTypes{Part: &whitening{}}
	if err := rows.Restore(restored, s, nil); err != nil {
		t.Fatal(err)
	}
	want := exampleValue()
	want.Cached, want.Means = nil, blas32.General{Rows: 2, Cols: 3, Stride: 3, Data: []float32{1, 2, 3, 4, 5, 6}}
	if !reflect.DeepEqual(restored, want) {
		t.Errorf("restored\n%+v\nwant\n%+v", restored, want)
	}
	if again := rows.Save(restored); !reflect.DeepEqual(again, s) {
		t.Errorf("saved again\n%v\nwant\n%v", again, s)
	}
}

func TestRestoreRefuses(t *testing.T) {
	vector := func(v ...float64) rows.Array { return rows.Array{Shape: []int{len(v)}, Data: v} }
	for want, change := range map[string]func(s rows.State){
		`parameter "k" must be a float64, not <nil>`:                    func(s rows.State) { delete(s.Params, "k") },
		`parameter "k" must be a whole number, not 2.5`:                 func(s rows.State) { s.Params["k"] = 2.5 },
		`parameter "k" must be at least 1, not 0`:                       func(s rows.State) { s.Params["k"] = 0. },
		`parameter "alpha" must be above 0, not 0`:                      func(s rows.State) { s.Params["alpha"] = 0. },
		`parameter "alpha" must be below 2, not 2`:                      func(s rows.State) { s.Params["alpha"] = 2. },
		`parameter "alpha" is NaN`:                                      func(s rows.State) { s.Params["alpha"] = math.NaN() },
		`parameter "unit" must be a bool, not 1`:                        func(s rows.State) { s.Params["unit"] = 1. },
		`parameter "kind" must be one of top, bottom, not "left"`:       func(s rows.State) { s.Params["kind"] = "left" },
		`parameter "seed" must be a whole number of 64 bits`:            func(s rows.State) { s.Params["seed"] = "-1" },
		`parameter "more" belongs to nothing`:                           func(s rows.State) { s.Params["more"] = true },
		`array "more" belongs to nothing`:                               func(s rows.State) { s.Arrays["more"] = vector(1) },
		`array "bias" is missing`:                                       func(s rows.State) { delete(s.Params, "no bias") },
		`array "mean" is missing`:                                       func(s rows.State) { delete(s.Arrays, "mean") },
		`array "mean" must hold []float64 of shape [h], not []float32`:  func(s rows.State) { s.Arrays["mean"] = rows.Array{Shape: []int{1}, Data: []float32{1}} },
		`array "mean" must hold []float64 of shape [h]`:                 func(s rows.State) { s.Arrays["mean"] = rows.Array{Shape: []int{4}, Data: []float64{1}} },
		`axis 0 of array "projection" must be 2, not 3`:                 func(s rows.State) { s.Arrays["mean"] = vector(1, 2) },
		`axis 0 of array "levels" must be 3, not 2`:                     func(s rows.State) { s.Arrays["levels"] = vector(.1, .2) },
		`axis 0 of array "all.mean" must be at least 1, not 0`:          func(s rows.State) { s.Arrays["all.mean"] = vector() },
		`array "mean" has +Inf at 1`:                                    func(s rows.State) { s.Arrays["mean"] = vector(0, math.Inf(1), 0) },
		`the first mean is negative`:                                    func(s rows.State) { s.Arrays["mean"] = vector(-1, 0, 0) },
		`all: the first mean is negative`:                               func(s rows.State) { s.Arrays["all.mean"] = vector(-1, 0, 0) },
		`array "levels" falls at 2`:                                     func(s rows.State) { s.Arrays["levels"] = vector(.1, .2, .1) },
		`axis 0 of array "means" must be 3, not 2`:                      func(s rows.State) { s.Params["outputs"] = 3. },
		`array "counts", at 1, must be at least 0, not -1`:              func(s rows.State) { s.Arrays["counts"].Data.([]int64)[1] = -1 },
		`parameter "layers" must be the number of its parts, not 1e+09`: func(s rows.State) { s.Params["layers"] = 1e9 },
		`parameter "layers" must be at least 1, not 0`:                  func(s rows.State) { s.Params["layers"] = 0. },
		`array "layers.2.mean" is missing`:                              func(s rows.State) { s.Params["layers"] = 3. },
		`array "layers.1.mean" belongs to nothing`:                      func(s rows.State) { s.Params["layers"] = 1. },
		`parameter "large" must be a whole number of 64 bits`:           func(s rows.State) { s.Params["large"] = "1e3" },
		`parameter "large" must be at least -9, not -10`:                func(s rows.State) { s.Params["large"] = "-10" },
		`parameter "single" must be a number of 32 bits, not 0.1`:       func(s rows.State) { s.Params["single"] = .1 },
		`array "set", at 1, must be below 2, not 2`:                     func(s rows.State) { s.Arrays["set"] = rows.Array{Shape: []int{2}, Data: []uint8{0, 2}} },
		`the length of "names" must be 2, not 1`:                        func(s rows.State) { s.Params["names"] = 1. },
		`parameter "names.1" must be a string, not 3`:                   func(s rows.State) { s.Params["names.1"] = 3. },
		`tail: no tail`: func(s rows.State) { s.Params["tail.n"] = 9. },
	} {
		s := rows.Save(exampleValue())
		s.Arrays["counts"] = rows.Array{Shape: []int{2}, Data: slices.Clone(s.Arrays["counts"].Data.([]int64))}
		change(s)
		err := rows.Restore(&allFieldTypes{Part: &whitening{}}, s, map[string]int{"l": 3})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
