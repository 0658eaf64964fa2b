package inputs

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"io"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/attach-uncertainty/attach/internal/data/imagesize"
	"github.com/attach-uncertainty/attach/internal/data/pixels"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/preprocess"
)

// pictures provides encoded images, one for each row.
type pictures interface {
	rows() int
	// file returns the name of the image of row i relative to the folder, or "". path
	// returns its location for messages.
	file(i int) string
	path(i int) string
	open() (imageOpener, error)
}

// openFunc opens an image. It may be called from any goroutine.
type openFunc func() (io.ReadSeekCloser, error)

// imageOpener returns functions that open the images of rows. Consecutive rows are fastest.
type imageOpener interface {
	picture(i int) (openFunc, error)
	Close() error
}

// imageSource is a source of encoded images. It decodes images when they are read, as many
// at a time as there are processors.
type imageSource struct {
	pictures
	readable []int // rows that can be decoded, or nil for all of them
	first    int   // first readable row; all other images must have its shape
	h, w     int   // height and width of the image in row first
	tensor   ood.Tensor
	pipeline *preprocess.Pipeline
	// pixelBudget limits the pixels of images that are decoded at the same time.
	pixelBudget *semaphore.Weighted
}

// newImageSource returns a source that decodes the images in from for the named input. path
// is used in errors.
func newImageSource(ctx context.Context, path string, from pictures, input string, o Options) (*imageSource, error) {
	if o.Preprocess == nil {
		return nil, fmt.Errorf("%s: %w", path, ErrPreprocess)
	}
	src := &imageSource{pictures: from, pipeline: o.Preprocess.In(o.Layout), pixelBudget: semaphore.NewWeighted(pixels.MaxPixels)}
	if o.SkipBad {
		if err := src.checkAll(ctx); err != nil {
			return nil, err
		}
		if len(src.readable) == 0 {
			return nil, fmt.Errorf("%s: %w: no image can be read", path, ErrEmpty)
		}
		src.first = src.readable[0]
	}
	var err error
	if src.h, src.w, err = src.size(src.first); err != nil {
		return nil, err
	}
	shape, err := src.pipeline.Shape(src.h, src.w, 3)
	src.tensor = numbers(input, shape)
	return src, InFile(src.path(src.first), err)
}

// checkedSource is a source whose rows can be checked when it is opened.
type checkedSource interface {
	rows() int
	// readableRows returns the rows that can be read, or nil if they were not checked.
	readableRows() []int
}

// withoutUnreadable returns the set without the rows that cannot be read.
func (s *Set) withoutUnreadable() *Set {
	m, ok := findSource[checkedSource](s.src)
	if !ok || m.readableRows() == nil {
		return s
	}
	good := s.Subset(m.readableRows())
	good.Skipped += m.rows() - len(m.readableRows())
	return good
}

func (m *imageSource) readableRows() []int { return m.readable }

func (m *imageSource) name(i int) string { return cmp.Or(m.file(i), m.path(i)) }

func (m *imageSource) tensors() []ood.Tensor { return []ood.Tensor{m.tensor} }

func (m *imageSource) open() (reader, error) {
	a, err := m.pictures.open()
	if err != nil {
		return nil, err
	}
	return filledReader{&imageReader{imageOpener: a, src: m, ballast: make([]byte, 16<<20)}, m.tensor}, nil
}

// size returns the height and width of the image of row i.
func (m *imageSource) size(i int) (h, w int, err error) {
	a, err := m.pictures.open()
	if err != nil {
		return 0, 0, err
	}
	defer a.Close()
	open, err := a.picture(i)
	var file io.ReadSeekCloser
	if err == nil {
		file, err = open()
	}
	if err == nil {
		defer file.Close()
		h, w, err = pixels.Size(file)
	}
	return h, w, InFile(m.path(i), err)
}

// pixels calls use with the image of each row and its index k in idx. The calls are
// concurrent and in any order.
func (m *imageSource) pixels(ctx context.Context, idx []int, use func(k int, m image.Image)) error {
	order := sortOrder(idx)
	a, err := m.pictures.open()
	if err != nil {
		return err
	}
	defer a.Close()
	return m.each(ctx, a, rows.Pick(idx, order), func(ctx context.Context, i int, open openFunc) error {
		return m.decode(ctx, open, anySize, func(m image.Image) error {
			use(order[i], m)
			return nil
		})
	})
}

func anySize(h, w int) error { return nil }

// each calls use for each row, with its index k in rows and a function that opens its
// image. The calls are concurrent.
func (m *imageSource) each(ctx context.Context, a imageOpener, rows []int, use func(ctx context.Context, k int, open openFunc) error) error {
	g, groupCtx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for k, i := range rows {
		if groupCtx.Err() != nil {
			break
		}
		open, err := a.picture(i)
		g.Go(func() error {
			if err == nil {
				err = use(groupCtx, k, open)
			}
			return InFile(m.path(i), err)
		})
	}
	return cmp.Or(g.Wait(), ctx.Err())
}

// decode decodes an image and calls use with it. It waits until pixelBudget has room for
// the pixels of the image. Before that, checkSize may reject the size of the image.
func (m *imageSource) decode(ctx context.Context, open openFunc, checkSize func(h, w int) error, use func(image.Image) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	file, err := open()
	if err != nil {
		return err
	}
	defer file.Close()
	var acquired int64
	defer func() {
		if acquired > pixels.MaxPixels/4 {
			// Collect garbage after a large image. Otherwise the next image would be
			// decoded while this one still occupies memory.
			runtime.GC()
		}
		m.pixelBudget.Release(acquired)
	}()
	img, err := pixels.Decode(file, func(h, w int) error {
		if err := checkSize(h, w); err != nil {
			return err
		}
		n := int64(h) * int64(w)
		if err := m.pixelBudget.Acquire(ctx, n); err != nil {
			return err
		}
		acquired = n
		return nil
	})
	if err != nil {
		return err
	}
	return use(img)
}

// imageReader reads the rows of an imageSource.
type imageReader struct {
	imageOpener
	src *imageSource
	// ballast is never read. Its size delays garbage collection, which would otherwise run
	// after every few images.
	ballast []byte
	// heights and widths are the sizes of the images that fill read last, in pixels.
	heights, widths []float32
}

func (r *imageReader) fill(ctx context.Context, idx []int, dst []float32) error {
	m := r.src
	first := m.tensor.Shape[1:]
	width := rows.Elements(first)
	checkSize := func(h, w int) error {
		shape, err := m.pipeline.Shape(h, w, 3)
		if err == nil && !slices.Equal(shape, first) {
			err = fmt.Errorf("the image has %d×%d pixels and becomes %s after preprocessing, but earlier images became %s; set crop_size, or size with height and width, so that all have one shape",
				h, w, imagesize.Times(shape), imagesize.Times(first))
		}
		return err
	}
	r.heights, r.widths = make([]float32, len(idx)), make([]float32, len(idx))
	return m.each(ctx, r.imageOpener, idx, func(ctx context.Context, k int, open openFunc) error {
		return m.decode(ctx, open, checkSize, func(img image.Image) error {
			r.heights[k], r.widths[k] = float32(img.Bounds().Dy()), float32(img.Bounds().Dx())
			row := dst[k*width : k*width : (k+1)*width]
			_, _, err := m.pipeline.Append(row, img)
			return err
		})
	})
}

func (r *imageReader) measures() []ood.Measure {
	return []ood.Measure{{Name: "image height", Values: r.heights}, {Name: "image width", Values: r.widths}}
}

// checkAll decodes every image to find those that cannot be read.
func (m *imageSource) checkAll(ctx context.Context) error {
	a, err := m.pictures.open()
	if err != nil {
		return err
	}
	defer a.Close()
	all := upTo(m.rows())
	good := make([]bool, len(all))
	err = m.each(ctx, a, all, func(ctx context.Context, k int, open openFunc) error {
		good[k] = m.decode(ctx, open, anySize, func(image.Image) error { return nil }) == nil
		return ctx.Err()
	})
	m.readable = slices.DeleteFunc(all, func(i int) bool { return !good[i] })
	return err
}

// CheckImages returns an error if the rows are images and preprocessing gives them a shape
// that the model does not accept. In accepted, −1 stands for any size. The error describes
// the first image and the preprocessing that would give the right shape.
func (s *Set) CheckImages(accepted []int) error {
	var name string
	var h, w int
	var shape []int
	if src, ok := findSource[*imageSource](s.src); ok {
		name, h, w, shape = src.path(src.first), src.h, src.w, src.tensor.Shape[1:]
	} else if src, ok := findSource[*pixelSource](s.src); ok {
		name, h, w, shape = src.name(s.Row(0)), src.frame.h, src.frame.w, src.tensor.Shape[1:]
	}
	if shape == nil {
		return nil
	}
	return InFile(name, imagesize.Check(s.layout, h, w, shape, accepted))
}
