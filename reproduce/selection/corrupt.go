package selection

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

// corruptRows is the number of images that are corrupted at a time; the first of
// them say how numbers are distributed.
const corruptRows = 128

// corrupted puts images through the network after each of them was disturbed:
// half of them, drawn by the seed, by Gaussian noise, the others by permuting
// their patches. See corruptedInputs.
func corrupted(ctx context.Context, network ood.Network, in ood.Inputs, seed uint64) (ood.Batch, error) {
	var all ood.Batch
	var c *corruption
	for x, err := range in.Blocks(ctx, corruptRows) {
		if err != nil {
			return ood.Batch{}, err
		}
		if c == nil {
			c = newCorruption(x.Tensors[0], seed)
		}
		x.Tensors = []ood.Tensor{c.tensor(x.Tensors[0], x.Start)}
		b, err := network.Forward(ctx, x)
		if err != nil {
			return ood.Batch{}, err
		}
		if err := batchparts.Append(&all, b); err != nil {
			return ood.Batch{}, err
		}
	}
	return all, nil
}

// corruption disturbs images of one shape.
type corruption struct {
	seed                uint64
	image               image
	spread, least, most []float64 // of each channel
}

// image says where the numbers of an image lie.
type image struct{ height, width, channels, row, column, channel int }

// imageOf takes the last of three axes for channels where there are at most four
// of them and more of all else.
func imageOf(shape []int) image {
	if a, b, c := shape[0], shape[1], shape[2]; c <= 4 && c < min(a, b) {
		return image{height: a, width: b, channels: c, row: b * c, column: c, channel: 1}
	}
	return image{height: shape[1], width: shape[2], channels: shape[0], row: shape[2], column: 1, channel: shape[1] * shape[2]}
}

// channelOf is the channel of number i of images in a row.
func (im image) channelOf(i int) int { return i / im.channel % im.channels }

func newCorruption(x ood.Tensor, seed uint64) *corruption {
	c := &corruption{seed: seed, image: imageOf(x.Shape[1:])}
	n := c.image.channels
	c.spread, c.least, c.most = make([]float64, n), make([]float64, n), make([]float64, n)
	mean, count := make([]float64, n), make([]float64, n)
	for k := range n {
		c.least[k], c.most[k] = math.Inf(1), math.Inf(-1)
	}
	for i, v := range x.Data {
		k, v := c.image.channelOf(i), float64(v)
		c.least[k], c.most[k] = min(c.least[k], v), max(c.most[k], v)
		count[k]++
		d := v - mean[k]
		mean[k] += d / count[k]
		c.spread[k] += d * (v - mean[k])
	}
	for k := range n {
		c.spread[k] = math.Sqrt(c.spread[k] / count[k])
	}
	return c
}

// tensor is a copy of x, corrupted, whose first row is number start. What becomes
// of a row depends on the seed and its number alone.
func (c *corruption) tensor(x ood.Tensor, start int) ood.Tensor {
	x.Data = slices.Clone(x.Data)
	width := len(x.Data) / x.Shape[0]
	for i := range x.Shape[0] {
		rng := rand.New(rand.NewPCG(c.seed^pseudoStream, uint64(start+i)))
		row := x.Data[i*width : (i+1)*width]
		if rng.IntN(2) == 1 && min(c.image.height, c.image.width) >= 4 {
			c.image.permute(row, 2<<rng.IntN(2), rng)
		} else {
			c.noise(row, .25*float64(int(1)<<rng.IntN(3)), rng)
		}
	}
	return x
}

// noise adds Gaussian noise of share times the standard deviation of each
// channel, and keeps to the range of what is seen in-domain.
func (c *corruption) noise(row []float32, share float64, rng *rand.Rand) {
	for j, v := range row {
		k, was := c.image.channelOf(j), float64(v)
		is := was + share*c.spread[k]*rng.NormFloat64()
		row[j] = float32(min(max(is, min(was, c.least[k])), max(was, c.most[k])))
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
