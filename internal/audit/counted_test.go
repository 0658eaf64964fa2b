package audit

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/calibrate"
)

// TestFDPOfCopies checks the bound on false discoveries among all rows if some inliers have many
// copies, and outliers have none. The bound among distinct rows alone would fail.
func TestFDPOfCopies(t *testing.T) {
	const n, single, copied, copies, outliers, trials, delta = 500, 200, 30, 30, 200, 200, .1
	r := rand.New(rand.NewPCG(1, 2))
	failed, distinctFailed := 0, 0
	for range trials {
		cal := make([]float64, n)
		for i := range cal {
			cal[i] = r.NormFloat64()
		}
		slices.Sort(cal)
		ranks, inliers := countedRanks{calibrate.NewRanks(n), calibrate.NewRanks(n)}, calibrate.NewRanks(n)
		for i := range single + copied + outliers {
			score, times := r.NormFloat64(), 1
			if i < outliers {
				score += 4
			} else if i < outliers+copied {
				times = copies
			}
			at, _ := slices.BinarySearch(cal, score)
			ranks.all[n-at] += times
			ranks.distinct[n-at]++
			if i >= outliers {
				inliers[n-at] += times
			}
		}
		found, err := ranks.discoveries(calibrate.DiscoveryOptions{FDR: .2})
		if err != nil {
			t.Fatal(err)
		}
		b, err := ranks.bounds(delta)
		if err != nil {
			t.Fatal(err)
		}
		wrong, _ := countedRanks{inliers, inliers}.upTo(found.PValue)
		fraction := float64(wrong) / float64(max(1, found.Count))
		if fraction > b.fdp(ranks, found.PValue, copies) {
			failed++
		}
		if fraction > max(b.all.FDP(ranks.all, found.PValue), b.distinct.FDP(ranks.distinct, found.PValue)) {
			distinctFailed++
		}
	}
	if failed > trials*delta || distinctFailed <= trials*delta {
		t.Errorf("the bound is violated in %d of %d draws, without copies in %d", failed, trials, distinctFailed)
	}
	if got := fdpWithCopies(.1, 100, 200, 2); got != .1 {
		t.Errorf("if each row has one copy, the bound is %v", got)
	}
}
