package attach_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/ood"
)

// method is that of a name.
func method(name string) ood.Method {
	m, ok := attach.MethodByName(name)
	if !ok {
		panic("no method " + name)
	}
	return m
}

// linearTrainer stands in for training: its networks are linear, with slope
// on the first column and spread on the level. How well they fit is of no
// matter to what is tested.
type linearTrainer struct {
	slope, spread float32
	problem       *train.Problem // the last one seen
}

func (tr linearTrainer) Train(ctx context.Context, p train.Problem) ([]train.Network, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if tr.problem != nil {
		*tr.problem = p
	}
	if p.Progress != nil {
		p.Progress(.5)
		p.Progress(1)
	}
	networks := make([]train.Network, len(p.Models))
	for m := range networks {
		w := matrix(p.X.Cols+1, 1)
		w.Data[0], w.Data[p.X.Cols] = tr.slope, tr.spread
		networks[m].Layers = []train.Layer{{W: w, B: make([]float32, 1)}}
	}
	return networks, nil
}

func matrix(rows, cols int) blas32.General {
	return blas32.General{Rows: rows, Cols: cols, Stride: cols, Data: make([]float32, rows*cols)}
}

// blob draws n rows of width h around the mean, with one or several logits
// that are sums of features, and labels that are mostly the largest logit.
func blob(seed uint64, n, h, c int, mean float64) ood.Batch {
	rng := rand.New(rand.NewPCG(seed, 7))
	b := ood.Batch{Features: matrix(n, h), Logits: matrix(n, c), Labels: make([]int, n)}
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

// layersOf are two earlier layers: some of the features, and their squares.
func layersOf(b ood.Batch) []blas32.General {
	some, squares := matrix(b.Len(), 3), matrix(b.Len(), 5)
	for i := range b.Len() {
		row := b.Features.Data[i*b.Features.Stride:]
		copy(some.Data[3*i:3*i+3], row)
		for j := range 5 {
			squares.Data[5*i+j] = row[j] * row[j]
		}
	}
	return []blas32.General{some, squares}
}

// classifier is the input of a fit on a network of three classes.
func classifier(n int) attach.FitOptions {
	return attach.FitOptions{
		Base:  attach.Base{Task: attach.Classification, SHA256: "0123456789abcdef0123456789abcdef", Classes: []string{"a", "b & <c>", "d"}},
		Batch: blob(1, n, 8, 3, 0), Method: method("certificates"),
		Seed: 3,
	}
}

// regressor is the input of a fit on a network of t targets whose noise grows
// with the first feature. Features are x, its two rectified halves and noise.
func regressor(seed uint64, n, t int) attach.FitOptions {
	rng := rand.New(rand.NewPCG(seed, 11))
	b := ood.Batch{Features: matrix(n, 4), Logits: matrix(n, t)}
	y := matrix(n, t)
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
		Trainer: linearTrainer{slope: 0.5, spread: 0.1},
	}
}

func mustFit(t testing.TB, in attach.FitOptions) *attach.Bundle {
	t.Helper()
	b, err := attach.Fit(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	b.Library = "test"
	return b
}

func mustWrite(t testing.TB, b *attach.Bundle) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := b.Write(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func read(b []byte) (*attach.Bundle, error) {
	return attach.Read(bytes.NewReader(b), int64(len(b)))
}

func mustPredict(t testing.TB, b *attach.Bundle, batch ood.Batch, o attach.PredictOptions) []attach.Prediction {
	t.Helper()
	return predictRows(t, b, attach.Rows{Batch: batch}, o)
}

func predictRows(t testing.TB, b *attach.Bundle, r attach.Rows, o attach.PredictOptions) []attach.Prediction {
	t.Helper()
	out, err := predict(b, r, o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func predict(b *attach.Bundle, r attach.Rows, o attach.PredictOptions) ([]attach.Prediction, error) {
	p, err := b.Predictor(o)
	if err != nil {
		return nil, err
	}
	return p.Predict(context.Background(), r)
}

// cells are the targets of all rows, one after another.
func cells(p []attach.Prediction) []attach.Target {
	var all []attach.Target
	for _, row := range p {
		all = append(all, row.Targets...)
	}
	return all
}

// same says that predictions are equal, NaN included.
func same(a, b []attach.Prediction) bool { return fmt.Sprint(a) == fmt.Sprint(b) }
