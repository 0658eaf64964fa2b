package hypothesis

import "math"

// Urn bets that rows have smaller ranks than they would have if they were exchangeable with n
// calibration rows. Exchangeable rows follow a Pólya urn: after t rows, c of them with a rank
// of at most k, the next row has such a rank with probability (k+c)/(n+1+t).
//
// Its capital begins at 1 and is never negative. If rows are exchangeable, the capital stays
// the same on average, whatever the rows before. It is therefore a test martingale, which ever
// reaches 1/δ with probability at most δ (Ville).
//
// Each bet assumes that a fraction ε of all rows is OOD and that the others follow the urn.
// OOD rows are assumed to have a rank of at most k, one of Looks, distributed below k as in
// the urn. Two more bets mix these: one all k equally, for densities of p-values that fall
// like 1/p, and one the three largest k, for rows that are all shifted a little. It is not
// known which bet is right, and from when on. A part of the capital is therefore idle and goes
// to the bets little by little: after t rows about t^−¼ of it is left. A change after a
// million rows is thus noticed not much later than a change at the beginning.
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
	// Bets holds the capital of the bets: one row for each look, one for the largest looks
	// together, one for all looks together; one column for each of oodFractions.
	Bets [][4]float64
	Peak float64 // largest capital so far
}

// oodFractions are the fractions of OOD rows that the bets assume.
var oodFractions = [4]float64{1. / 128, 1. / 32, 1. / 8, 1. / 2}

// widest is the number of looks that share one bet, besides the bet on all looks.
const mixedLooks = 3

// release is about the fraction of the idle capital that goes to the bets while the number of
// rows doubles.
const releaseRate = .25

// mostCapital caps the capital of a bet, far above any 1/δ.
const maxCapital = 1e100

// NewUrn returns an Urn of n calibration rows that has seen no rows.
func NewUrn(n int) *Urn {
	looks := Looks(n)
	return &Urn{n: n, looks: looks, UrnState: UrnState{
		Seen: make([]int, len(looks)), Idle: 1, Bets: make([][4]float64, len(looks)+2), Peak: 1,
	}}
}

// Looks returns the ranks at which rows are counted, in decreasing order.
func (u *Urn) Looks() []int { return u.looks }

// Add counts a row whose rank is at most each of the first looks ranks of Looks.
func (u *Urn) Add(looks int) {
	each, together := u.release(1)
	all := float64(u.n + 1 + u.Rows)
	mixed := min(mixedLooks, len(u.looks))
	var odds, sum, sumMixed float64
	// Four separate sums, which the processor computes in parallel.
	var total0, total1, total2, total3 float64
	fractions := oodFractions
	for j := range u.Bets {
		switch {
		case j < looks:
			odds = all / float64(u.looks[j]+u.Seen[j])
			if sum += odds; j < mixed {
				sumMixed = sum
			}
			u.Seen[j]++
		case j == len(u.looks):
			each, odds = together, sumMixed/float64(mixed)
		case j > len(u.looks):
			odds = sum / float64(len(u.looks))
		default:
			odds = 0
		}
		bets, gain := &u.Bets[j], odds-1
		bets[0] = (bets[0] + each) * (1 + fractions[0]*gain)
		bets[1] = (bets[1] + each) * (1 + fractions[1]*gain)
		bets[2] = (bets[2] + each) * (1 + fractions[2]*gain)
		bets[3] = (bets[3] + each) * (1 + fractions[3]*gain)
		total0 += bets[0]
		total1 += bets[1]
		total2 += bets[2]
		total3 += bets[3]
	}
	u.Rows++
	u.settle(total0 + total1 + total2 + total3)
}

// Merge counts several rows at once: seen[i] of them have a rank of at most Looks()[i]. Their
// order does not matter.
//
// If rows are exchangeable, the counts of ranks between looks are Dirichlet-multinomial, with
// parameters in proportion to the probabilities of the next row. A bet scales the parameters
// as it scales these probabilities. For one row this is the bet of Add.
func (u *Urn) Merge(rows int, seen []int) {
	if rows == 0 {
		return
	}
	each, together := u.release(rows)
	all := float64(u.n + 1 + u.Rows)
	for j := range u.Bets {
		if j == len(u.looks) {
			each = together
		}
		for i, fraction := range oodFractions {
			u.Bets[j][i] += each
			u.Bets[j][i] = min(u.Bets[j][i]*math.Exp(u.logGain(all, rows, seen, j, fraction)), maxCapital)
		}
	}
	for j := range u.Seen {
		u.Seen[j] += seen[j]
	}
	u.Rows += rows
	u.settle(u.Capital() - u.Idle)
}

// won returns the logarithm of the factor by which bet j on an OOD fraction multiplies its
// capital.
func (u *Urn) logGain(all float64, rows int, seen []int, j int, share float64) float64 {
	if j < len(u.looks) {
		in := float64(u.looks[j] + u.Seen[j])
		out := all - in
		hits, misses := float64(seen[j]), float64(rows-seen[j])
		return rising(in+share*out, hits) - rising(in, hits) + rising((1-share)*out, misses) - rising(out, misses)
	}
	on := len(u.looks)
	if j == on {
		on = min(mixedLooks, on)
	}
	var log, odds float64
	above, more := all, rows // of the previous look
	for k := 0; k <= len(u.looks); k++ {
		var upto float64
		var count int
		if k < len(u.looks) {
			upto, count = float64(u.looks[k]+u.Seen[k]), seen[k]
		}
		law, hits := above-upto, float64(more-count)
		log += rising(law*(1-share+share*odds), hits) - rising(law, hits)
		if k < on {
			odds += all / upto / float64(on)
		}
		above, more = upto, count
	}
	return log
}

// rising returns the logarithm of Γ(a+m)/Γ(a).
func rising(a, m float64) float64 {
	above, _ := math.Lgamma(a + m)
	below, _ := math.Lgamma(a)
	return above - below
}

// release moves capital from idle to the bets, for the given number of new rows. A third goes
// to the bets on single looks, and a third to each of the other two.
func (u *Urn) release(rows int) (each, together float64) {
	bet := u.Idle * releaseRate * float64(rows) / float64(u.Rows+rows)
	u.Idle -= bet
	bet /= 3 * float64(len(oodFractions))
	return bet / float64(len(u.looks)), bet
}

// settle caps bets, whose total capital is given, so that they stay finite.
func (u *Urn) settle(total float64) {
	if total > maxCapital {
		for j := range u.Bets {
			for i, bet := range u.Bets[j] {
				u.Bets[j][i] = min(bet, maxCapital)
			}
		}
	}
	u.Peak = max(u.Peak, u.Idle+total)
}

// Capital returns the total capital, bet and idle.
func (u *Urn) Capital() float64 {
	total := u.Idle
	for _, bets := range u.Bets {
		total += bets[0] + bets[1] + bets[2] + bets[3]
	}
	return total
}

// Restore sets the state, and reports whether an Urn of that many calibration rows can have
// it.
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
