package calibrate

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

type reference struct {
	Temperature []struct {
		Logits      []float32
		Labels      []int
		Classes     int
		Temperature float64
	}
}

func readReference(t *testing.T) reference {
	t.Helper()
	b, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var r reference
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func matrix(data []float32, cols int) blas32.General {
	return blas32.General{Rows: len(data) / cols, Cols: cols, Stride: cols, Data: data}
}

func TestTemperature(t *testing.T) {
	for i, p := range readReference(t).Temperature {
		got, err := Temperature(matrix(p.Logits, p.Classes), p.Labels)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got/p.Temperature-1) > 1e-6 {
			t.Errorf("problem %d: temperature %v, want %v", i, got, p.Temperature)
		}
	}
}

func TestTemperatureWithoutOptimum(t *testing.T) {
	right := matrix([]float32{2, 0, 0, 2}, 2)
	if got, err := Temperature(right, []int{0, 1}); err != nil || got != 0 {
		t.Errorf("all right: %v, %v, want 0", got, err)
	}
	if got, err := Temperature(right, []int{1, 0}); err != nil || got != 0 {
		t.Errorf("all wrong: %v, %v, want 0", got, err)
	}
}

func TestTemperatureErrors(t *testing.T) {
	nan := float32(math.NaN())
	for name, tt := range map[string]struct {
		logits blas32.General
		labels []int
	}{
		"no rows":        {blas32.General{Cols: 2, Stride: 2}, nil},
		"lengths differ": {matrix([]float32{1, 2}, 2), []int{0, 1}},
		"label too high": {matrix([]float32{1, 2}, 2), []int{2}},
		"negative label": {matrix([]float32{1, 2}, 2), []int{-1}},
		"NaN":            {matrix([]float32{1, nan}, 2), []int{0}},
	} {
		if _, err := Temperature(tt.logits, tt.labels); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func mustSets(t *testing.T, logits blas32.General, labels []int, o SetOptions, alpha float64) Sets {
	t.Helper()
	c, err := NewClassCalibration(logits, labels)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Sets(o, alpha)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSetsOfInvalidLogits checks that a row gets all classes if one of its logits is NaN or
// +Inf, or if all are −Inf.
func TestSetsOfInvalidLogits(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	logits, labels := matrix([]float32{5, 0, 0, 0, 5, 0, 0, 0, 5}, 3), []int{0, 1, 2}
	invalid := matrix([]float32{nan, 0, 0, 0, nan, 0, 0, 0, inf, inf, 0, inf, -inf, -inf, -inf}, 3)
	for _, o := range []SetOptions{{}, {Score: "lac"}, {Score: "aps"}, {Score: "raps"}, {Score: "saps"}, {Score: "ordinal"}, {Score: "aps", Smoothed: true}} {
		s := mustSets(t, logits, labels, o, .5)
		for i, set := range s.Predict(invalid, 0) {
			if len(set) != 3 {
				t.Errorf("%+v: row %d has the set %v", o, i, set)
			}
		}
		if p := s.PValues(invalid, 0); slices.Min(p) != 1 {
			t.Errorf("%+v: p-values %v", o, p)
		}
	}
}

func TestSetsErrors(t *testing.T) {
	c, err := NewClassCalibration(matrix([]float32{5, 0, 0, 5}, 2), []int{0, 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, alpha := range []float64{-1, 0, 1, 2, math.NaN()} {
		if _, err := c.Sets(SetOptions{}, alpha); err == nil || !strings.Contains(err.Error(), "between 0 and 1") {
			t.Errorf("α=%v: %v", alpha, err)
		}
	}
	defaults, err1 := c.Sets(SetOptions{}, .5)
	lac, err2 := c.Sets(SetOptions{Score: "lac"}, .5)
	if err1 != nil || err2 != nil || !reflect.DeepEqual(defaults, lac) {
		t.Errorf("without a score: %v, %v, not lac", err1, err2)
	}
}

// TestSets compares prediction sets with the sets of TorchCP and MAPIE.
func TestSets(t *testing.T) {
	b, err := os.ReadFile("testdata/sets.json")
	if err != nil {
		t.Fatal(err)
	}
	var problems []struct {
		Logits     []float32
		Labels     []int
		N, Classes int
		Alpha      float64
		Sets       map[string][][]int
	}
	if err := json.Unmarshal(b, &problems); err != nil {
		t.Fatal(err)
	}
	for i, p := range problems {
		cal, test := matrix(p.Logits[:p.N*p.Classes], p.Classes), matrix(p.Logits[p.N*p.Classes:], p.Classes)
		for name, want := range p.Sets {
			score, byClass := strings.CutSuffix(name, " by class")
			o := SetOptions{Score: score, ByClass: byClass}
			if len(want) == 0 {
				t.Errorf("problem %d has no sets of %s", i, name)
			}
			for j, got := range mustSets(t, cal, p.Labels[:p.N], o, p.Alpha).Predict(test, 0) {
				if !slices.Equal(got, want[j]) {
					t.Errorf("problem %d, %s, row %d: set %v, want %v", i, name, j, got, want[j])
				}
			}
			if all := mustSets(t, cal, p.Labels[:p.N], o, .001).Predict(test, 0); len(all[0]) != p.Classes {
				t.Errorf("too few rows for α, and yet the set is %v", all[0])
			}
		}
	}
}

// TestSetsOfCalibrationRows checks that a calibration row gets exactly the same score in
// prediction as in calibration. The number of covered calibration rows is therefore known
// exactly.
func TestSetsOfCalibrationRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const n, classes = 149, 30
	z, labels := drawClasses(rng, n, classes)
	c, err := NewClassCalibration(z, labels)
	if err != nil {
		t.Fatal(err)
	}
	for _, score := range []string{"lac", "aps", "raps", "saps", "ordinal"} {
		s := mustSets(t, z, labels, SetOptions{Score: score}, .5)
		var scores []float64
		above := c.Above
		if score == "ordinal" {
			above = c.Grown
		}
		for i := range c.Labels {
			scores = append(scores, s.options.score(rankedClass{c.True[i], above[i], c.Ranks[i], c.Top[i]}, 0))
		}
		slices.Sort(scores)
		for k := 1; k < n; k++ {
			s, err := c.Sets(SetOptions{Score: score}, float64(n+1-k)/(n+1))
			if err != nil {
				t.Fatal(err)
			}
			sets, covered := s.Predict(z, 0), 0
			for i, set := range sets {
				if slices.Contains(set, labels[i]) {
					covered++
				}
				if score == "ordinal" && set[len(set)-1]-set[0] != len(set)-1 {
					t.Fatalf("the set %v has a gap", set)
				}
			}
			if below, equal := countTies(scores, scores[k-1]); covered != below+equal || score == "lac" && covered != k {
				t.Fatalf("%s: the %d smallest scores cover %d calibration rows", score, k, covered)
			}
		}
	}
}

// drawClasses draws logits and labels of a model that predicts some classes better than
// others.
func drawClasses(rng *rand.Rand, rows, classes int) (blas32.General, []int) {
	z := matrix(make([]float32, rows*classes), classes)
	labels := make([]int, rows)
	for i := range labels {
		labels[i] = rng.IntN(classes)
		for c := range classes {
			z.Data[i*classes+c] = float32(2 * rng.NormFloat64())
		}
		z.Data[i*classes+labels[i]] += float32(1 + labels[i]%3)
	}
	return z, labels
}

// TestSetsCoverage checks that sets cover as often as guaranteed. Without ties, they must not
// cover more often. Sets by class must cover each class as often as guaranteed.
func TestSetsCoverage(t *testing.T) {
	const repeats, n, classes, alpha = 1500, 14, 3, 0.2
	for _, score := range []string{"lac", "aps", "raps", "saps", "ordinal"} {
		for _, o := range []SetOptions{{}, {Smoothed: true}, {ByClass: true}, {ByClass: true, Smoothed: true}} {
			if score == "ordinal" && o.ByClass {
				continue
			}
			o.Score, o.Free, o.Penalty = score, 1, .1
			rng := rand.New(rand.NewPCG(7, 8))
			var covered, want, drawn [classes]float64
			for r := range repeats {
				z, labels := drawClasses(rng, n, classes)
				o.Seed = uint64(r)
				s, calibrationRows := mustSets(t, z, labels, o, alpha), n
				z, newLabels := drawClasses(rng, 1, classes)
				label := newLabels[0]
				part := 0 // without ByClass, all rows are in one part
				if o.ByClass {
					part, calibrationRows = label, 0
					for _, l := range labels {
						if l == label {
							calibrationRows++
						}
					}
				}
				drawn[part]++
				want[part] += hypothesis.ExpectedCoverage(calibrationRows, alpha)
				if slices.Contains(s.Predict(z, uint64(r))[0], label) {
					covered[part]++
				}
			}
			for part, m := range drawn {
				got, want := covered[part]/m, want[part]/m
				// Without a random fraction, the score is 0 for every class that ranks first.
				tied := score != "lac" && !o.Smoothed
				if se := math.Sqrt(want * (1 - want) / m); m > 0 && (got < want-4*se || !tied && got > want+4*se) {
					t.Errorf("%+v, part %d: coverage %v, want %v ± %v", o, part, got, want, 4*se)
				}
			}
		}
	}
}

// TestPValuesOfClasses compares p-values of classes with crepes.
func TestPValuesOfClasses(t *testing.T) {
	b, err := os.ReadFile("testdata/pvalues.json")
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Logits     []float32
		Labels     []int
		N, Classes int
		All        []float64
		ByClass    []float64 `json:"by_class"`
	}
	if err := json.Unmarshal(b, &r); err != nil || len(r.All) == 0 {
		t.Fatalf("%d p-values, error %v", len(r.All), err)
	}
	cal, test := matrix(r.Logits[:r.N*r.Classes], r.Classes), matrix(r.Logits[r.N*r.Classes:], r.Classes)
	for byClass, want := range map[bool][]float64{false: r.All, true: r.ByClass} {
		s := mustSets(t, cal, r.Labels[:r.N], SetOptions{Score: "lac", ByClass: byClass}, .1)
		for i, got := range s.PValues(test, 0) {
			checkNear(t, "p-value", got, want[i], 1e-12)
		}
	}
}

// TestPValuesMakeSets checks that the classes with p-values above α form the set at level 1−α,
// for all scores. Smoothed LAC sets are left out, because they break ties.
func TestPValuesMakeSets(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	z, labels := drawClasses(rng, 150, 6)
	test, _ := drawClasses(rng, 40, 7) // one class has no calibration rows
	for _, score := range []string{"lac", "aps", "raps", "saps", "ordinal"} {
		for _, o := range []SetOptions{{}, {ByClass: true}, {ByCluster: true}, {Smoothed: true, Seed: 4}} {
			if o.Score = score; score == "ordinal" && (o.ByClass || o.ByCluster) || score == "lac" && o.Smoothed {
				continue
			}
			for _, alpha := range []float64{.01, .1, .37, .5, .9} {
				s := mustSets(t, z, labels, o, alpha)
				p := s.PValues(test, 3)
				for i, set := range s.Predict(test, 3) {
					var want []int
					for c, v := range p[i*7 : i*7+7] {
						if v > alpha {
							want = append(want, c)
						}
					}
					if !slices.Equal(set, want) {
						t.Fatalf("%+v at %v, row %d: set %v, by p-values %v of %v", o, alpha, i, set, want, p[i*7:i*7+7])
					}
				}
			}
		}
	}
}
