package calibrate

import "math"

// LOND decides row by row, for good, which rows of a stream are outliers (levels
// based on the number of discoveries). Of t−1 rows before with D discoveries, the
// next is one if its p-value is at most
//
//	Level = FDR · γ(t) · (D+1)
//
// where γ falls and adds up to 1. The false discovery rate, the share of inliers among
// the discoveries on average, is then at most FDR after any number of rows, if
// p-values are independent or positively dependent (PRDS), as those of one
// calibration set are. Of e-values it is, however they depend on each other.
//
// A p-value is no less than 1/(n+1), and γ(t) falls a little faster than 1/t. With
// 10 000 calibration rows and an FDR of .1 nothing can be a discovery any more after
// 41 rows without one. Horizon keeps Level up for longer. Discoveries of many rows at
// once, or of a day's, are those of Ranks.
//
// The zero value of the fields but FDR is that of a stream that begins. They are all
// that is to be kept of one that goes on later.
//
// References: Javanmard & Montanari (2018), Online Rules for Control of False
// Discovery Rate and False Discovery Exceedance; Zrnic, Ramdas & Jordan (2021),
// Asynchronous Online Testing of Multiple Hypotheses, for positive dependence; Xu &
// Ramdas (2024), Online Multiple Testing with E-values.
type LOND struct {
	// FDR is the false discovery rate, in (0,1).
	FDR float64
	// Horizon, if not 0, is the number of rows that discoveries are made among: γ is
	// 1/Horizon for these and 0 for later ones.
	Horizon int
	// Rows and Discoveries are how many there were.
	Rows, Discoveries int
}

// Level is that of the next row.
func (l *LOND) Level() float64 {
	return l.FDR * spending(l.Rows+1, l.Horizon) * float64(l.Discoveries+1)
}

// Test takes the p-value of the next row, and reports whether it is a discovery. It
// is none with NaN.
func (l *LOND) Test(p float64) bool {
	level := l.Level()
	return l.decide(level > 0 && p <= level)
}

// TestE takes an e-value of the next row instead, however it depends on those of
// others, and reports whether it is a discovery (e-LOND): whether it is at least
// 1/Level. Of many streams, each with a monitor, the evidence for drift is one; so is
// κp^(κ−1) of a p-value p, for a κ in (0,1), and 1/a or, unless p ≤ a, 0.
func (l *LOND) TestE(e float64) bool {
	level := l.Level()
	return l.decide(level > 0 && e >= 1/level)
}

func (l *LOND) decide(discovery bool) bool {
	l.Rows++
	if discovery {
		l.Discoveries++
	}
	return discovery
}

// LORD decides row by row which rows of a stream are outliers (LORD++: levels based
// on recent discoveries), as LOND does, and finds more: each discovery earns levels
// for the rows after it,
//
//	Level = Wealth·γ(t) + (FDR−Wealth)·γ(t−t₁) + FDR·(γ(t−t₂) + γ(t−t₃) + …)
//
// after discoveries at rows t₁, t₂, …
//
// It promises its FDR for p-values that are independent of each other where rows are
// inliers. Those of one calibration set are not: one with few high scores makes all
// rows' p-values too small together. Take ConditionalPValues, which with probability
// 1−delta over the calibration rows are, or LOND.
//
// Reference: Ramdas, Yang, Wainwright & Jordan (2017), Online Control of the False
// Discovery Rate with Decaying Memory.
type LORD struct {
	// FDR is the false discovery rate, in (0,1).
	FDR float64
	// Wealth, in (0,FDR), is what levels before the first discovery add up to. 0 is
	// half of FDR.
	Wealth float64
	// Rows is how many there were, and Discoveries which of them, from 1, were
	// discoveries.
	Rows        int
	Discoveries []int
}

// Level is that of the next row. It takes a moment for each discovery.
func (l *LORD) Level() float64 {
	first := l.Wealth
	if first == 0 {
		first = l.FDR / 2
	}
	t := l.Rows + 1
	level := first * spending(t, 0)
	for i, at := range l.Discoveries {
		reward := l.FDR
		if i == 0 {
			reward -= first
		}
		level += reward * spending(t-at, 0)
	}
	return level
}

// Test takes the p-value of the next row, and reports whether it is a discovery. It
// is none with NaN.
func (l *LORD) Test(p float64) bool {
	discovery := p <= l.Level()
	l.Rows++
	if discovery {
		l.Discoveries = append(l.Discoveries, l.Rows)
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
