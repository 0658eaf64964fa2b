package fit

import (
	"math/rand/v2"
	"slices"

	"github.com/attach-uncertainty/attach/heads/train"
)

// noise holds the points at which the penalties on a network as a function are measured: rows
// of noise, points between them and rows of the batch, and one output for each point.
type noise struct {
	rng *rand.Rand

	rows []float32 // batch×d, standard normal
	mix  []float32 // by point: fraction of noise
	pick []int32   // by point: the output whose gradient is taken
}

func (s *noise) draw(batch, d, points, outputs int) {
	s.rows = slices.Grow(s.rows[:0], batch*d)[:batch*d]
	for i := range s.rows {
		s.rows[i] = float32(s.rng.NormFloat64())
	}
	s.mix = slices.Grow(s.mix[:0], points)[:points]
	s.pick = slices.Grow(s.pick[:0], points)[:points]
	for i := range s.mix {
		s.mix[i], s.pick[i] = s.rng.Float32(), int32(s.rng.IntN(outputs))
	}
}

// noiseInputs holds the inputs of a step that come from noise.
type noiseInputs struct {
	noise   []float32 // streams × batch × width, for any number of rows in the step
	between []float32 // streams × rows × width
	pick    []float32 // streams × rows × outputs, one-hot
}

func newNoiseInputs(p *plan, rows int) noiseInputs {
	if !p.drawsNoise() {
		return noiseInputs{}
	}
	in := noiseInputs{
		noise:   make([]float32, p.streams()*p.batch*p.width),
		between: make([]float32, p.streams()*rows*p.width),
		pick:    make([]float32, p.streams()*rows*p.Outputs),
	}
	p.fillOnes(in.noise)
	p.fillOnes(in.between)
	return in
}

// fillOnes sets the column that a folded bias multiplies.
func (p *plan) fillOnes(x []float32) {
	for i := p.in; p.folded && i < len(x); i += p.width {
		x[i] = 1
	}
}

func (f *feeder) fillNoise(b *batch) {
	if !f.drawsNoise() {
		return
	}
	d := f.X.Cols
	for _, s := range f.unique {
		s.noise.draw(f.batch, d, b.rows, f.Outputs)
		if f.hooks.noise != nil {
			f.hooks.noise(s.noise.rows, s.noise.mix, s.noise.pick)
		}
	}
	clear(b.pick)
	for m := range f.streams() {
		s := f.sources[m].noise
		x, at := b.x[m*b.rows*f.width:], b.between[m*b.rows*f.width:]
		u := b.noiseInputs.noise[m*f.batch*f.width:]
		for i := range f.batch {
			copy(u[i*f.width:i*f.width+d], s.rows[i*d:(i+1)*d])
		}
		for i, t := range s.mix {
			for j := range d {
				v := x[i*f.width+j]
				at[i*f.width+j] = v + t*(u[i*f.width+j]-v)
			}
			b.pick[(m*b.rows+i)*f.Outputs+int(s.pick[i])] = 1
		}
	}
}

func gradientPenalty(m train.ModelConfig) float64 { return m.GradientPenalty }

func diversity(m train.ModelConfig) float64 { return m.Diversity }

// used reports whether any model has a value other than 0.
func (p *plan) used(value func(train.ModelConfig) float64) bool {
	v, same := p.uniform(value)
	return !same || v != 0
}

func (p *plan) drawsNoise() bool { return p.used(gradientPenalty) || p.used(diversity) }
