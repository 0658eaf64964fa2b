package compare

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

// corruptRows is the number of rows that are corrupted at a time; the first of
// them say how inputs are distributed.
const corruptRows = 128

// corrupted puts inputs through the network after each row of them was
// disturbed: half of the rows, drawn by the seed, by Gaussian noise, the others by moving
// what they are made of. See corruptedInputs. progress may be nil.
func corrupted(ctx context.Context, network ood.Network, in ood.Inputs, seed uint64, progress func(done, total int)) (ood.Batch, error) {
	var all ood.Batch
	var c []*corruption
	for x, err := range in.Blocks(ctx, corruptRows) {
		if err != nil {
			return ood.Batch{}, err
		}
		if c == nil {
			if c, err = newCorruptions(x, seed); err != nil {
				return ood.Batch{}, err
			}
		}
		x.Tensors = slices.Clone(x.Tensors)
		for i, c := range c {
			if c != nil {
				x.Tensors[i] = c.tensor(x.Tensors[i], x.Start)
			}
		}
		b, err := network.Forward(ctx, x)
		if err != nil {
			return ood.Batch{}, fmt.Errorf("corrupted inputs: %w", err)
		}
		if err := batchparts.Append(&all, b); err != nil {
			return ood.Batch{}, fmt.Errorf("corrupted inputs: %w", err)
		}
		if progress != nil {
			progress(x.Start+x.Rows(), in.Len())
		}
	}
	return all, nil
}

// corruption disturbs rows of one shape.
type corruption struct {
	seed   uint64
	width  int
	shape  []int // of a row
	kind   []int // of every number: its channel, its column, or 0
	spread []float64
	least  []float64
	most   []float64
	others []float32 // rows to take columns from
	image  image
}

// image says where the numbers of an image lie. It has no sides where rows are
// no images.
type image struct{ height, width, channels, row, column, channel int }

// imageOf takes rows with three axes for images, whose channels come last where
// there are at most four of them and more of all else.
func imageOf(shape []int) image {
	if len(shape) != 3 {
		return image{}
	}
	if a, b, c := shape[0], shape[1], shape[2]; c <= 4 && c < min(a, b) {
		return image{height: a, width: b, channels: c, row: b * c, column: c, channel: 1}
	}
	return image{height: shape[1], width: shape[2], channels: shape[0], row: shape[2], column: 1, channel: shape[1] * shape[2]}
}

// errTokens says that inputs cannot be corrupted.
var errTokens = errors.New("texts and whole numbers that stand for something cannot be corrupted: choose another criterion")

// newCorruptions learns from the first rows how each of their tensors is to be
// disturbed; nil is one that is not. Beside others whole numbers are left alone: they
// are ids, masks and categories.
func newCorruptions(b ood.InputBlock, seed uint64) ([]*corruption, error) {
	if b.Rows() == 0 {
		return nil, errors.New("no inputs to corrupt")
	}
	all, some := make([]*corruption, len(b.Tensors)), false
	for i, x := range b.Tensors {
		fraction := func(v float32) bool { return v != float32(math.Trunc(float64(v))) }
		if len(x.Data) > 0 && x.Lengths == nil && (len(b.Tensors) == 1 || slices.ContainsFunc(x.Data, fraction)) {
			all[i], some = newCorruption(x, seed+uint64(i)<<32), true
		}
	}
	if !some {
		return nil, errTokens
	}
	return all, nil
}

func newCorruption(x ood.Tensor, seed uint64) *corruption {
	n := x.Shape[0]
	c := &corruption{seed: seed, width: len(x.Data) / n, shape: slices.Clone(x.Shape[1:]), image: imageOf(x.Shape[1:])}
	kinds := 1
	c.kind = make([]int, c.width)
	switch im := c.image; {
	case im.height > 0:
		kinds = im.channels
		for j := range c.kind {
			c.kind[j] = j / im.channel % im.channels
		}
	case len(c.shape) == 1:
		kinds, c.others = c.width, slices.Clone(x.Data)
		for j := range c.kind {
			c.kind[j] = j
		}
	}
	c.spread, c.least, c.most = make([]float64, kinds), make([]float64, kinds), make([]float64, kinds)
	mean, count := make([]float64, kinds), make([]float64, kinds)
	for k := range kinds {
		c.least[k], c.most[k] = math.Inf(1), math.Inf(-1)
	}
	for i, v := range x.Data {
		k, v := c.kind[i%c.width], float64(v)
		c.least[k], c.most[k] = min(c.least[k], v), max(c.most[k], v)
		count[k]++
		d := v - mean[k]
		mean[k] += d / count[k]
		c.spread[k] += d * (v - mean[k])
	}
	for k := range kinds {
		c.spread[k] = math.Sqrt(c.spread[k] / count[k])
	}
	return c
}

// tensor is a copy of x, corrupted, whose first row is number start. What becomes
// of a row depends on the seed and its number alone.
func (c *corruption) tensor(x ood.Tensor, start int) ood.Tensor {
	x.Data = slices.Clone(x.Data)
	for i := range x.Shape[0] {
		rng := rand.New(rand.NewPCG(c.seed^pseudoStream, uint64(start+i)))
		row := x.Data[i*c.width : (i+1)*c.width]
		move := rng.IntN(2) == 1
		switch {
		case move && min(c.image.height, c.image.width) >= 4:
			c.image.permute(row, 2<<rng.IntN(2), rng)
		case move && c.others != nil && c.width > 1:
			c.exchange(row, rng)
		default:
			c.noise(row, .25*float64(int(1)<<rng.IntN(3)), rng)
		}
	}
	return x
}

// noise adds Gaussian noise of share times the standard deviation of each
// channel or column, and keeps to the range of what is seen in-domain.
func (c *corruption) noise(row []float32, share float64, rng *rand.Rand) {
	for j, v := range row {
		k, was := c.kind[j], float64(v)
		is := was + share*c.spread[k]*rng.NormFloat64()
		row[j] = float32(min(max(is, min(was, c.least[k])), max(was, c.most[k])))
	}
}

// exchange takes each column, with probability one half, from another row.
func (c *corruption) exchange(row []float32, rng *rand.Rand) {
	n := len(c.others) / c.width
	for j := range row {
		if rng.IntN(2) == 1 {
			row[j] = c.others[rng.IntN(n)*c.width+j]
		}
	}
}

// permute cuts an image into grid×grid patches and puts them in another order.
// What grid leaves over at the right and at the bottom stays.
func (im image) permute(row []float32, grid int, rng *rand.Rand) {
	was := slices.Clone(row)
	height, width := im.height/grid, im.width/grid
	for to, from := range rng.Perm(grid * grid) {
		for y := range height {
			for x := range width {
				a := (to/grid*height+y)*im.row + (to%grid*width+x)*im.column
				b := (from/grid*height+y)*im.row + (from%grid*width+x)*im.column
				for k := range im.channels {
					row[a+k*im.channel] = was[b+k*im.channel]
				}
			}
		}
	}
}
