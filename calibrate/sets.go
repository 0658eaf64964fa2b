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

// Defaults of SetOptions.
const (
	defaultPenalty = .01
	defaultFree    = 5
	defaultWeight  = .2
)

// SetOptions chooses prediction sets.
type SetOptions struct {
	// Score names the nonconformity score of classes. Empty stands for "lac". With the
	// probability p_c of class c, the scores are:
	//
	//   - "lac": 1 − p_c. Sets are smallest on average, and may be empty.
	//   - "aps": the total probability of the classes that rank above c. Harder inputs get
	//     larger sets, and sets are never empty unless smoothed. Some implementations add p_c
	//     itself, which would leave out classes with the highest confidence.
	//   - "raps": "aps" plus a penalty on classes of low rank. Fewer sets are large.
	//   - "saps": 0 for the most probable class. For other classes, the largest probability
	//     plus a penalty for each rank. No other probabilities count.
	//   - "ordinal": for classes whose numbers are an order, the total probability of the
	//     classes that are taken before c. Taking starts at the most probable class and adds
	//     the more probable of the two neighbours again and again, so sets have no gaps. This
	//     needs one threshold for all classes, so "ordinal" cannot be combined with ByClass or
	//     ByCluster.
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
	// guaranteed probability, not only all classes together. Sets are larger. A class with
	// fewer than 1/α − 1 calibration rows is in every set.
	//
	// Reference: Vovk, Gammerman & Shafer (2005), Algorithmic Learning in a Random World,
	// section 4.5.
	ByClass bool
	// ByCluster groups classes with similar scores into clusters and calibrates each cluster
	// on its own rows, so each cluster is covered with the guaranteed probability. If classes
	// have too few rows for ByClass, this comes close to it. A part of the calibration rows,
	// drawn by Seed, finds the clusters, and the others calibrate. Classes with too few rows
	// share one cluster.
	//
	// Reference: Ding, Angelopoulos, Bates, Jordan & Tibshirani (2023), Class-Conditional
	// Conformal Prediction with Many Classes.
	ByCluster bool
	// Smoothed makes the coverage exact. APS, RAPS and ordinal sets add a random fraction of
	// p_c to the score. SAPS adds one of the penalty or, for the most probable class, of its
	// probability. Sets may then be empty, as in the papers. For LAC, a random number decides
	// whether classes whose score equals the threshold are in the set. Random numbers are
	// drawn for each row, by Seed and the row's number.
	Smoothed bool
	Seed     uint64
	// Penalty is that of RAPS for each rank beyond Free, where 0 stands for 0.01, or that of
	// SAPS for each rank, where 0 stands for 0.2. Free 0 stands for 5.
	Penalty float64
	Free    int
}

// withDefaults returns o with defaults in place of zero values.
func (o SetOptions) withDefaults() SetOptions {
	penalty := defaultPenalty
	if o.Score == conformal.SAPS {
		penalty = defaultWeight
	}
	o.Score, o.Penalty, o.Free = cmp.Or(o.Score, conformal.LAC), cmp.Or(o.Penalty, penalty), cmp.Or(o.Free, defaultFree)
	return o
}

// ranked describes a class among the classes of its row: its probability, the total
// probability and the number of the classes that rank above it or are taken before it, and the
// largest probability of the row.
type ranked struct {
	p, above float64
	rank     int
	top      float64
}

// score returns the score of a class, with a fraction of its own probability added.
// Conversions to float64 prevent fused multiply-add, so that scores are equal on every
// machine.
func (o SetOptions) score(c ranked, share float64) float64 {
	switch {
	case o.Score == conformal.LAC:
		return 1 - c.p
	case o.Score == conformal.RAPS:
		return c.above + float64(share*c.p) + float64(o.Penalty*float64(max(c.rank+1-o.Free, 0)))
	case o.Score == conformal.SAPS && c.rank > 0:
		return c.top + float64(o.Penalty*(float64(c.rank-1)+share))
	}
	return c.above + float64(share*c.p)
}

// Sets makes prediction sets, which contain the true class with probability 1−α.
type Sets struct {
	o       SetOptions
	parts   []setPart // one for all classes, one for each class, or one for each cluster
	cluster []int     // the cluster of each class
	largest float64   // the largest threshold of any part
}

// setPart is the threshold of some classes, and the increasing scores from which it is
// computed.
type setPart struct {
	limit
	scores []float64
}

// Sets calibrates prediction sets that miss the true class with probability at most α. A set
// contains the classes whose score is at most the ⌈(1−α)(n+1)⌉-th smallest score of the true
// classes of the n calibration rows. With too few rows for α, it contains all classes. A set
// of LAC, or a smoothed one, may be empty. Adding the most probable class to it can only add
// coverage.
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
	scores := c.Scores(o)
	s := Sets{o: o, largest: math.Inf(-1)}
	var served []bool
	if o.ByCluster && len(scores) > 0 {
		s.cluster, served = clusterClasses(c.Labels, scores, alpha, o.Seed)
	}
	parts := make([][]float64, 1)
	for i, label := range c.Labels {
		part := s.part(label)
		for len(parts) <= part {
			parts = append(parts, nil)
		}
		if served == nil || !served[i] {
			parts[part] = append(parts[part], scores[i])
		}
	}
	for _, scores := range parts {
		sorted, err := sortedCopy(scores)
		if err != nil {
			return Sets{}, err
		}
		part := setPart{limitAt(sorted, alpha), sorted}
		s.parts, s.largest = append(s.parts, part), max(s.largest, part.score)
	}
	return s, nil
}

// Part returns the number of the part that a class is calibrated in: alone, with its cluster
// or with all classes. rows is the number of calibration rows that set the threshold of the
// part.
func (s Sets) Part(class int) (part, rows int) {
	return s.part(class), len(s.calibrated(class).scores)
}

// Scores returns the scores of the true classes, from which Sets is calibrated.
func (c ClassCalibration) Scores(o SetOptions) []float64 {
	o = o.withDefaults()
	scores, above := make([]float64, len(c.Labels)), c.Above
	if o.Score == conformal.Ordinal {
		above = c.Grown
	}
	for i := range scores {
		var share float64
		if o.Smoothed {
			share = uniform(o.Seed, uint64(i), calibrationStream)
		}
		scores[i] = o.score(ranked{c.True[i], above[i], c.Ranks[i], c.Top[i]}, share)
	}
	return scores
}

// part returns the number of the part that a class is calibrated in.
func (s Sets) part(class int) int {
	switch {
	case s.o.ByClass:
		return class
	case class < len(s.cluster):
		return s.cluster[class]
	}
	return 0
}

// calibrated returns the part that a class is calibrated in. It has no scores if the part has
// no rows.
func (s Sets) calibrated(class int) setPart {
	if part := s.part(class); part < len(s.parts) {
		return s.parts[part]
	}
	return setPart{limit: limitAt(nil, 0)}
}

// Predict returns the prediction set of each row of logits, n×c, with classes in increasing
// order. A row with a logit of NaN or +Inf gets all classes, because no model predicts such
// logits. first is the number of the first row, which chooses the random numbers of smoothed
// sets.
func (s Sets) Predict(logits blas32.General, first uint64) [][]int {
	all, ends := make([]int, 0, logits.Rows), make([]int, logits.Rows)
	most := s.largest
	if len(s.parts) == 0 || s.o.ByClass && len(s.parts) < logits.Cols {
		most = math.Inf(1) // classes without calibration rows are in every set
	}
	order := s.order()
	for i := range logits.Rows {
		z, start := rows.Row(logits, i), len(all)
		var tau float64
		if s.o.Smoothed {
			tau = uniform(s.o.Seed, first+uint64(i), tauStream)
		}
		p := softmax.New(z, 1)
		if !rows.Finite(p.LogSum()) {
			for c := range z {
				all = append(all, c)
			}
			ends[i] = len(all)
			continue
		}
		if s.o.Score == conformal.LAC {
			// This bound leaves out most classes without computing an exponential.
			least := p.Max + math.Log((1-most)*(1+p.Excess)) - 1e-6
			for c, v := range z {
				if !(float64(v) < least) && s.calibrated(c).at(tau).covers(s.o.score(ranked{p: p.Of(v, 1)}, 0)) {
					all = append(all, c)
				}
			}
			ends[i] = len(all)
			continue
		}
		order.reset(z)
		at := ranked{top: p.Largest()}
		for ; at.rank < len(z) && s.o.score(at, 0) <= most; at.rank++ {
			c := order.next()
			at.p = p.Of(z[c], 1)
			if s.o.score(at, tau) <= s.calibrated(c).score {
				all = append(all, c)
			}
			at.above += at.p
		}
		slices.Sort(all[start:])
		ends[i] = len(all)
	}
	sets, start := make([][]int, len(ends)), 0
	for i, end := range ends {
		sets[i], start = all[start:end:end], end
	}
	return sets
}

// PValues returns the p-value of each class in each row of logits, n×c, row by row. It is the
// fraction of calibration rows of the class's part, together with the row itself, whose score
// is at least that of the class. The p-value of the true class is at most α with probability
// at most α. The classes with a p-value above α are the set at level 1−α, except that an empty
// set gets the most probable class later, and that Smoothed breaks ties of LAC.
//
// Reference: Vovk, Gammerman & Shafer (2005), Algorithmic Learning in a Random World, section
// 4.5.
func (s Sets) PValues(logits blas32.General, first uint64) []float64 {
	all, order := make([]float64, logits.Rows*logits.Cols), s.order()
	for i := range logits.Rows {
		z := rows.Row(logits, i)
		var tau float64
		if s.o.Smoothed && s.o.Score != conformal.LAC {
			tau = uniform(s.o.Seed, first+uint64(i), tauStream)
		}
		p := softmax.New(z, 1)
		if !rows.Finite(p.LogSum()) {
			for c := range z {
				all[i*logits.Cols+c] = 1
			}
			continue
		}
		order.reset(z)
		at := ranked{top: p.Largest()}
		for ; at.rank < len(z); at.rank++ {
			c := order.next()
			at.p = p.Of(z[c], 1)
			all[i*logits.Cols+c] = Conformal{s.calibrated(c).scores}.PValue(s.o.score(at, tau))
			at.above += at.p
		}
	}
	return all
}

// order returns the order in which scores add probabilities.
func (s Sets) order() interface {
	reset(z []float32)
	next() int
} {
	if s.o.Score == conformal.Ordinal {
		return new(ordinalOrder)
	}
	return new(rankOrder)
}

// ordinalOrder yields classes in the order in which ordinal sets take them. If both neighbours
// are equal, the one with the larger number comes first.
type ordinalOrder struct {
	z      []float32
	lo, hi int // the classes taken so far, without hi
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

// rankOrder yields classes by decreasing logit, and classes with equal logits by index. It is
// a heap because sets take only a few of many classes.
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

// next returns the next class.
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
