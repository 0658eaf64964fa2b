// Package tables reads the rows of tables for a bundle, by the names of their columns: CSV,
// TSV and other text (.csv, .tsv, .txt, .data, .dat), JSON Lines (.jsonl, .ndjson) and
// Parquet (.parquet), as attach predict and attach evaluate read them. A program that
// predicts each row of a file is
//
//	t, err := tables.Open(ctx, "rows.csv", bundle, tables.Options{Network: net})
//	…
//	for prediction, err := range predictor.Stream(ctx, t.Rows(ctx)) {
//
// where net is the model that [featurize.OpenFor] opens. Without it the table holds what
// the model made of inputs elsewhere, and the program needs neither cgo nor a shared
// library.
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
)

// Network is the model that a bundle was fitted on: a *featurize.Attached.
type Network interface {
	// Base says which inputs the model takes, and how it numbers classes.
	Base(attach.Task) attach.Base
	// Rows runs the model on blocks of its inputs.
	Rows(context.Context, iter.Seq2[ood.InputBlock, error]) iter.Seq2[attach.Rows, error]
}

// Options say what a table holds. The zero value reads features, and nothing beside them.
type Options struct {
	// Network runs on the columns that are its inputs. If it is nil, columns are what it
	// made of inputs: lists of numbers named features, logits and layer_0, layer_1 and so
	// on, or numbers in this order. Features may be the columns that Base.Columns names.
	Network Network
	// Targets names the columns to read labels or targets from, such as those in
	// Base.Targets, or "last". Rows then have Labels or Targets, for evaluate.Rows, and a
	// row whose target is empty or NaN is left out. Names of classes are labels too.
	Targets []string
	// Groups names the column that says the group of each row. A bundle whose intervals
	// are calibrated by group needs it. With others, evaluate.Rows reports by group, and
	// Predict refuses groups.
	Groups string
	// ID names a column of any text that tells rows apart: see [Table.ID].
	ID string
	// Text names the column, or the two, that a model with a tokenizer reads, if they have
	// other names than in the table that the bundle was fitted on.
	Text []string
	// Ignore names columns that are not inputs. It is not read for a bundle that was
	// fitted on a table with a header, which leaves alone what it does not know.
	Ignore []string
}

// Table is the rows of a file. It holds no file open, and is safe for concurrent use. In
// memory it keeps a few bytes for each row, and the identifiers, groups, labels and
// targets that Options ask for.
type Table struct {
	// Notes say what is worth knowing of how columns were taken, or are empty. Each is a
	// sentence without a full stop.
	Notes []string

	path    string
	set     *inputs.Set
	network Network        // nil of features
	parts   []attach.Input // of features
	beside  inputs.Beside
}

// Open opens the table at path for the rows of a bundle. It reads the whole file once, so
// that a cell which is wrong is an error now, before anything is predicted; errors name
// the file, the line and the column. That of a table without a row wraps [ErrEmpty].
//
// Columns are found by their names, in any order and among others. A file without a header
// has them in the order that the bundle was fitted on. The first line of a text is a header
// if it names columns that are looked for, or if none of its cells is a number.
func Open(ctx context.Context, path string, b *attach.Bundle, o Options) (*Table, error) {
	if !inputs.IsTable(path) {
		return nil, fmt.Errorf("%s: a table is a .csv, .tsv, .txt, .jsonl or .parquet file", path)
	}
	if b.Calibration.Groups != nil && o.Groups == "" {
		return nil, errors.New("the bundle was calibrated by group; Options.Groups says in which column the rows' groups are")
	}
	t := &Table{path: path, network: o.Network, parts: parts(b.Base)}
	read, err := t.options(b, o)
	if err != nil {
		return nil, err
	}
	if t.set, err = inputs.Open(ctx, path, read); err == nil {
		err = t.check(ctx, b, o)
	}
	if err != nil {
		return nil, inputs.InFile(path, err)
	}
	return t, nil
}

// options say what inputs.Open looks for.
func (t *Table) options(b *attach.Bundle, o Options) (inputs.Options, error) {
	read := inputs.Options{
		Columns: b.Base.Columns, Classes: b.Base.Classes, Outputs: b.Base.Outputs,
		Targets: o.Targets, NoTargets: o.Targets == nil, Groups: o.Groups, ID: o.ID, Text: o.Text,
	}
	read.Expect(b)
	if b.Base.Columns == nil {
		read.Ignore = o.Ignore
	}
	if o.Network == nil {
		read.Takes = inputs.TakesOf(t.parts)
		return read, nil
	}
	read.Takes = inputs.TakesOf(o.Network.Base(b.Base.Task).Inputs)
	read.Layout, read.HasText = b.Layout, b.Text != nil
	if b.Preprocess == nil {
		return read, nil
	}
	p, err := preprocess.Parse(b.Preprocess)
	if err != nil {
		return read, fmt.Errorf("the bundle's preprocessing cannot be used: %w", err)
	}
	read.Preprocess = p.In(b.Layout)
	return read, nil
}

// parts are what a bundle's methods read of a model, as the inputs of a table.
func parts(base attach.Base) (list []attach.Input) {
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

// check sees whether rows are as the model takes them, and finds what is known of each.
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
		if left := all - t.set.Len(); left > 0 {
			t.Notes = append(t.Notes, inputs.LeftOut(left, all))
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

// Len is the number of rows.
func (t *Table) Len() int { return t.set.Len() }

// ID is the text that row i has in the column that Options.ID names. Without that it is
// the number of the row in the file, from 0.
func (t *Table) ID(i int) string {
	if t.set.IDs != nil {
		return t.set.IDs[i]
	}
	return strconv.Itoa(t.set.Row(i))
}

// Rows reads the rows in their order, a few at a time, and yields what they are predicted
// from. Each call reads the file anew. The first error ends it.
func (t *Table) Rows(ctx context.Context) iter.Seq2[attach.Rows, error] {
	blocks := t.set.Blocks(ctx, t.set.BlockRows())
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

// batches makes rows of blocks that hold their parts.
func (t *Table) batches(blocks iter.Seq2[ood.InputBlock, error]) iter.Seq2[attach.Rows, error] {
	return func(yield func(attach.Rows, error) bool) {
		for block, err := range blocks {
			var r attach.Rows
			for _, part := range t.parts { // layers in their order
				for _, x := range block.Tensors {
					if x.Name == part.Name {
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

// ErrEmpty is wrapped by the error of opening a table without a row.
var ErrEmpty = inputs.ErrEmpty
