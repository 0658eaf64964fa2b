// Package engine runs audits: it finds the files and folders, has their rows scored part by
// part, here or on other machines, goes on after an interruption, merges audits, and writes
// the folder of a result. What is said of scores is the work of package audit. Errors name
// options as Options.Inputs.
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

// Options are what an audit is asked for, as plain data: other machines get them as JSON.
type Options struct {
	// Identity says which rates are asked for, of which rows; Open adds the rest.
	Identity audit.Identity
	// Options name the bundle and say how rows are read; paths may be URLs.
	modelrows.Options
	// Run says how the network is run.
	Run featurize.Options
	// Inputs and Fitted are files, folders, patterns and lists, or URLs.
	Inputs, Fitted []string
	// Dir is the folder of the result.
	Dir string
	// Verbose asks for what is done, step by step, and Hints are the names of flags that
	// people can be told to use.
	Verbose bool
	Hints   []string

	urls map[string]string // of files that were brought here, by their paths
}

// Storage is where files lie that URLs name.
type Storage interface {
	// Shards are the files and folders that a URL stands for.
	Shards(ctx context.Context, url string) ([]string, error)
	// Fetch brings the file or folder of a URL to this machine, under its own name,
	// until release is called or the process ends.
	Fetch(ctx context.Context, url string) (path string, release func(), err error)
	// Stamps are those of the files and folders of URLs, which name no patterns.
	Stamps(ctx context.Context, urls []string) ([]Stamp, error)
}

func isURL(name string) bool { return strings.Contains(name, "://") }

// bring are the options with the paths of what they name by URLs, which is brought to this
// machine. Inputs stay where they are. Storage is nil if nothing is named so.
func (o Options) bring(ctx context.Context, storage Storage) (Options, error) {
	o.urls = map[string]string{}
	for _, name := range o.files() {
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

// files are what bring brings.
func (o *Options) files() []*string {
	return []*string{&o.Bundle, &o.Model, &o.Weights, &o.Preprocess, &o.ClassNames}
}

// asked are the options before bring.
func (o Options) asked() Options {
	for _, name := range o.files() {
		*name = cmp.Or(o.urls[*name], *name)
	}
	return o
}

// named has an error name URLs in place of what was brought here.
func (o *Options) named(err error) error {
	if err == nil {
		return nil
	}
	if url := o.urls[o.Bundle]; url != "" && o.Model == "" && errors.Is(err, attach.ErrNoModel) {
		return modelrows.Usagef("%s: the network that it was fitted for is not on this machine; name the network's URL with Options.Model", url)
	}
	for path, url := range o.urls {
		err = fetchedError{err, path, url}
	}
	return err
}

// fetchedError is of a file that was brought here, and names its URL.
type fetchedError struct {
	error
	path, url string
}

func (e fetchedError) Error() string { return strings.ReplaceAll(e.error.Error(), e.path, e.url) }

func (e fetchedError) Unwrap() error { return e.error }
