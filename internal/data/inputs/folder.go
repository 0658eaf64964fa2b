package inputs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	slash "path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/regularfile"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/preprocess"
)

// imageExtensions lists the file name extensions of images.
var imageExtensions = []string{".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp"}

func isImage(path string) bool {
	return slices.Contains(imageExtensions, strings.ToLower(filepath.Ext(path)))
}

// folder is a list of image files.
type folder struct {
	root  string
	files []string // relative to root, with slashes, sorted
}

func openFolder(ctx context.Context, root string, o Options) (*Set, error) {
	in, err := Images(ctx, root)
	if err != nil {
		return nil, err
	}
	if len(in.Files) == 0 {
		return nil, fmt.Errorf("%s: %w: the folder has no images (%s)", root, ErrEmpty, strings.Join(imageExtensions, " "))
	}
	s, err := newFolderSet(ctx, root, in.Files, o)
	if err == nil && in.followedLinks != nil {
		s.Notes = append(s.Notes, "its links to folders are followed: "+display.List(in.followedLinks, 10))
	}
	if err == nil && in.skippedLinks != nil {
		s.Notes = append(s.Notes, "links that lead to folders whose images are read already are not followed: "+display.List(in.skippedLinks, 10))
	}
	return s, err
}

func newFolderSet(ctx context.Context, root string, files []string, o Options) (*Set, error) {
	if list := required(o.Takes); len(list) > 1 {
		return nil, fmt.Errorf("%s: these are only images, but the model has %d inputs; pass a table with a column of image paths and columns for the other inputs", root, len(list))
	}
	src, err := newImageSource(ctx, root, &folder{root, files}, onlyInput(o.Takes).Name, o)
	if err != nil {
		return nil, err
	}
	s := (&Set{src: src}).withoutUnreadable()
	if o.Labels {
		err = s.labelFolders(src, src.file, o.Classes)
	}
	return s, err
}

// ImageFiles lists the images below a folder.
type ImageFiles struct {
	Files []string // relative to the folder, with slashes, sorted
	// Linked lists the absolute paths of folders that followed links lead to.
	Linked []string

	seen                        map[string]bool // absolute paths, without links, of the listed folders
	followedLinks, skippedLinks []string        // links to folders that were followed, and links that were not
}

// Images lists the images below root, except hidden files and the content of hidden
// folders. Then it follows links to folders, except to a folder that was listed before or
// that contains the link. Each folder is therefore listed once.
func Images(ctx context.Context, root string) (in ImageFiles, err error) {
	top, err := realPath(root)
	if err != nil {
		return in, err
	}
	in.seen = map[string]bool{}
	links, err := in.list(ctx, top, "")
	for len(links) > 0 && err == nil {
		link := links[0]
		links = links[1:]
		var to, at string
		path := filepath.Join(top, filepath.FromSlash(link))
		if to, err = realPath(path); err != nil {
			return in, err
		}
		if at, err = realPath(filepath.Dir(path)); err != nil {
			return in, err
		}
		if in.seen[to] || within(at, to) {
			in.skippedLinks = append(in.skippedLinks, link)
			continue
		}
		in.Linked, in.followedLinks = append(in.Linked, to), append(in.followedLinks, link)
		var more []string
		more, err = in.list(ctx, to, link)
		links = append(links, more...)
	}
	slices.Sort(in.Files)
	return in, err
}

// list adds the images below dir. name is the path of dir relative to the root. It returns
// the links below dir that lead to folders.
func (in *ImageFiles) list(ctx context.Context, dir, name string) (links []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		rel = slash.Join(name, filepath.ToSlash(rel))
		hidden := path != dir && strings.HasPrefix(d.Name(), ".")
		switch {
		case d.IsDir():
			if hidden || in.seen[path] {
				return fs.SkipDir
			}
			in.seen[path] = true
		case hidden:
		case d.Type() == fs.ModeSymlink && isFolder(path):
			links = append(links, rel)
		case isImage(path) && d.Type()&^fs.ModeSymlink == 0: // reading a pipe could block
			in.Files = append(in.Files, rel)
		}
		return nil
	})
	return links, err
}

// realPath returns the absolute path with all links resolved.
func realPath(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	return filepath.Abs(real)
}

// isFolder reports whether a path leads to a folder.
func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// within reports whether path is folder or lies in it.
func within(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// labelFolders uses the first folder of each row's file as its class. If names includes all
// such folders, classes are numbered as in names.
func (s *Set) labelFolders(src *imageSource, file func(i int) string, names []string) error {
	var classes []string
	for i := range s.Len() {
		class, _, ok := strings.Cut(file(s.Row(i)), "/")
		if !ok {
			return fmt.Errorf("%s: the image has no label; if sub-folders are labels, each image must be in one", src.path(s.Row(i)))
		}
		classes = append(classes, class)
	}
	s.ClassNames = slices.Compact(slices.Sorted(slices.Values(classes)))
	if !slices.ContainsFunc(s.ClassNames, func(class string) bool { return !slices.Contains(names, class) }) {
		s.ClassNames = names
	}
	for _, class := range classes {
		s.Labels = append(s.Labels, slices.Index(s.ClassNames, class))
	}
	return nil
}

func (f *folder) rows() int { return len(f.files) }

func (f *folder) file(i int) string { return f.files[i] }

func (f *folder) path(i int) string {
	if filepath.IsAbs(f.files[i]) { // tables can contain absolute paths
		return f.files[i]
	}
	return filepath.Join(f.root, filepath.FromSlash(f.files[i]))
}

func (f *folder) open() (imageOpener, error) { return f, nil }

func (f *folder) Close() error { return nil }

func (f *folder) picture(i int) (openFunc, error) {
	return func() (io.ReadSeekCloser, error) {
		file, err := regularfile.Open(f.path(i))
		if errors.Is(err, fs.ErrNotExist) {
			if to, dangling := os.Readlink(f.path(i)); dangling == nil {
				return nil, fmt.Errorf("%w: it is a link to a missing file, %s", preprocess.ErrImage, to)
			}
		}
		return file, err
	}, nil
}
