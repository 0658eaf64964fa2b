package featurize

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/imagesize"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/preprocess"
)

// Attached is a model that was opened for a .attach file. It turns inputs into the rows
// that a Predictor takes. It is safe for concurrent use.
type Attached struct {
	*Model
	// Preprocess prepares images, or is nil if the .attach file has no preprocessing.
	Preprocess *preprocess.Pipeline
	keepInputs bool // rows must contain the model's inputs, because the detector runs the model or the caller asked for them
}

// OpenFor opens the model that a .attach file was fitted on. If path is empty, it opens
// the model at the path that the file stores. Otherwise path is used as in Open. The
// .attach file also determines which tensors are read, so Feature, Output, Layers and
// EarlierLayers of o are ignored. If the model is a different one, the error wraps
// [attach.ErrWrongModel]. If path is empty and the .attach file stores no path, or nothing
// exists at the stored path, the error wraps [attach.ErrNoModel]. If the file was
// fitted on features, there is no model to open, and the error wraps neither.
func OpenFor(ctx context.Context, b *attach.Bundle, path string, o Options) (*Attached, error) {
	if b.Base.SHA256 == "" {
		return nil, errors.New("the .attach file was fitted on features, so it has no model to run; fit again with the model")
	}
	a := &Attached{keepInputs: o.KeepInputs || b.RunsNetwork()}
	if b.Preprocess != nil {
		p, err := preprocess.Parse(b.Preprocess)
		if err != nil {
			return nil, fmt.Errorf("the preprocessing in the .attach file cannot be used: %w", err)
		}
		a.Preprocess = p.In(b.Layout)
	}
	modelPath := cmp.Or(path, b.Base.Path)
	if modelPath == "" {
		return nil, fmt.Errorf("%w: the .attach file does not contain its path", attach.ErrNoModel)
	}
	o.Feature, o.Output, o.Layers, o.EarlierLayers = b.Base.Feature, b.Base.Output, nil, 0
	for _, l := range b.Base.Layers {
		o.Layers = append(o.Layers, l.Tensor)
	}
	model, _, err := findModel(modelPath)
	if err == nil {
		a.Model, err = open(ctx, model, &folder{text: b.Text}, o, b.Check)
	}
	if _, statErr := os.Stat(modelPath); err != nil && path == "" && errors.Is(statErr, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no file at %s, the path that the .attach file stores; put the model there or beside the .attach file", attach.ErrNoModel, modelPath)
	}
	if err != nil {
		return nil, err
	}
	if b.Text != nil && a.tokenizer == nil {
		defer a.Close()
		return nil, fmt.Errorf("the tokenizer in the .attach file cannot be used: %s", append(a.Info().Unused, "the model takes no tokens")[0])
	}
	return a, nil
}

// Predict predicts encoded images, for example JPEG or PNG files. [preprocess.Decode]
// lists the formats. Predict decodes and prepares each image, runs the model on all of
// them at once, and passes the result to p. The Predictor p must come from the same
// .attach file. If an image cannot be decoded or prepared, the error names it, counted
// from 0. If it cannot be decoded, the error wraps [preprocess.ErrImage]. Errors of
// a reader are wrapped, too.
func (a *Attached) Predict(ctx context.Context, p *attach.Predictor, files ...io.Reader) ([]attach.Prediction, error) {
	rows, err := a.prepare(ctx, len(files), func(i int) (image.Image, error) { return preprocess.Decode(files[i]) })
	if err != nil {
		return nil, err
	}
	return p.Predict(ctx, rows)
}

// Images prepares images and runs the model on all of them at once.
func (a *Attached) Images(ctx context.Context, images ...image.Image) (attach.Rows, error) {
	return a.prepare(ctx, len(images), func(i int) (image.Image, error) { return images[i], nil })
}

// prepare decodes and preprocesses n images one after the other, and runs the model on all
// of them at once.
func (a *Attached) prepare(ctx context.Context, n int, decode func(i int) (image.Image, error)) (attach.Rows, error) {
	if a.Preprocess == nil {
		return attach.Rows{}, errors.New("images need preprocessing, and the .attach file was fitted without it")
	}
	if n == 0 {
		return attach.Rows{}, errors.New("there are no images")
	}
	var x ood.Tensor
	height, width := ood.Measure{Name: "image height"}, ood.Measure{Name: "image width"}
	for i := range n {
		var shape []int
		img, err := decode(i)
		if err == nil {
			x.Data, shape, err = a.Preprocess.Append(x.Data, img)
		}
		if err == nil {
			bounds := img.Bounds()
			height.Values, width.Values = append(height.Values, float32(bounds.Dy())), append(width.Values, float32(bounds.Dx()))
			err = imagesize.Check(a.Info().Layout, bounds.Dy(), bounds.Dx(), shape, a.InputShape())
		}
		if err != nil {
			return attach.Rows{}, fmt.Errorf("image %d: %w", i, err)
		}
		if i == 0 {
			x.Shape = append([]int{n}, shape...)
		} else if !slices.Equal(shape, x.Shape[1:]) {
			return attach.Rows{}, fmt.Errorf("image %d is %v after preprocessing, those before it are %v", i, shape, x.Shape[1:])
		}
	}
	return a.Run(ctx, ood.InputBlock{Tensors: []ood.Tensor{x}, Measures: []ood.Measure{height, width}})
}

// Texts tokenizes texts, runs the model on all of them at once, and passes the result to p.
// The Predictor p must come from the same .attach file. For pairs of texts, call Rows with
// two tensors of strings: the first texts, then the second texts.
func (a *Attached) Texts(ctx context.Context, p *attach.Predictor, texts ...string) ([]attach.Prediction, error) {
	if a.tokenizer == nil {
		return nil, errors.New("texts need a tokenizer, and the .attach file was fitted without one")
	}
	if len(texts) == 0 {
		return nil, errors.New("there are no texts")
	}
	r, err := a.Run(ctx, ood.InputBlock{Tensors: []ood.Tensor{{Shape: []int{len(texts)}, Strings: texts}}})
	if err != nil {
		return nil, err
	}
	return p.Predict(ctx, r)
}

// Rows runs the model on blocks of rows, in order, and yields rows for Predictor.Predict.
// For example, [ood.InputBlock.Blocks] makes such blocks. Rows stops at the first error.
// Integers are passed as float32 numbers, and images as the output of Preprocess.
func (a *Attached) Rows(ctx context.Context, blocks iter.Seq2[ood.InputBlock, error]) iter.Seq2[attach.Rows, error] {
	return func(yield func(attach.Rows, error) bool) {
		if !a.keepInputs {
			for b, err := range a.Features(ctx, blocks) {
				if !yield(attach.Rows{Batch: b}, err) || err != nil {
					return
				}
			}
			return
		}
		for x, err := range blocks {
			var r attach.Rows
			switch {
			case err != nil:
			case x.Len() == 0: // an empty block is not run, but its tensors are checked
				for _, err = range a.Features(ctx, oneBlock(x)) {
				}
			default:
				r.Batch, err = a.All(ctx, oneBlock(x), x.Len(), nil)
			}
			if err == nil {
				r.Inputs, r.Network = x, a.Network()
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// Run runs the model on one block of rows in memory, like Rows. If the rows fit into one
// run of the model, Run usually neither copies them nor starts a goroutine. Exceptions are
// rows that differ in length, and models with a tokenizer or a fixed batch.
func (a *Attached) Run(ctx context.Context, x ood.InputBlock) (r attach.Rows, err error) {
	batch, err := a.runOnce(ctx, x)
	switch {
	case err != nil:
		return r, err
	case batch != nil:
		r.Batch = *batch
	default:
		r.Batch, err = a.All(ctx, oneBlock(x), -1, nil)
	}
	if err == nil && a.keepInputs {
		r.Inputs, r.Network = x, a.Network()
	}
	return r, err
}
