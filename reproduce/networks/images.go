package networks

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
	"github.com/attach-uncertainty/attach/preprocess"
)

// inputOptions returns options that convert images of any set to the network's input. For a
// network of one channel, colours become grey by luma (ITU-R 601). For a network of three
// channels, grey is repeated in each channel. Smaller images are centred and padded with
// black. Larger images cause an error. shape is the network's input shape without the batch
// axis.
func (n Network) inputOptions(models string, layout string, shape []int) (inputs.Options, error) {
	if len(shape) != 3 || slices.Min(shape) < 1 {
		return inputs.Options{}, fmt.Errorf("the network's input has shape %v: want images of a fixed size", shape)
	}
	size := map[string]int{"height": shape[1], "width": shape[2]}
	if layout == "nhwc" {
		size = map[string]int{"height": shape[0], "width": shape[1]}
	}
	config := map[string]any{"do_convert_rgb": true}
	if n.preprocess != "" {
		path := filepath.Join(models, n.preprocess+".preprocess.json")
		b, err := os.ReadFile(path)
		if err == nil {
			config = nil
			err = json.Unmarshal(b, &config)
		}
		if err != nil {
			return inputs.Options{}, fmt.Errorf("%s: %w", path, err)
		}
	}
	config["do_pad"], config["pad_size"] = true, size
	b, err := json.Marshal(config)
	if err != nil {
		return inputs.Options{}, err
	}
	p, err := preprocess.Parse(b)
	return inputs.Options{Preprocess: p, Layout: layout}, err
}

// open opens the rows of a part. If limit is not 0, it draws at most limit rows with the
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

// cachedFeatures reads the features, logits, earlier layers and labels of a set from the
// file at path. If the file does not exist, it runs the network and writes the file.
func cachedFeatures(ctx context.Context, model *featurize.Model, set *inputs.Set, path string, progress func(done int)) (ood.Batch, error) {
	b, err := inputs.OpenFeatures(path)
	if err == nil || !os.IsNotExist(err) {
		return b, err
	}
	if b, err = model.All(ctx, set.Blocks(ctx, 64), set.Len(), progress); err != nil {
		return b, err
	}
	b.Labels = set.Labels
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return b, err
	}
	return b, atomicfile.WriteFile(ctx, path, func(w io.Writer) error { return npy.WriteNPZ(w, inputs.FeatureArrays(b), false) })
}

// Images holds the rows for one network with their features.
type Images struct {
	Model    *featurize.Model
	Training ood.Training
	In       ood.Batch
	Outs     []compare.OODSet
	// FewIn and FewOuts hold at most Plan.NetworkRows rows of each set in In and Outs (all
	// rows if it is 0), together with the network's inputs.
	FewIn   ood.Batch
	FewOuts []compare.OODSet
}

// Load runs a network on its rows, or reads the features that an earlier run stored. The
// caller must close the model.
func (p *Plan) Load(ctx context.Context, n Measured, progress func(fraction float64)) (*Images, error) {
	model, err := featurize.Open(ctx, n.file(p.Models), featurize.Options{Runtime: featurize.Runtime{Library: p.Library}, EarlierLayers: featurize.DefaultEarlierLayers})
	if err != nil {
		return nil, err
	}
	im := &Images{Model: model}
	if err := im.read(ctx, p, n, progress); err != nil {
		model.Close()
		return nil, fmt.Errorf("%s: %w", n.Name, err)
	}
	return im, nil
}

func (im *Images) read(ctx context.Context, p *Plan, n Measured, progress func(fraction float64)) error {
	layout := im.Model.Info().Layout
	o, err := n.inputOptions(p.Models, layout, im.Model.InputShape())
	if err != nil {
		return err
	}
	parts := n.parts(p.Data)
	for i, part := range parts {
		limit := p.Rows[min(i, 2)]
		set, err := part.open(ctx, o, limit, p.Seed)
		if err != nil {
			return err
		}
		path := filepath.Join(p.Out, "features", n.Name+"-"+n.SHA256+layersKey(im.Model), fmt.Sprintf("%s-%d-%d.npz", part.Name, limit, p.Seed))
		b, err := cachedFeatures(ctx, im.Model, set, path, func(done int) {
			progress((float64(i) + float64(done)/float64(set.Len())) / float64(len(parts)))
		})
		if err != nil {
			return err
		}
		switch i {
		case 0:
			b.Network, b.Inputs = im.Model.Network(), set
			im.Training = ood.Training{
				Batch: b, Last: im.Model.Last(), Trainer: p.Trainer,
				InputScale: o.InputScale(), Seed: p.Seed,
			}
			continue
		case 1:
			im.In = b
		default:
			b.Labels = nil
			im.Outs = append(im.Outs, compare.OODSet{Name: part.Name, Batch: b})
		}
		sampled, err := sampleRows(ctx, b, set, p.NetworkRows)
		if err != nil {
			return err
		}
		if i == 1 {
			im.FewIn = sampled
		} else {
			im.FewOuts = append(im.FewOuts, compare.OODSet{Name: part.Name, Batch: sampled})
		}
	}
	return nil
}

// layersKey returns a part of the cache path that depends on the names of the earlier
// layers. Features with different earlier layers therefore have different paths.
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

// sampleRows returns at most limit evenly spaced rows of b, with the network's inputs. A
// limit of 0 returns all rows.
func sampleRows(ctx context.Context, b ood.Batch, set *inputs.Set, limit int) (ood.Batch, error) {
	if limit == 0 || limit > b.Len() {
		limit = b.Len()
	}
	rows := make([]int, limit)
	for i := range rows {
		rows[i] = i * b.Len() / limit
	}
	sampled, set := b.Select(rows), set.Subset(rows)
	x, err := set.All(ctx)
	if err != nil {
		return sampled, err
	}
	sampled.Inputs = ood.BlockOf(append([]int{x.Rows}, set.Shape()...), x.Data)
	return sampled, nil
}
