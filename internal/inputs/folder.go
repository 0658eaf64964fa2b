package inputs

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/attach-uncertainty/attach/internal/imagesize"
	"github.com/attach-uncertainty/attach/internal/regular"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/preprocess"
)

// imageKinds are the file name extensions of images.
var imageKinds = []string{".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp"}

func isImage(path string) bool {
	return slices.Contains(imageKinds, strings.ToLower(filepath.Ext(path)))
}

// folderSource is images in files. They are decoded as they are read, as many
// at a time as there are processors.
type folderSource struct {
	root   string
	files  []string // relative to root, with slashes
	none   ood.Tensor
	pipe   *preprocess.Pipeline
	layout preprocess.Layout
	// room is for the pixels of images that are decoded at the same time.
	room *semaphore.Weighted
}

func openFolder(ctx context.Context, root string, o Options) (*Set, error) {
	files, err := listImages(ctx, root)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: %w: the folder holds no images (%s)", root, ErrEmpty, strings.Join(imageKinds, " "))
	}
	return newFolderSet(ctx, root, files, o)
}

func newFolderSet(ctx context.Context, root string, files []string, o Options) (*Set, error) {
	if list := required(o.Takes); len(list) > 1 {
		return nil, fmt.Errorf("%s: these are images alone, and the model has %d inputs; name a table with a column of the images' paths beside the others", root, len(list))
	}
	src, err := newFolderSource(ctx, root, files, only(o.Takes).Name, o)
	if err != nil {
		return nil, err
	}
	s := &Set{src: src, skipped: len(files) - len(src.files)}
	if o.Labels {
		s.labels, s.classes, err = folderLabels(root, src.files, o.Classes)
	}
	return s, err
}

// newFolderSource is images in files for an input of a name.
func newFolderSource(ctx context.Context, root string, files []string, input string, o Options) (*folderSource, error) {
	if o.Preprocess == nil {
		return nil, fmt.Errorf("%s: %w", root, ErrPreprocess)
	}
	src := &folderSource{root: root, files: files, pipe: o.Preprocess.In(o.Layout), layout: o.Layout, room: semaphore.NewWeighted(preprocess.MaxPixels)}
	if o.SkipBad {
		if err := src.dropBad(ctx); err != nil {
			return nil, err
		}
		if len(src.files) == 0 {
			return nil, fmt.Errorf("%s: %w: none of its %d images can be read", root, ErrEmpty, len(files))
		}
	}
	shape, err := src.firstShape()
	src.none = numbers(input, shape)
	return src, err
}

// listImages returns the images below root, sorted by their path. Hidden files and
// folders are passed over.
func listImages(ctx context.Context, root string) (files []string, err error) {
	dir, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		hidden := path != dir && strings.HasPrefix(d.Name(), ".")
		switch {
		case hidden && d.IsDir():
			return fs.SkipDir
		case d.IsDir():
		case hidden || !isImage(path) || d.Type()&^fs.ModeSymlink != 0: // one might wait for a pipe
		default:
			rel, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	slices.Sort(files)
	return files, err
}

// folderLabels takes the first folder of each path as its class, numbered as
// names are where these have them all.
func folderLabels(root string, files, names []string) (labels []int, classes []string, err error) {
	for _, f := range files {
		class, _, ok := strings.Cut(f, "/")
		if !ok {
			return nil, nil, fmt.Errorf("%s: the image has no label; where sub-folders are labels, each image lies in one", filepath.Join(root, f))
		}
		classes = append(classes, class)
	}
	slices.Sort(classes)
	classes = slices.Compact(classes)
	if !slices.ContainsFunc(classes, func(class string) bool { return !slices.Contains(names, class) }) {
		classes = names
	}
	for _, f := range files {
		class, _, _ := strings.Cut(f, "/")
		labels = append(labels, slices.Index(classes, class))
	}
	return labels, classes, nil
}

func (f *folderSource) rows() int { return len(f.files) }

func (f *folderSource) name(i int) string { return f.files[i] }

func (f *folderSource) path(i int) string {
	return filepath.Join(f.root, filepath.FromSlash(f.files[i]))
}

func (f *folderSource) tensors() []ood.Tensor { return []ood.Tensor{f.none} }

func (f *folderSource) open() (reader, error) { return filled{f, f.none}, nil }

func (f *folderSource) Close() error { return nil }

func anySize(h, w int) error { return nil }

// decode hands image i to use, unless fits refuses its size.
func (f *folderSource) decode(ctx context.Context, i int, fits func(h, w int) error, use func(*preprocess.Pixels) error) error {
	file, err := regular.Open(f.path(i))
	if err != nil {
		return err
	}
	defer file.Close()
	if err := f.decodeFile(ctx, file, fits, use); err != nil {
		return fmt.Errorf("%s: %w", f.path(i), err)
	}
	return nil
}

func (f *folderSource) pixels(ctx context.Context, rows []int, use func(k int, m *preprocess.Pixels)) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for k, i := range rows {
		g.Go(func() error {
			return f.decode(ctx, i, anySize, func(m *preprocess.Pixels) error {
				use(k, m)
				return nil
			})
		})
	}
	return g.Wait()
}

// decodeFile waits until there is room for the image's pixels.
func (f *folderSource) decodeFile(ctx context.Context, file *os.File, fits func(h, w int) error, use func(*preprocess.Pixels) error) error {
	h, w, err := preprocess.Size(file)
	if err == nil {
		err = fits(h, w)
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	held := int64(h) * int64(w)
	if err := f.room.Acquire(ctx, held); err != nil {
		return err
	}
	defer func() {
		if held > preprocess.MaxPixels/4 {
			// Else the next image is decoded beside what is left of this one.
			runtime.GC()
		}
		f.room.Release(held)
	}()
	m, err := preprocess.Decode(file)
	if err != nil {
		return err
	}
	return use(m)
}

// firstShape is the shape of the first image's row, which all others share.
func (f *folderSource) firstShape() ([]int, error) {
	h, w, err := sizeOf(f.path(0))
	if err != nil {
		return nil, err
	}
	shape, err := f.pipe.Shape(h, w, 3)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path(0), err)
	}
	return shape, nil
}

func (f *folderSource) fill(ctx context.Context, idx []int, dst []float32) error {
	width := product(f.none.Shape[1:])
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for k, i := range idx {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return f.readOne(ctx, i, dst[k*width:(k+1)*width])
		})
	}
	return g.Wait()
}

func (f *folderSource) readOne(ctx context.Context, i int, dst []float32) error {
	fits := func(h, w int) error {
		shape, err := f.pipe.Shape(h, w, 3)
		if first := f.none.Shape[1:]; err == nil && !slices.Equal(shape, first) {
			err = fmt.Errorf("the image is of %d×%d pixels, and %s after preprocessing, where those before it are %s; set crop_size, or size with height and width, so that all are alike",
				h, w, imagesize.Times(shape), imagesize.Times(first))
		}
		return err
	}
	return f.decode(ctx, i, fits, func(m *preprocess.Pixels) error {
		_, _, err := f.pipe.Append(dst[:0:len(dst)], m)
		return err
	})
}

// dropBad decodes every file and keeps those that can be.
func (f *folderSource) dropBad(ctx context.Context) error {
	good := make([]bool, len(f.files))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range f.files {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := f.decode(ctx, i, anySize, func(*preprocess.Pixels) error { return nil })
			good[i] = err == nil
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	kept := make([]string, 0, len(f.files))
	for i, ok := range good {
		if ok {
			kept = append(kept, f.files[i])
		}
	}
	f.files = kept
	return nil
}
