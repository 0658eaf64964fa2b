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
	"github.com/attach-uncertainty/attach/schema"
)

// rowFlags holds the flags that say how rows are read.
type rowFlags modelrows.ReadOptions

// rowReader reads the rows of one command.
type rowReader struct {
	rowFlags
	modelrows.Reader
	stderr io.Writer
}

// rowOptions returns the flags that say how rows are read. The argument all points to all
// flags of the command. noTokenizer is the conflict with a model that has no tokenizer.
func (r *rowFlags) rowOptions(all *table, noTokenizer conflict) table {
	noImages := noEffect("because no input is an image file", func() bool { return !slices.ContainsFunc(all.files(rowFile), mayHoldImages) })
	return table{
		{name: "target", dest: columnNames("target", &r.Target), usage: "COLUMNS: column of a table that holds the target or label, or several; last is the last column"},
		{name: "text", dest: columnNames("text", &r.Text), usage: "COLUMNS: column that a model with a tokenizer reads, or two that it reads as a pair (default: text, sentence, or the only column of text)",
			conflicts: []conflict{noTokenizer}},
		{name: "ignore", dest: columnNames("ignore", &r.Ignore), usage: "COLUMNS: columns of a table that are neither inputs nor the target, such as an identifier"},
		{name: "keep-classes", dest: &r.KeepClasses, usage: "A,B,…: keep only rows with these labels, for a model trained on some of the classes; its output i is the i-th of them"},
		{name: "folder-labels", dest: &r.FolderLabels, usage: "use the sub-folder of each image as its label; folders are numbered in sorted order", conflicts: []conflict{noImages}},
		{name: "preprocess", dest: &r.Preprocess, file: otherFile, usage: "FILE: how images are resized and scaled, in the format of Hugging Face's preprocessor_config.json"},
		{name: "skip-bad", dest: &r.SkipBad, usage: "leave out images and shards that cannot be read, and report them, instead of stopping", conflicts: []conflict{noImages}},
	}.inGroup(groupColumns)
}

// sliceOption returns a flag that selects rows from the inputs that another flag names.
func sliceOption(name, flagName string, dest *inputs.Slice, conflicts ...conflict) *option {
	return &option{name: name, group: groupData, conflicts: conflicts, usage: "START:END: use only these rows of " + flagName + ", counted from 0 as in Python: 0:4000, :100 or -500:",
		dest: func(text string) error {
			s, err := inputs.ParseSlice(text)
			if err != nil {
				return fmt.Errorf("--%s is %q; it must be START:END, two whole numbers either of which may be left out", name, text)
			}
			*dest = s
			return nil
		}}
}

// columnNames returns a function that parses names of columns with commas between them. A
// name that contains a comma needs quotation marks.
func columnNames(option string, dest *[]string) func(string) error {
	return func(list string) error {
		names, err := csv.NewReader(strings.NewReader(list)).Read()
		if err != nil {
			return fmt.Errorf("--%s is %q; it must be names with commas between, in quotes if they contain one: %w", option, list, err)
		}
		*dest = names
		return nil
	}
}

// mayHoldImages reports whether inputs may contain image files.
func mayHoldImages(s usedFile) bool {
	ext := strings.ToLower(filepath.Ext(s.path))
	return ext != ".npy" && ext != ".npz" && (ext == ".parquet" || !inputs.IsTable(s.path))
}

// groupsOption returns --groups, whose help text ends with the words in ending.
func (r *rowFlags) groupsOption(ending string, conflicts ...conflict) table {
	return table{{name: "groups", dest: &r.Groups, group: groupColumns, conflicts: conflicts,
		usage: "NAME: column of a table, or array of an .npz file, that names each row's group" + ending}}
}

// targetConflict returns the conflict between --target and a flag that names a file of
// targets.
func (r *rowFlags) targetConflict() conflict {
	return noEffect("with --target, which names the targets too", func() bool { return r.Target != nil })
}

// folderLabelsConflict returns the conflict of --folder-labels with a missing
// --keep-classes. It applies if unlabelled reports that the command uses labels for nothing
// else.
func (r *rowFlags) folderLabelsConflict(unlabelled func() bool) conflict {
	return noEffect("here without --keep-classes, which selects rows by their labels", func() bool { return len(r.KeepClasses) == 0 && unlabelled() })
}

// noTokenizer returns the conflict with a model that has no tokenizer.
func (r *rowReader) noTokenizer() conflict {
	return noEffect("for a model without a tokenizer", func() bool { return r.Model != nil && !r.Inputs.HasText })
}

// readOptionFiles is a step of the command: it reads the files of --class-names and --preprocess.
func (r *rowReader) readOptionFiles(c *cli.Context) error {
	r.stderr = c.App.ErrWriter
	return r.Begin(modelrows.ReadOptions(r.rowFlags), notePrinter(r.stderr))
}

// runModel runs the model on the set. If learner is not nil, it learns the profile of the
// rows. The batch holds the features and logits, and also the
// labels, the inputs and the model.
func (r *rowReader) runModel(ctx context.Context, what string, set *inputs.Set, learner *schema.Learner) (ood.Batch, error) {
	p := newProgress(r.stderr, what)
	defer p.end()
	blocks := set.Blocks(ctx, set.BlockRows())
	if learner != nil {
		blocks = learner.Observe(blocks)
	}
	b, err := r.Model.All(ctx, blocks, set.Len(), func(done int) { p.set(done, set.Len()) })
	if err != nil {
		return ood.Batch{}, inputs.InFile(what, err)
	}
	r.NoteTruncated(what)
	b.Labels, b.Inputs, b.Network = set.Labels, set, r.Model.Network()
	return b, nil
}

// newLearner returns a learner of the profile of a set.
func (r *rowReader) newLearner(set *inputs.Set) *schema.Learner {
	o := schema.LearnOptions{Columns: set.Columns, Layout: r.Inputs.Layout}
	if r.Inputs.HasText {
		o.Texts = append([]string{}, set.Texts...)
	}
	return schema.NewLearner(o)
}
