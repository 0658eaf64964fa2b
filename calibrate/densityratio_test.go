package calibrate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// tilted draws rows of independent normal features with deviation 1. The first feature has
// mean tilt, and the others have mean 0. Rows with a tilt and rows without have the ratio
// exp(tilt·x − tilt²/2) of densities, where x is the first feature.
func tilted(r *rand.Rand, n, h int, tilt float64) blas32.General {
	x := rows.New(n, h)
	for i := range x.Data {
		x.Data[i] = float32(r.NormFloat64())
	}
	for i := range n {
		rows.Row(x, i)[0] += float32(tilt)
	}
	return x
}

// targetOf draws the target of a row with first feature x. Its deviation grows with x, so
// intervals of one width cover rows with a large x less often.
func targetOf(r *rand.Rand, x float32) float64 { return math.Exp(.5*float64(x)) * r.NormFloat64() }

// coverage returns the fraction of intervals at .9 that cover a new row, with true weights,
// with estimated weights and without weights. Each interval has its own calibration rows.
func coverage(t *testing.T, n, h, repeats int, tilt float64) (known, estimated, unweighted float64) {
	t.Helper()
	const alpha, tests = .1, 200
	r := rand.New(rand.NewPCG(11, uint64(n)))
	for range repeats {
		x, target := tilted(r, n, h, 0), tilted(r, n, h, tilt)
		scores, weights := make([]float64, n), make([]float64, n)
		for i := range scores {
			first := rows.Row(x, i)[0]
			scores[i], weights[i] = math.Abs(targetOf(r, first)), math.Exp(tilt*float64(first))
		}
		plain, _ := NewConformal(scores)
		exact, err := NewWeightedConformal(scores, weights)
		if err != nil {
			t.Fatal(err)
		}
		ratio, weights, err := NewDensityRatio(t.Context(), x, target)
		if err != nil {
			t.Fatal(err)
		}
		fitted, err := NewWeightedConformal(scores, weights)
		if err != nil {
			t.Fatal(err)
		}
		fresh := tilted(r, tests, h, tilt)
		for i := range tests {
			row := rows.Row(fresh, i)
			s := math.Abs(targetOf(r, row[0]))
			for _, c := range []struct {
				count *float64
				p     float64
			}{{&unweighted, plain.PValue(s)}, {&known, exact.PValue(s, math.Exp(tilt*float64(row[0])))}, {&estimated, fitted.PValue(s, ratio.Weight(row))}} {
				if c.p > alpha {
					*c.count += 1 / float64(repeats*tests)
				}
			}
		}
	}
	return known, estimated, unweighted
}

// TestCoverageUnderShift checks that weights restore the coverage of .9 that a shift of the
// inputs destroys, with true and with estimated weights. A ratio that is shrunk towards 1 covers
// less than true weights, above all with few rows.
func TestCoverageUnderShift(t *testing.T) {
	for _, tt := range []struct {
		n, repeats int
		tilt, most float64 // most is the largest coverage without weights
	}{{100, 100, .5, .86}, {200, 40, .7, .85}, {1000, 40, 1, .85}} {
		known, estimated, unweighted := coverage(t, tt.n, 5, tt.repeats, tt.tilt)
		t.Logf("%d calibration rows: %.3f with true weights, %.3f with estimated ones, %.3f without", tt.n, known, estimated, unweighted)
		if math.Abs(known-.9) > .02 || math.Abs(estimated-.9) > .02 || estimated < known-.01 || unweighted > tt.most {
			t.Errorf("%d calibration rows: coverage is %.3f with true weights, %.3f with estimated ones, and %.3f without", tt.n, known, estimated, unweighted)
		}
	}
}

// TestDensityRatio checks estimates against the known ratio of two normal densities. Features
// have different units, and one is constant.
func TestDensityRatio(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const n, m, h, tilt = 3000, 1500, 4, .8
	x, target := tilted(r, n, h, 0), tilted(r, m, h, tilt)
	for _, matrix := range []blas32.General{x, target} {
		for i := range matrix.Rows {
			row := rows.Row(matrix, i)
			row[0], row[1], row[3] = 100+5*row[0], row[1]/1000, 7
		}
	}
	ratio, weights, err := NewDensityRatio(t.Context(), x, target)
	if err != nil {
		t.Fatal(err)
	}
	mean := 0.
	for i, w := range weights {
		z := (float64(rows.Row(x, i)[0]) - 100) / 5
		want := tilt*z - tilt*tilt/2
		mean += math.Abs(math.Log(w)-want) / n
		if ratio.Weight(rows.Row(x, i)) != w {
			t.Fatalf("row %d has the weight %v and the ratio %v", i, w, ratio.Weight(rows.Row(x, i)))
		}
	}
	if mean > .1 {
		t.Errorf("the mean error of the logarithm is %.3f", mean)
	}
	again, repeated, err := NewDensityRatio(t.Context(), x, target)
	if err != nil || !slices.Equal(repeated, weights) || !slices.Equal(again.Coefficients, ratio.Coefficients) {
		t.Errorf("a second estimate differs, with the error %v", err)
	}
	if got := ratio.Weight([]float32{1e30, 0, 0, 7}); got != 50 {
		t.Errorf("the ratio far beyond all rows is %v, not 50", got)
	}
	if got := ratio.Weight([]float32{0, float32(math.Inf(1)), 0, 7}); !math.IsInf(got, 1) {
		t.Errorf("the ratio of an infinite feature is %v", got)
	}
}

// TestDensityRatioWithoutShift checks that rows from one source get similar weights, even if
// there are many features.
func TestDensityRatioWithoutShift(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	_, weights, err := NewDensityRatio(t.Context(), tilted(r, 400, 200, 0), tilted(r, 400, 200, 0))
	if err != nil {
		t.Fatal(err)
	}
	if size := EffectiveSampleSize(weights); size < 340 {
		t.Errorf("the effective sample size of 400 rows is %.1f", size)
	}
}

// TestDensityRatioErrors checks rows that give no useful ratio.
// TestDensityRatioOutlier checks that one broken value, of a target row or of a calibration row,
// hides no shift.
func TestDensityRatioOutlier(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	x, target := tilted(r, 2000, 4, 0), tilted(r, 1000, 4, 1)
	clean, _, err := NewDensityRatio(t.Context(), x, target)
	if err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string]blas32.General{"calibration": x, "target": target} {
		value := broken.Data[4*7]
		broken.Data[4*7] = 1e30
		got, _, err := NewDensityRatio(t.Context(), x, target)
		broken.Data[4*7] = value
		if err != nil {
			t.Fatal(err)
		}
		if a, b := clean.Coefficients[0], got.Coefficients[0]; b < .8*a || b > 1.1*a {
			t.Errorf("with a broken value of a %s row, the coefficient is %v, not %v", name, b, a)
		}
	}
}

func TestDensityRatioErrors(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	x, infinite := tilted(r, 100, 2, 0), tilted(r, 100, 2, 0)
	infinite.Data[7] = float32(math.Inf(1))
	for name, target := range map[string]blas32.General{
		"few rows": tilted(r, 99, 2, 0), "other features": tilted(r, 100, 3, 0), "far rows": tilted(r, 100, 2, 4), "very far rows": tilted(r, 100, 2, 20), "infinite features": infinite,
	} {
		if _, _, err := NewDensityRatio(t.Context(), x, target); err == nil {
			t.Errorf("%s: no error", name)
		} else {
			t.Log(err)
		}
	}
}
