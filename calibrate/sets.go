package calibrate

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
)

// Default values of SetOptions: the penalty of RAPS, the number of its ranks without a
// penalty, and the penalty of SAPS.
const (
	defaultRAPSPenalty = .01
	defaultFreeRanks   = 5
	defaultSAPSPenalty = .2
)

// SetOptions selects the kind of prediction sets.
type SetOptions struct {
	// Score names the nonconformity score of classes. Empty stands for "lac". With the
	// probability p_c of class c, the scores are:
	//
	//   - "lac": 1 − p_c. Sets are smallest on average, and may be empty.
	//   - "aps": the total probability of the classes that rank above c. Harder inputs get
	//     larger sets, and sets are never empty unless smoothed. Some implementations add p_c
	//     itself, but sets would then lack classes with a very high probability.
	//   - "raps": "aps" plus a penalty for each rank beyond Free. Fewer sets are large.
	//   - "saps": 0 for the most probable class. The score of any other class is the largest
	//     probability plus a penalty for each rank beyond the second. It depends on no other
	//     probability.
	//   - "ordinal": for classes whose numbers have an order. The score is the total
	//     probability of the classes that a set adds before c. A set starts with the most
	//     probable class and repeatedly adds the more probable of its two neighbours, so sets
	//     have no gaps. This needs one threshold for all classes, so "ordinal" cannot be
	//     combined with ByClass or ByCluster.
	//
	// References: Sadinle, Lei & Wasserman (2019), Least Ambiguous Set-Valued Classifiers with
	// Bounded Error Levels (LAC); Romano, Sesia & Candès (2020), Classification with Valid and
	// Adaptive Coverage (APS); Angelopoulos, Bates, Malik & Jordan (2021), Uncertainty Sets
	// for Image Classifiers using Conformal Prediction (RAPS); Huang, Xi, Zhang, Yao, Qiu &
	// Wei (2024), Conformal Prediction for Deep Classifier via Label Ranking (SAPS); Lu,
	// Angelopoulos & Pomerantz (2022), Improving Trustworthiness of AI Disease Severity Rating
	// in Medical Imaging with Ordinal Conformal Prediction Sets.
	Score string
	// ByClass calibrates each class on its own rows, so each class is covered with the
	// guaranteed probability. Without it, the guarantee holds only for the average over
	// classes. ByClass makes sets larger. A class with fewer than 1/α − 1 calibration rows is
	// in every set.
	//
	// Reference: Vovk, Gammerman & Shafer (2005), Algorithmic Learning in a Random World,
	// section 4.5.
	ByClass bool
	// ByCluster groups classes with similar scores into clusters and calibrates each cluster
	// on its own rows, so each cluster is covered with the guaranteed probability. If classes
	// have too few rows for ByClass, ByCluster approximates it. Some calibration rows,
	// selected by Seed, determine the clusters, and the other rows set the thresholds. Classes
	// with too few rows share one cluster.
	//
	// Reference: Ding, Angelopoulos, Bates, Jordan & Tibshirani (2023), Class-Conditional
	// Conformal Prediction with Many Classes.
	ByCluster bool
	// Smoothed makes the coverage exact. APS, RAPS and ordinal sets add a random fraction of
	// p_c to the score. SAPS adds a random fraction of the penalty to the score, or of the
	// probability if the class is the most probable one. Sets may then be empty, as in the
	// papers. For LAC, a random number decides whether classes whose score equals the
	// threshold are in the set. Seed and the row number determine the random numbers.
	Smoothed bool
	Seed     uint64
	// Penalty is added to the RAPS score for each rank beyond Free, and to the SAPS score for
	// each rank beyond the second. If Penalty is 0, it stands for 0.01 with RAPS and for 0.2
	// with SAPS. If Free is 0, it stands for 5.
	Penalty float64
	Free    int
}

// withDefaults returns o with defaults instead of zero values.
func (o SetOptions) withDefaults() SetOptions {
	penalty := defaultRAPSPenalty
	if o.Score == conformal.SAPS {
		penalty = defaultSAPSPenalty
	}
	o.Score, o.Penalty, o.Free = cmp.Or(o.Score, conformal.LAC), cmp.Or(o.Penalty, penalty), cmp.Or(o.Free, defaultFreeRanks)
	return o
}

// rankedClass holds the values that the score of a class depends on.
type rankedClass struct {
	p     float64 // probability of the class
	above float64 // total probability of the classes that rank above it, or that an ordinal set adds before it
	rank  int     // number of the classes whose probabilities the field above adds up
	top   float64 // largest probability of any class
}

// score returns the nonconformity score of a class. fraction is the random fraction of
// smoothed sets, or 0. Conversions to float64 prevent fused multiply-add, so scores are equal
// on every machine.
func (o SetOptions) score(c rankedClass, fraction float64) float64 {
	switch {
	case o.Score == conformal.LAC:
		return 1 - c.p
	case o.Score == conformal.RAPS:
		return c.above + float64(fraction*c.p) + float64(o.Penalty*float64(max(c.rank+1-o.Free, 0)))
	case o.Score == conformal.SAPS && c.rank > 0:
		return c.top + float64(o.Penalty*(float64(c.rank-1)+fraction))
	}
	return c.above + float64(fraction*c.p)
}

// Sets computes prediction sets, which contain the true class with probability 1−α.
type Sets struct {
	options SetOptions
	alpha   float64
	parts   []setPart // one for all classes, one for each class, or one for each cluster
	cluster []int     // the cluster of each class
	largest float64   // the largest threshold of any part
	weight  float64   // weight of the row to predict, if calibration rows have weights
	// byClass holds the weight of the row to predict for each class that it may have, and
	// thresholds the threshold of each class. Both are nil without WithClassWeights.
	byClass    []float64
	thresholds []randomThreshold
}

// setPart holds the threshold of a class, a cluster or all classes, and the sorted scores from
// which the threshold was computed.
type setPart struct {
	randomThreshold
	scores   []float64
	weighted *WeightedConformal // the same scores with their weights; nil without weights
}

// Sets calibrates prediction sets that miss the true class with probability at most α. The
// threshold is the ⌈(1−α)(n+1)⌉-th smallest score of the true classes of n calibration rows. A
// set contains the classes whose score is at most the threshold. With too few rows for α, it
// contains all classes. LAC sets and smoothed sets may be empty. Adding the most probable
// class to an empty set can only increase coverage.
func (c ClassCalibration) Sets(o SetOptions, alpha float64) (Sets, error) {
	if err := checkLevel("α", alpha); err != nil {
		return Sets{}, err
	}
	o = o.withDefaults()
	if !slices.Contains(conformal.SetScores(), o.Score) {
		return Sets{}, fmt.Errorf("unknown set score %q: choose one of %s", o.Score, strings.Join(conformal.SetScores(), ", "))
	}
	if !(o.Penalty > 0) || o.Free < 0 {
		return Sets{}, fmt.Errorf("penalty %v must be above 0, and free ranks %d must not be negative", o.Penalty, o.Free)
	}
	switch {
	case o.ByClass && o.ByCluster:
		return Sets{}, errors.New("sets are calibrated by class or by cluster: choose one of them")
	case o.Score == conformal.Ordinal && (o.ByClass || o.ByCluster):
		return Sets{}, errors.New("ordinal sets need one threshold for all classes, or they would have gaps: choose another score to calibrate by class or by cluster")
	}
	if c.Weights != nil {
		if o.Smoothed {
			return Sets{}, errors.New("smoothed sets cannot have weights: choose one of the two")
		}
		if err := checkWeights(c.Weights, len(c.Labels)); err != nil {
			return Sets{}, err
		}
	}
	scores := c.Scores(o)
	s := Sets{options: o, alpha: alpha}
	var used []bool
	if o.ByCluster && len(scores) > 0 {
		s.cluster, used = clusterClasses(c.Labels, scores, alpha, o.Seed)
	}
	parts, weights := make([][]float64, 1), make([][]float64, 1)
	for i, label := range c.Labels {
		part := s.partIndex(label)
		for len(parts) <= part {
			parts, weights = append(parts, nil), append(weights, nil)
		}
		if used == nil || !used[i] {
			parts[part] = append(parts[part], scores[i])
			if c.Weights != nil {
				weights[part] = append(weights[part], c.Weights[i])
			}
		}
	}
	for k, scores := range parts {
		sorted, weighted, err := sortWeighted(scores, weights[k])
		if err != nil {
			return Sets{}, err
		}
		s.parts = append(s.parts, setPart{randomThresholdAt(sorted, alpha), sorted, weighted})
	}
	return s.WithWeight(math.Inf(1)), nil
}

// WithWeight returns the sets for a row with this weight: see WeightedConformal. Without a
// call of WithWeight, the weight counts as +Inf and sets contain all classes. WithWeight has
// no effect if the calibration rows have no weights.
func (s Sets) WithWeight(weight float64) Sets {
	s.parts, s.largest, s.weight = slices.Clone(s.parts), math.Inf(-1), weight
	s.byClass, s.thresholds = nil, nil
	for k := range s.parts {
		part := &s.parts[k]
		if part.weighted != nil {
			part.randomThreshold = part.weighted.closedThreshold(s.alpha, weight)
		}
		s.largest = max(s.largest, part.score)
	}
	return s
}

// WithClassWeights returns the sets for rows whose weight depends on their unknown class: see
// LabelShift. Each class is in the set or not as if the row had the weight of this class. It
// has no effect if the calibration rows have no weights. It panics if a weight is negative.
func (s Sets) WithClassWeights(weights []float64) Sets {
	s.largest, s.byClass, s.thresholds = math.Inf(-1), weights, nil
	for class, weight := range weights {
		part := s.partOf(class)
		if part.weighted != nil {
			part.randomThreshold = part.weighted.closedThreshold(s.alpha, weight)
		}
		s.thresholds = append(s.thresholds, part.randomThreshold)
		s.largest = max(s.largest, part.score)
	}
	return s
}

// thresholdOf returns the threshold of a class.
func (s Sets) thresholdOf(class int) randomThreshold {
	if class < len(s.thresholds) {
		return s.thresholds[class]
	}
	return s.partOf(class).randomThreshold
}

// weightOf returns the weight of the row to predict if it has this class.
func (s Sets) weightOf(class int) float64 {
	if class < len(s.byClass) {
		return s.byClass[class]
	}
	return s.weight
}

// Part returns the index of the part in which a class is calibrated, and the number of
// calibration rows of this part. A part is a class, a cluster or all classes.
func (s Sets) Part(class int) (part, rows int) {
	return s.partIndex(class), len(s.partOf(class).scores)
}

// Scores returns the scores of the true classes, from which Sets computes thresholds.
func (c ClassCalibration) Scores(o SetOptions) []float64 {
	o = o.withDefaults()
	scores, above := make([]float64, len(c.Labels)), c.Above
	if o.Score == conformal.Ordinal {
		above = c.Grown
	}
	for i := range scores {
		var fraction float64
		if o.Smoothed {
			fraction = uniform(o.Seed, uint64(i), calibrationStream)
		}
		scores[i] = o.score(rankedClass{c.True[i], above[i], c.Ranks[i], c.Top[i]}, fraction)
	}
	return scores
}

// partIndex returns the index of the part in which a class is calibrated.
func (s Sets) partIndex(class int) int {
	switch {
	case s.options.ByClass:
		return class
	case class < len(s.cluster):
		return s.cluster[class]
	}
	return 0
}

// partOf returns the part in which a class is calibrated. A part without calibration rows has
// no scores.
func (s Sets) partOf(class int) setPart {
	if part := s.partIndex(class); part < len(s.parts) {
		return s.parts[part]
	}
	return setPart{randomThreshold: randomThresholdAt(nil, 0)}
}

// Predict returns the prediction set of each row of logits, n×c for n rows and c classes.
// Classes are in increasing order. If a logit is NaN or +Inf, or if all logits are −Inf,
// the set contains all classes, because the probabilities are undefined. first is the
// number of the first row. Row numbers select the random numbers of smoothed sets.
func (s Sets) Predict(logits blas32.General, first uint64) [][]int {
	all, setEnds := make([]int, 0, logits.Rows), make([]int, logits.Rows)
	maxThreshold := s.largest
	if len(s.parts) == 0 || s.options.ByClass && len(s.parts) < logits.Cols || s.thresholds != nil && len(s.thresholds) < logits.Cols {
		maxThreshold = math.Inf(1) // classes without calibration rows or weights are in every set
	}
	order := s.order()
	for i := range logits.Rows {
		z, start := rows.Row(logits, i), len(all)
		var tau float64
		if s.options.Smoothed {
			tau = uniform(s.options.Seed, first+uint64(i), tauStream)
		}
		p := softmax.New(z, 1)
		if !rows.Finite(p.LogSum()) {
			for c := range z {
				all = append(all, c)
			}
			setEnds[i] = len(all)
			continue
		}
		if s.options.Score == conformal.LAC {
			// No class with a lower logit can be in the set. This bound excludes most classes
			// without computing an exponential.
			minLogit := p.Max + math.Log((1-maxThreshold)*(1+p.Excess)) - 1e-6
			for c, v := range z {
				if !(float64(v) < minLogit) && s.thresholdOf(c).withTau(tau).covers(s.options.score(rankedClass{p: p.Of(v, 1)}, 0)) {
					all = append(all, c)
				}
			}
			setEnds[i] = len(all)
			continue
		}
		order.reset(z)
		candidate := rankedClass{top: p.Largest()}
		for ; candidate.rank < len(z) && s.options.score(candidate, 0) <= maxThreshold; candidate.rank++ {
			c := order.next()
			candidate.p = p.Of(z[c], 1)
			if s.options.score(candidate, tau) <= s.thresholdOf(c).score {
				all = append(all, c)
			}
			candidate.above += candidate.p
		}
		slices.Sort(all[start:])
		setEnds[i] = len(all)
	}
	sets, start := make([][]int, len(setEnds)), 0
	for i, end := range setEnds {
		sets[i], start = all[start:end:end], end
	}
	return sets
}

// PValues returns the p-value of each class in each row of logits, n×c and row-major. It
// compares the score of the class with the scores of the calibration rows in the same part
// (see Part). The p-value is the fraction of scores that are at least as large as the score
// of the class. The score of the class counts as one of them. All p-values are 1 if the
// probabilities are undefined. first is the number of the first row, as for Predict. The
// p-value of the true class is at most α with probability at most α.
//
// The classes with a p-value above α form the set that Predict returns at α. An exception
// is smoothed LAC, which breaks ties in Predict but not in PValues.
//
// Reference: Vovk, Gammerman & Shafer (2005), Algorithmic Learning in a Random World, section
// 4.5.
func (s Sets) PValues(logits blas32.General, first uint64) []float64 {
	all, order := make([]float64, logits.Rows*logits.Cols), s.order()
	for i := range logits.Rows {
		z := rows.Row(logits, i)
		var tau float64
		if s.options.Smoothed && s.options.Score != conformal.LAC {
			tau = uniform(s.options.Seed, first+uint64(i), tauStream)
		}
		p := softmax.New(z, 1)
		if !rows.Finite(p.LogSum()) {
			for c := range z {
				all[i*logits.Cols+c] = 1
			}
			continue
		}
		order.reset(z)
		candidate := rankedClass{top: p.Largest()}
		for ; candidate.rank < len(z); candidate.rank++ {
			c := order.next()
			candidate.p = p.Of(z[c], 1)
			all[i*logits.Cols+c] = s.partOf(c).pValue(s.options.score(candidate, tau), s.weightOf(c))
			candidate.above += candidate.p
		}
	}
	return all
}

// pValue returns the p-value of a score for a row with this weight, if rows have weights.
func (p setPart) pValue(score, weight float64) float64 {
	if p.weighted != nil {
		return p.weighted.PValue(score, weight)
	}
	return Conformal{p.scores}.PValue(score)
}

// order returns the order in which scores add the probabilities of classes.
func (s Sets) order() interface {
	reset(z []float32)
	next() int
} {
	if s.options.Score == conformal.Ordinal {
		return new(ordinalOrder)
	}
	return new(rankOrder)
}

// ordinalOrder returns classes in the order in which ordinal sets add them. If both neighbours
// have equal logits, the class with the larger number comes first.
type ordinalOrder struct {
	z      []float32
	lo, hi int // classes lo, …, hi−1 have been returned
}

func (g *ordinalOrder) reset(z []float32) {
	top := softmax.New(z, 1).Top
	*g = ordinalOrder{z, top, top}
}

func (g *ordinalOrder) next() int {
	if g.lo > 0 && (g.hi == len(g.z) || g.lo < g.hi && g.z[g.lo-1] > g.z[g.hi]) {
		g.lo--
		return g.lo
	}
	g.hi++
	return g.hi - 1
}

// rankOrder returns classes in order of decreasing logits, and classes with equal logits by
// index. It uses a heap instead of sorting, because sets usually need only the first few
// classes.
type rankOrder struct {
	z     []float32
	order []int
}

func (r *rankOrder) reset(z []float32) {
	r.z, r.order = z, r.order[:0]
	for c := range z {
		r.order = append(r.order, c)
	}
	heap.Init(r)
}

// next returns the class with the largest logit among the remaining classes.
func (r *rankOrder) next() int {
	c := r.order[0]
	heap.Pop(r)
	return c
}

func (r *rankOrder) Len() int      { return len(r.order) }
func (r *rankOrder) Swap(i, j int) { r.order[i], r.order[j] = r.order[j], r.order[i] }
func (r *rankOrder) Push(any)      {}

func (r *rankOrder) Pop() any {
	r.order = r.order[:len(r.order)-1]
	return nil
}

func (r *rankOrder) Less(i, j int) bool {
	a, b := r.order[i], r.order[j]
	return r.z[a] > r.z[b] || r.z[a] == r.z[b] && a < b
}
