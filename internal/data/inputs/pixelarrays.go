package inputs

import (
	"context"
	"fmt"
	"image"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/pixels"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/preprocess"
)

// frame describes the layout of an image's pixels in a row of an array.
type frame struct {
	h, w, c int
	planar  bool // channels first
}

// frameOf interprets a shape as H×W, H×W×C or C×H×W. An ambiguous shape is read as H×W×C.
func frameOf(shape []int) (frame, bool) {
	channels := func(c int) bool { return c == 1 || c == 3 || c == 4 }
	switch {
	case len(shape) == 2:
		return frame{shape[0], shape[1], 1, false}, true
	case len(shape) != 3:
	case channels(shape[2]):
		return frame{shape[0], shape[1], shape[2], false}, true
	case channels(shape[0]):
		return frame{shape[1], shape[2], shape[0], true}, true
	}
	return frame{}, false
}

// pixels returns a row as an image with channels last.
func (f frame) pixels(row []uint8) *pixels.Image {
	out := &pixels.Image{Height: f.h, Width: f.w, Channels: f.c, Pix: row}
	if !f.planar {
		return out
	}
	out.Pix = make([]uint8, len(row))
	area := f.h * f.w
	for c := range f.c {
		for i, v := range row[c*area : (c+1)*area] {
			out.Pix[i*f.c+c] = v
		}
	}
	return out
}

// pixelSource reads the rows of a uint8 array as images.
type pixelSource struct {
	arraySource
	frame    frame
	pipeline *preprocess.Pipeline
}

func newPixelSource(l *npy.Lazy, input string, o Options) (source, error) {
	if o.Preprocess == nil {
		return nil, fmt.Errorf("%s: its %v pixels of shape %v are images, not prepared inputs: %w", l.Name(), l.DType, l.Shape, ErrPreprocess)
	}
	f, ok := frameOf(l.Shape[1:])
	if !ok {
		return nil, fmt.Errorf("%s: shape %v cannot be images; they must be n×height×width, or n×height×width×channels with 1, 3 or 4 channels", l.Name(), l.Shape)
	}
	c := f.c
	if c == 4 {
		c = 3
	}
	pipeline := o.Preprocess.In(o.Layout)
	shape, err := pipeline.Shape(f.h, f.w, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Name(), err)
	}
	return &pixelSource{arraySource{l, numbers(input, shape)}, f, pipeline}, nil
}

func (p *pixelSource) open() (reader, error) {
	c, err := p.l.Open()
	if err != nil {
		return nil, err
	}
	return filledReader{&pixelReader{c, p}, p.tensor}, nil
}

func (p *pixelSource) pixels(ctx context.Context, rows []int, use func(k int, m image.Image)) error {
	c, err := p.l.Open()
	if err != nil {
		return err
	}
	defer c.Close()
	for _, k := range sortOrder(rows) { // in order, because a compressed array is read in sequence
		if err := ctx.Err(); err != nil {
			return err
		}
		a, err := c.ReadRows(rows[k], 1)
		if err != nil {
			return err
		}
		use(k, p.frame.pixels(a.Data.([]uint8)))
	}
	return nil
}

// maxReadBytes limits the bytes of pixels that are read at once.
const maxReadBytes = 1 << 26

type pixelReader struct {
	*npy.Cursor
	src *pixelSource
}

func (r *pixelReader) fill(ctx context.Context, idx []int, dst []float32) error {
	in, out := r.src.l.RowLen(), rows.Elements(r.src.tensor.Shape[1:])
	for start, n := range runs(idx, max(1, maxReadBytes/in)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		a, err := r.ReadRows(idx[start], n)
		if err != nil {
			return err
		}
		rows := a.Data.([]uint8)
		g, ctx := errgroup.WithContext(ctx)
		perWorker := (n + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0)
		for from := 0; from < n; from += perWorker {
			g.Go(func() error {
				for k := from; k < min(from+perWorker, n); k++ {
					if err := ctx.Err(); err != nil {
						return err
					}
					row := dst[(start+k)*out : (start+k)*out : (start+k+1)*out]
					if _, _, err := r.src.pipeline.Append(row, r.src.frame.pixels(rows[k*in:(k+1)*in])); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	return nil
}
