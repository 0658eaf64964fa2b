package baselines_test

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/internal/train"
)

// plainTrainer is a train.Trainer for what methods of this package ask of one:
// networks that learn all targets, by Adam on all rows at once, in float64.
type plainTrainer struct{}

func (plainTrainer) Train(ctx context.Context, p train.Problem) ([]train.Network, error) {
	networks := make([]train.Network, len(p.Models))
	for i, m := range p.Models {
		n, err := trainPlain(ctx, p, m)
		if err != nil {
			return nil, err
		}
		for _, l := range n {
			networks[i].Layers = append(networks[i].Layers, l.rounded())
		}
		if p.Progress != nil {
			p.Progress(i+1, len(p.Models))
		}
	}
	return networks, nil
}

// plainLayer is a layer with its gradient and moments. The bias, where there is
// one, is the last row.
type plainLayer struct {
	in                  int
	w, g, first, second blas64.General
}

func newPlainLayer(rng *rand.Rand, in, out int, biased bool) *plainLayer {
	l := &plainLayer{in: in}
	rows := in
	if biased {
		rows++
	}
	for _, m := range []*blas64.General{&l.w, &l.g, &l.first, &l.second} {
		*m = matrix64(rows, out)
	}
	for i := range l.w.Data {
		l.w.Data[i] = (2*rng.Float64() - 1) / math.Sqrt(float64(in))
	}
	return l
}

func matrix64(rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: make([]float64, rows*cols)}
}

func (l *plainLayer) start(from train.Layer) {
	for i := range from.W.Rows {
		for j := range from.W.Cols {
			l.w.Data[i*l.w.Stride+j] = float64(from.W.Data[i*from.W.Stride+j])
		}
	}
	for j, v := range from.B {
		l.w.Data[l.in*l.w.Stride+j] = float64(v)
	}
}

func (l *plainLayer) rounded() train.Layer {
	data := make([]float32, len(l.w.Data))
	for i, v := range l.w.Data {
		data[i] = float32(v)
	}
	split := l.in * l.w.Cols
	out := train.Layer{W: blas32.General{Rows: l.in, Cols: l.w.Cols, Stride: l.w.Cols, Data: data[:split:split]}}
	if l.w.Rows > l.in {
		out.B = data[split:]
	}
	return out
}

func (l *plainLayer) adam(rate float64, step int) {
	correct1, correct2 := 1-math.Pow(.9, float64(step)), 1-math.Pow(.999, float64(step))
	for i, g := range l.g.Data {
		l.first.Data[i] += .1 * (g - l.first.Data[i])
		l.second.Data[i] += .001 * (g*g - l.second.Data[i])
		a, b := l.first.Data[i]/correct1, l.second.Data[i]/correct2
		l.w.Data[i] -= rate * a / (math.Sqrt(b) + 1e-8)
	}
}

// plainSteps bounds the steps, however many epochs there are.
const plainSteps = 100

func trainPlain(ctx context.Context, p train.Problem, m train.ModelConfig) ([]*plainLayer, error) {
	rng := rand.New(rand.NewPCG(m.Seed, 1))
	var layers []*plainLayer
	in := p.X.Cols
	for i, out := range append(append([]int(nil), p.Hidden...), p.Outputs) {
		layers = append(layers, newPlainLayer(rng, in, out, !p.NoBias))
		if m.Start != nil {
			layers[i].start(m.Start[i])
		}
		in = out
	}
	x := matrix64(p.X.Rows, p.X.Cols)
	for i := range x.Rows {
		for j := range x.Cols {
			x.Data[i*x.Stride+j] = float64(p.X.Data[i*p.X.Stride+j])
		}
	}
	for step := 1; step <= min(10*p.Epochs, plainSteps); step++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for _, l := range layers {
			clear(l.g.Data)
		}
		descend(layers, x, func(out blas64.General) { slopes(out, p) })
		noisySlope(layers, x, m, rng)
		orthonormalSlope(layers[len(layers)-1], m.Orthonormal)
		for _, l := range layers {
			l.adam(10*m.LearningRate, step)
		}
	}
	return layers, nil
}

// descend adds to the layers' gradients that of a loss of their output for x,
// which slope replaces by the loss's derivatives.
func descend(layers []*plainLayer, x blas64.General, slope func(out blas64.General)) {
	seen := make([]blas64.General, len(layers)) // inputs of each layer, and ones
	for i, l := range layers {
		seen[i] = matrix64(x.Rows, l.w.Rows)
		for r := range x.Rows {
			to := seen[i].Data[r*l.w.Rows : (r+1)*l.w.Rows]
			for j, v := range x.Data[r*x.Stride : r*x.Stride+x.Cols] {
				if i > 0 {
					v = max(v, 0)
				}
				to[j] = v
			}
			if l.w.Rows > l.in {
				to[l.in] = 1
			}
		}
		x = matrix64(x.Rows, l.w.Cols)
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, seen[i], l.w, 0, x)
	}
	slope(x)
	for i := len(layers) - 1; i >= 0; i-- {
		l := layers[i]
		blas64.Gemm(blas.Trans, blas.NoTrans, 1, seen[i], x, 1, l.g)
		if i == 0 {
			return
		}
		back := matrix64(x.Rows, l.w.Rows)
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, x, l.w, 0, back)
		back.Cols = l.in
		for r := range back.Rows {
			for j := range l.in {
				if seen[i].Data[r*l.w.Rows+j] <= 0 {
					back.Data[r*back.Stride+j] = 0
				}
			}
		}
		x = back
	}
}

// slopes replaces outputs by the derivatives of the mean loss.
func slopes(out blas64.General, p train.Problem) {
	for i := range out.Rows {
		for j := range out.Cols {
			f, y := &out.Data[i*out.Stride+j], 0.
			switch {
			case p.Y.Rows == 1:
				y = float64(p.Y.Data[j])
			case p.Y.Rows > 1:
				y = float64(p.Y.Data[i*p.Y.Stride+j])
			}
			switch r := *f - y; p.Loss {
			case train.BCE:
				*f = 1/(1+math.Exp(-*f)) - y
			case train.MSE:
				*f = 2 * r
			case train.L1:
				*f = math.Copysign(1, r)
			case train.Pinball:
				*f = 1 - p.Levels[j]
				if r < 0 {
					*f = -p.Levels[j]
				}
			}
			*f /= float64(out.Rows * out.Cols)
		}
	}
}

// orthonormalSlope adds the gradient of lambda·mean((CᵀC−I)²).
func orthonormalSlope(l *plainLayer, lambda float64) {
	if lambda == 0 {
		return
	}
	k := l.w.Cols
	c := l.w
	c.Rows = l.in
	gram := matrix64(k, k)
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, c, c, 0, gram)
	for j := range k {
		gram.Data[j*k+j]--
	}
	g := l.g
	g.Rows = l.in
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 4*lambda/float64(k*k), c, gram, 1, g)
}

// noisySlope adds the gradients of the penalties that are measured with noise.
func noisySlope(layers []*plainLayer, x blas64.General, m train.ModelConfig, rng *rand.Rand) {
	if m.GradientPenalty == 0 && m.Diversity == 0 {
		return
	}
	noise := matrix64(x.Rows, x.Cols)
	for i := range noise.Data {
		noise.Data[i] = rng.NormFloat64()
	}
	n, k := float64(x.Rows), layers[len(layers)-1].w.Cols
	descend(layers, noise, func(f blas64.General) {
		off := matrix64(k, k)
		blas64.Gemm(blas.Trans, blas.NoTrans, 1/n, f, f, 0, off)
		for j := range k {
			off.Data[j*k+j]--
		}
		slope := matrix64(f.Rows, k)
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 4*m.Diversity/(n*float64(k*k)), f, off, 0, slope)
		copy(f.Data, slope.Data)
	})
	between := make([]float64, x.Cols)
	for i := range x.Rows {
		mix, pick := rng.Float64(), rng.IntN(k)
		for j := range between {
			v := x.Data[i*x.Stride+j]
			between[j] = v + mix*(noise.Data[i*noise.Stride+j]-v)
		}
		steepness(layers, between, pick, m.GradientPenalty/n)
	}
}

// steepness adds the gradient of weight·(‖∇f‖−1)² for one output at x. With r
// the penalty's derivative by ∇f held fixed, it is that of r·∇f, the change of
// the output along r: tangents pass forward through the units that are
// switched on at x, and weigh what passes back from the output.
func steepness(layers []*plainLayer, x []float64, pick int, weight float64) {
	on := [][]float64{x} // values of each layer's inputs
	for _, l := range layers[:len(layers)-1] {
		out := make([]float64, l.w.Cols)
		for j := range out {
			for i := range l.w.Rows {
				v := 1.0
				if i < l.in {
					v = on[len(on)-1][i]
				}
				out[j] += v * l.w.Data[i*l.w.Stride+j]
			}
			out[j] = max(out[j], 0)
		}
		on = append(on, out)
	}
	back := make([][]float64, len(layers)) // of each layer's outputs
	slope := make([]float64, layers[len(layers)-1].w.Cols)
	slope[pick] = 1
	for i := len(layers) - 1; i >= 0; i-- {
		l := layers[i]
		back[i] = slope
		in := make([]float64, l.in)
		for a := range in {
			if i > 0 && on[i][a] == 0 {
				continue
			}
			for b, v := range slope {
				in[a] += v * l.w.Data[a*l.w.Stride+b]
			}
		}
		slope = in
	}
	norm := math.Sqrt(blas64.Dot(blas64.Vector{N: len(slope), Inc: 1, Data: slope}, blas64.Vector{N: len(slope), Inc: 1, Data: slope}) + 1e-12)
	tangent := make([]float64, len(slope))
	for j, v := range slope {
		tangent[j] = 2 * weight * (norm - 1) / norm * v
	}
	for i, l := range layers {
		next := make([]float64, l.w.Cols)
		for a, t := range tangent {
			for b := range next {
				l.g.Data[a*l.g.Stride+b] += t * back[i][b]
				next[b] += t * l.w.Data[a*l.w.Stride+b]
			}
		}
		for b := range next {
			if i+1 < len(layers) && on[i+1][b] == 0 {
				next[b] = 0
			}
		}
		tangent = next
	}
}

// recorder is a trainer that keeps what it is asked.
type recorder struct {
	mu       sync.Mutex
	problems []train.Problem
}

func (r *recorder) Train(ctx context.Context, p train.Problem) ([]train.Network, error) {
	r.mu.Lock()
	r.problems = append(r.problems, p)
	r.mu.Unlock()
	return plainTrainer{}.Train(ctx, p)
}
