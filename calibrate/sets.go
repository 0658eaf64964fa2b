package calibrate

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/internal/softmax"
)

// SetScore says how prediction sets rank a class.
type SetScore string

const (
	// LAC is 1 − p_c: the smallest sets on average, which may be empty.
	// Reference: Sadinle, Lei & Wasserman (2019), Least Ambiguous Set-Valued
	// Classifiers with Bounded Error Levels.
	LAC SetScore = "lac"
	// APS is the total probability of the classes at least as probable as c:
	// larger sets for harder inputs.
	// Reference: Romano, Sesia & Candès (2020), Classification with Valid and
	// Adaptive Coverage, without randomisation.
	APS SetScore = "aps"
	// RandomizedAPS counts a random share of p_c itself, drawn per row: APS
	// as the paper states it, with coverage that is not conservative.
	RandomizedAPS SetScore = "aps-randomized"
)

// Sets calibrates sets of classes that hold the true class with a chosen
// probability. Scores are those of the calibration rows' true classes,
// increasing.
type Sets struct {
	Score  SetScore
	Seed   uint64 // of RandomizedAPS
	Scores []float64
}

// NewSets scores the true class of every calibration row. Probabilities are
// n×c, labels in [0,c).
func NewSets(probabilities blas32.General, labels []int, score SetScore, seed uint64) (Sets, error) {
	if err := checkRows("probabilities", probabilities, labels); err != nil {
		return Sets{}, err
	}
	switch score {
	case LAC, APS, RandomizedAPS:
	default:
		return Sets{}, fmt.Errorf("score %q is not one of lac, aps, aps-randomized", score)
	}
	s := Sets{Score: score, Seed: seed}
	draw := rand.New(rand.NewPCG(seed, calibrationStream))
	scores := make([]float64, len(labels))
	classes := make([]float64, probabilities.Cols)
	for i, label := range labels {
		s.classScores(classes, rows.Row(probabilities, i), s.share(draw))
		scores[i] = classes[label]
	}
	var err error
	s.Scores, err = sortedCopy(scores)
	return s, err
}

// Random shares of calibration rows and of new rows come from different
// streams of one seed.
const (
	calibrationStream = 1
	predictionStream  = 2
)

// Predict returns the set of every row of probabilities, n×c: classes in
// increasing order whose score is at most the ⌈(1−α)(n+1)⌉-th smallest
// calibration score. With too few calibration rows for α a set holds all
// classes. A set may be empty; adding the most probable class to it can only
// add coverage.
func (s Sets) Predict(probabilities blas32.General, alpha float64) [][]int {
	limit := upper(s.Scores, forgive(alpha))
	draw := rand.New(rand.NewPCG(s.Seed, predictionStream))
	sets := make([][]int, probabilities.Rows)
	classes := make([]float64, probabilities.Cols)
	for i := range sets {
		s.classScores(classes, rows.Row(probabilities, i), s.share(draw))
		for c, v := range classes {
			if v <= limit {
				sets[i] = append(sets[i], c)
			}
		}
	}
	return sets
}

// share is how much of a class's own probability its score counts.
func (s Sets) share(draw *rand.Rand) float64 {
	if s.Score == RandomizedAPS {
		return draw.Float64()
	}
	return 1
}

// classScores writes the score of every class of a row with probabilities p.
// Classes of equal probability come in order of their index.
func (s Sets) classScores(dst []float64, p []float32, share float64) {
	if s.Score == LAC {
		for c, v := range p {
			dst[c] = 1 - float64(v)
		}
		return
	}
	order := make([]int, len(p))
	for c := range order {
		order[c] = c
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[b], p[a]) })
	var above float64
	for _, c := range order {
		dst[c] = above + share*float64(p[c])
		above += float64(p[c])
	}
}

// Softmax writes softmax(z/T) of every row of logits, n×c, to a new matrix.
func Softmax(logits blas32.General, temperature float64) blas32.General {
	if !(temperature > 0) {
		panic("calibrate: temperature must be positive")
	}
	out := rows.New(logits.Rows, logits.Cols)
	for i := range logits.Rows {
		z, p := rows.Row(logits, i), rows.Row(out, i)
		whole := softmax.New(z, temperature)
		for c, v := range z {
			p[c] = float32(whole.Of(v, temperature))
		}
	}
	return out
}
