package table3

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/stat"
)

// agreement holds the results of public implementations for one pair.
type agreement struct {
	IGCIG       float64              `json:"igci-g"`
	IGCIU       float64              `json:"igci-u"`
	LINGAM      float64              `json:"lingam"` // 1 if x causes y, −1 if y causes x
	HSIC        float64              `json:"hsic"`
	HSICP       float64              `json:"hsic_p"`
	ANMForward  float64              `json:"anm_forward"`  // p-value of the model in which x causes y
	ANMBackward float64              `json:"anm_backward"` // p-value of the model in which y causes x
	Copula      map[string][]float64 `json:"copula"`       // quantiles of y given x, keyed by the level as text
}

// TestAgrees compares the methods with cdt, lingam, causal-learn and pyvinecopulib.
// testdata/agree.py makes the pairs by the formulas of fixedPairs and stores the results of
// these packages.
func TestAgrees(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "agree.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want struct{ Pairs map[string]agreement }
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	pairs := fixedPairs()
	if len(want.Pairs) != len(pairs) {
		t.Fatalf("agree.json has %d pairs", len(want.Pairs))
	}
	for name, w := range want.Pairs {
		x, y := pairs[name][0], pairs[name][1]
		score := func(method func(x, y []float64, rng *rand.Rand) (float64, error)) float64 {
			s, err := method(x, y, rand.New(rand.NewPCG(1, 1)))
			if err != nil {
				t.Fatal(name, err)
			}
			return s
		}
		checkNear := func(label string, got, want, tolerance float64) {
			if !(math.Abs(got-want) <= tolerance) {
				t.Errorf("%s, %s: %v, want %v", name, label, got, want)
			}
		}
		checkNear("IGCI-g", score(igci(standardised)), w.IGCIG, 1e-9)
		checkNear("IGCI-u", score(igci(minMaxScaled)), w.IGCIU, 1e-9)
		checkNear("LINGAM", math.Copysign(1, score(lingam)), w.LINGAM, 0)
		h := newHSIC(x, y)
		checkNear("HSIC", h.statistic, w.HSIC, 1e-8*w.HSIC)
		checkNear("HSIC's p-value", math.Exp(h.logP), w.HSICP, 1e-9)
		if w.ANMForward != w.ANMBackward {
			checkNear("ANM", math.Copysign(1, score(anm)), math.Copysign(1, w.ANMForward-w.ANMBackward), 0)
		}
		copulaAgrees(t, name, x, y, w.Copula)
	}
}

// copulaAgrees checks conditionalQuantiles against vinecopulib. The tolerance is wide
// because vinecopulib interpolates on a 30×30 grid.
func copulaAgrees(t *testing.T, name string, x, y []float64, want map[string][]float64) {
	rng := rand.New(rand.NewPCG(1, 1))
	x, y = normalScores(x, rng), normalScores(y, rng)
	rho := stat.Correlation(x, y, nil)
	h, err := bandwidth(x, y, rho)
	if err != nil {
		t.Fatal(err)
	}
	for text, quantiles := range want {
		level, _ := strconv.ParseFloat(text, 64)
		got := conditionalQuantiles(x, y, []float64{-1.5, -.5, 0, .5, 1.5}, min(max(rho, -.95), .95), h, []float64{level})[0]
		for i, q := range quantiles {
			if math.Abs(got[i]-q) > .2 {
				t.Errorf("%s: quantile %.2f is %.3f, want %.3f", name, level, got[i], q)
			}
		}
	}
}

// fixedPairs returns the pairs that testdata/agree.py makes.
func fixedPairs() map[string][2][]float64 {
	pairs := map[string][2][]float64{}
	add := func(name string, x, y float64) {
		p := pairs[name]
		pairs[name] = [2][]float64{append(p[0], x), append(p[1], y)}
	}
	for i := 1.; i <= 300; i++ {
		u, v := math.Mod(i*0.6180339887498949, 1), math.Mod(i*0.41421356237309515, 1)
		logistic, uniform := math.Log(u/(1-u)), 2*u-1
		add("linear", logistic*logistic*logistic, 0.02*logistic*logistic*logistic+2*v)
		add("additive", uniform, uniform*uniform*uniform+uniform+0.6*v)
		add("saturated", logistic, math.Tanh(logistic)+0.1*math.Log(v/(1-v)))
		add("scaled", uniform, uniform*uniform*(1+0.6*v))
	}
	return pairs
}

// TestEnergyOfNormality compares the closed form with a Monte Carlo estimate.
func TestEnergyOfNormality(t *testing.T) {
	v := []float64{-2, -.5, .1, .4, 3}
	z := standardised(v)
	rng := rand.New(rand.NewPCG(1, 1))
	var cross, normal float64
	const draws = 400_000
	for range draws {
		g := rng.NormFloat64()
		for _, a := range z {
			cross += math.Abs(a-g) / (draws * 5)
		}
		normal += math.Abs(g-rng.NormFloat64()) / draws
	}
	var between float64
	for _, a := range z {
		for _, b := range z {
			between += math.Abs(a-b) / 25
		}
	}
	if got, want := energyOfNormality(v), 5*(2*cross-normal-between); math.Abs(got-want) > .03 {
		t.Errorf("%v, want %v", got, want)
	}
}
