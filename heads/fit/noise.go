package fit

import (
	"math/rand/v2"
	"slices"

	"github.com/attach-uncertainty/attach/heads/train"
)

// noise holds the random numbers for the penalties on noise. They define rows of noise,
// points between these and rows of the batch, and one output for each point.
type noise struct {
	rng *rand.Rand

	rows          []float32 // rows of noise, batch×d, standard normal
	noiseFraction []float32 // for each point, the fraction of noise in it
	pick          []int32   // for each point, the output to differentiate
}

func (s *noise) draw(batch, d, points, outputs int) {
	s.rows = slices.Grow(s.rows[:0], batch*d)[:batch*d]
	for i := range s.rows {
		s.rows[i] = float32(s.rng.NormFloat64())
	}
	s.noiseFraction = slices.Grow(s.noiseFraction[:0], points)[:points]
	s.pick = slices.Grow(s.pick[:0], points)[:points]
	for i := range s.noiseFraction {
		s.noiseFraction[i], s.pick[i] = s.rng.Float32(), int32(s.rng.IntN(outputs))
	}
}

// noiseInputs holds the graph inputs for the penalties on noise.
type noiseInputs struct {
	noise        []float32 // rows of noise: batchAxis × batch × width, even if the step has fewer rows
	interpolated []float32 // points between rows and noise: batchAxis × rows × width
	pick         []float32 // outputs to differentiate, one-hot: batchAxis × rows × outputs
}

func newNoiseInputs(p *plan, rows int) noiseInputs {
	if !p.drawsNoise() {
		return noiseInputs{}
	}
	in := noiseInputs{
		noise:        make([]float32, p.batchAxis()*p.batch*p.width),
		interpolated: make([]float32, p.batchAxis()*rows*p.width),
		pick:         make([]float32, p.batchAxis()*rows*p.Outputs),
	}
	p.fillOnes(in.noise)
	p.fillOnes(in.interpolated)
	return in
}

// fillOnes writes 1 to the column of x that multiplies a folded bias. See parametersOf.
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
			f.hooks.noise(s.noise.rows, s.noise.noiseFraction, s.noise.pick)
		}
	}
	clear(b.pick)
	for m := range f.batchAxis() {
		s := f.sources[m].noise
		x, at := b.x[m*b.rows*f.width:], b.interpolated[m*b.rows*f.width:]
		u := b.noiseInputs.noise[m*f.batch*f.width:]
		for i := range f.batch {
			copy(u[i*f.width:i*f.width+d], s.rows[i*d:(i+1)*d])
		}
		for i, t := range s.noiseFraction {
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

// usedByAny reports whether a hyper-parameter is not 0 for at least one model.
func (p *plan) usedByAny(value func(train.ModelConfig) float64) bool {
	v, same := p.uniform(value)
	return !same || v != 0
}

// drawsNoise reports whether the penalties of any model need noise.
func (p *plan) drawsNoise() bool { return p.usedByAny(gradientPenalty) || p.usedByAny(diversity) }
