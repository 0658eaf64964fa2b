package hypothesis

import "math"

// Urn bets that rows have smaller ranks than the law allows that they have if they are
// exchangeable with n calibration rows: a Pólya urn, in which after t rows, of
// which c had a rank of at most k, the next has one with probability (k+c)/(n+1+t).
//
// Its capital begins with 1, is never negative, and by that law stays the same on
// average, whatever the rows before: it is a test martingale, which ever reaches 1/δ
// with probability at most δ (Ville).
//
// Each bet is that of all rows a share ε comes from elsewhere, and the others from the
// urn. Rows from elsewhere have a rank of at most k, one of Looks, and below it the
// urn's law, or are of all these kinds alike, as where the density of p-values falls
// like 1/p, or of the three widest kinds, as where all rows are shifted a little. Which
// bet is right, and since when, is not known, so that a part of the
// capital is not bet yet, and goes to all of them little by little: after t rows about
// t^−¼ of it is left. So rows that change after a million others are noticed not much
// later than at the beginning.
//
// References: Ville (1939); Vovk, Nouretdinov & Gammerman (2003), Testing
// Exchangeability On-Line; Herbster & Warmuth (1998), Tracking the Best Expert.
type Urn struct {
	n  int
	at []int // Looks(n)
	UrnState
}

// UrnState is what an Urn has seen and won.
type UrnState struct {
	Rows int
	Seen []int   // rows up to each of the looks
	Idle float64 // the capital that is not bet
	// Bets are the capital of bets on each of the looks, on the widest of them together,
	// and on all together, on each of the shares from elsewhere.
	Bets [][4]float64
	Peak float64 // the most that the capital ever was
}

// elsewhere are the shares of rows from elsewhere that are bet on.
var elsewhere = [4]float64{1. / 128, 1. / 32, 1. / 8, 1. / 2}

// widest is how many of the looks are bet on together, besides all.
const widest = 3

// release is the part of the idle capital that goes to the bets in a time in which
// rows double, about.
const release = .25

// mostCapital is where the capital of a bet stops to grow, far above any 1/δ.
const mostCapital = 1e100

// NewUrn has n calibration rows and no others yet.
func NewUrn(n int) *Urn {
	at := Looks(n)
	return &Urn{n: n, at: at, UrnState: UrnState{
		Seen: make([]int, len(at)), Idle: 1, Bets: make([][4]float64, len(at)+2), Peak: 1,
	}}
}

// Looks are the ranks at which rows are counted, falling.
func (u *Urn) Looks() []int { return u.at }

// Add takes a row with a rank of at most the first so many of the looks.
func (u *Urn) Add(looks int) {
	each, together := u.release(1)
	all := float64(u.n + 1 + u.Rows)
	wide := min(widest, len(u.at))
	var odds, sum, sumWide float64
	// Four sums, as the processor adds up several at once.
	var total0, total1, total2, total3 float64
	share := elsewhere
	for j := range u.Bets {
		switch {
		case j < looks:
			odds = all / float64(u.at[j]+u.Seen[j])
			if sum += odds; j < wide {
				sumWide = sum
			}
			u.Seen[j]++
		case j == len(u.at):
			each, odds = together, sumWide/float64(wide)
		case j > len(u.at):
			odds = sum / float64(len(u.at))
		default:
			odds = 0
		}
		bets, gain := &u.Bets[j], odds-1
		bets[0] = (bets[0] + each) * (1 + share[0]*gain)
		bets[1] = (bets[1] + each) * (1 + share[1]*gain)
		bets[2] = (bets[2] + each) * (1 + share[2]*gain)
		bets[3] = (bets[3] + each) * (1 + share[3]*gain)
		total0 += bets[0]
		total1 += bets[1]
		total2 += bets[2]
		total3 += bets[3]
	}
	u.Rows++
	u.settle(total0 + total1 + total2 + total3)
}

// Merge takes rows of which so many have a rank of at most each of the looks, all at
// once: in whatever order they came, the bets are the same.
//
// By the law the counts of ranks between looks are Dirichlet-multinomial, and its
// parameters are in proportion to the probabilities of the next row. A bet changes the
// parameters as it changes these, which for one row is what Add bets.
func (u *Urn) Merge(rows int, seen []int) {
	if rows == 0 {
		return
	}
	each, together := u.release(rows)
	all := float64(u.n + 1 + u.Rows)
	for j := range u.Bets {
		if j == len(u.at) {
			each = together
		}
		for i, share := range elsewhere {
			u.Bets[j][i] += each
			u.Bets[j][i] = min(u.Bets[j][i]*math.Exp(u.won(all, rows, seen, j, share)), mostCapital)
		}
	}
	for j := range u.Seen {
		u.Seen[j] += seen[j]
	}
	u.Rows += rows
	u.settle(u.Capital() - u.Idle)
}

// won is the logarithm of what bet j on a share multiplies its capital by.
func (u *Urn) won(all float64, rows int, seen []int, j int, share float64) float64 {
	if j < len(u.at) {
		in := float64(u.at[j] + u.Seen[j])
		out := all - in
		hits, misses := float64(seen[j]), float64(rows-seen[j])
		return rising(in+share*out, hits) - rising(in, hits) + rising((1-share)*out, misses) - rising(out, misses)
	}
	on := len(u.at)
	if j == on {
		on = min(widest, on)
	}
	var log, odds float64
	above, more := all, rows // up to the look before
	for k := 0; k <= len(u.at); k++ {
		var upto float64
		var count int
		if k < len(u.at) {
			upto, count = float64(u.at[k]+u.Seen[k]), seen[k]
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

// rising is the logarithm of Γ(a+m)/Γ(a).
func rising(a, m float64) float64 {
	above, _ := math.Lgamma(a + m)
	below, _ := math.Lgamma(a)
	return above - below
}

// release takes what is bet from now on, with so many rows at hand, off the idle
// capital: a third is for bets on one look, and one for each of those on several.
func (u *Urn) release(rows int) (each, together float64) {
	bet := u.Idle * release * float64(rows) / float64(u.Rows+rows)
	u.Idle -= bet
	bet /= 3 * float64(len(elsewhere))
	return bet / float64(len(u.at)), bet
}

// settle keeps bets, of which the capital is given, at a size that numbers can have.
func (u *Urn) settle(total float64) {
	if total > mostCapital {
		for j := range u.Bets {
			for i, bet := range u.Bets[j] {
				u.Bets[j][i] = min(bet, mostCapital)
			}
		}
	}
	u.Peak = max(u.Peak, u.Idle+total)
}

// Capital is what is left and won.
func (u *Urn) Capital() float64 {
	total := u.Idle
	for _, bets := range u.Bets {
		total += bets[0] + bets[1] + bets[2] + bets[3]
	}
	return total
}

// Restore takes a state, and reports whether an Urn of as many calibration rows can
// have it.
func (u *Urn) Restore(s UrnState) bool {
	if len(s.Seen) != len(u.Seen) || len(s.Bets) != len(u.Bets) || s.Rows < 0 || !(s.Idle > 0) {
		return false
	}
	most := s.Rows
	for _, seen := range s.Seen {
		if seen < 0 || seen > most {
			return false
		}
		most = seen
	}
	total := s.Idle
	for _, bets := range s.Bets {
		for _, bet := range bets {
			if !(bet >= 0 && bet <= mostCapital) {
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
