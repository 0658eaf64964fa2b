package command

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/modelrows"
	"github.com/attach-uncertainty/attach/ood"
)

// rowFlags are what flags say of how rows are read.
type rowFlags modelrows.How

// reading is what reads the rows of one command, once it began.
type reading struct {
	rowFlags
	modelrows.Reader
	stderr io.Writer
}

// rowOptions say how inputs are read; all are those of the command, and textless is when
// the model reads no texts.
func (r *rowFlags) rowOptions(all *table, textless never) table {
	noImages := idle("where no inputs are images in files", func() bool { return !slices.ContainsFunc(all.files(rowFile), mayBeImages) })
	return table{
		{name: "preprocess", to: &r.Preprocess, file: otherFile, usage: "FILE: how images are prepared, in the keys of Hugging Face's preprocessor_config.json"},
		{name: "target", to: nameList("target", &r.Target), usage: "A,B,…: the column of a table that is the target, or several, by names in the header, or last"},
		{name: "text", to: nameList("text", &r.Text), usage: "A[,B]: the column of a table that a model with a tokenizer reads, or two that it reads as a pair (default: text, sentence or the only one of text)",
			never: []never{textless}},
		{name: "ignore", to: nameList("ignore", &r.Ignore), usage: "A,B,…: columns of a table that are neither inputs nor the target"},
		{name: "keep-classes", to: &r.Classes, usage: "A,B,…: keep the rows with these labels alone; output i of the model is the i-th of them"},
		{name: "folder-labels", to: &r.Labels, usage: "take the sub-folder that an image lies in as its label, numbered in sorted order", never: []never{noImages}},
		{name: "skip-bad", to: &r.SkipBad, usage: "leave out images and shards of a WebDataset that cannot be read, and count or name them", never: []never{noImages}},
	}.under(underRows)
}

// sliceOption takes some rows of what another option names.
func sliceOption(name, of string, to *inputs.Slice, unused ...never) *option {
	return &option{name: name, never: unused, usage: "START:END: of " + of + " take these rows alone, counted as Python does: 0:4000, :100 or -500:",
		to: func(text string) error {
			s, err := inputs.ParseSlice(text)
			if err != nil {
				return fmt.Errorf("--%s is %q; it must be START:END, two whole numbers of which either may be left out", name, text)
			}
			*to = s
			return nil
		}}
}

// nameList reads names of columns with commas between; one with a comma stands in
// quotes.
func nameList(option string, to *[]string) func(string) error {
	return func(list string) error {
		names, err := csv.NewReader(strings.NewReader(list)).Read()
		if err != nil {
			return fmt.Errorf("--%s is %q; it must be names with commas between, in quotes where they hold any: %w", option, list, err)
		}
		*to = names
		return nil
	}
}

// mayBeImages says whether inputs may be images in files.
func mayBeImages(s source) bool {
	ext := strings.ToLower(filepath.Ext(s.path))
	return ext != ".npy" && ext != ".npz" && (ext == ".parquet" || !inputs.IsTable(s.path))
}

// groupsOption says which group rows are of.
func (r *rowFlags) groupsOption(what string, unused ...never) table {
	return table{{name: "groups", to: &r.Groups, never: unused,
		usage: "NAME: the column of a table, of any text, or the array of an .npz file, of whole numbers, that says each row's group" + what}}
}

// targeted is when --target names the targets that a file is to hold.
func (r *rowFlags) targeted() never {
	return idle("with --target, which names the targets too", func() bool { return r.Target != nil })
}

// pickless is when --folder-labels serve nothing but --keep-classes, and there are none.
func (r *rowFlags) pickless(unlabelled func() bool) never {
	return idle("here without --keep-classes, which picks rows by them", func() bool { return len(r.Classes) == 0 && unlabelled() })
}

// textless is when the model that is open has no tokenizer.
func (r *reading) textless() never {
	return idle("for a model without a tokenizer", func() bool { return r.Model != nil && !r.Inputs.HasText })
}

// begin is a step that reads the files that say how rows are read.
func (r *reading) begin(c *cli.Context) error {
	r.stderr = c.App.ErrWriter
	return r.Begin(modelrows.How(r.rowFlags), noting(r.stderr))
}

// features runs the model on the set and returns features, logits, labels and
// the inputs themselves beside the model.
func (r *reading) features(ctx context.Context, what string, set *inputs.Set) (ood.Batch, error) {
	p := newProgress(r.stderr, what)
	defer p.end()
	b, err := r.Model.All(ctx, set.Blocks(ctx, set.BlockRows()), set.Len(), func(done int) { p.set(done, set.Len()) })
	if err != nil {
		return ood.Batch{}, inputs.InFile(what, err)
	}
	r.NoteTruncated(what)
	b.Labels, b.Inputs, b.Network = set.Labels, set, r.Model.Network()
	return b, nil
}
