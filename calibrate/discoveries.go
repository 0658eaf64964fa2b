package calibrate

import (
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// DiscoveryOptions chooses which p-values are called discoveries.
type DiscoveryOptions struct {
	// FDR is the false discovery rate, in (0,1): the share of inliers among
	// discoveries, 0 where there are none, is at most that on average over draws of
	// calibration and audited rows.
	FDR float64

	// Lambda, in (0,1), estimates how many rows are inliers by those with p-values of
	// Lambda or more (Storey), where there are outliers enough for more discoveries.
	// 0 takes all rows for inliers (Benjamini–Hochberg).
	Lambda float64

	// Delta, in (0,1), makes p-values conditional, by ConditionalPValues: with
	// probability 1−Delta over draws of the calibration rows the false discovery rate
	// is promised for these very ones. 0 leaves p-values as they are, and the promise is an average over
	// calibration sets too.
	Delta float64
}

// Discoveries are the rows called outliers.
type Discoveries struct {
	// PValue is the largest p-value of a discovery, which all rows with that or less
	// are, or 0.
	PValue float64

	// Count is how many rows are discoveries.
	Count int

	// Least is how many discoveries there are at least, if there are any, because no
	// p-value is below that of the highest score.
	Least int
}

// Discoveries are the rows with a p-value of at most the largest p for which
//
//	m₀ p ≤ FDR · #{p-values ≤ p}
//
// of m rows, where m₀ is m (Benjamini & Hochberg) or, of λ = Lambda rounded up to a
// multiple of 1/(n+1), (1 + #{p-values ≥ λ})/(1−λ) (Storey), which is not limited to m.
// As p-values have the floor 1/(n+1), there is none unless m₀/(FDR (n+1)) rows or
// more are. A group's discoveries are not those of all rows in it: of the
// discoveries of several groups together more than FDR may be false.
//
// The p-values of one calibration set are positively dependent (PRDS), for which
// Benjamini–Hochberg holds, and Storey's holds with this count of p-values.
//
// References: Benjamini & Hochberg (1995), Controlling the False Discovery Rate;
// Benjamini & Yekutieli (2001); Storey, Taylor & Siegmund (2004); Bates et al.
// (2023); Marandon, Lei, Mary & Roquain (2024), Adaptive Novelty Detection with
// False Discovery Rate Guarantee.
func (r Ranks) Discoveries(o DiscoveryOptions) (Discoveries, error) {
	if err := checkLevel("false discovery rate", o.FDR); err != nil {
		return Discoveries{}, err
	}
	switch {
	case !(o.Lambda >= 0 && o.Lambda < 1):
		return Discoveries{}, fmt.Errorf("lambda %v is not in [0,1)", o.Lambda)
	case !(o.Delta >= 0 && o.Delta < 1):
		return Discoveries{}, fmt.Errorf("delta %v is not in [0,1)", o.Delta)
	}
	total := float64(len(r))
	p := func(k int) float64 { return float64(k+1) / total }
	if o.Delta > 0 {
		conditional := ConditionalPValues(len(r)-1, o.Delta)
		p = func(k int) float64 { return conditional[k] }
	}
	inliers := float64(r.Rows())
	if o.Lambda > 0 {
		lambda := min(math.Ceil(o.Lambda*total*(1-hypothesis.Slack)), total-1) / total
		large := 0
		for k, count := range r {
			if p(k) >= lambda*(1-hypothesis.Slack) {
				large += count
			}
		}
		inliers = float64(1+large) / (1 - lambda)
	}
	fdr := hypothesis.Forgive(o.FDR)
	d := Discoveries{Least: max(1, int(math.Ceil(inliers*p(0)/fdr)))}
	seen := 0
	for k, count := range r {
		seen += count
		if count > 0 && inliers*p(k) <= fdr*float64(seen) {
			d.PValue, d.Count = float64(k+1)/total, seen
		}
	}
	return d, nil
}

// ConditionalPValues are n+1 p-values, increasing, which take the place of 1/(n+1),
// 2/(n+1), … of n calibration rows. With probability 1−delta, in (0,1), over draws of these, a
// fresh row has one of at most α with probability at most α, for all α at once, given
// these very calibration rows. Of independent rows they are independent then.
//
// They are 1 − b(n−k), of k = 0, 1, …, with the constants of Simes at half the rows,
// h = ⌊n/2⌋:
//
//	b(i) = (delta · i(i−1)…(i−h+1) / (n(n−1)…(n−h+1)))^(1/h)
//
// which are small where p-values are: the least is about −2 log(delta)/n.
//
// Reference: Bates et al. (2023), sections 3.2 and 3.3; Sarkar (2008) has the
// inequality.
func ConditionalPValues(n int, delta float64) []float64 {
	if err := checkLevel("delta", delta); err != nil {
		panic("calibrate: " + err.Error())
	}
	p := make([]float64, n+1)
	h := max(1, n/2)
	// The logarithm of the ratio of products, from i = n down.
	ratio := math.Log(delta)
	for k := range p {
		i := n - k
		if i < h {
			p[k] = 1
			continue
		}
		p[k] = -math.Expm1(ratio / float64(h))
		ratio += math.Log(float64(i-h)) - math.Log(float64(i))
	}
	return p
}
