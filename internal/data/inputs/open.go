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
	// Preprocess prepares images for the model. Images need it, and so do uint8 arrays
	// n×height×width(×channels). It must be nil if no input consists of images.
	Preprocess *preprocess.Pipeline
	// Layout is the model's order of axes, by default that of Preprocess. It applies only
	// to images and uint8 arrays.
	Layout string
	// Labels makes the first-level sub-folder of each image its class. Classes are numbered
	// in the sorted order of folder names, or as in Classes if it includes all folder
	// names.
	Labels bool
	// Classes lists the names of the model's classes, for folders and for targets in a
	// table.
	Classes []string
	// Columns names the table columns that are inputs, in the order of the model, and all
	// other columns are ignored. If Columns is nil or the table has no header, all columns
	// that no other option names are inputs. If these are too many, columns without a name
	// or without numbers are left out.
	Columns []string
	// Takes describes the inputs of the model; nil means unknown.
	Takes []Takes
	// HasText reports whether the model has a tokenizer, so that rows can be texts.
	HasText bool
	// Text names the text column, or the two columns of pairs. If Text is nil, the column
	// text or sentence is used, or the only column of texts.
	Text []string
	// Ignore names table columns that are not read.
	Ignore []string
	// Targets names the table columns that are targets: names in the header, or only
	// "last". For archives, it names members or keys of samples.
	Targets []string
	// TargetOptional allows a table or a WebDataset to have no targets.
	TargetOptional bool
	// NoTargets reports whether targets are not needed. Even then, the columns in Targets
	// are not inputs.
	NoTargets  bool
	allTargets bool // whether every table column is a target
	// Groups names the groups of rows: a table column of any text, a member or key of an
	// archive's samples, or an array of integers in an .npz file. A group column is an
	// input only if Columns or Text includes it, if it has the name of an input, or if the
	// model would otherwise lack exactly one column of numbers.
	Groups    string
	groupsAre string // what errors call the column Groups; empty means groups
	// ID names the table column that identifies rows, which may contain any text. It is an
	// input only if Columns or Text includes it, or if it has the name of an input.
	ID string
	// Outputs is the largest number of targets in a row, or 0 for no limit. An archive with
	// more targets is an error, which is found before they are read.
	Outputs int
	// SkipOdd ignores y and labels of an .npz archive if they cannot be targets and labels
	// of its rows. It also ignores optional targets of a table or a WebDataset if one is
	// missing or is text.
	SkipOdd bool
	// SkipBad leaves out rows whose image cannot be read, and samples whose input is
	// missing or is an array that cannot be read. Set.Skipped counts them. Shards of a
	// WebDataset that cannot be read are left out too, and Set.Notes lists them. To find
	// such rows, every image and array is read once when the set is opened.
	SkipBad bool
}

// InputScale returns how far the model's input moves if a pixel, scaled to [0,1], moves by
// 1. It returns the zero value if there is no preprocessing.
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
var ErrPreprocess = errors.New("images need a preprocessing file")

// ErrNoPixels is wrapped by the error for inputs that are not images and are opened with
// Options.Preprocess.
var ErrNoPixels = errors.New("name images, or save their pixels as uint8")

// Broken reports whether an error is caused by the content or the permissions of one file,
// so that other files can still be read.
func Broken(err error) bool {
	system, isSystem := errors.AsType[syscall.Errno](err)
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.Is(err, ErrPreprocess), errors.Is(err, ErrNoPixels): // an option is wrong or missing
		return false
	case isSystem:
		return errors.Is(err, fs.ErrPermission) || system == syscall.EIO
	}
	return true
}

// InFile adds the path to an error that does not yet name its file. It returns nil for a nil
// error.
func InFile(path string, err error) error {
	if err == nil || strings.Contains(err.Error(), path) {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// Open opens the inputs at path, which can be
//
//   - an .npy array
//   - an .npz archive, with arrays named after the model's inputs, or x or
//     images, and optionally y or labels
//   - a folder of images, or one image
//   - a WebDataset: a .tar file, or several .tar files listed in braces
//   - a table: .csv, .tsv, .txt, .data, .dat, .jsonl, .ndjson or .parquet
//
// Set.Blocks reads the rows later. Errors name the file.
func Open(ctx context.Context, path string, o Options) (*Set, error) {
	switch o.Layout {
	case "", "nchw", "nhwc":
	default:
		return nil, fmt.Errorf("unknown layout %q; use nchw or nhwc", o.Layout)
	}
	if _, err := os.Stat(path); err != nil && !IsArchive(path) { // an archive may be a list in braces
		return nil, err
	}
	ext := strings.ToLower(filepath.Ext(path))
	switch {
	case IsTable(path):
	case o.Ignore != nil:
		return nil, fmt.Errorf("%s: only a table has columns to ignore", path)
	case o.Targets != nil && !o.TargetOptional && !IsArchive(path):
		return nil, fmt.Errorf("%s: only a table has a target column; it cannot be %.100q here", path, strings.Join(o.Targets, ","))
	}
	if o.Groups != "" && !IsTable(path) && !IsArchive(path) && ext != ".npz" {
		return nil, fmt.Errorf("%s: only a table, a WebDataset or an .npz file has groups; they cannot be %.100q here", path, o.Groups)
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
		return nil, fmt.Errorf("%s: labels come from the folders of images or of archive members, but there are no folders here", path)
	}
	if s.Len() == 0 {
		return nil, fmt.Errorf("%s: %w", path, ErrEmpty)
	}
	s.takes, s.layout, s.opened = o.Takes, o.Layout, s.Len()
	return s, nil
}
