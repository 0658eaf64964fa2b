package hypothesis_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// clone returns a copy of u, an Urn with n calibration rows.
func clone(t *testing.T, n int, u *Urn) *Urn {
	t.Helper()
	s := u.UrnState
	s.Seen, s.Bets = slices.Clone(s.Seen), slices.Clone(s.Bets)
	c := NewUrn(n)
	if !c.Restore(s) {
		t.Fatalf("%+v is refused", s)
	}
	return c
}

// hits returns the number of looks that are at least rank.
func hits(u *Urn, rank int) int {
	j := 0
	for j < len(u.Looks()) && rank <= u.Looks()[j] {
		j++
	}
	return j
}

// TestUrnIsAMartingale enumerates all sequences of ranks. It checks that the mean capital
// stays 1, and that the capital ever reaches 1/δ with probability at most δ.
func TestUrnIsAMartingale(t *testing.T) {
	for _, size := range [][2]int{{1, 12}, {2, 8}, {4, 6}, {7, 5}} {
		n, rows := size[0], size[1]
		var mean float64
		var peaks []struct{ peak, p float64 }
		var walk func(u *Urn, counts []int, p float64)
		walk = func(u *Urn, counts []int, p float64) {
			if u.Rows == rows {
				mean += p * u.Capital()
				peaks = append(peaks, struct{ peak, p float64 }{u.Peak, p})
				return
			}
			for k := range counts {
				next := clone(t, n, u)
				next.Add(hits(u, k+1))
				q := p * float64(1+counts[k]) / float64(n+1+u.Rows)
				counts[k]++
				walk(next, counts, q)
				counts[k]--
			}
		}
		walk(NewUrn(n), make([]int, n+1), 1)
		if math.Abs(mean-1) > 1e-12 {
			t.Errorf("%d calibration rows: the capital after %d rows is %v on average", n, rows, mean)
		}
		for _, delta := range []float64{.9, .7, .5, .3, .2, .1, .05} {
			var p float64
			for _, path := range peaks {
				if path.peak >= 1/delta {
					p += path.p
				}
			}
			if p > delta {
				t.Errorf("%d calibration rows: with probability %v the capital ever reaches 1/%v", n, p, delta)
			}
		}
	}
}

// TestUrnMergesFairly checks that merging rows leaves the capital unchanged on average over
// all possible rows.
func TestUrnMergesFairly(t *testing.T) {
	const n, rows = 6, 4
	u := NewUrn(n)
	counts := make([]int, n+1)
	for _, rank := range []int{1, 5, 7, 2} {
		u.Add(hits(u, rank))
		counts[rank-1]++
	}
	var mean float64
	var walk func(ranks []int, p float64)
	walk = func(ranks []int, p float64) {
		if len(ranks) == rows {
			part, merged := NewUrn(n), clone(t, n, u)
			for _, rank := range ranks {
				part.Add(hits(u, rank))
			}
			merged.Merge(part.Rows, part.Seen)
			mean += p * merged.Capital()
			return
		}
		for k := range counts {
			q := p * float64(1+counts[k]) / float64(n+1+u.Rows+len(ranks))
			counts[k]++
			walk(append(ranks, k+1), q)
			counts[k]--
		}
	}
	walk(nil, 1)
	if math.Abs(mean-u.Capital()) > 1e-12 {
		t.Errorf("%v on average, before %v", mean, u.Capital())
	}
}

// TestUrnMergesOneRowAsAdded checks that Merge of one row equals Add.
func TestUrnMergesOneRowAsAdded(t *testing.T) {
	const n = 200
	rng := rand.New(rand.NewPCG(1, 1))
	added, merged := NewUrn(n), NewUrn(n)
	for range 2000 {
		rank := 1 + rng.IntN(n+1)
		if rng.Float64() < .2 {
			rank = 1 + rng.IntN(3)
		}
		row := NewUrn(n)
		row.Add(hits(row, rank))
		added.Add(hits(added, rank))
		merged.Merge(1, row.Seen)
		if a, m := added.Capital(), merged.Capital(); math.Abs(a-m) > 1e-7*a {
			t.Fatalf("%v added, %v merged, after %d rows", a, m, added.Rows)
		}
	}
	if added.Capital() < 100 {
		t.Errorf("the capital is %v after rows with too small ranks", added.Capital())
	}
}

// TestUrnKeepsItsNumbers checks that the capital stays finite for extreme and long streams and
// for large merges.
func TestUrnKeepsItsNumbers(t *testing.T) {
	for _, n := range []int{1, 3, 1000, 100000} {
		u := NewUrn(n)
		for i := range 20000 {
			u.Add(len(u.Looks()) * (1 - i/10000))
		}
		if c := u.Capital(); !(c > 0 && c < 1e103) || u.Peak < 1e10 && n > 3 {
			t.Errorf("%d calibration rows: capital %v, once %v", n, c, u.Peak)
		}
		all := make([]int, len(u.Looks()))
		for i := range all {
			all[i] = 1 << 40
		}
		for _, seen := range [][]int{all, make([]int, len(all)), all} {
			u.Merge(1<<40, seen)
			if c := u.Capital(); !(c > 0 && c < 1e103) {
				t.Errorf("%d calibration rows: capital %v after 2⁴⁰ rows at once", n, c)
			}
		}
		clone(t, n, u)
	}
}

// TestMeanOfUrnsIsNoEvidence shows why Merge adds rows and not capital. Two urns with the same
// calibration rows are both martingales. Their mean is not: an observer of both can stop at a
// time at which the expected mean exceeds 1.
func TestMeanOfUrnsIsNoEvidence(t *testing.T) {
	const n, rows = 1, 5
	var best func(a, b *Urn) float64
	best = func(a, b *Urn) float64 {
		now := (a.Capital() + b.Capital()) / 2
		if a.Rows == rows {
			return now
		}
		var later float64
		for _, ranks := range [][2]int{{1, 1}, {1, 2}, {2, 1}, {2, 2}} {
			nextA, nextB := clone(t, n, a), clone(t, n, b)
			p := 1.
			counts := [2]int{a.Seen[0] + b.Seen[0], a.Rows + b.Rows - a.Seen[0] - b.Seen[0]}
			for i, rank := range ranks {
				p *= float64(1+counts[rank-1]) / float64(n+1+a.Rows+b.Rows+i)
				counts[rank-1]++
			}
			nextA.Add(hits(a, ranks[0]))
			nextB.Add(hits(b, ranks[1]))
			later += p * best(nextA, nextB)
		}
		return max(now, later)
	}
	if value := best(NewUrn(n), NewUrn(n)); value < 1.001 {
		t.Errorf("the mean is %v at the best time to stop", value)
	} else {
		t.Logf("the mean is %v at the best time to stop", value)
	}
}
