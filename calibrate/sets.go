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
	// Score names how classes c are ranked, of which p_c are the probabilities, ""
	// being "lac":
	//
	//   - "lac": by 1 − p_c; the smallest sets on average, which may be empty;
	//   - "aps": by the total probability of the classes that rank above c; larger sets
	//     for harder inputs, none of which is empty unless they are smoothed. To count
	//     p_c itself, as some do, would leave out the classes that a network is surest
	//     of;
	//   - "raps": as "aps", with a penalty on classes of low rank; fewer large sets;
	//   - "saps": by 0 for the most probable class, and for others by its probability and
	//     a penalty for each class between; of the probabilities only the largest counts;
	//   - "ordinal": for classes that have an order, that of their numbers, and sets
	//     without gaps, by the total probability of the classes that are taken before c,
	//     where the most probable is taken first, and then of the two beside those taken
	//     always the more probable. One threshold of all classes keeps sets without gaps:
	//     it has none by class or cluster.
	//
	// References: Sadinle, Lei & Wasserman (2019), Least Ambiguous Set-Valued Classifiers
	// with Bounded Error Levels (LAC); Romano, Sesia & Candès (2020), Classification with
	// Valid and Adaptive Coverage (APS); Angelopoulos, Bates, Malik & Jordan (2021),
	// Uncertainty Sets for Image Classifiers using Conformal Prediction (RAPS); Huang, Xi,
	// Zhang, Yao, Qiu & Wei (2024), Conformal Prediction for Deep Classifier via Label
	// Ranking (SAPS); Lu, Angelopoulos & Pomerantz (2022), Improving Trustworthiness of AI
	// Disease Severity Rating in Medical Imaging with Ordinal Conformal Prediction Sets.
	Score string
	// ByClass calibrates each class on the rows of it alone, so that every class
	// is covered with the probability that is promised, and not only their
	// mixture; sets are larger. A class of fewer than 1/α − 1 calibration rows is in
	// every set.
	// Reference: Vovk, Gammerman & Shafer (2005), Algorithmic Learning in a Random
	// World, section 4.5.
	ByClass bool
	// ByCluster calibrates clusters of classes whose scores are alike, each on the rows
	// of its own, so that each cluster is covered with the probability that is promised:
	// nearly what ByClass does where classes have too few rows of their own. Part of
	// the calibration rows, drawn by Seed, finds the clusters, and the others calibrate;
	// classes of too few rows are a cluster together.
	// Reference: Ding, Angelopoulos, Bates, Jordan & Tibshirani (2023),
	// Class-Conditional Conformal Prediction with Many Classes.
	ByCluster bool
	// Smoothed covers no more often than is promised: APS, RAPS and Ordinal count a random
	// share of p_c too, and SAPS of a penalty or, for the most probable class, of its
	// probability, as their papers do, and may be empty; for LAC a random number
	// decides whether classes that score just the threshold belong to the set. It is
	// drawn for each row, by Seed and the row's number.
	Smoothed bool
	Seed     uint64
	// Penalty of RAPS for each rank beyond Free; 0 stands for 0.01, and for 5. That of
	// SAPS is for each rank, and 0 stands for 0.2.
	Penalty float64
	Free    int
}

// filled has the defaults.
func (o SetOptions) filled() SetOptions {
	penalty := defaultPenalty
	if o.Score == conformal.SAPS {
		penalty = defaultWeight
	}
	o.Score, o.Penalty, o.Free = cmp.Or(o.Score, conformal.LAC), cmp.Or(o.Penalty, penalty), cmp.Or(o.Free, defaultFree)
	return o
}

// ranked is a class among the others of its row: its probability, that of all
// which rank above it or are taken before it, how many these are, and the largest of
// the row.
type ranked struct {
	p, above float64
	rank     int
	top      float64
}

// score is that of a class with a share of its own probability counted. Products
// are rounded before they are added, on every machine.
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

// Sets are sets of classes that hold the true class with probability 1−α.
type Sets struct {
	o     SetOptions
	parts []setPart // all classes, or one each, or clusters
	of    []int     // clusters of classes
	most  float64   // largest score of any limit
}

// setPart is the limit of some classes, and the scores, increasing, that it is of.
type setPart struct {
	limit
	scores []float64
}

// Sets calibrates sets that miss the true class with probability at most α: a
// set holds the classes whose score is at most the ⌈(1−α)(n+1)⌉-th smallest of
// the true classes of the n calibration rows. With too few rows for α it holds
// all classes. Of LAC, or smoothed, it may be empty; adding the most probable
// class can only add coverage.
func (c ClassCalibration) Sets(o SetOptions, alpha float64) (Sets, error) {
	if err := checkLevel("α", alpha); err != nil {
		return Sets{}, err
	}
	o = o.filled()
	if !slices.Contains(conformal.SetScores(), o.Score) {
		return Sets{}, fmt.Errorf("score %q of sets is not one of %s", o.Score, strings.Join(conformal.SetScores(), ", "))
	}
	if !(o.Penalty > 0) || o.Free < 0 {
		return Sets{}, fmt.Errorf("a penalty of %v beyond rank %d is none", o.Penalty, o.Free)
	}
	switch {
	case o.ByClass && o.ByCluster:
		return Sets{}, errors.New("sets by class are not by cluster too")
	case o.Score == conformal.Ordinal && (o.ByClass || o.ByCluster):
		return Sets{}, errors.New("ordinal sets have one threshold, without which they had gaps: ask for others by class or cluster")
	}
	scores := c.Scores(o)
	s := Sets{o: o, most: math.Inf(-1)}
	var served []bool
	if o.ByCluster && len(scores) > 0 {
		s.of, served = clusters(c.Labels, scores, alpha, o.Seed)
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
		s.parts, s.most = append(s.parts, part), max(s.most, part.score)
	}
	return s, nil
}

// Part is the number of the part that a class is calibrated in, alone, with its
// cluster or with all classes, and how many calibration rows set that part's threshold.
func (s Sets) Part(class int) (part, rows int) {
	return s.part(class), len(s.calibrated(class).scores)
}

// Scores are those of the true classes, by which Sets are calibrated.
func (c ClassCalibration) Scores(o SetOptions) []float64 {
	o = o.filled()
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

// part is that which a class is calibrated in.
func (s Sets) part(class int) int {
	switch {
	case s.o.ByClass:
		return class
	case class < len(s.of):
		return s.of[class]
	}
	return 0
}

// calibrated is what calibrates a class: nothing where its part has no rows.
func (s Sets) calibrated(class int) setPart {
	if part := s.part(class); part < len(s.parts) {
		return s.parts[part]
	}
	return setPart{limit: limitAt(nil, 0)}
}

// Predict returns the set of every row of logits, n×c: classes in increasing
// order, all of them where a logit is NaN or +Inf, which is no network's answer. first
// is the number of the first row, which what is drawn depends on.
func (s Sets) Predict(logits blas32.General, first uint64) [][]int {
	all, ends := make([]int, 0, logits.Rows), make([]int, logits.Rows)
	most := s.most
	if len(s.parts) == 0 || s.o.ByClass && len(s.parts) < logits.Cols {
		most = math.Inf(1) // of classes without calibration rows
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
			// Most of many classes need no exponential to be left out.
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

// PValues returns the p-value of every class of every row of logits, n×c, row by row:
// the share, of the calibration rows of the class's part and the row itself, whose class
// scores at least as high. Where a row is of a class, its p-value is α or less with
// probability at most α: the classes above α are the set at level 1−α, before one that
// is empty is given the most probable, and before Smoothed breaks ties of LAC.
//
// Reference: Vovk, Gammerman & Shafer (2005), Algorithmic Learning in a Random
// World, section 4.5.
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

// order is that in which scores add up probabilities.
func (s Sets) order() interface {
	reset(z []float32)
	next() int
} {
	if s.o.Score == conformal.Ordinal {
		return new(growth)
	}
	return new(ranking)
}

// growth yields classes as ordinal sets take them, of two that are equal that of the
// larger number.
type growth struct {
	z      []float32
	lo, hi int // what is taken, hi not included
}

func (g *growth) reset(z []float32) {
	top := softmax.New(z, 1).Top
	*g = growth{z, top, top}
}

func (g *growth) next() int {
	if g.lo > 0 && (g.hi == len(g.z) || g.lo < g.hi && g.z[g.lo-1] > g.z[g.hi]) {
		g.lo--
		return g.lo
	}
	g.hi++
	return g.hi - 1
}

// ranking yields classes by falling logit, those of equal logits by index: a
// heap, as sets take few of many classes.
type ranking struct {
	z     []float32
	order []int
}

func (r *ranking) reset(z []float32) {
	r.z, r.order = z, r.order[:0]
	for c := range z {
		r.order = append(r.order, c)
	}
	heap.Init(r)
}

// next takes the class that comes next.
func (r *ranking) next() int {
	c := r.order[0]
	heap.Pop(r)
	return c
}

func (r *ranking) Len() int      { return len(r.order) }
func (r *ranking) Swap(i, j int) { r.order[i], r.order[j] = r.order[j], r.order[i] }
func (r *ranking) Push(any)      {}

func (r *ranking) Pop() any {
	r.order = r.order[:len(r.order)-1]
	return nil
}

func (r *ranking) Less(i, j int) bool {
	a, b := r.order[i], r.order[j]
	return r.z[a] > r.z[b] || r.z[a] == r.z[b] && a < b
}
