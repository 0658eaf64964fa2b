package calibrate

import (
	"cmp"
	"fmt"
	"math"
)

// Online decides for each row of a stream, as it arrives, whether the row is an outlier.
// Decisions are final. The false discovery rate is the average fraction of inliers among the
// discoveries. After any number of rows, it is at most FDR.
//
// The rule is LOND (levels based on the number of discoveries). If the first t−1 rows contain
// D discoveries, row t is a discovery if its p-value is at most
//
//	Level = FDR · γ(t) · (D+1)
//
// The numbers γ(1), γ(2), … never increase, and sum to 1. LOND guarantees the FDR for p-values
// that are independent or positively dependent (PRDS). The p-values of one calibration set are
// positively dependent.
//
// LOND also guarantees the FDR for e-values with any dependence, if 1/e replaces the p-value
// (e-LOND). For example, a Monitor's evidence of drift is an e-value, so the evidence of many
// streams can be tested. A p-value p also gives e-values: κp^(κ−1) for a fixed κ in (0,1), or
// 1/a if p ≤ a and 0 otherwise, for a fixed a.
//
// With n calibration rows, no p-value is below 1/(n+1), and γ(t) decreases a little faster
// than 1/t. For example, with 10,000 calibration rows and an FDR of 0.1, discoveries are
// impossible after 41 rows without a discovery. Horizon keeps Level higher for longer. Use
// Ranks to find discoveries among many rows at once, for example among the rows of one day.
//
// If LORD is set, the rule is LORD++ (levels based on recent discoveries), which makes more
// discoveries. If rows t₁, t₂, … are the discoveries so far, the level of row t is
//
//	Level = Wealth·γ(t) + (FDR−Wealth)·γ(t−t₁) + FDR·(γ(t−t₂) + γ(t−t₃) + …)
//
// LORD++ guarantees the FDR only if the p-values of inliers are independent. The p-values of
// one calibration set are dependent, because all of them are too small if the set has few high
// scores. For LORD++, use ConditionalPValues instead. They are independent given the
// calibration rows, and valid with probability 1−delta.
//
// Rows and Discoveries are 0 and nil for a new stream. To continue a stream later, save all
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
	// Horizon, if not 0, is the number of rows among which LOND makes discoveries. γ is then
	// 1/Horizon for these rows and 0 for later ones. Horizon must be 0 with LORD.
	Horizon int
	// Wealth, in (0,FDR), is the sum of the levels of LORD++ before the first discovery. 0
	// stands for FDR/2. Wealth must be 0 with LOND.
	Wealth float64
	// Rows is the number of rows so far. Discoveries holds the row numbers of the discoveries,
	// counted from 1.
	Rows        int
	Discoveries []int
}

// check panics if a field is out of its range, if LORD has a Horizon, or if LOND has a Wealth.
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

// Level returns the level of the next row. With LORD, the run time of Level grows with the
// number of discoveries.
func (o *Online) Level() float64 {
	o.check()
	t := o.Rows + 1
	if !o.LORD {
		return o.FDR * gamma(t, o.Horizon) * float64(len(o.Discoveries)+1)
	}
	wealth := cmp.Or(o.Wealth, o.FDR/2)
	level := wealth * gamma(t, 0)
	for i, discovery := range o.Discoveries {
		reward := o.FDR
		if i == 0 {
			reward -= wealth
		}
		level += reward * gamma(t-discovery, 0)
	}
	return level
}

// Test takes the p-value of the next row and reports whether the row is a discovery. A row
// with a p-value of NaN is not a discovery.
func (o *Online) Test(p float64) bool {
	level := o.Level()
	discovery := level > 0 && 0 <= p && p <= level
	o.Rows++
	if discovery {
		o.Discoveries = append(o.Discoveries, o.Rows)
	}
	return discovery
}

// gamma returns γ(t). The sum of γ(t) over all t is at most 1. With a horizon, γ is
// constant up to the horizon and 0 after it. Without a horizon, γ is the sequence that
// Javanmard and Montanari use.
func gamma(t, horizon int) float64 {
	switch x := float64(t); {
	case horizon > 0 && t <= horizon:
		return 1 / float64(horizon)
	case horizon != 0 || t < 1:
		return 0
	default:
		return .07720838 * math.Log(max(x, 2)) / (x * math.Exp(math.Sqrt(math.Log(x))))
	}
}
