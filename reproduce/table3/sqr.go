package table3

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// pooled are levels of quantiles whose losses are added, and their weights.
type pooled struct {
	method          string
	levels, weights []float64
}

// pools are those of the paper's three rows.
func pools() []pooled {
	return []pooled{
		{"sqr-m1", []float64{.5}, []float64{1}},
		{"sqr-m3", []float64{.12, .5, .89}, []float64{.28, .44, .28}},
		{"sqr-m5", []float64{.05, .23, .5, .77, .95}, []float64{.12, .24, .28, .24, .12}},
	}
}

// of are the levels for a pair: the median alone where rows are few.
func (p pooled) of(rows int) pooled {
	if rows < 200 {
		return pools()[0]
	}
	return p
}

// sqr is simultaneous quantile regression: the cause is the variable from which
// the pinball losses of the marginal and of the other's conditional add up to
// less. Both variables are normal scores. A network is trained on a random half
// of the rows and scored on the other; scores are means over so many halves.
// Networks of all pairs, both directions and all halves are models of one run.
//
// Reference: Tagasovska & Lopez-Paz (2019), appendix A.1. They take 3000 steps of
// gradient descent on all rows at a rate of 1e-4, on levels as they are; here
// they are mini-batches, at a rate that suits them, and the weights are averaged.
type sqr struct {
	seeds, steps int
	trainer      train.Trainer
}

const (
	sqrHidden = 64
	sqrBatch  = 128
	sqrDrawn  = 8192 // rows of a pass, some of them repeated where a half has fewer
	sqrRate   = 3e-3
	resamples = 1999 // of the bootstrap
)

// half is the rows of one direction of one pair that a network is tested on.
type half struct {
	pair    int
	reverse bool
	test    []int
}

// verdict is what a method says of a pair: above 0 that x causes y.
type verdict struct {
	score float64
	p     float64 // that the score is on the wrong side of 0 by chance, two-sided; 0 where there is none
}

// score returns a verdict of each pool on each pair.
func (s sqr) score(ctx context.Context, pairs []pair, progress func(float64)) (map[string][]verdict, error) {
	problem := train.Problem{
		Hidden: []int{sqrHidden}, Outputs: 1, Loss: "pinball", Conditional: true,
		Epochs: max(s.steps*sqrBatch/sqrDrawn, 1), BatchSize: sqrBatch,
		Progress: progress,
	}
	var causes, effects []float32
	var halves []half
	scores := make([][2][]float64, len(pairs))
	for i, p := range pairs {
		n := len(p.x)
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		scores[i] = [2][]float64{normalScores(p.x, rng), normalScores(p.y, rng)}
		base := len(causes)
		for d := range 2 {
			for j := range n {
				causes, effects = append(causes, float32(scores[i][d][j])), append(effects, float32(scores[i][1-d][j]))
			}
		}
		var fit, test []int
		for seed := range s.seeds {
			// Every other half is what the one before it left, so that all rows count
			// alike: the marginals' losses, equal over all rows, are then no noise.
			if fit, test = test, fit; seed%2 == 0 {
				order := rng.Perm(n)
				fit, test = order[:n/2], order[n/2:]
			}
			for d := range 2 {
				rows := make([]int, sqrDrawn)
				for k := range rows {
					rows[k] = base + d*n + fit[k%len(fit)]
				}
				problem.Models = append(problem.Models, train.ModelConfig{
					Seed: uint64(len(halves)), LearningRate: sqrRate, Averaging: .9, Rows: rows,
				})
				halves = append(halves, half{i, d == 1, test})
			}
		}
	}
	problem.X = blas32.General{Rows: len(causes), Cols: 1, Stride: 1, Data: causes}
	problem.Y = blas32.General{Rows: len(effects), Cols: 1, Stride: 1, Data: effects}
	networks, err := s.trainer.Train(ctx, problem)
	if err != nil {
		return nil, err
	}
	verdicts := map[string][]verdict{}
	for _, pool := range pools() {
		shares := make([]share, len(pairs))
		for i, p := range pairs {
			shares[i] = newShare(len(p.x))
		}
		for k, h := range halves {
			x, y := scores[h.pair][0], scores[h.pair][1]
			sign := -1.
			if h.reverse {
				x, y, sign = y, x, 1
			}
			weight := sign / float64(len(h.test)*s.seeds)
			shares[h.pair].add(h, weight, codeLengths(networks[k], pool.of(len(x)), pick(x, h.test), pick(y, h.test)))
		}
		for i, a := range shares {
			verdicts[pool.method] = append(verdicts[pool.method], bootstrap(a.score, a.ranked(scores[i]), rand.New(rand.NewPCG(uint64(i), 2))))
		}
	}
	return verdicts, nil
}

// share is the score of a pair, and what each of its rows adds to the part of it
// that is of conditional quantiles.
type share struct {
	score float64
	added []float64
	by    [2][]float64 // by how much a row's share grows with its x and its y
}

func newShare(rows int) share {
	return share{added: make([]float64, rows), by: [2][]float64{make([]float64, rows), make([]float64, rows)}}
}

func (s *share) add(h half, weight float64, c codes) {
	cause, effect := s.by[0], s.by[1]
	if h.reverse {
		cause, effect = effect, cause
	}
	for t, row := range h.test {
		s.score += weight * (c.marginal[t] + c.conditional[t])
		s.added[row] += weight * c.conditional[t]
		cause[row] += weight * c.byCause[t]
		effect[row] += weight * c.byEffect[t]
	}
}

// ranked is what rows add to the score where rows that are drawn anew are ranked
// anew, to first order: a row moves the normal scores of all rows above it.
// Losses of marginal quantiles are then the same in every draw.
func (s *share) ranked(scores [2][]float64) []float64 {
	n := float64(len(s.added))
	out := slices.Clone(s.added)
	for d, of := range scores {
		order := experiment.Indices(len(of))
		slices.SortFunc(order, func(i, j int) int { return cmp.Compare(of[j], of[i]) })
		var above float64
		for _, row := range order {
			above += s.by[d][row] / distuv.UnitNormal.Prob(of[row]) / n
			out[row] += above
		}
	}
	floats.AddConst((s.score-floats.Sum(out))/n, out)
	return out
}

func pick(v []float64, rows []int) []float64 {
	out := make([]float64, len(rows))
	for i, r := range rows {
		out[i] = v[r]
	}
	return out
}

// codes are, of each row, the weighted losses of the marginal quantiles of the
// cause and of the network's quantiles of the effect, and by how much the latter
// grow with either.
type codes struct{ marginal, conditional, byCause, byEffect []float64 }

func codeLengths(n train.Network, pool pooled, x, y []float64) codes {
	c := codes{make([]float64, len(x)), make([]float64, len(x)), make([]float64, len(x)), make([]float64, len(x))}
	sorted := slices.Sorted(slices.Values(x))
	const step = 1e-2
	in := blas32.General{Rows: 2 * len(x), Cols: 2, Stride: 2, Data: make([]float32, 4*len(x))}
	for l, tau := range pool.levels {
		marginal := quantileOf(sorted, tau)
		for i, v := range x {
			copy(in.Data[4*i:], []float32{float32(v), float32((tau - .5) * 12), float32(v + step), float32((tau - .5) * 12)})
		}
		predicted := n.Apply(in).Data
		for i := range x {
			at, beside := float64(predicted[2*i]), float64(predicted[2*i+1])
			c.marginal[i] += pool.weights[l] * pinball(tau, x[i]-marginal)
			c.conditional[i] += pool.weights[l] * pinball(tau, y[i]-at)
			slope := tau
			if y[i] < at {
				slope--
			}
			c.byEffect[i] += pool.weights[l] * slope
			c.byCause[i] -= pool.weights[l] * slope * (beside - at) / step
		}
	}
	return c
}

// pinball is the loss of a quantile that misses by so much.
func pinball(tau, miss float64) float64 { return max(tau*miss, (tau-1)*miss) }

// bootstrap says how often rows drawn with replacement do not come to the side of 0
// that the score, the sum of what they add, is on. Networks stay as they are.
func bootstrap(score float64, added []float64, rng *rand.Rand) verdict {
	other := 0
	for range resamples {
		var sum float64
		for range added {
			sum += added[rng.IntN(len(added))]
		}
		if sum*score <= 0 {
			other++
		}
	}
	return verdict{score, min(2*float64(other+1)/(resamples+1), 1)}
}
