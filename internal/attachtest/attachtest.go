// Package attachtest holds data for tests of the packages attach and evaluate, and helpers
// that fit and predict.
package attachtest

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
	"github.com/attach-uncertainty/attach/ood"
)

// Method returns the method with the given name.
func Method(name string) ood.Method {
	m, ok := attach.MethodByName(name)
	if !ok {
		panic("no method " + name)
	}
	return m
}

// LinearTrainer is a train.Trainer that returns linear networks without training. Slope is
// the weight of the first column, and Spread is the weight of the quantile level. The
// networks do not need to fit well.
type LinearTrainer struct {
	Slope, Spread float32
	Problem       *train.Problem // if not nil, Train copies its problem to it
}

func (tr LinearTrainer) Train(ctx context.Context, p train.Problem) ([]train.Network, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if tr.Problem != nil {
		*tr.Problem = p
	}
	if p.Progress != nil {
		p.Progress(.5)
		p.Progress(1)
	}
	networks := make([]train.Network, len(p.Models))
	for m := range networks {
		w := Matrix(p.X.Cols+1, 1)
		w.Data[0], w.Data[p.X.Cols] = tr.Slope, tr.Spread
		networks[m].Layers = []train.Layer{{W: w, B: make([]float32, 1)}}
	}
	return networks, nil
}

func Matrix(rows, cols int) blas32.General {
	return blas32.General{Rows: rows, Cols: cols, Stride: cols, Data: make([]float32, rows*cols)}
}

// Blob draws n rows with h features each around the mean. Each of the c logits is a sum of
// features. Most labels are the class with the largest logit.
func Blob(seed uint64, n, h, c int, mean float64) ood.Batch {
	rng := rand.New(rand.NewPCG(seed, 7))
	b := ood.Batch{Features: Matrix(n, h), Logits: Matrix(n, c), Labels: make([]int, n)}
	for i := range n {
		row := b.Features.Data[i*h : (i+1)*h]
		for j := range row {
			row[j] = float32(mean + rng.NormFloat64()/float64(j+1))
			b.Logits.Data[i*c+j%c] += row[j]
		}
		best := 0
		for j := range c {
			if b.Logits.Data[i*c+j] > b.Logits.Data[i*c+best] {
				best = j
			}
		}
		if rng.Float64() < 0.2 {
			best = rng.IntN(c)
		}
		b.Labels[i] = best
	}
	return b
}

// Layers returns two earlier layers of b. The first holds the first 3 features, and the
// second the squares of the first 5.
func Layers(b ood.Batch) []blas32.General {
	some, squares := Matrix(b.Len(), 3), Matrix(b.Len(), 5)
	for i := range b.Len() {
		row := b.Features.Data[i*b.Features.Stride:]
		copy(some.Data[3*i:3*i+3], row)
		for j := range 5 {
			squares.Data[5*i+j] = row[j] * row[j]
		}
	}
	return []blas32.General{some, squares}
}

// Classifier returns options for a fit on n rows of a model with three classes.
func Classifier(n int) attach.FitOptions {
	return attach.FitOptions{
		Base:  attach.Base{Task: attach.Classification, SHA256: "0123456789abcdef0123456789abcdef", Classes: []string{"a", "b & <c>", "d"}},
		Batch: Blob(1, n, 8, 3, 0), Detector: Method("certificates"),
		Seed: 3,
	}
}

// Regressor returns options for a fit on n rows of a model with t targets. The noise of the
// targets grows with x. The features are x, its positive part, its negative part, and
// noise.
func Regressor(seed uint64, n, t int) attach.FitOptions {
	rng := rand.New(rand.NewPCG(seed, 11))
	b := ood.Batch{Features: Matrix(n, 4), Logits: Matrix(n, t)}
	y := Matrix(n, t)
	for i := range n {
		x := rng.NormFloat64()
		copy(b.Features.Data[4*i:], []float32{
			float32(x), float32(max(x, 0)), float32(max(-x, 0)), float32(0.1 * rng.NormFloat64()),
		})
		for k := range t {
			b.Logits.Data[i*t+k] = float32(x)
			y.Data[i*t+k] = float32(x + math.Exp(x/2)*rng.NormFloat64())
		}
	}
	return attach.FitOptions{
		Base: attach.Base{Task: attach.Regression}, Batch: b, Targets: y, Seed: seed,
		Trainer: LinearTrainer{Slope: 0.5, Spread: 0.1},
	}
}

func Fit(t testing.TB, in attach.FitOptions) *attach.Bundle {
	t.Helper()
	b, err := attach.Fit(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	b.Library = "test"
	return b
}

func Write(t testing.TB, b *attach.Bundle) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := b.Write(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func Read(b []byte) (*attach.Bundle, error) {
	return attach.Read(bytes.NewReader(b), int64(len(b)))
}

func Predict(t testing.TB, b *attach.Bundle, batch ood.Batch, o attach.PredictOptions) []attach.Prediction {
	t.Helper()
	return PredictRows(t, b, attach.Rows{Batch: batch}, o)
}

func PredictRows(t testing.TB, b *attach.Bundle, r attach.Rows, o attach.PredictOptions) []attach.Prediction {
	t.Helper()
	out, err := TryPredict(b, r, o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TryPredict(b *attach.Bundle, r attach.Rows, o attach.PredictOptions) ([]attach.Prediction, error) {
	p, err := b.Predictor(o)
	if err != nil {
		return nil, err
	}
	return p.Predict(context.Background(), r)
}

// Cells returns the targets of all rows, one row after another.
func Cells(p []attach.Prediction) []attach.Target {
	var all []attach.Target
	for _, row := range p {
		all = append(all, row.Targets...)
	}
	return all
}

// Same reports whether two lists of predictions are equal. NaN equals NaN.
func Same(a, b []attach.Prediction) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// Blocks yields the rows in blocks of at most 70.
func Blocks(b ood.Batch, y blas32.General, groups []string) iter.Seq2[attach.Rows, error] {
	return func(yield func(attach.Rows, error) bool) {
		for lo := 0; lo < b.Len(); lo += 70 {
			hi := min(lo+70, b.Len())
			r := attach.Rows{Batch: b.Slice(lo, hi)}
			if y.Cols > 0 {
				r.Targets = blas32.General{Rows: hi - lo, Cols: y.Cols, Stride: y.Stride, Data: y.Data[lo*y.Stride : (hi-1)*y.Stride+y.Cols]}
			}
			if groups != nil {
				r.Groups = groups[lo:hi]
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

func Evaluate(t testing.TB, b *attach.Bundle, rows iter.Seq2[attach.Rows, error], p attach.PredictOptions, o evaluate.Options) *evaluate.Evaluation {
	t.Helper()
	predictor, err := b.Predictor(p)
	if err != nil {
		t.Fatal(err)
	}
	e, err := evaluate.Rows(context.Background(), predictor, rows, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Joined concatenates the rows of batches.
func Joined(t *testing.T, batches ...ood.Batch) (all ood.Batch) {
	t.Helper()
	for _, b := range batches {
		labels := append(all.Labels, b.Labels...)
		if err := batchparts.Append(&all, b); err != nil {
			t.Fatal(err)
		}
		all.Labels = labels
	}
	return all
}

// Drawn returns n rows of three classes. The label of each row is drawn from the softmax of
// its logits.
func Drawn(seed uint64, n int) ood.Batch {
	b, rng := Blob(seed, n, 8, 3, 0), rand.New(rand.NewPCG(seed, 13))
	for i := range n {
		z := b.Logits.Data[3*i : 3*i+3]
		for j := range z {
			z[j] *= 2
		}
		p := softmax.New(z, 1)
		at := rng.Float64()
		b.Labels[i] = 0
		for b.Labels[i] < 2 && at > p.Of(z[b.Labels[i]], 1) {
			at -= p.Of(z[b.Labels[i]], 1)
			b.Labels[i]++
		}
	}
	return b
}
