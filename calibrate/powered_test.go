package calibrate

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// poweredReference holds results of testdata/powered.py.
type poweredReference struct {
	Means []struct {
		Values, Predicted, Others []float64
		Mean, Low, High           float64
	}
	Errors []struct {
		Top, New         []float64
		Wrong            []int
		Error, Low, High float64
	}
}

func readPowered(t *testing.T) (r poweredReference) {
	t.Helper()
	b, err := os.ReadFile("testdata/powered.json")
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestPredictionPowered compares means and intervals with ppi_py, which uses the normal
// distribution.
func TestPredictionPowered(t *testing.T) {
	z := distuv.UnitNormal.Quantile(.975)
	for i, want := range readPowered(t).Means {
		p, err := PredictionPowered(want.Values, want.Predicted, want.Others)
		if err != nil {
			t.Fatal(err)
		}
		for _, pair := range [][2]float64{{p.Mean, want.Mean}, {p.Mean - z*p.StandardError, want.Low}, {p.Mean + z*p.StandardError, want.High}} {
			if math.Abs(pair[0]-pair[1]) > 1e-9 {
				t.Errorf("problem %d: %v, want %v", i, pair[0], pair[1])
			}
		}
	}
}

// TestPredictionPoweredWithoutPower checks that useless predictions give the usual intervals of
// the known values.
func TestPredictionPoweredWithoutPower(t *testing.T) {
	values := []float64{1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	p, err := PredictionPowered(values, make([]float64, 10), make([]float64, 50))
	if err != nil || p.Lambda != 0 {
		t.Fatal(p, err)
	}
	low, high := p.FractionInterval(.95)
	if l, h := hypothesis.Interval(2, 10, .95); math.Abs(low-l) > 1e-9 || math.Abs(high-h) > 1e-9 {
		t.Errorf("[%v, %v], want [%v, %v]", low, high, l, h)
	}
	low, high = p.Interval(.9)
	half := distuv.StudentsT{Sigma: 1, Nu: 9}.Quantile(.95) * stat.StdErr(stat.StdDev(values, nil), 10)
	if math.Abs(low-.2+half) > 1e-9 || math.Abs(high-.2-half) > 1e-9 {
		t.Errorf("[%v, %v], want 0.2 ± %v", low, high, half)
	}
	if p, _ = PredictionPowered(make([]float64, 10), values, values); p.Mean != 0 || p.StandardError != 0 {
		t.Error(p)
	} else if _, high = p.FractionInterval(.95); math.Abs(high-.3085) > 1e-4 { // 1 − 0.025^(1/10)
		t.Errorf("the upper end without errors is %v", high)
	}
}

// TestFractionIntervalCovers draws errors of a model and their predicted probabilities. The
// interval must cover the error rate in at least 93 % of 400 draws, and be narrower than that of the
// known values.
func TestFractionIntervalCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct{ known, shape float64 }{{30, .1}, {100, .4}, {300, .05}} {
		const draws, others = 400, 1000
		covered, width, usual := 0., 0., 0.
		b := distuv.Beta{Alpha: c.shape, Beta: 3, Src: rng}
		for range draws {
			var values, predicted, rest []float64
			wrong := 0
			for range int(c.known) {
				p := b.Rand()
				predicted = append(predicted, p)
				values = append(values, 0)
				if rng.Float64() < p {
					values[len(values)-1] = 1
					wrong++
				}
			}
			for range others {
				rest = append(rest, b.Rand())
			}
			p, err := PredictionPowered(values, predicted, rest)
			if err != nil {
				t.Fatal(err)
			}
			low, high := p.FractionInterval(.95)
			if low <= b.Mean() && b.Mean() <= high {
				covered++
			}
			l, h := hypothesis.Interval(wrong, int(c.known), .95)
			width, usual = width+high-low, usual+h-l
		}
		if covered/draws < .93 || width > .97*usual {
			t.Errorf("%v known rows: %.3f covered, and the intervals have %.2f times the width of those of the known rows", c.known, covered/draws, width/usual)
		}
	}
}

func TestPredictionPoweredRefuses(t *testing.T) {
	one, two := []float64{1}, []float64{1, 2}
	for _, c := range [][3][]float64{{two, one, one}, {one, one, one}, {two, two, nil}, {two, two, {math.NaN()}}, {{math.Inf(1), 1}, two, one}} {
		if p, err := PredictionPowered(c[0], c[1], c[2]); err == nil {
			t.Errorf("%v: %v", c, p)
		}
	}
}
