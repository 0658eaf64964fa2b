package evidence

import "math"

// Urn bets that rows have smaller ranks than the law allows that they have if they are
// exchangeable with n calibration rows: a Pólya urn, in which after t rows, of
// which c had a rank of at most k, the next has one with probability (k+c)/(n+1+t).
//
// Its capital begins with 1, is never negative, and by that law stays the same on
// average, whatever the rows before: it is a test martingale, which ever reaches 1/δ
// with probability at most δ (Ville).
//
// There is a bet for each of Looks and each of a few shares ε: that of all rows a
// share ε comes from elsewhere and has a rank of at most k, and the others come from
// the urn. Which of them is right, and since when, is not known, so that a part of
// the capital is not bet yet, and goes to all of them little by little: after t rows
// as much as t^−¼ of it is left. So rows that change after a million others
// are noticed nearly as soon as at the beginning.
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
	Seen []int     // rows up to each of the looks
	Idle float64   // the capital that is not bet
	Bets []float64 // that of the bets, look by look
	Peak float64   // the most that the capital ever was
}

// elsewhere are the shares of rows from elsewhere that are bet on.
var elsewhere = [...]float64{1. / 128, 1. / 32, 1. / 8, 1. / 2}

// release is the part of the idle capital that goes to the bets in a time in which
// rows double, about.
const release = .25

// mostCapital is where the capital of a bet stops to grow, far above any 1/δ.
const mostCapital = 1e100

// NewUrn has n calibration rows and no others yet.
func NewUrn(n int) *Urn {
	at := Looks(n)
	return &Urn{n: n, at: at, UrnState: UrnState{
		Seen: make([]int, len(at)), Idle: 1, Bets: make([]float64, len(at)*len(elsewhere)), Peak: 1,
	}}
}

// Looks are the ranks at which rows are counted, falling.
func (u *Urn) Looks() []int { return u.at }

// Add takes a row with a rank of at most the first so many of the looks.
func (u *Urn) Add(looks int) {
	each := u.release(1)
	all := float64(u.n + 1 + u.Rows)
	total := u.Idle
	for j, k := range u.at {
		odds := 0.
		if j < looks {
			odds = all / float64(k+u.Seen[j])
			u.Seen[j]++
		}
		bets := u.Bets[j*len(elsewhere):][:len(elsewhere)]
		for i, share := range elsewhere {
			bets[i] = min((bets[i]+each)*(1-share+share*odds), mostCapital)
			total += bets[i]
		}
	}
	u.Rows++
	u.Peak = max(u.Peak, total)
}

// Merge takes rows of which so many have a rank of at most each of the looks, all at
// once: in whatever order they came, the bets are the same.
//
// A bet on a share ε is then that the share of such ranks among them is not Beta(α, β)
// but Beta(α+εβ, (1−ε)β), which for one row is what Add bets.
func (u *Urn) Merge(rows int, seen []int) {
	if rows == 0 {
		return
	}
	each := u.release(rows)
	total := u.Idle
	for j, k := range u.at {
		a := float64(k + u.Seen[j])
		b := float64(u.n+1+u.Rows) - a
		in, out := float64(seen[j]), float64(rows-seen[j])
		law := rising(a, in) + rising(b, out)
		bets := u.Bets[j*len(elsewhere):][:len(elsewhere)]
		for i, share := range elsewhere {
			won := rising(a+share*b, in) + rising((1-share)*b, out) - law
			bets[i] = min((bets[i]+each)*math.Exp(won), mostCapital)
			total += bets[i]
		}
		u.Seen[j] += seen[j]
	}
	u.Rows += rows
	u.Peak = max(u.Peak, total)
}

// rising is the logarithm of Γ(a+m)/Γ(a).
func rising(a, m float64) float64 {
	above, _ := math.Lgamma(a + m)
	below, _ := math.Lgamma(a)
	return above - below
}

// release takes what is bet from now on, with so many rows at hand, off the idle
// capital, and says what each bet gets.
func (u *Urn) release(rows int) float64 {
	bet := u.Idle * release * float64(rows) / float64(u.Rows+rows)
	u.Idle -= bet
	return bet / float64(len(u.Bets))
}

// Capital is what is left and won.
func (u *Urn) Capital() float64 {
	total := u.Idle
	for _, bet := range u.Bets {
		total += bet
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
	for _, bet := range s.Bets {
		if !(bet >= 0 && bet <= mostCapital) {
			return false
		}
		total += bet
	}
	if !(s.Peak >= 1 && total <= s.Peak*(1+1e-9)) || math.IsInf(s.Peak, 0) {
		return false
	}
	u.UrnState = s
	return true
}
