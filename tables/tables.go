// Package tables reads the rows of tables for a .attach file. It finds columns by name, as
// attach predict and attach evaluate do. Tables are CSV, TSV and other text (.csv, .tsv,
// .txt, .data, .dat), JSON lines (.jsonl, .ndjson) and Parquet (.parquet). This program
// predicts each row of a file:
//
//	t, err := tables.Open(ctx, "rows.csv", bundle, tables.Options{Network: net})
//	…
//	for prediction, err := range predictor.Stream(ctx, t.Rows(ctx)) {
//
// Here net is the model that [featurize.OpenFor] opens. If net is nil, the table contains
// numbers that the model computed elsewhere. The program then needs neither cgo nor a
// shared library.
//
// [featurize.OpenFor]: https://pkg.go.dev/github.com/attach-uncertainty/attach/featurize#OpenFor
package tables

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/preprocess"
	"github.com/attach-uncertainty/attach/schema"
)

// Network is the model that a .attach file was fitted on: a *featurize.Attached.
type Network interface {
	// Base describes the inputs of the model and the numbers of its classes.
	Base(attach.Task) attach.Base
	// Rows runs the model on blocks of its inputs.
	Rows(context.Context, iter.Seq2[ood.InputBlock, error]) iter.Seq2[attach.Rows, error]
}

// Options describes the columns of a table. The zero value reads features, and also logits
// and layers if the .attach file needs them.
type Options struct {
	// Network is the model that runs on the columns. If it is nil, the columns contain the
	// model's results. They are either columns of lists named features, logits, layer_0,
	// layer_1 and so on, or columns of single numbers: first those of the features, then of
	// the logits, then of the layers. Features may be the columns that Base.Columns names.
	Network Network
	// Targets names the columns with labels or targets, such as those in Base.Targets, or is
	// "last" for the last column. Rows then have Labels or Targets, which evaluate.Rows
	// needs. Rows whose target is empty or NaN are left out. Labels can be names of classes.
	Targets []string
	// Groups names the column with the group of each row. It is required if intervals are
	// calibrated by group. If they are not, evaluate.Rows still reports by group, but
	// Predict returns an error for rows with groups.
	Groups string
	// ID names a column of texts that identify rows (see [Table.ID]).
	ID string
	// Text names the text column, or two columns for pairs, for a model with a tokenizer.
	// It is needed if the names differ from those in the table of the fit.
	Text []string
	// Ignore names columns that are not inputs. It is not needed if the .attach file was
	// fitted on a table with a header, because unknown columns are then ignored.
	Ignore []string
	// Schema, if not nil, observes the inputs while [Table.Rows] reads them. Make it with
	// attach.Bundle.Profile.
	Schema *schema.Checker
}

// Table gives access to the rows of a file. It keeps no file open, and is safe for
// concurrent use. In memory it keeps a few bytes for each row, and the identifiers, groups,
// labels and targets that Options requests.
type Table struct {
	// Notes contains remarks on how columns were read. Each remark is a sentence without a
	// full stop.
	Notes []string

	path          string
	set           *inputs.Set
	network       Network        // nil for a table of features
	featureInputs []attach.Input // inputs of a table of features
	beside        inputs.Beside
	schema        *schema.Checker
}

// Open opens the table at path for a .attach file. It reads the whole file once, so a cell
// that is not a number where the model needs one is reported before any row is predicted.
// Errors name the file, the line and the column. A category that the model does not know is
// only reported later, when the model runs on the block that contains it. The error for a
// table without rows wraps [ErrEmpty].
//
// Columns are found by their names, in any order, and other columns are allowed. A file
// without a header must have the columns in the order of the fit. The first line of a text
// file is a header if it names all columns of the fit, or a column in o. Another first line
// is a header if it contains a name and no number. If the model reads texts, such a header
// must also consist of single words above texts of several words.
func Open(ctx context.Context, path string, b *attach.Bundle, o Options) (*Table, error) {
	if !inputs.IsTable(path) {
		return nil, fmt.Errorf("%s: a table is a .csv, .tsv, .txt, .jsonl or .parquet file", path)
	}
	if b.Calibration.Groups != nil && o.Groups == "" {
		return nil, errors.New("the intervals were calibrated by group; name the column with the groups in Options.Groups")
	}
	t := &Table{path: path, network: o.Network, schema: o.Schema, featureInputs: featureInputs(b.Base)}
	options, err := t.options(b, o)
	if err != nil {
		return nil, err
	}
	if t.set, err = inputs.Open(ctx, path, options); err == nil {
		err = t.check(ctx, b, o)
	}
	if err != nil {
		return nil, inputs.InFile(path, err)
	}
	return t, nil
}

// options returns the options for inputs.Open.
func (t *Table) options(b *attach.Bundle, o Options) (inputs.Options, error) {
	options := inputs.Options{
		Columns: b.Base.Columns, Classes: b.Base.Classes, Outputs: b.Base.Outputs,
		Targets: o.Targets, NoTargets: o.Targets == nil, Groups: o.Groups, ID: o.ID, Text: o.Text,
	}
	options.Expect(b)
	if b.Base.Columns == nil {
		options.Ignore = o.Ignore
	}
	if o.Network == nil {
		options.Takes = inputs.TakesOf(t.featureInputs)
		return options, nil
	}
	options.Takes = inputs.TakesOf(o.Network.Base(b.Base.Task).Inputs)
	options.Layout, options.HasText = b.Layout, b.Text != nil
	if b.Preprocess == nil {
		return options, nil
	}
	p, err := preprocess.Parse(b.Preprocess)
	if err != nil {
		return options, fmt.Errorf("the preprocessing in the .attach file cannot be used: %w", err)
	}
	options.Preprocess = p.In(b.Layout)
	return options, nil
}

// featureInputs returns the inputs of a table of features: the features, logits and layers
// that the methods of a .attach file read, and optional marks of empty cells.
func featureInputs(base attach.Base) (list []attach.Input) {
	add := func(name string, width int, optional bool) {
		list = append(list, attach.Input{Name: name, DType: "float32", Shape: []int{-1, width}, Optional: optional, NaN: name == "features" && base.Standardised})
	}
	add("features", base.Width, false)
	if base.Outputs > 0 {
		add("logits", base.Outputs, base.Task != attach.Classification && !base.Residual)
	}
	for i, l := range base.Layers {
		add(batchparts.Layer(i), l.Width, false)
	}
	return append(list, attach.Input{Name: "gaps", DType: "float32", Optional: true})
}

// check returns an error if the rows do not match the model. If o names targets, it leaves
// out rows without a target. It keeps the labels, targets and groups of the other rows.
func (t *Table) check(ctx context.Context, b *attach.Bundle, o Options) (err error) {
	var base attach.Base
	if t.network != nil {
		base = t.network.Base(b.Base.Task)
		var images []int
		if i := slices.IndexFunc(base.Inputs, func(in attach.Input) bool { return len(in.Shape) == 4 }); i >= 0 {
			images = base.Inputs[i].Shape[1:]
		}
		if err := inputs.Accepts(ctx, t.set, images, t.network.Rows); err != nil {
			return err
		}
	}
	t.Notes = append(t.set.Notes, t.set.CoarseTargets()...)
	if o.Targets != nil {
		all := t.set.Len()
		if t.set, err = t.set.Known(); err != nil {
			return err
		}
		if leftOut := all - t.set.Len(); leftOut > 0 {
			t.Notes = append(t.Notes, inputs.LeftOut(leftOut, all))
		}
		if t.set.Labels != nil && base.ClassNumbers != nil {
			if err = t.set.NumberLabels(base.ClassNumbers); err != nil {
				return err
			}
		}
	}
	t.beside = inputs.Beside{Labels: t.set.Labels, Targets: t.set.Targets, Groups: t.set.Groups}
	return t.beside.Sure(b.Base)
}

// Len returns the number of rows, without rows that were left out because their target is
// empty.
func (t *Table) Len() int { return t.set.Len() }

// ID returns the text of row i in the column Options.ID. Without this option, it returns
// the number of the row in the file, counted from 0.
func (t *Table) ID(i int) string {
	if t.set.IDs != nil {
		return t.set.IDs[i]
	}
	return strconv.Itoa(t.set.Row(i))
}

// Rows yields the rows in order, a few at a time, in the form that the predictor needs.
// Each loop reads the file again. The sequence ends after an error.
func (t *Table) Rows(ctx context.Context) iter.Seq2[attach.Rows, error] {
	blocks := t.set.Blocks(ctx, t.set.BlockRows())
	if t.schema != nil {
		blocks = t.schema.Observe(blocks)
	}
	rows := t.batches(blocks)
	if t.network != nil {
		rows = t.network.Rows(ctx, blocks)
	}
	return func(yield func(attach.Rows, error) bool) {
		for r, err := range t.beside.With(rows) {
			if !yield(r, inputs.InFile(t.path, err)) || err != nil {
				return
			}
		}
	}
}

// batches converts blocks of a table of features into batches.
func (t *Table) batches(blocks iter.Seq2[ood.InputBlock, error]) iter.Seq2[attach.Rows, error] {
	return func(yield func(attach.Rows, error) bool) {
		for block, err := range blocks {
			var r attach.Rows
			for _, input := range t.featureInputs { // the outer loop keeps layers in their order
				for _, x := range block.Tensors {
					if x.Name == input.Name {
						n := x.Shape[0]
						batchparts.Set(&r.Batch, x.Name, blas32.General{Rows: n, Cols: len(x.Data) / n, Stride: len(x.Data) / n, Data: x.Data})
					}
				}
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// ErrEmpty is wrapped by the error for a table without rows.
var ErrEmpty = inputs.ErrEmpty
