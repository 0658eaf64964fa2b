package calibrate

import (
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// DiscoveryOptions selects the method that finds discoveries, and its error rate.
type DiscoveryOptions struct {
	// FDR is the false discovery rate, in (0,1). On average over draws of the calibration
	// rows and the audited rows, the fraction of inliers among the discoveries is at most
	// FDR. Without discoveries, the fraction is 0.
	FDR float64

	// Lambda, in (0,1), selects Storey's method, which estimates the number of inliers from
	// the number of p-values of at least Lambda. It finds more discoveries if there are
	// many outliers. 0 selects the method of Benjamini and Hochberg, which counts all rows
	// as inliers.
	Lambda float64

	// Delta, in (0,1), replaces the p-values by ConditionalPValues. The FDR then holds for
	// the given calibration rows, with probability 1−Delta over their draw. If Delta is 0,
	// the FDR holds on average over draws of the calibration rows.
	Delta float64
}

func (o DiscoveryOptions) check() error {
	switch {
	case !(o.Lambda >= 0 && o.Lambda < 1):
		return fmt.Errorf("lambda %v is not in [0,1)", o.Lambda)
	case !(o.Delta >= 0 && o.Delta < 1):
		return fmt.Errorf("delta %v is not in [0,1)", o.Delta)
	}
	return checkLevel("false discovery rate", o.FDR)
}

// Discoveries describes the rows that are reported as outliers.
type Discoveries struct {
	// PValue is the largest p-value of a discovery, or 0 without discoveries. All rows with a
	// p-value of at most PValue are discoveries.
	PValue float64

	// Count is the number of discoveries.
	Count int

	// Least is the smallest possible number of discoveries other than 0. A smaller number
	// would need p-values that are lower than the calibration rows can give.
	Least int
}

// Discoveries finds the largest p-value p for which
//
//	m₀ p ≤ FDR · #{p-values ≤ p}
//
// All rows with a p-value of at most p are discoveries. m₀ is an estimate of the number of
// inliers among the m rows. The method of Benjamini and Hochberg takes m₀ = m. Storey's
// method takes m₀ = (1 + #{p-values ≥ λ})/(1−λ), which may exceed m. λ is Lambda rounded up
// to a multiple of 1/(n+1), but at most n/(n+1), for n calibration rows.
//
// No p-value is below 1/(n+1), so there are either no discoveries or at least m₀/(FDR
// (n+1)).
//
// The discoveries in the Ranks of a group differ from the discoveries in all rows that
// belong to the group. The FDR of each group is at most FDR, but the FDR of the discoveries
// of several groups together can be higher.
//
// The p-values of one calibration set are positively dependent (PRDS). Benjamini and
// Hochberg's method controls the FDR for such p-values, and so does Storey's method if it
// counts p-values ≥ λ as above.
//
// References: Benjamini & Hochberg (1995), Controlling the False Discovery Rate; Benjamini &
// Yekutieli (2001); Storey, Taylor & Siegmund (2004); Bates et al. (2023); Marandon, Lei, Mary
// & Roquain (2024), Adaptive Novelty Detection with False Discovery Rate Guarantee.
func (r Ranks) Discoveries(o DiscoveryOptions) (Discoveries, error) {
	if err := o.check(); err != nil {
		return Discoveries{}, err
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

// CalibrationRows returns the smallest number of calibration rows that allow count discoveries
// among the given number of audited rows. With fewer rows, Benjamini and Hochberg's method makes
// more discoveries or none, even if count rows score above all calibration rows. Lambda is not
// used.
func (o DiscoveryOptions) CalibrationRows(count, rows int) (int, error) {
	if err := o.check(); err != nil {
		return 0, err
	}
	if count < 1 || count > rows {
		return 0, fmt.Errorf("there cannot be %d discoveries among %d rows", count, rows)
	}
	largest := hypothesis.Forgive(o.FDR) * float64(count) / float64(rows) // p-value
	if o.Delta > 0 {
		// The smallest conditional p-value is 1 − delta^(1/h), for h = max(1, ⌊n/2⌋).
		if h := math.Ceil(math.Log(o.Delta) / math.Log1p(-largest)); h > 1 {
			return 2 * int(h), nil
		}
		return 1, nil
	}
	return max(1, int(math.Ceil(1/largest))-1), nil
}

// ConditionalPValues returns n+1 increasing p-values that replace 1/(n+1), 2/(n+1), … for n
// calibration rows. They are valid for the given calibration rows, with probability 1−delta
// over the draw of these rows: a new row then has a p-value of at most α with probability
// at most α, for all α at once. The p-values of independent new rows are then independent.
// delta must be in (0,1).
//
// The p-values are 1 − b(n−k) for k = 0, 1, …, n. The constants b are those of Simes'
// inequality at half of the rows, h = max(1, ⌊n/2⌋):
//
//	b(i) = (delta · i(i−1)…(i−h+1) / (n(n−1)…(n−h+1)))^(1/h)
//
// These constants keep small p-values small: the smallest one is about −2 log(delta)/n.
//
// References: Bates et al. (2023), sections 3.2 and 3.3; Sarkar (2008) for the inequality.
func ConditionalPValues(n int, delta float64) []float64 {
	if err := checkLevel("delta", delta); err != nil {
		panic("calibrate: " + err.Error())
	}
	p := make([]float64, n+1)
	h := max(1, n/2)
	// logRatio is the logarithm of delta times the quotient of the two products in b(i). It
	// starts at i = n, for which the products are equal.
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
