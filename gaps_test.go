package attach_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// gapRates holds, for each table column, the probability that a cell is empty.
type gapRates []float64

// table draws n rows of a table. The features of the rows are the table columns.
func (rates gapRates) table(rng *rand.Rand, n int) ood.Batch {
	b := ood.Batch{Features: matrix(n, len(rates))}
	for i := range n {
		for j, p := range rates {
			v := float32(rng.NormFloat64())
			if rng.Float64() < p {
				v = float32(math.NaN())
			}
			rows.Row(b.Features, i)[j] = v
		}
	}
	return b
}

func equalRates(rate float64, columns int) gapRates { return slices.Repeat(gapRates{rate}, columns) }

// TestGapsRate checks that rows are flagged at rate alpha if their cells are empty as often as
// those of the calibration rows. It also checks that most rows are flagged if their last cell
// is empty and that column never had an empty cell.
func TestGapsRate(t *testing.T) {
	const fits, nTest, alpha = 100, 40, 0.05
	for name, c := range map[string]struct {
		fit, cal   gapRates
		nFit, nCal int
		power      float64 // smallest allowed fraction of flagged rows if the last column is empty
	}{
		"no gaps":                      {fit: equalRates(0, 5), power: 0.999},
		"a column with gaps":           {fit: gapRates{0.02, 0, 0, 0}, power: 0.95},
		"many gaps beside none":        {fit: append(equalRates(0.2, 8), 0), power: 0.95},
		"rare gaps in many columns":    {fit: equalRates(0.01, 30), nFit: 100},
		"calibration rows are emptier": {fit: equalRates(0, 4), cal: gapRates{0.1, 0, 0, 0}, nCal: 199, power: 0.95},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cal, nFit, nCal := c.fit, cmp.Or(c.nFit, 300), cmp.Or(c.nCal, 59)
			if c.cal != nil {
				cal = c.cal
			}
			var flagged, detected float64
			var rates []float64
			for seed := range uint64(fits) {
				rng := rand.New(rand.NewPCG(seed, 26))
				in := attach.FitOptions{
					Base: attach.Base{Task: attach.Embedding, Standardised: true}, Detector: method("covariance"), Alpha: alpha,
					Batch: c.fit.table(rng, nFit), Cal: cal.table(rng, nCal),
				}
				b := mustFit(t, in)
				test := cal.table(rng, nTest)
				rate := fractionFlagged(t, b, test)
				rates = append(rates, rate)
				flagged += rate / fits
				for i := range nTest {
					rows.Row(test.Features, i)[len(cal)-1] = float32(math.NaN())
				}
				detected += fractionFlagged(t, b, test) / fits
			}
			var variance float64
			for _, r := range rates {
				variance += (r - flagged) * (r - flagged) / (fits - 1)
			}
			if most := alpha + 3*math.Sqrt(variance/fits); flagged > most || flagged < alpha/2 {
				t.Errorf("%.4f of rows like the calibration rows are flagged, want %v to %.4f", flagged, alpha/2, most)
			}
			if detected < c.power {
				t.Errorf("%.3f of rows with an empty last column are flagged, want %v", detected, c.power)
			}
			t.Logf("%.4f flagged, %.3f detected", flagged, detected)
		})
	}
}

func fractionFlagged(t *testing.T, b *attach.Bundle, batch ood.Batch) (fraction float64) {
	t.Helper()
	all := mustPredict(t, b, batch, attach.PredictOptions{})
	for _, prediction := range all {
		if prediction.Flag {
			fraction += 1 / float64(len(all))
		}
	}
	return fraction
}

// TestGapsNameReferenceRows checks that columns are compared with the fit rows or, if the
// calibration rows have more empty cells, with both sets of rows. The text must name the rows
// that it compares with.
func TestGapsNameReferenceRows(t *testing.T) {
	single := attach.ColumnGaps{Column: "age", Empty: 1, Rows: 1, FitRows: 2000}
	if want := "age: empty in 1 of 1 row, in 0 of the 2,000 rows fitted on"; single.String() != want {
		t.Errorf("%v, want %s", single, want)
	}
	noneEmpty, lastEmpty := equalRates(0, 3), gapRates{0, 0, 1}
	for name, c := range map[string]struct {
		cal  gapRates
		want string
	}{
		"alike":   {noneEmpty, "column 2: empty in 50 of 50 rows, in 0 of the 300 rows fitted on"},
		"emptier": {lastEmpty, "column 2: empty in 50 of 50 rows, in 100 of the 400 rows fitted and calibrated on"},
	} {
		rng := rand.New(rand.NewPCG(1, 26))
		b := mustFit(t, attach.FitOptions{
			Base: attach.Base{Task: attach.Embedding, Standardised: true}, Detector: method("covariance"),
			Batch: noneEmpty.table(rng, 300), Cal: c.cal.table(rng, 100),
		})
		counter := b.GapCounter()
		counter.Add(attach.Rows{Batch: lastEmpty.table(rng, 50)})
		if got := attach.UnusualGaps(counter.Columns()); len(got) != 1 || got[0].String() != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// TestEvaluateBlamesGaps checks that the first advice for a violated guarantee is to fill the
// empty cells of a column that had none in the fit rows.
func TestEvaluateBlamesGaps(t *testing.T) {
	noneEmpty := equalRates(0, 3)
	rng := rand.New(rand.NewPCG(1, 26))
	b := mustFit(t, attach.FitOptions{
		Base: attach.Base{Task: attach.Embedding, Standardised: true}, Detector: method("covariance"),
		Batch: noneEmpty.table(rng, 300), Cal: noneEmpty.table(rng, 200),
	})
	for _, fraction := range []float64{0.3, 1} {
		e := mustEvaluate(t, b, blocksOf(gapRates{0, 0, fraction}.table(rng, 200), blas32.General{}, nil), attach.PredictOptions{}, evaluate.Options{})
		for _, p := range e.Guarantees {
			if want := "first fill the empty cells, or calibrate with rows that have them too (see the note), then evaluate again"; p.Verdict != "violated" || p.Advice != want {
				t.Errorf("%v of the cells are empty: %s, %q, want %q", fraction, p.Verdict, p.Advice, want)
			}
		}
	}
}
