package selection

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

// corruptBlockRows is the number of images that are corrupted together. The first block
// provides the statistics of each channel.
const corruptBlockRows = 128

// corruptImages corrupts each image and runs the network on the result. The seed assigns
// about half of the images to Gaussian noise and the others to permuted patches. Images
// with fewer than 4 pixels in height or width all get noise. See corruptedInputs for the
// amounts.
func corruptImages(ctx context.Context, network ood.Network, in ood.Inputs, seed uint64) (ood.Batch, error) {
	var corrupted ood.Batch
	var c *corruption
	for x, err := range in.Blocks(ctx, corruptBlockRows) {
		if err != nil {
			return ood.Batch{}, err
		}
		if c == nil {
			c = newCorruption(x.Tensors[0], seed)
		}
		x.Tensors = []ood.Tensor{c.corrupt(x.Tensors[0], x.Start)}
		b, err := network.Forward(ctx, x)
		if err != nil {
			return ood.Batch{}, err
		}
		if err := batchparts.Append(&corrupted, b); err != nil {
			return ood.Batch{}, err
		}
	}
	return corrupted, nil
}

// corruption corrupts images of one shape.
type corruption struct {
	seed                     uint64
	layout                   imageLayout
	stdDev, minimum, maximum []float64 // indexed by channel
}

// imageLayout describes the memory layout of an image's values.
type imageLayout struct{ height, width, channels, rowStride, columnStride, channelStride int }

// layoutOf infers the layout of a shape with three axes. Channels come last if the last
// axis is at most 4 and shorter than the other two, and first otherwise.
func layoutOf(shape []int) imageLayout {
	if a, b, c := shape[0], shape[1], shape[2]; c <= 4 && c < min(a, b) {
		return imageLayout{height: a, width: b, channels: c, rowStride: b * c, columnStride: c, channelStride: 1}
	}
	return imageLayout{height: shape[1], width: shape[2], channels: shape[0], rowStride: shape[2], columnStride: 1, channelStride: shape[1] * shape[2]}
}

// channelOf returns the channel of value i in a batch of images.
func (im imageLayout) channelOf(i int) int { return i / im.channelStride % im.channels }

func newCorruption(x ood.Tensor, seed uint64) *corruption {
	c := &corruption{seed: seed, layout: layoutOf(x.Shape[1:])}
	n := c.layout.channels
	c.stdDev, c.minimum, c.maximum = make([]float64, n), make([]float64, n), make([]float64, n)
	mean, count := make([]float64, n), make([]float64, n)
	for k := range n {
		c.minimum[k], c.maximum[k] = math.Inf(1), math.Inf(-1)
	}
	for i, v := range x.Data {
		k, v := c.layout.channelOf(i), float64(v)
		c.minimum[k], c.maximum[k] = min(c.minimum[k], v), max(c.maximum[k], v)
		count[k]++
		d := v - mean[k]
		mean[k] += d / count[k]
		c.stdDev[k] += d * (v - mean[k])
	}
	for k := range n {
		c.stdDev[k] = math.Sqrt(c.stdDev[k] / count[k])
	}
	return c
}

// corrupt returns a corrupted copy of x. start is the index of its first row. The random
// numbers for a row depend only on the seed and the index of the row.
func (c *corruption) corrupt(x ood.Tensor, start int) ood.Tensor {
	x.Data = slices.Clone(x.Data)
	width := len(x.Data) / x.Shape[0]
	for i := range x.Shape[0] {
		rng := rand.New(rand.NewPCG(c.seed^pseudoStream, uint64(start+i)))
		row := x.Data[i*width : (i+1)*width]
		if rng.IntN(2) == 1 && min(c.layout.height, c.layout.width) >= 4 {
			c.layout.permutePatches(row, 2<<rng.IntN(2), rng)
		} else {
			c.noise(row, .25*float64(int(1)<<rng.IntN(3)), rng)
		}
	}
	return x
}

// noise adds Gaussian noise with scale times the standard deviation of each channel. It
// clips the result to the range of the channel in the first block. If the original value
// lies outside this range, the range is extended to the original value.
func (c *corruption) noise(row []float32, scale float64, rng *rand.Rand) {
	for j, v := range row {
		k, original := c.layout.channelOf(j), float64(v)
		noisy := original + scale*c.stdDev[k]*rng.NormFloat64()
		row[j] = float32(min(max(noisy, min(original, c.minimum[k])), max(original, c.maximum[k])))
	}
}

// permutePatches cuts an image into grid×grid patches of equal size and permutes them.
// Remaining pixels at the right and at the bottom stay in place.
func (im imageLayout) permutePatches(row []float32, grid int, rng *rand.Rand) {
	original := slices.Clone(row)
	height, width := im.height/grid, im.width/grid
	for to, from := range rng.Perm(grid * grid) {
		for y := range height {
			for x := range width {
				a := (to/grid*height+y)*im.rowStride + (to%grid*width+x)*im.columnStride
				b := (from/grid*height+y)*im.rowStride + (from%grid*width+x)*im.columnStride
				for k := range im.channels {
					row[a+k*im.channelStride] = original[b+k*im.channelStride]
				}
			}
		}
	}
}
