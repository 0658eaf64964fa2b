package inputs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/preprocess"
)

// Options configures how inputs are read. The zero value reads arrays of numbers.
type Options struct {
	// Preprocess turns images into what the model was trained on. Images and
	// uint8 arrays need it; other arrays must do without.
	Preprocess *preprocess.Pipeline
	// Layout is the model's order of axes, that of Preprocess where empty. It
	// matters for images and uint8 arrays only; other arrays are passed on as
	// they are.
	Layout string
	// Labels takes the first-level sub-folder of each image as its class.
	// Classes are numbered in the sorted order of the folders' names, or as in
	// Classes where it has them all.
	Labels bool
	// Classes names the model's classes, of folders and of targets in a table.
	Classes []string
	// Columns names the columns of a table that are inputs, in the order that the
	// model takes them; others are left alone. Without it, or without a header,
	// every column is one that is not named otherwise, but for those without a
	// name or a number where there are more than the model takes.
	Columns []string
	// Takes are the inputs of the model; nil is unknown, and any one.
	Takes []Takes
	// HasText says that the model has a tokenizer: its tokens may come as texts.
	HasText bool
	// Text names the columns that texts are taken from, two for pairs. Without it
	// that is text or sentence, or the only one that holds texts.
	Text []string
	// Ignore names columns of a table that are not read at all.
	Ignore []string
	// Targets names the columns of a table that are targets: names of its header, or
	// "last" alone; or the members or keys of an archive's samples.
	Targets []string
	// TargetOptional allows a table to have no targets.
	TargetOptional bool
	// NoTargets says that targets are not wanted. Columns that Targets names are no inputs
	// all the same.
	NoTargets  bool
	allTargets bool // each column of a table is a target
	// Groups names the column of a table, of any text, the member or key of an
	// archive's samples, or the array of an .npz file, of whole numbers, that says which
	// group each row is of. It is no input, unless Columns says so.
	Groups string
	// ID names the column of a table, of any text, that tells rows apart. It is no input,
	// unless Columns says so.
	ID string
	// Outputs is how many targets a row may have at most; 0 is any number. Those
	// of an archive are refused before they are read.
	Outputs int
	// SkipOdd passes over y and labels of an .npz archive that are none of its
	// rows' targets and labels, and over optional targets of a table that lacks
	// one, or has a text in one of them.
	SkipOdd bool
	// SkipBad leaves out rows whose image cannot be read, and samples without an input or
	// with an array that cannot be read,
	// which Set.Skipped counts, and shards of a WebDataset that cannot be read, which
	// Set.Notes name. Every image and such array is read once when it is opened.
	SkipBad bool
}

// InputScale is how far the model's input moves with a pixel.
func (o Options) InputScale() (s ood.InputScale) {
	if o.Preprocess == nil {
		return s
	}
	s.Factor = o.Preprocess.Slopes()
	if o.Layout == "nhwc" {
		s.Axis = 2
	}
	return s
}

// ErrPreprocess is wrapped by the error for images that are opened without
// Options.Preprocess.
var ErrPreprocess = errors.New("images need a preprocessing file that says how the model wants them sized and scaled")

// ErrNoPixels is wrapped by the error for inputs that are not images and are opened with
// Options.Preprocess.
var ErrNoPixels = errors.New("name images, or save their pixels as uint8")

// Broken reports whether an error concerns the content or the permissions of one file, so
// that the other files can still be read.
func Broken(err error) bool {
	system, isSystem := errors.AsType[syscall.Errno](err)
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.Is(err, ErrPreprocess), errors.Is(err, ErrNoPixels): // an option is wrong, or missing
		return false
	case isSystem:
		return errors.Is(err, fs.ErrPermission) || system == syscall.EIO
	}
	return true
}

// InFile adds the path to an error that does not name its file already. It returns nil
// for a nil error.
func InFile(path string, err error) error {
	if err == nil || strings.Contains(err.Error(), path) {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// Open opens the inputs at path: an .npy array, an .npz archive (arrays named as
// the model's inputs, or x or images; y or labels), a folder of images or one
// image, a WebDataset (.tar, or a list of them in braces), or a table of numbers
// (.csv, .tsv, .txt, .jsonl, .parquet). Rows are read later, by Set.Blocks. Errors
// name the file.
func Open(ctx context.Context, path string, o Options) (*Set, error) {
	switch o.Layout {
	case "", "nchw", "nhwc":
	default:
		return nil, fmt.Errorf("layout %q is not known; use nchw or nhwc", o.Layout)
	}
	if _, err := os.Stat(path); err != nil && !IsArchive(path) { // which may be a list in braces
		return nil, err
	}
	ext := strings.ToLower(filepath.Ext(path))
	switch {
	case IsTable(path):
	case o.Ignore != nil:
		return nil, fmt.Errorf("%s: only a table has columns to leave out", path)
	case o.Targets != nil && !o.TargetOptional && !IsArchive(path):
		return nil, fmt.Errorf("%s: only a table has a target column; it cannot be %.100q here", path, strings.Join(o.Targets, ","))
	}
	if o.Groups != "" && !IsTable(path) && !IsArchive(path) && ext != ".npz" {
		return nil, fmt.Errorf("%s: only a table, a WebDataset or an .npz file holds groups; they cannot be %.100q here", path, o.Groups)
	}
	var s *Set
	var err error
	switch {
	case IsArchive(path):
		s, err = openArchive(ctx, path, o)
	case isFolder(path):
		s, err = openFolder(ctx, path, o)
	case ext == ".npy":
		s, err = openNPY(path, o)
	case ext == ".npz":
		s, err = openNPZ(path, o)
	case IsTable(path):
		s, err = openTable(ctx, path, o)
	case isImage(path):
		s, err = newFolderSet(ctx, filepath.Dir(path), []string{filepath.Base(path)}, o)
	case strings.HasSuffix(strings.ToLower(path), ".tar.gz"), ext == ".tgz":
		return nil, fmt.Errorf("%s: the archive is compressed; unpack it to a .tar, whose samples are read where they lie", path)
	default:
		return nil, fmt.Errorf("%s: inputs are an .npy or .npz file, a folder of images, an image, a WebDataset (.tar), or a table (.csv, .tsv, .txt, .jsonl, .parquet)", path)
	}
	if err != nil {
		return nil, err
	}
	if o.Labels && s.Labels == nil {
		return nil, fmt.Errorf("%s: labels are taken from the folders that images, or members of an archive, lie in, and here there are none", path)
	}
	if s.Len() == 0 {
		return nil, fmt.Errorf("%s: %w", path, ErrEmpty)
	}
	s.takes, s.layout, s.opened = o.Takes, o.Layout, s.Len()
	return s, nil
}
