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

// levelPool holds quantile levels and the weights of their pinball losses.
type levelPool struct {
	method          string
	levels, weights []float64
}

// pools returns the levels and weights for the three rows of SQR in the paper's table.
func pools() []levelPool {
	return []levelPool{
		{"sqr-m1", []float64{.5}, []float64{1}},
		{"sqr-m3", []float64{.12, .5, .89}, []float64{.28, .44, .28}},
		{"sqr-m5", []float64{.05, .23, .5, .77, .95}, []float64{.12, .24, .28, .24, .12}},
	}
}

// forRows returns the levels for a pair with the given number of rows. Pairs with fewer than
// 200 rows use only the median.
func (p levelPool) forRows(rows int) levelPool {
	if rows < 200 {
		return pools()[0]
	}
	return p
}

// sqr scores pairs by simultaneous quantile regression. For each direction, it adds the
// pinball losses of the cause's marginal quantiles and of the effect's conditional
// quantiles. The direction with the smaller sum is causal. Both variables are normal
// scores.
//
// The rows are split into random halves. A network is trained on one half and scored on the
// other. The field seeds is the number of repetitions, and the result is the mean of
// their scores. One training run fits the networks of all pairs, both directions and all
// halves.
//
// Reference: Tagasovska & Lopez-Paz (2019), appendix A.1. The paper takes 3000 steps of
// gradient descent on all rows at a rate of 1e-4. This implementation uses mini-batches at
// a higher rate and averages the weights. It also rescales the levels before the network
// reads them.
type sqr struct {
	seeds, steps int
	trainer      train.Trainer
}

const (
	sqrHidden          = 64
	sqrBatch           = 128
	sqrEpochRows       = 8192 // rows per epoch; small halves repeat rows
	sqrRate            = 3e-3
	bootstrapResamples = 1999
)

// testHalf identifies one direction of one pair and the rows that test its network.
type testHalf struct {
	pair    int
	reverse bool
	test    []int
}

// verdict is the decision of a method about a pair. A score above 0 means that x causes y.
type verdict struct {
	score float64
	p     float64 // two-sided p-value for the sign of the score; 0 if the method has no test
}

// score returns the verdicts for all pairs, keyed by the method of each pool.
func (s sqr) score(ctx context.Context, pairs []pair, progress func(float64)) (map[string][]verdict, error) {
	problem := train.Problem{
		Hidden: []int{sqrHidden}, Outputs: 1, Loss: "pinball", Conditional: true,
		Epochs: max(s.steps*sqrBatch/sqrEpochRows, 1), BatchSize: sqrBatch,
		Progress: progress,
	}
	var causes, effects []float32
	var halves []testHalf
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
			// Odd seeds use the complement of the preceding half, so all rows count
			// equally. Summed over all rows, x and y have nearly the same marginal losses,
			// so these losses then add little noise.
			if fit, test = test, fit; seed%2 == 0 {
				order := rng.Perm(n)
				fit, test = order[:n/2], order[n/2:]
			}
			for d := range 2 {
				rows := make([]int, sqrEpochRows)
				for k := range rows {
					rows[k] = base + d*n + fit[k%len(fit)]
				}
				problem.Models = append(problem.Models, train.ModelConfig{
					Seed: uint64(len(halves)), LearningRate: sqrRate, Averaging: .9, Rows: rows,
				})
				halves = append(halves, testHalf{i, d == 1, test})
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
		totals := make([]pairScore, len(pairs))
		for i, p := range pairs {
			totals[i] = newPairScore(len(p.x))
		}
		for k, h := range halves {
			x, y := scores[h.pair][0], scores[h.pair][1]
			sign := -1.
			if h.reverse {
				x, y, sign = y, x, 1
			}
			weight := sign / float64(len(h.test)*s.seeds)
			totals[h.pair].add(h, weight, lossesByRow(networks[k], pool.forRows(len(x)), selectValues(x, h.test), selectValues(y, h.test)))
		}
		for i, a := range totals {
			verdicts[pool.method] = append(verdicts[pool.method], bootstrap(a.score, a.reranked(scores[i]), rand.New(rand.NewPCG(uint64(i), 2))))
		}
	}
	return verdicts, nil
}

// pairScore accumulates the score of a pair. It also holds the contribution of each row to
// the part from conditional quantiles.
type pairScore struct {
	score       float64
	conditional []float64
	slopes      [2][]float64 // derivative of a row's contribution by its x and by its y
}

func newPairScore(rows int) pairScore {
	return pairScore{conditional: make([]float64, rows), slopes: [2][]float64{make([]float64, rows), make([]float64, rows)}}
}

func (s *pairScore) add(h testHalf, weight float64, c rowLosses) {
	cause, effect := s.slopes[0], s.slopes[1]
	if h.reverse {
		cause, effect = effect, cause
	}
	for t, row := range h.test {
		s.score += weight * (c.marginal[t] + c.conditional[t])
		s.conditional[row] += weight * c.conditional[t]
		cause[row] += weight * c.causeSlope[t]
		effect[row] += weight * c.effectSlope[t]
	}
}

// reranked returns the contribution of each row to the score of a bootstrap sample. A
// bootstrap sample has new ranks because normalScores depends on all rows. To first order,
// adding a row moves the normal scores of all rows above it. The marginal losses depend
// only on ranks and are the same in every bootstrap sample.
func (s *pairScore) reranked(scores [2][]float64) []float64 {
	n := float64(len(s.conditional))
	out := slices.Clone(s.conditional)
	for d, values := range scores {
		order := experiment.Indices(len(values))
		slices.SortFunc(order, func(i, j int) int { return cmp.Compare(values[j], values[i]) })
		var rankEffect float64
		for _, row := range order {
			rankEffect += s.slopes[d][row] / distuv.UnitNormal.Prob(values[row]) / n
			out[row] += rankEffect
		}
	}
	floats.AddConst((s.score-floats.Sum(out))/n, out)
	return out
}

func selectValues(v []float64, rows []int) []float64 {
	out := make([]float64, len(rows))
	for i, r := range rows {
		out[i] = v[r]
	}
	return out
}

// rowLosses holds the weighted pinball losses of each row, for the marginal quantiles of
// the cause and the network's quantiles of the effect. The slopes are the derivatives of
// the conditional loss by the cause and by the effect.
type rowLosses struct{ marginal, conditional, causeSlope, effectSlope []float64 }

func lossesByRow(n train.Network, pool levelPool, x, y []float64) rowLosses {
	c := rowLosses{make([]float64, len(x)), make([]float64, len(x)), make([]float64, len(x)), make([]float64, len(x))}
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
			base, shifted := float64(predicted[2*i]), float64(predicted[2*i+1])
			c.marginal[i] += pool.weights[l] * pinball(tau, x[i]-marginal)
			c.conditional[i] += pool.weights[l] * pinball(tau, y[i]-base)
			slope := tau
			if y[i] < base {
				slope--
			}
			c.effectSlope[i] += pool.weights[l] * slope
			c.causeSlope[i] -= pool.weights[l] * slope * (shifted - base) / step
		}
	}
	return c
}

// pinball returns the loss at level tau if the value exceeds the predicted quantile by
// residual.
func pinball(tau, residual float64) float64 { return max(tau*residual, (tau-1)*residual) }

// bootstrap estimates a two-sided p-value. It draws contributions with replacement, and
// counts how often their sum does not have the sign of the score. The networks are not
// retrained.
func bootstrap(score float64, contributions []float64, rng *rand.Rand) verdict {
	opposite := 0
	for range bootstrapResamples {
		var sum float64
		for range contributions {
			sum += contributions[rng.IntN(len(contributions))]
		}
		if sum*score <= 0 {
			opposite++
		}
	}
	return verdict{score, min(2*float64(opposite+1)/(bootstrapResamples+1), 1)}
}
