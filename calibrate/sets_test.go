package calibrate

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"
)

type reference struct {
	Temperature []struct {
		Logits      []float32
		Labels      []int
		Classes     int
		Temperature float64
	}
	Sets []struct {
		Cal, New []float32
		Labels   []int
		Classes  int
		Alpha    float64
		LAC, APS [][]int
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
	if got, err := Temperature(right, []int{0, 1}); !errors.Is(err, ErrNoTemperature) {
		t.Errorf("all right: %v, %v, want %v", got, err, ErrNoTemperature)
	}
	if got, err := Temperature(right, []int{1, 0}); !errors.Is(err, ErrNoTemperature) {
		t.Errorf("all wrong: %v, %v, want %v", got, err, ErrNoTemperature)
	}
}

func TestTemperatureRefuses(t *testing.T) {
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

func TestSets(t *testing.T) {
	for i, p := range readReference(t).Sets {
		for score, want := range map[SetScore][][]int{LAC: p.LAC, APS: p.APS} {
			s, err := NewSets(matrix(p.Cal, p.Classes), p.Labels, score, 0)
			if err != nil {
				t.Fatal(err)
			}
			for j, got := range s.Predict(matrix(p.New, p.Classes), p.Alpha) {
				if !slices.Equal(got, want[j]) {
					t.Errorf("problem %d, %s, row %d: set %v, want %v", i, score, j, got, want[j])
				}
			}
			all := s.Predict(matrix(p.New, p.Classes), 0.001)
			if len(all[0]) != p.Classes {
				t.Errorf("too few rows for α, and yet the set is %v", all[0])
			}
		}
	}
}

func TestSetsCoverage(t *testing.T) {
	const repeats, n, classes, alpha = 12000, 29, 5, 0.2
	for _, tt := range []struct {
		score SetScore
		exact bool // scores have no ties, so that coverage is not conservative
	}{{LAC, true}, {APS, true}, {RandomizedAPS, true}} {
		rng := rand.New(rand.NewPCG(7, 8))
		draw := func(rows int) (blas32.General, []int) {
			z := matrix(make([]float32, rows*classes), classes)
			labels := make([]int, rows)
			for i := range labels {
				for c := range classes {
					z.Data[i*classes+c] = float32(rng.NormFloat64())
				}
				labels[i] = rng.IntN(classes)
				z.Data[i*classes+labels[i]] += 1
			}
			return Softmax(z, 0.5), labels
		}
		var covered float64
		for r := range repeats {
			p, labels := draw(n)
			s, err := NewSets(p, labels, tt.score, uint64(r))
			if err != nil {
				t.Fatal(err)
			}
			q, label := draw(1)
			if slices.Contains(s.Predict(q, alpha)[0], label[0]) {
				covered++
			}
		}
		got, want := covered/repeats, ExpectedCoverage(n, alpha)
		if se := math.Sqrt(want * (1 - want) / repeats); math.Abs(got-want) > 4*se {
			t.Errorf("%s: coverage %v, want %v ± %v", tt.score, got, want, 4*se)
		}
	}
}

func TestSoftmaxSums(t *testing.T) {
	p := Softmax(matrix([]float32{1000, 1001, -5, 0, 0, 0}, 3), 2)
	want := []float64{1 / (1 + math.Exp(0.5)), 1 / (1 + math.Exp(-0.5)), 0, 1. / 3, 1. / 3, 1. / 3}
	for i, v := range p.Data {
		if math.Abs(float64(v)-want[i]) > 1e-7 {
			t.Errorf("entry %d is %v, want %v", i, v, want[i])
		}
	}
}
