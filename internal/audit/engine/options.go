// Package engine runs audits. It finds files and folders, and scores their rows part by
// part on this machine or on others. It can resume after an interruption, merges audits,
// and writes the result folder. Package audit computes the results. Errors name options by
// their Go names, such as Options.Inputs, and callers replace these names by flags.
package engine

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/modelrows"
)

// Options holds the options of an audit. It is plain data, so that other machines can
// receive it as JSON.
type Options struct {
	// Identity holds the error rates and the selection of rows. Open fills in the other
	// fields in a copy.
	Identity audit.Identity
	// The embedded Options name the .attach file, and how rows are read. Paths may be URLs.
	modelrows.Options
	// Run holds the options for running the model.
	Run featurize.Options
	// Inputs names the rows to audit, and Fitted the rows of the fit. Each name is a file,
	// folder, pattern, list of files or URL.
	Inputs, Fitted []string
	// Dir is the result folder. FileRows is the largest number of rows of a file of scores. See
	// audit.Output.
	Dir      string
	FileRows int
	// Explain attributes the highest scores to the inputs of the rows.
	Explain bool
	// Verbose logs each step. Hints are the names of flags that error hints may mention.
	Verbose bool
	Hints   []string

	urls map[string]string // URLs of fetched files by local path
}

// Storage fetches files by URL.
type Storage interface {
	// Shards returns the URLs of the files and folders that match a URL or pattern.
	Shards(ctx context.Context, url string) ([]string, error)
	// Fetch copies the file or folder of a URL to this machine and keeps its name. The copy
	// exists until release is called or the process ends.
	Fetch(ctx context.Context, url string) (path string, release func(), err error)
	// Stamps returns the stamps of files and folders. Each URL names one file or folder.
	Stamps(ctx context.Context, urls []string) ([]Stamp, error)
}

func isURL(name string) bool { return strings.Contains(name, "://") }

// fetchFiles fetches the files that options name by URL, except Inputs and Fitted. It
// returns the options with local paths. Storage is nil if there are no URLs.
func (o Options) fetchFiles(ctx context.Context, storage Storage) (Options, error) {
	o.urls = map[string]string{}
	for _, name := range o.filePaths() {
		if storage == nil || !isURL(*name) {
			continue
		}
		path, _, err := storage.Fetch(ctx, *name)
		if err != nil {
			return o, err
		}
		*name, o.urls[path] = path, *name
	}
	return o, nil
}

// filePaths returns pointers to the paths that fetchFiles replaces.
func (o *Options) filePaths() []*string {
	return []*string{&o.Bundle, &o.Model, &o.Weights, &o.Preprocess, &o.ClassNames}
}

// withURLs returns the options as they were before fetchFiles.
func (o Options) withURLs() Options {
	for _, name := range o.filePaths() {
		*name = cmp.Or(o.urls[*name], *name)
	}
	return o
}

// showURLs replaces the local paths of fetched files in an error by the URLs of these
// files. If the model of a fetched .attach file is missing, the new error asks for the URL
// of the model.
func (o *Options) showURLs(err error) error {
	if err == nil {
		return nil
	}
	if url := o.urls[o.Bundle]; url != "" && o.Model == "" && errors.Is(err, attach.ErrNoModel) {
		return modelrows.Usagef("%s: the model that it was fitted for is not on this machine; name the URL of the model with Options.Model", url)
	}
	for path, url := range o.urls {
		err = fetchedError{err, path, url}
	}
	return err
}

// fetchedError is an error about a fetched file. It shows the URL instead of the local
// path.
type fetchedError struct {
	error
	path, url string
}

func (e fetchedError) Error() string { return strings.ReplaceAll(e.error.Error(), e.path, e.url) }

func (e fetchedError) Unwrap() error { return e.error }
