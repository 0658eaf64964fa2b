package hypothesis

import "math"

// Urn bets that rows have smaller ranks than rows that are exchangeable with n calibration
// rows. Exchangeable rows follow a Pólya urn: if c of the first t rows have a rank of at most
// k, the next row has such a rank with probability (k+c)/(n+1+t).
//
// The capital of an Urn starts at 1 and is never negative. If rows are exchangeable, the
// expected capital after the next row equals the current capital. The capital is therefore a
// test martingale, which ever reaches 1/δ with probability at most δ (Ville).
//
// Each bet assumes that a fraction ε of all rows is OOD and that the other rows follow the
// urn. OOD rows are assumed to have a rank of at most k, with the same distribution below k
// as in the urn. For each ε in oodFractions, there is one bet for each k in Looks. Another
// bet mixes all k equally, which suits densities of p-values that fall like 1/p. One more
// bet mixes the three largest k, which suits a small shift of all rows.
//
// The best bet is not known, nor is the time of a change. Part of the capital is therefore
// idle and moves to the bets slowly: after t rows, a fraction of about t^−¼ is left. A change
// after a million rows is thus detected not much later than a change at the beginning.
//
// References: Ville (1939); Vovk, Nouretdinov & Gammerman (2003), Testing
// Exchangeability On-Line; Herbster & Warmuth (1998), Tracking the Best Expert.
type Urn struct {
	n     int
	looks []int // Looks(n)
	UrnState
}

// UrnState is the state of an Urn.
type UrnState struct {
	Rows int
	Seen []int   // number of rows with a rank of at most k, for each k in Looks
	Idle float64 // capital that no bet uses
	// Bets holds the capital of each bet. There is one row for the bet on each k in Looks,
	// one for the bet that mixes the mixedLooks largest values of k, and one for the bet
	// that mixes all of them. There is one column for each of oodFractions.
	Bets [][4]float64
	Peak float64 // largest capital so far
}

// oodFractions holds the fractions of OOD rows that the bets assume.
var oodFractions = [4]float64{1. / 128, 1. / 32, 1. / 8, 1. / 2}

// mixedLooks says how many of the largest values of k one bet mixes.
const mixedLooks = 3

// releaseRate is the approximate fraction of the idle capital that moves to the bets while the
// number of rows doubles.
const releaseRate = .25

// maxCapital is the largest capital of a bet, so that the capital stays finite. It is far
// above any 1/δ.
const maxCapital = 1e100

// NewUrn returns an Urn for n calibration rows that has counted no rows.
func NewUrn(n int) *Urn {
	looks := Looks(n)
	return &Urn{n: n, looks: looks, UrnState: UrnState{
		Seen: make([]int, len(looks)), Idle: 1, Bets: make([][4]float64, len(looks)+2), Peak: 1,
	}}
}

// Looks returns the values k for which rows with a rank of at most k are counted, in
// decreasing order.
func (u *Urn) Looks() []int { return u.looks }

// Add counts a row. The argument looks is the number of values k in Looks for which the
// rank of the row is at most k.
func (u *Urn) Add(looks int) {
	perLook, perMix := u.release(1)
	totalWeight := float64(u.n + 1 + u.Rows)
	mixed := min(mixedLooks, len(u.looks))
	var odds, sum, sumMixed float64
	// The processor computes four separate sums in parallel.
	var total0, total1, total2, total3 float64
	fractions := oodFractions
	for j := range u.Bets {
		switch {
		case j < looks:
			odds = totalWeight / float64(u.looks[j]+u.Seen[j])
			if sum += odds; j < mixed {
				sumMixed = sum
			}
			u.Seen[j]++
		case j == len(u.looks):
			perLook, odds = perMix, sumMixed/float64(mixed)
		case j > len(u.looks):
			odds = sum / float64(len(u.looks))
		default:
			odds = 0
		}
		bets, gain := &u.Bets[j], odds-1
		bets[0] = (bets[0] + perLook) * (1 + fractions[0]*gain)
		bets[1] = (bets[1] + perLook) * (1 + fractions[1]*gain)
		bets[2] = (bets[2] + perLook) * (1 + fractions[2]*gain)
		bets[3] = (bets[3] + perLook) * (1 + fractions[3]*gain)
		total0 += bets[0]
		total1 += bets[1]
		total2 += bets[2]
		total3 += bets[3]
	}
	u.Rows++
	u.capBets(total0 + total1 + total2 + total3)
}

// Merge counts several rows at once. seen[i] of them have a rank of at most Looks()[i]. The
// result does not depend on their order.
//
// If rows are exchangeable, the counts of ranks between looks are Dirichlet-multinomial. Their
// parameters are proportional to the probabilities of the next row. A bet scales the
// parameters in the same way as these probabilities. For one row, the bet therefore equals the
// bet of Add.
func (u *Urn) Merge(rows int, seen []int) {
	if rows == 0 {
		return
	}
	perLook, perMix := u.release(rows)
	totalWeight := float64(u.n + 1 + u.Rows)
	for j := range u.Bets {
		if j == len(u.looks) {
			perLook = perMix
		}
		for i, fraction := range oodFractions {
			u.Bets[j][i] += perLook
			u.Bets[j][i] = min(u.Bets[j][i]*math.Exp(u.logGain(totalWeight, rows, seen, j, fraction)), maxCapital)
		}
	}
	for j := range u.Seen {
		u.Seen[j] += seen[j]
	}
	u.Rows += rows
	u.capBets(u.Capital() - u.Idle)
}

// logGain returns the logarithm of the factor by which bet j on an OOD fraction multiplies its
// capital. totalWeight is the sum of the parameters of the urn.
func (u *Urn) logGain(totalWeight float64, rows int, seen []int, j int, fraction float64) float64 {
	if j < len(u.looks) {
		inside := float64(u.looks[j] + u.Seen[j])
		outside := totalWeight - inside
		hits, misses := float64(seen[j]), float64(rows-seen[j])
		return logRisingFactorial(inside+fraction*outside, hits) - logRisingFactorial(inside, hits) + logRisingFactorial((1-fraction)*outside, misses) - logRisingFactorial(outside, misses)
	}
	mixed := len(u.looks)
	if j == mixed {
		mixed = min(mixedLooks, mixed)
	}
	var log, odds float64
	outer, remaining := totalWeight, rows // parameter and rows up to the previous look
	for k := 0; k <= len(u.looks); k++ {
		var inner float64
		var count int
		if k < len(u.looks) {
			inner, count = float64(u.looks[k]+u.Seen[k]), seen[k]
		}
		parameter, hits := outer-inner, float64(remaining-count)
		log += logRisingFactorial(parameter*(1-fraction+fraction*odds), hits) - logRisingFactorial(parameter, hits)
		if k < mixed {
			odds += totalWeight / inner / float64(mixed)
		}
		outer, remaining = inner, count
	}
	return log
}

// logRisingFactorial returns log Γ(a+m)/Γ(a), the logarithm of the rising factorial.
func logRisingFactorial(a, m float64) float64 {
	above, _ := math.Lgamma(a + m)
	below, _ := math.Lgamma(a)
	return above - below
}

// release moves idle capital to the bets, for the given number of new rows. One third goes to
// the bets on single looks, and one third to each of the two other bets. perLook is the
// capital for a bet on a single look, and perMix for a bet on several looks.
func (u *Urn) release(rows int) (perLook, perMix float64) {
	bet := u.Idle * releaseRate * float64(rows) / float64(u.Rows+rows)
	u.Idle -= bet
	bet /= 3 * float64(len(oodFractions))
	return bet / float64(len(u.looks)), bet
}

// capBets limits the capital of each bet to maxCapital and updates Peak. total is the capital
// of all bets.
func (u *Urn) capBets(total float64) {
	if total > maxCapital {
		for j := range u.Bets {
			for i, bet := range u.Bets[j] {
				u.Bets[j][i] = min(bet, maxCapital)
			}
		}
	}
	u.Peak = max(u.Peak, u.Idle+total)
}

// Capital returns the capital of all bets together with the idle capital.
func (u *Urn) Capital() float64 {
	total := u.Idle
	for _, bets := range u.Bets {
		total += bets[0] + bets[1] + bets[2] + bets[3]
	}
	return total
}

// Restore sets the state if an Urn with this number of calibration rows can have it. It
// reports whether this is the case.
func (u *Urn) Restore(s UrnState) bool {
	if len(s.Seen) != len(u.Seen) || len(s.Bets) != len(u.Bets) || s.Rows < 0 || !(s.Idle > 0) {
		return false
	}
	previous := s.Rows
	for _, seen := range s.Seen {
		if seen < 0 || seen > previous {
			return false
		}
		previous = seen
	}
	total := s.Idle
	for _, bets := range s.Bets {
		for _, bet := range bets {
			if !(bet >= 0 && bet <= maxCapital) {
				return false
			}
			total += bet
		}
	}
	if !(s.Peak >= 1 && total <= s.Peak*(1+1e-9)) || math.IsInf(s.Peak, 0) {
		return false
	}
	u.UrnState = s
	return true
}
