package calibrate

import (
	"cmp"
	"fmt"
	"math"
)

// Online decides row by row, for good, which rows of a stream are outliers. The false
// discovery rate, the share of inliers among those that it calls so on average, is at
// most FDR after any number of rows.
//
// It is LOND (levels based on the number of discoveries): of t−1 rows before with D
// discoveries, the next is one if its p-value is at most
//
//	Level = FDR · γ(t) · (D+1)
//
// where γ falls and adds up to 1. That promises the FDR for p-values that are
// independent or positively dependent (PRDS), as those of one calibration set are. It
// promises it for e-values, however they depend on each other, where 1/e of each is
// tested as if it were a p-value (e-LOND). Of many streams, each with a monitor, the
// evidence for drift is an e-value; so is κp^(κ−1) of a p-value p, for a κ in (0,1), and
// 1/a or, unless p ≤ a, 0.
//
// A p-value is no less than 1/(n+1), and γ(t) falls a little faster than 1/t. With
// 10 000 calibration rows and an FDR of .1 nothing can be a discovery any more after
// 41 rows without one. Horizon keeps Level up for longer. Discoveries of many rows at
// once, or of a day's, are those of Ranks.
//
// With LORD it is LORD++ (levels based on recent discoveries), which finds more: each
// discovery, at rows t₁, t₂, …, earns levels for the rows after it,
//
//	Level = Wealth·γ(t) + (FDR−Wealth)·γ(t−t₁) + FDR·(γ(t−t₂) + γ(t−t₃) + …)
//
// It promises the FDR for p-values that are independent of each other where rows are
// inliers. Those of one calibration set are not: one with few high scores makes all
// rows' p-values too small together. Take ConditionalPValues, which with probability
// 1−delta over the calibration rows are, or LOND.
//
// Rows and Discoveries are 0 and nil for a stream that begins. The fields are all that
// is to be kept of one that goes on later. Of an FDR, Horizon or Wealth that is not as
// said there, or is of the other rule, Level and Test panic.
//
// References: Javanmard & Montanari (2018), Online Rules for Control of False
// Discovery Rate and False Discovery Exceedance; Zrnic, Ramdas & Jordan (2021),
// Asynchronous Online Testing of Multiple Hypotheses, for positive dependence; Xu &
// Ramdas (2024), Online Multiple Testing with E-values; Ramdas, Yang, Wainwright &
// Jordan (2017), Online Control of the False Discovery Rate with Decaying Memory.
type Online struct {
	// FDR is the false discovery rate, in (0,1).
	FDR float64
	// LORD asks for LORD++ in place of LOND.
	LORD bool
	// Horizon, if not 0, is the number of rows that LOND makes discoveries among: γ is
	// 1/Horizon for these and 0 for later ones. It is 0 with LORD.
	Horizon int
	// Wealth, in (0,FDR), is what levels of LORD++ before the first discovery add up to.
	// 0 is half of FDR, and all that LOND has.
	Wealth float64
	// Rows is how many there were, and Discoveries which of them, from 1, were
	// discoveries.
	Rows        int
	Discoveries []int
}

// check panics on fields by which no false discovery rate would hold, or that nothing
// would read.
func (o *Online) check() {
	err := checkLevel("false discovery rate", o.FDR)
	switch {
	case err != nil:
		panic("calibrate: " + err.Error())
	case o.Horizon < 0 || o.LORD && o.Horizon != 0:
		panic(fmt.Sprintf("calibrate: a horizon of %d rows is none, or one of LORD, which has none", o.Horizon))
	case o.Wealth != 0 && !(o.LORD && o.Wealth > 0 && o.Wealth < o.FDR):
		panic(fmt.Sprintf("calibrate: a wealth of %v does not lie between 0 and the false discovery rate, or is one of LOND, which has none", o.Wealth))
	}
}

// Level is that of the next row. With LORD it takes a moment for each discovery.
func (o *Online) Level() float64 {
	o.check()
	t := o.Rows + 1
	if !o.LORD {
		return o.FDR * spending(t, o.Horizon) * float64(len(o.Discoveries)+1)
	}
	first := cmp.Or(o.Wealth, o.FDR/2)
	level := first * spending(t, 0)
	for i, at := range o.Discoveries {
		reward := o.FDR
		if i == 0 {
			reward -= first
		}
		level += reward * spending(t-at, 0)
	}
	return level
}

// Test takes the p-value of the next row, and reports whether it is a discovery. It
// is none with NaN.
func (o *Online) Test(p float64) bool {
	level := o.Level()
	discovery := level > 0 && 0 <= p && p <= level
	o.Rows++
	if discovery {
		o.Discoveries = append(o.Discoveries, o.Rows)
	}
	return discovery
}

// spending is γ(t), of which all add up to 1 at most: equal ones up to a horizon, or,
// if that is 0, those of Javanmard and Montanari.
func spending(t, horizon int) float64 {
	switch x := float64(t); {
	case horizon > 0 && t <= horizon:
		return 1 / float64(horizon)
	case horizon != 0 || t < 1:
		return 0
	default:
		return .07720838 * math.Log(max(x, 2)) / (x * math.Exp(math.Sqrt(math.Log(x))))
	}
}
