package inputs

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/regular"
)

// imageKinds are the file name extensions of images.
var imageKinds = []string{".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp"}

func isImage(path string) bool {
	return slices.Contains(imageKinds, strings.ToLower(filepath.Ext(path)))
}

// folder is images in files.
type folder struct {
	root  string
	files []string // relative to root, with slashes, sorted
}

func openFolder(ctx context.Context, root string, o Options) (*Set, error) {
	files, err := Images(ctx, root)
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
	src, err := newImageSource(ctx, root, &folder{root, files}, only(o.Takes).Name, o)
	if err != nil {
		return nil, err
	}
	s := (&Set{src: src}).withoutBad()
	if o.Labels {
		err = s.labelFolders(src, src.file, o.Classes)
	}
	return s, err
}

// Images returns the images below root, sorted by their path. Hidden files and
// folders are passed over.
func Images(ctx context.Context, root string) (files []string, err error) {
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

// labelFolders takes the first folder of each row's file as its class, numbered as
// names are where these have them all.
func (s *Set) labelFolders(src *imageSource, file func(i int) string, names []string) error {
	var of []string
	for i := range s.Len() {
		class, _, ok := strings.Cut(file(s.Row(i)), "/")
		if !ok {
			return fmt.Errorf("%s: the image has no label; where sub-folders are labels, each image lies in one", src.path(s.Row(i)))
		}
		of = append(of, class)
	}
	s.ClassNames = slices.Compact(slices.Sorted(slices.Values(of)))
	if !slices.ContainsFunc(s.ClassNames, func(class string) bool { return !slices.Contains(names, class) }) {
		s.ClassNames = names
	}
	for _, class := range of {
		s.Labels = append(s.Labels, slices.Index(s.ClassNames, class))
	}
	return nil
}

func (f *folder) rows() int { return len(f.files) }

func (f *folder) file(i int) string { return f.files[i] }

func (f *folder) path(i int) string {
	if filepath.IsAbs(f.files[i]) { // in a table
		return f.files[i]
	}
	return filepath.Join(f.root, filepath.FromSlash(f.files[i]))
}

func (f *folder) open() (album, error) { return f, nil }

func (f *folder) Close() error { return nil }

func (f *folder) picture(i int) (opener, error) {
	return func() (io.ReadSeekCloser, error) { return regular.Open(f.path(i)) }, nil
}
