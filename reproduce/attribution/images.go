package attribution

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
	"github.com/attach-uncertainty/attach/reproduce/networks"
)

// patch describes the patches that are pasted into the images of a network.
type patch struct {
	detector string // "" means the default of attach.Fit
	from     string // the OOD set whose images the patches are cut from
	part     int    // height and width of the image, divided by those of the patch
}

// patchesFor returns the patches to measure. In photographs of CIFAR-10, a patch of a quarter of
// the width is hardly ever flagged. So the patches are larger, and one kind is cut from digits.
func patchesFor(n networks.Network) []patch {
	if n.Set == "cifar10" {
		return []patch{{"", "mnist", 2}, {"energy", "cifar100", 2}}
	}
	return []patch{{"", n.Outs()[0], 4}}
}

// mostImages is the largest number of images with a pasted patch.
const mostImages = 300

// images pastes a patch of an OOD image into each image.
func (m *measurement) images(ctx context.Context) error {
	p := m.plan
	p.NetworkRows = 1200
	if err := p.Check(ctx, networks.RunsNetwork, "no method"); err != nil {
		return err
	}
	for _, n := range p.Networks {
		if err := m.network(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func (m *measurement) network(ctx context.Context, n networks.Measured) error {
	im, err := m.plan.Load(ctx, n, func(float64) {})
	if err != nil {
		return err
	}
	defer im.Model.Close()
	half := im.FewIn.Len() / 2
	calRows, testRows := make([]int, half), make([]int, half)
	for i := range half {
		calRows[i], testRows[i] = 2*i, 2*i+1
	}
	for _, c := range patchesFor(n.Network) {
		if err := m.patches(ctx, n, im, c, calRows, testRows[:min(half, mostImages)]); err != nil {
			return err
		}
	}
	return nil
}

func (m *measurement) patches(ctx context.Context, n networks.Measured, im *networks.Images, c patch, calRows, testRows []int) error {
	in := im.FewIn.Inputs.(ood.InputBlock)
	o := attach.FitOptions{Base: im.Model.Base(attach.Classification), Batch: im.Training.Batch, Cal: im.FewIn.Select(calRows), Last: im.Model.Last(), Trainer: m.plan.Trainer}
	o.Batch.Inputs, o.Batch.Network, o.Cal.Inputs = nil, nil, nil
	o.Detector, _ = attach.MethodByName(c.detector)
	a, p, err := m.fit(ctx, o)
	if err != nil {
		return err
	}
	defer a.Close()
	reference := in.Select(calRows).(ood.InputBlock)
	test := in.Select(testRows).(ood.InputBlock)
	out := slices.IndexFunc(im.FewOuts, func(s compare.OODSet) bool { return s.Name == c.from })
	f := pastePatches(reference, test, im.FewOuts[out].Batch.Inputs.(ood.InputBlock), im.Model.Info().Layout, c.part, m.plan.Seed)
	f.set = n.Name + " " + p.Bundle().Detector.Method
	return m.measure(ctx, a, p, reference, f, "gradient", "replacement")
}

// fit fits and opens a .attach file.
func (m *measurement) fit(ctx context.Context, o attach.FitOptions) (*featurize.Attached, *attach.Predictor, error) {
	b, err := attach.Fit(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	p, err := b.Predictor(attach.PredictOptions{})
	if err != nil {
		return nil, nil, err
	}
	a, err := featurize.OpenFor(ctx, b, "", featurize.Options{Runtime: featurize.Runtime{Library: m.plan.Library}})
	return a, p, err
}

// pastePatches copies a square of an OOD image into each image, at a random place. Its side is
// that of the image, divided by part. The places of the fault are the patches of an 8×8 grid
// that it touches. The baseline is the mean |z| of the pixels of a patch.
func pastePatches(reference, test, out ood.InputBlock, layout string, part int, seed uint64) faulty {
	rng := rand.New(rand.NewPCG(seed, 6))
	from, shape := out.Tensors[0].Data, test.Tensors[0].Shape
	x := ood.BlockOf(shape, slices.Clone(test.Tensors[0].Data))
	height, length, channels := shape[2], shape[3], shape[1]
	if layout == "nhwc" {
		height, length, channels = shape[1], shape[2], shape[3]
	}
	width := height * length * channels
	index := func(channel, y, x int) int {
		if layout == "nhwc" {
			return (y*length+x)*channels + channel
		}
		return (channel*height+y)*length + x
	}
	means, deviations := make([]float64, width), make([]float64, width)
	for j := range width {
		var pixel []float64
		for i := j; i < len(reference.Tensors[0].Data); i += width {
			pixel = append(pixel, float64(reference.Tensors[0].Data[i]))
		}
		means[j], deviations[j] = stat.MeanStdDev(pixel, nil)
	}
	patch, side := (max(height, length)+7)/8, max(height, length)/part
	across := (length + patch - 1) / patch
	f := faulty{fault: "patch", rows: x, baseline: "z-score"}
	for i := range shape[0] {
		row, other := x.Tensors[0].Data[i*width:(i+1)*width], from[rng.IntN(len(from)/width)*width:]
		top, left := rng.IntN(height-side+1), rng.IntN(length-side+1)
		z, places := make([]float64, (height+patch-1)/patch*across), map[int]bool{}
		for channel := range channels {
			for dy := range side {
				for dx := range side {
					row[index(channel, top+dy, left+dx)] = other[index(channel, (height-side)/2+dy, (length-side)/2+dx)]
					places[(top+dy)/patch*across+(left+dx)/patch] = true
				}
			}
			for y := range height {
				for x := range length {
					j := index(channel, y, x)
					z[y/patch*across+x/patch] += math.Abs(float64(row[j])-means[j]) / max(deviations[j], 1e-2)
				}
			}
		}
		var list []int
		for e := range places {
			list = append(list, e)
		}
		f.places, f.suspicion = append(f.places, list), append(f.suspicion, z)
	}
	return f
}
