package calibrate

import (
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// DiscoveryOptions chooses the p-values that are discoveries.
type DiscoveryOptions struct {
	// FDR is the false discovery rate, in (0,1). The fraction of inliers among the
	// discoveries, or 0 without discoveries, is at most FDR on average over draws of the
	// calibration rows and the audited rows.
	FDR float64

	// Lambda, in (0,1), estimates the number of inliers from the rows with p-values of at
	// least Lambda (Storey). If there are many outliers, this gives more discoveries. 0 takes
	// all rows for inliers (Benjamini–Hochberg).
	Lambda float64

	// Delta, in (0,1), replaces the p-values by ConditionalPValues. With probability 1−Delta
	// over draws of the calibration rows, the FDR then holds for these very calibration rows.
	// 0 leaves the p-values as they are, and the FDR is an average over calibration sets too.
	Delta float64
}

// Discoveries describes the rows that are called outliers.
type Discoveries struct {
	// PValue is the largest p-value of a discovery, or 0 without discoveries. All rows with a
	// p-value of at most PValue are discoveries.
	PValue float64

	// Count is the number of discoveries.
	Count int

	// Least is the smallest possible number of discoveries other than 0. Fewer rows cannot be
	// discoveries, because no p-value is lower than that of the highest score.
	Least int
}

// Discoveries returns the rows whose p-value is at most the largest p with
//
//	m₀ p ≤ FDR · #{p-values ≤ p}
//
// There are m rows. m₀ is m (Benjamini & Hochberg) or, with λ = Lambda rounded up to a
// multiple of 1/(n+1), (1 + #{p-values ≥ λ})/(1−λ) (Storey). Storey's m₀ may exceed m.
// p-values are at least 1/(n+1), so there are no discoveries unless at least m₀/(FDR (n+1))
// rows are. The discoveries of a group alone differ from the discoveries of all rows that are
// in the group. The discoveries of several groups taken together can have a higher FDR.
//
// The p-values of one calibration set are positively dependent (PRDS). Benjamini–Hochberg
// holds for such p-values, and Storey's method holds with this count of p-values.
//
// References: Benjamini & Hochberg (1995), Controlling the False Discovery Rate; Benjamini &
// Yekutieli (2001); Storey, Taylor & Siegmund (2004); Bates et al. (2023); Marandon, Lei, Mary
// & Roquain (2024), Adaptive Novelty Detection with False Discovery Rate Guarantee.
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

// ConditionalPValues returns n+1 increasing p-values that replace 1/(n+1), 2/(n+1), … for n
// calibration rows. They hold given the calibration rows: with probability 1−delta over draws
// of these, delta in (0,1), a new row has a p-value of at most α with probability at most α,
// for all α at once. The p-values of independent rows are then independent.
//
// They are 1 − b(n−k) for k = 0, 1, … with Simes' constants at half of the rows, h = ⌊n/2⌋:
//
//	b(i) = (delta · i(i−1)…(i−h+1) / (n(n−1)…(n−h+1)))^(1/h)
//
// These constants keep small p-values small: the smallest one is about −2 log(delta)/n.
//
// Reference: Bates et al. (2023), sections 3.2 and 3.3; Sarkar (2008) for the inequality.
func ConditionalPValues(n int, delta float64) []float64 {
	if err := checkLevel("delta", delta); err != nil {
		panic("calibrate: " + err.Error())
	}
	p := make([]float64, n+1)
	h := max(1, n/2)
	// ratio is the logarithm of delta times the ratio of the two products, for i = n first.
	logRatio := math.Log(delta)
	for k := range p {
		i := n - k
		if i < h {
			p[k] = 1
			continue
		}
		p[k] = -math.Expm1(logRatio / float64(h))
		logRatio += math.Log(float64(i-h)) - math.Log(float64(i))
	}
	return p
}
