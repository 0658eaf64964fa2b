// Package engine runs audits. It finds files and folders, scores their rows part by part here
// or on other machines, resumes after an interruption, merges audits, and writes the result
// folder. Package audit computes the results. Errors name options by their Go names, such as
// Options.Inputs; callers turn these into flags.
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

// Options are the options of an audit. They are plain data, which other machines receive as
// JSON.
type Options struct {
	// Identity holds the rates and the selection of rows. Open completes it.
	Identity audit.Identity
	// Options name the .attach file, and how rows are read. Paths may be URLs.
	modelrows.Options
	// Run holds the options that the model is run with.
	Run featurize.Options
	// Inputs and Fitted are files, folders, patterns and lists, or URLs.
	Inputs, Fitted []string
	// Dir is the result folder.
	Dir string
	// Verbose logs each step. Hints are the names of flags that hints may mention.
	Verbose bool
	Hints   []string

	urls map[string]string // of fetched files, by local path
}

// Storage fetches files by URL.
type Storage interface {
	// Shards returns the URLs of the files and folders that a URL or pattern stands for.
	Shards(ctx context.Context, url string) ([]string, error)
	// Fetch copies the file or folder of a URL to this machine under its own name. The copy
	// lives until release is called or the process ends.
	Fetch(ctx context.Context, url string) (path string, release func(), err error)
	// Stamps returns the stamps of files and folders by URL. No URL is a pattern.
	Stamps(ctx context.Context, urls []string) ([]Stamp, error)
}

func isURL(name string) bool { return strings.Contains(name, "://") }

// fetchFiles fetches the files that options name by URL, and returns the options with local
// paths. Inputs are not fetched. Storage is nil if there are no URLs.
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

// filePaths returns the paths that fetchFiles replaces.
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

// nameURLs replaces local paths of fetched files in an error by their URLs.
func (o *Options) nameURLs(err error) error {
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

// fetchedError is an error about a fetched file. It shows the URL.
type fetchedError struct {
	error
	path, url string
}

func (e fetchedError) Error() string { return strings.ReplaceAll(e.error.Error(), e.path, e.url) }

func (e fetchedError) Unwrap() error { return e.error }
