package calibrate

import (
	"cmp"
	"fmt"
	"math"
)

// Online decides for each row of a stream, as it arrives, whether it is an outlier. Decisions
// are final. The false discovery rate is the average fraction of inliers among the
// discoveries, and it is at most FDR after any number of rows.
//
// The rule is LOND (levels based on the number of discoveries). If the t−1 rows before had D
// discoveries, the next row is a discovery if its p-value is at most
//
//	Level = FDR · γ(t) · (D+1)
//
// where γ decreases and sums to 1. LOND guarantees the FDR for p-values that are independent
// or positively dependent (PRDS), as those of one calibration set are. It also guarantees the
// FDR for e-values of any dependence, if 1/e of each is tested like a p-value (e-LOND). For
// example, a Monitor's evidence of drift is an e-value, so the evidence of many streams can be
// tested. Other e-values are κp^(κ−1) of a p-value p, for a κ in (0,1), and 1/a if p ≤ a and 0
// otherwise.
//
// A p-value is at least 1/(n+1), and γ(t) decreases a little faster than 1/t. With 10,000
// calibration rows and an FDR of 0.1, no row can be a discovery after 41 rows without one.
// Horizon keeps Level higher for longer. Use Ranks for the discoveries of many rows at once,
// for example of one day.
//
// With LORD, the rule is LORD++ (levels based on recent discoveries), which makes more
// discoveries. Each discovery, at rows t₁, t₂, …, raises the levels of the rows after it:
//
//	Level = Wealth·γ(t) + (FDR−Wealth)·γ(t−t₁) + FDR·(γ(t−t₂) + γ(t−t₃) + …)
//
// LORD++ guarantees the FDR only if the p-values of inliers are independent. The p-values of
// one calibration set are dependent: if the set has few high scores, all p-values are too
// small together. Use ConditionalPValues, which are independent with probability 1−delta over
// the calibration rows, or LOND.
//
// Rows and Discoveries are 0 and nil for a new stream. To continue a stream later, save the
// fields. Level and Test panic if FDR, Horizon or Wealth is out of its range or belongs to the
// other rule.
//
// References: Javanmard & Montanari (2018), Online Rules for Control of False Discovery Rate
// and False Discovery Exceedance; Zrnic, Ramdas & Jordan (2021), Asynchronous Online Testing
// of Multiple Hypotheses, for positive dependence; Xu & Ramdas (2024), Online Multiple Testing
// with E-values; Ramdas, Yang, Wainwright & Jordan (2017), Online Control of the False
// Discovery Rate with Decaying Memory.
type Online struct {
	// FDR is the false discovery rate, in (0,1).
	FDR float64
	// LORD selects LORD++ instead of LOND.
	LORD bool
	// Horizon, if not 0, is the number of rows among which LOND makes discoveries: γ is
	// 1/Horizon for these rows and 0 for later ones. It must be 0 with LORD.
	Horizon int
	// Wealth, in (0,FDR), is the sum of the levels of LORD++ before the first discovery. 0
	// stands for FDR/2. It must be 0 with LOND.
	Wealth float64
	// Rows is the number of rows so far. Discoveries are the numbers of the rows, from 1, that
	// were discoveries.
	Rows        int
	Discoveries []int
}

// check panics if a field is out of its range or belongs to the other rule.
func (o *Online) check() {
	err := checkLevel("false discovery rate", o.FDR)
	switch {
	case err != nil:
		panic("calibrate: " + err.Error())
	case o.Horizon < 0 || o.LORD && o.Horizon != 0:
		panic(fmt.Sprintf("calibrate: horizon %d must be positive, and LORD has none", o.Horizon))
	case o.Wealth != 0 && !(o.LORD && o.Wealth > 0 && o.Wealth < o.FDR):
		panic(fmt.Sprintf("calibrate: wealth %v must be between 0 and the false discovery rate, and LOND has none", o.Wealth))
	}
}

// Level returns the level of the next row. With LORD, its run time grows with the number of
// discoveries.
func (o *Online) Level() float64 {
	o.check()
	t := o.Rows + 1
	if !o.LORD {
		return o.FDR * spending(t, o.Horizon) * float64(len(o.Discoveries)+1)
	}
	wealth := cmp.Or(o.Wealth, o.FDR/2)
	level := wealth * spending(t, 0)
	for i, discovery := range o.Discoveries {
		reward := o.FDR
		if i == 0 {
			reward -= wealth
		}
		level += reward * spending(t-discovery, 0)
	}
	return level
}

// Test takes the p-value of the next row and reports whether the row is a discovery. A row
// with NaN is not.
func (o *Online) Test(p float64) bool {
	level := o.Level()
	discovery := level > 0 && 0 <= p && p <= level
	o.Rows++
	if discovery {
		o.Discoveries = append(o.Discoveries, o.Rows)
	}
	return discovery
}

// spending returns γ(t), whose sum over all t is at most 1. With a horizon, γ is the same for
// all rows up to the horizon. Without one, γ is that of Javanmard and Montanari.
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
