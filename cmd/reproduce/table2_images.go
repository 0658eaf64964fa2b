package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/atomicfile"
	"github.com/attach-uncertainty/attach/internal/inputs"
	"github.com/attach-uncertainty/attach/internal/npy"
	"github.com/attach-uncertainty/attach/ood"
)

// reading is how images of any set become what the network takes: colors
// turned grey by luma (ITU-R 601), grey repeated in three channels, and images
// that are smaller padded to its size with black, centred. Larger ones are an
// error.
// shape is that of the network's input without the number of rows.
func (n trainedNetwork) reading(models string, layout inputs.Layout, shape []int) (inputs.Options, error) {
	if len(shape) != 3 || slices.Min(shape) < 1 {
		return inputs.Options{}, fmt.Errorf("the network takes rows of shape %v, and images of one size are wanted", shape)
	}
	size := inputs.Box{Height: shape[1], Width: shape[2]}
	if layout == inputs.NHWC {
		size = inputs.Box{Height: shape[0], Width: shape[1]}
	}

	p := &inputs.Preprocess{Channels: 3, Rescale: 1. / 255}
	if n.preprocess != "" {
		var err error
		if p, err = inputs.LoadPreprocess(filepath.Join(models, n.preprocess+".preprocess.json")); err != nil {
			return inputs.Options{}, err
		}
	}
	p.Pad = size
	return inputs.Options{Preprocess: p, Layout: layout}, nil
}

// open opens the rows of a part, at most limit of them (0: all), drawn by the
// seed.
func (p part) open(ctx context.Context, o inputs.Options, limit int, seed uint64) (*inputs.Set, error) {
	set, err := inputs.Open(ctx, p.file, o)
	if err != nil {
		return nil, err
	}
	if p.classes != nil {
		if set, err = set.OfClasses(p.classes); err != nil {
			return nil, fmt.Errorf("%s: %w", p.file, err)
		}
	}
	if limit == 0 || limit >= set.Len() {
		return set, nil
	}
	rows := rand.New(rand.NewPCG(seed, 0)).Perm(set.Len())[:limit]
	slices.Sort(rows)
	return set.Subset(rows), nil
}

// blocks hands a set to a network.
func blocks(ctx context.Context, set *inputs.Set) iter.Seq2[featurize.Rows, error] {
	return func(yield func(featurize.Rows, error) bool) {
		for b, err := range set.Blocks(ctx, 64) {
			rows := featurize.Rows{Data: b.Data, Shape: append([]int{b.N}, set.Shape()...)}
			if !yield(rows, err) || err != nil {
				return
			}
		}
	}
}

// cachedFeatures reads features, logits, earlier layers and labels of a set from
// the file at path, or runs the network and writes it.
func cachedFeatures(ctx context.Context, model *featurize.Model, set *inputs.Set, path string, progress func(done int)) (ood.Batch, error) {
	b, err := inputs.OpenFeatures(path)
	if err == nil || !os.IsNotExist(err) {
		return b, err
	}
	if b, err = model.All(ctx, blocks(ctx, set), set.Len(), progress); err != nil {
		return b, err
	}
	b.Labels = set.Labels()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return b, err
	}
	return b, atomicfile.WriteFile(ctx, path, func(w io.Writer) error { return npy.WriteNPZ(w, inputs.FeatureArrays(b), false) })
}

// images are a network's rows, with its features of them.
type images struct {
	model    *featurize.Model
	training ood.Training
	in       ood.Batch
	outs     []ood.OutSet
	// few are some rows of in and of every out, with what the network takes.
	fewIn   ood.Batch
	fewOuts []ood.OutSet
}

// load runs a network on its rows, or reads what it said before.
func (p detectionPlan) load(ctx context.Context, s settings, n measuredNetwork, progress func(share float64)) (*images, error) {
	model, err := featurize.Open(ctx, n.file(p.models), featurize.Options{Library: s.library, EarlierLayers: featurize.DefaultEarlierLayers})
	if err != nil {
		return nil, err
	}
	im := &images{model: model}
	if err := im.read(ctx, p, s, n, progress); err != nil {
		model.Close()
		return nil, fmt.Errorf("%s: %w", n.name, err)
	}
	return im, nil
}

func (im *images) read(ctx context.Context, p detectionPlan, s settings, n measuredNetwork, progress func(share float64)) error {
	layout := inputs.Layout(strings.ToLower(im.model.Info().Layout))
	o, err := n.reading(p.models, layout, im.model.InputShape())
	if err != nil {
		return err
	}
	parts := n.parts(s.data)
	for i, part := range parts {
		limit := p.rows[min(i, 2)]
		set, err := part.open(ctx, o, limit, p.seed)
		if err != nil {
			return err
		}
		path := filepath.Join(p.out, "features", n.name+"-"+n.sha256+layersKey(im.model), fmt.Sprintf("%s-%d-%d.npz", part.name, limit, p.seed))
		b, err := cachedFeatures(ctx, im.model, set, path, func(done int) {
			progress((float64(i) + float64(done)/float64(set.Len())) / float64(len(parts)))
		})
		if err != nil {
			return err
		}
		switch i {
		case 0:
			im.training = ood.Training{
				Batch: b, Last: im.model.Last(), Network: im.model.Network(), Trainer: s.trainer,
				InputScale: o.Preprocess.Scale(layout), Seed: p.seed,
			}
			continue
		case 1:
			im.in = b
		default:
			b.Labels = nil
			im.outs = append(im.outs, ood.OutSet{Name: part.name, Batch: b})
		}
		few, err := some(ctx, b, set, p.networkRows)
		if err != nil {
			return err
		}
		if i == 1 {
			im.fewIn = few
		} else {
			im.fewOuts = append(im.fewOuts, ood.OutSet{Name: part.name, Batch: few})
		}
	}
	return nil
}

// layersKey tells features with some earlier layers from those with others.
func layersKey(model *featurize.Model) string {
	var names []string
	for _, l := range model.Info().Layers {
		names = append(names, l.Tensor)
	}
	if names == nil {
		return ""
	}
	return fmt.Sprintf("-%x", sha256.Sum256([]byte(strings.Join(names, "\n"))))[:7]
}

// some is at most limit rows of b (0: all), evenly spaced, with the inputs.
func some(ctx context.Context, b ood.Batch, set *inputs.Set, limit int) (ood.Batch, error) {
	if limit == 0 || limit > b.Len() {
		limit = b.Len()
	}
	rows := make([]int, limit)
	for i := range rows {
		rows[i] = i * b.Len() / limit
	}
	few, set := b.Select(rows), set.Subset(rows)
	x, err := set.All(ctx)
	if err != nil {
		return few, err
	}
	few.Inputs = ood.InputsOf(append([]int{x.Rows}, set.Shape()...), x.Data)
	return few, nil
}
