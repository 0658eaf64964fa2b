package fit

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Each use of random numbers has its own stream, so that one use does not affect another.
const (
	streamWeights uint64 = iota + 1
	streamOrder
	streamLevels
	streamMasks
	streamNoise
)

func newRand(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// batchSource draws all random numbers for batches from a seed. Models with one seed and the
// same rows share a batchSource. Each of them gets the batches that it would get if it were
// trained separately.
type batchSource struct {
	rows                 []int   // rows to train on, from ModelConfig.Rows
	perm                 []int32 // order of rows in the current epoch
	order, levels, masks *rand.Rand

	noise *noise

	tau  []float32 // levels of the rows of the current batch
	bits []uint16  // random bits for the dropout masks of a layer
}

// newBatchSource returns a source for batches of the given n rows. If rows is nil, it uses the
// rows 0 to n−1.
func newBatchSource(seed uint64, rows []int, n int) *batchSource {
	s := &batchSource{
		rows:   rows,
		perm:   make([]int32, n),
		order:  newRand(seed, streamOrder),
		levels: newRand(seed, streamLevels),
		masks:  newRand(seed, streamMasks),
		noise:  &noise{rng: newRand(seed, streamNoise)},
	}
	for i := range s.perm {
		s.perm[i] = int32(i)
		if rows != nil {
			s.perm[i] = int32(rows[i])
		}
	}
	return s
}

// shuffle draws the order of rows for an epoch.
func (s *batchSource) shuffle() {
	s.order.Shuffle(len(s.perm), func(i, j int) { s.perm[i], s.perm[j] = s.perm[j], s.perm[i] })
}

// drawLevels draws a level for each row of a batch: one of levels or, if levels is empty, a
// number from U(0,1).
func (s *batchSource) drawLevels(rows int, levels []float64) {
	s.tau = slices.Grow(s.tau[:0], rows)[:rows]
	for i := range s.tau {
		if len(levels) > 0 {
			s.tau[i] = float32(levels[s.levels.IntN(len(levels))])
		} else {
			s.tau[i] = (float32(s.levels.Uint32()>>8) + 0.5) / (1 << 24)
		}
	}
}

// drawBits draws n random numbers of 16 bits.
func (s *batchSource) drawBits(n int) {
	s.bits = slices.Grow(s.bits[:0], n)[:n]
	var word uint64
	for i := range s.bits {
		if i%4 == 0 {
			word = s.masks.Uint64()
		}
		s.bits[i] = uint16(word)
		word >>= 16
	}
}

// mask fills dst with a dropout mask. Each element is 0 with probability p, and otherwise
// 1/(1−p).
func (s *batchSource) mask(dst []float32, p float64) {
	threshold := uint16(min(math.Round(p*(1<<16)), 1<<16-1))
	scale := float32(1 / (1 - p))
	for i, v := range s.bits {
		dst[i] = scale
		if v < threshold {
			dst[i] = 0
		}
	}
}

// batch holds the graph inputs that change from step to step.
type batch struct {
	rows      int
	x, y, tau []float32
	masks     [][]float32
	noiseInputs
}

func newBatch(p *plan, rows int) *batch {
	b := &batch{rows: rows, x: make([]float32, p.batchAxis()*rows*p.width), noiseInputs: newNoiseInputs(p, rows)}
	p.fillOnes(b.x)
	if p.targets > 0 {
		b.y = make([]float32, p.targetAxis()*rows*p.targets)
	}
	if p.Conditional {
		b.tau = make([]float32, p.batchAxis()*rows)
	}
	if p.usesDropout() {
		for _, h := range p.Hidden {
			b.masks = append(b.masks, make([]float32, p.maskAxis()*rows*h))
		}
	}
	return b
}

// targetAxis returns the size of the model axis of targets.
func (p *plan) targetAxis() int {
	if p.sharedTargets {
		return p.batchAxis()
	}
	return p.models
}

// feeder fills batches with rows, levels, masks and noise.
type feeder struct {
	*plan
	sources []*batchSource // the source of each model
	unique  []*batchSource // the sources without repetition
	hooks   hooks          // tests use them to replace random numbers
}

func newFeeder(p *plan, h hooks) *feeder {
	f := &feeder{plan: p, hooks: h}
	bySeed := make(map[uint64][]*batchSource)
	for _, m := range p.Models {
		candidates := bySeed[m.Seed]
		i := slices.IndexFunc(candidates, func(s *batchSource) bool { return slices.Equal(s.rows, m.Rows) })
		if i < 0 {
			s := newBatchSource(m.Seed, m.Rows, p.n)
			i, candidates = len(candidates), append(candidates, s)
			bySeed[m.Seed] = candidates
			f.unique = append(f.unique, s)
		}
		f.sources = append(f.sources, candidates[i])
	}
	return f
}

func (f *feeder) shuffle() {
	for _, s := range f.unique {
		s.shuffle()
	}
}

// fill fills a batch with the rows at positions start, start+1, … in the order of each
// source.
func (f *feeder) fill(b *batch, start int) {
	for m := range f.batchAxis() {
		s := f.sources[m]
		x := b.x[m*b.rows*f.width:]
		order := s.perm[start : start+b.rows]
		for i, row := range order {
			at := int(row) * f.X.Stride
			copy(x[i*f.width:i*f.width+f.X.Cols], f.X.Data[at:at+f.X.Cols])
		}
	}
	for m := range f.targetAxis() {
		f.fillTargets(b, m, f.sources[m].perm[start:start+b.rows])
	}
	f.fillLevels(b)
	f.fillMasks(b)
	f.fillNoise(b)
}

func (f *feeder) fillTargets(b *batch, m int, order []int32) {
	if f.targets == 0 {
		return
	}
	y := b.y[m*b.rows*f.targets:]
	first := max(f.Models[m].Target, 0)
	for i, row := range order {
		if f.Y.Rows == 1 {
			row = 0
		}
		at := int(row)*f.Y.Stride + first
		copy(y[i*f.targets:(i+1)*f.targets], f.Y.Data[at:at+f.targets])
	}
}

// fillLevels writes the levels of rows to tau. It also writes them, scaled, to an
// additional column of x.
func (f *feeder) fillLevels(b *batch) {
	if !f.Conditional {
		return
	}
	for _, s := range f.unique {
		s.drawLevels(b.rows, f.Levels)
		if f.hooks.levels != nil {
			f.hooks.levels(s.tau)
		}
	}
	for m := range f.batchAxis() {
		tau := f.sources[m].tau
		copy(b.tau[m*b.rows:], tau)
		x := b.x[m*b.rows*f.width:]
		for i, v := range tau {
			x[i*f.width+f.X.Cols] = (v - 0.5) * 12
		}
	}
}

func (f *feeder) fillMasks(b *batch) {
	for layer, mask := range b.masks {
		n := b.rows * f.Hidden[layer]
		for _, s := range f.unique {
			s.drawBits(n)
		}
		for m := range f.maskAxis() {
			f.sources[m].mask(mask[m*n:(m+1)*n], f.Models[m].Dropout)
		}
	}
}
