package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/regularfile"
	"github.com/attach-uncertainty/attach/internal/modelrows"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/preprocess"
	"github.com/attach-uncertainty/attach/schema"
)

// auditedRows are the audited rows of an open shard, divided into pieces.
type auditedRows struct {
	audit.Rows
	bounds []int // first row of each piece, and the number of rows
}

// scoreRows scores the rows from first up to but not including last that are missing in have. It
// calls the function progress with the next row and the number of new rows.
func (r auditedRows) scoreRows(ctx context.Context, scoring *audit.Scoring, name, path string, have []audit.Range, first, last int, progress func(at, rows int)) error {
	for _, gap := range audit.Gaps(name, r.Len, have) {
		at, end := max(gap[0], first), min(gap[1], last)
		if at >= end {
			continue
		}
		next := at
		counted := func(rows int) {
			next += rows
			progress(next, rows)
		}
		if err := scoring.Rows(ctx, name, r.Rows, at, end, counted); err != nil {
			return inputs.InFile(path, err)
		}
	}
	return nil
}

// openAudited opens the audited rows of a shard of which some rows may have been scored. If the
// shard is to be left out, bad is true and err is the reason. With SkipBad, openAudited reads
// all rows before any row is scored. A shard that is damaged in the middle is then left out as
// a whole. Therefore the audited rows do not depend on the position of the damage, or on
// earlier interrupted runs.
func (e *Engine) openAudited(ctx context.Context, name, path string, pieces int, have []audit.Range) (r auditedRows, bad bool, err error) {
	e.opening.Lock()
	if err := e.rows.OpenNetwork(ctx); err != nil {
		e.opening.Unlock()
		return r, false, err
	}
	r, check, err := e.shardRows(ctx, name, path, e.Identity, pieces)
	e.opening.Unlock()
	if err == nil && e.SkipBad {
		err = inputs.InFile(path, check(ctx))
	}
	if bad, err = e.explainUnreadable(err); err == nil {
		err = checkRowCount(name, r.N, have)
	}
	return r, bad, err
}

// explainUnreadable adds advice to an error about a shard that cannot be read. If the shard
// is to be left out, bad is true and reason is err, without advice.
func (e *Engine) explainUnreadable(err error) (bad bool, reason error) {
	switch {
	case err == nil:
		return false, nil
	case e.SkipBad && inputs.Broken(err):
		return true, err
	case errors.Is(err, inputs.ErrEmpty):
		err = fmt.Errorf("%w; leave it out, or pass Options.SkipBad to leave out such files", err)
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w; let this user read it, or leave it out", err)
	case inputs.Broken(err) && !errors.Is(err, preprocess.ErrImage) && !errors.Is(err, inputs.ErrNoInput): // these errors have their own hints
		err = fmt.Errorf("%w; pass Options.SkipBad to leave out such files", err)
	}
	return false, err
}

// shardRows opens the audited rows of a shard, and divides them into pieces. The function check
// reads all rows and returns the first error.
func (e *Engine) shardRows(ctx context.Context, name, path string, id audit.Identity, pieces int) (r auditedRows, check func(context.Context) error, err error) {
	opened, err := e.rows.OpenRows(ctx, path, "", inputs.Slice{})
	if err != nil {
		return r, nil, err
	}
	count, step := id.Selected(opened.N)
	r.N, r.Len = opened.N, count
	if reason := opened.Known.DropReason; reason != nil && id.LabelErrorsBy != "" && !e.unlabelled {
		e.unlabelled = true
		e.note("note: labels of %s are not checked: %v; other files of this kind are not listed", name, reason)
	}
	set := opened.Set
	if set == nil {
		r.bounds = pieceBounds(count, modelrows.FeatureBlockRows, pieces)
		r.Name = func(i int) (string, string, int) {
			key, folder := audit.Key(name, "", i*step)
			return key, folder, i * step
		}
		r.Batches = func(ctx context.Context, from int) iter.Seq2[audit.Batch, error] {
			return func(yield func(audit.Batch, error) bool) {
				precomputed, err := e.rows.Precomputed(ctx, path, "", inputs.Slice{Start: from * step, End: (count-1)*step + 1, Ends: true})
				if err != nil {
					yield(audit.Batch{}, err)
					return
				}
				if step > 1 {
					audited := make([]int, count-from)
					for i := range audited {
						audited[i] = i * step
					}
					precomputed.Select(audited)
				}
				for batch, err := range precomputed.Blocks(true) {
					if !yield(audit.Batch{Rows: batch}, err) {
						return
					}
				}
			}
		}
		check = func(ctx context.Context) error {
			for _, err := range r.Batches(ctx, 0) {
				if err != nil {
					return err
				}
			}
			return nil
		}
		return r, check, nil
	}
	if step > 1 {
		idx := make([]int, count)
		for i := range idx {
			idx[i] = i * step
		}
		set = set.Subset(idx)
	} else if set, err = set.Slice(inputs.Slice{End: count, Ends: true}); err != nil {
		return r, nil, err
	}
	r.bounds = pieceBounds(count, set.BlockRows(), pieces)
	isTable := inputs.IsTable(path)
	r.Name = func(i int) (string, string, int) {
		file := ""
		if !isTable {
			file = set.File(i)
		}
		key, folder := audit.Key(name, file, set.Row(i))
		return key, folder, set.Row(i)
	}
	r.Batches = func(ctx context.Context, from int) iter.Seq2[audit.Batch, error] {
		return func(yield func(audit.Batch, error) bool) {
			rest, err := set.Slice(inputs.Slice{Start: from})
			if err != nil {
				yield(audit.Batch{}, err)
				return
			}
			queue := inputQueue{matcher: e.scorer.Matcher()}
			next, stop := iter.Pull2(queue.record(rest.Blocks(ctx, rest.BlockRows())))
			defer stop()
			blocks := blockQueue{next: next}
			for at := from; at < count; {
				first, end := at, pieceEnd(r.bounds, at)
				piece, err := set.Slice(inputs.Slice{Start: first, End: end, Ends: true})
				if err != nil {
					yield(audit.Batch{}, err)
					return
				}
				// The scorer compares the rows with the profile. Here they are compared only if
				// the model fails.
				newCategory := func() (schema.Reason, int, bool) {
					reason, i, ok := queue.newCategory(end - at)
					return reason, at - first + i, ok
				}
				for batch, err := range e.rows.RowsOf(ctx, piece, blocks.take(end-first), newCategory).Blocks(true) {
					b := audit.Batch{Rows: batch}
					if err == nil {
						b.Sketches, b.Values = queue.take(batch.Len())
					}
					if !yield(b, err) || err != nil {
						return
					}
					at += batch.Len()
				}
				at = end
			}
		}
	}
	return r, func(ctx context.Context) error { return set.Check(ctx, set.BlockRows()) }, nil
}

// inputQueue holds the sketches of rows that were passed to the model but not returned
// yet, and the values of their columns.
type inputQueue struct {
	matcher  *schema.Matcher // nil if columns are not compared
	mutex    sync.Mutex
	sketches [][]byte
	values   schema.Values
}

// record yields the given blocks and adds their rows to the queue.
func (p *inputQueue) record(blocks iter.Seq2[ood.InputBlock, error]) iter.Seq2[ood.InputBlock, error] {
	return func(yield func(ood.InputBlock, error) bool) {
		for b, err := range blocks {
			if err == nil {
				sketches := audit.Sketches(b)
				p.mutex.Lock()
				p.sketches = append(p.sketches, sketches...)
				if p.matcher != nil {
					p.values = schema.Join(p.values, p.matcher.Values(b))
				}
				p.mutex.Unlock()
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

// take removes the next n rows from the queue and returns them.
func (p *inputQueue) take(n int) (list [][]byte, values schema.Values) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	list = p.sketches[:n:n]
	p.sketches = p.sketches[n:]
	if p.matcher != nil {
		values, p.values = p.values.Slice(0, n), p.values.Slice(n, p.values.Len())
	}
	return list, values
}

// newCategory returns the first new category among the first n rows of the queue, and its row.
// The result ok is false if there is none.
func (p *inputQueue) newCategory(n int) (r schema.Reason, row int, ok bool) {
	if p.matcher == nil {
		return r, 0, false
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for row, reasons := range p.matcher.Reasons(p.values.Slice(0, min(n, p.values.Len()))) {
		for _, r := range reasons {
			if r.Cause == schema.NewCategory {
				return r, row, true
			}
		}
	}
	return r, 0, false
}

// fittedSources returns the files that Options.Fitted names, fetched if they are URLs.
func (e *Engine) fittedSources(ctx context.Context) ([]source, error) {
	all, err := e.find(ctx, "Options.Fitted", e.Fitted)
	for i, shard := range all {
		if isURL(shard.path) && err == nil {
			all[i].path, _, err = e.storage.Fetch(ctx, shard.path)
		}
	}
	return all, err
}

// shardsDigest returns a digest of the names and contents of shards, or an empty string if
// there are no shards.
func shardsDigest(ctx context.Context, shards []source) (string, error) {
	if len(shards) == 0 {
		return "", nil
	}
	h := sha256.New()
	for _, shard := range shards {
		files := []string{""}
		if info, err := os.Stat(shard.path); err != nil {
			return "", err
		} else if info.IsDir() {
			in, err := inputs.Images(ctx, shard.path)
			if err != nil {
				return "", err
			}
			files = in.Files
		}
		for _, name := range files {
			sum, err := regularfile.SHA256(filepath.Join(shard.path, filepath.FromSlash(name)))
			if err != nil {
				return "", err
			}
			fmt.Fprintf(h, "%q %q %s\n", shard.Name, name, sum)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// fittedRows returns the features and the keys of the fit rows.
func (e *Engine) fittedRows(ctx context.Context, shards []source) (features blas32.General, keys []string, err error) {
	e.fittedCounts = nil
	for _, shard := range shards {
		r, _, err := e.shardRows(ctx, shard.Name, shard.path, audit.Identity{}, 1)
		if err != nil {
			return features, nil, err
		}
		e.fittedCounts = append(e.fittedCounts, r.Len)
		first := len(keys)
		for batch, err := range r.Batches(ctx, 0) {
			if err != nil {
				return features, nil, inputs.InFile(shard.path, err)
			}
			x := batch.Features
			features.Rows, features.Cols, features.Stride = features.Rows+x.Rows, x.Cols, x.Cols
			for i := range x.Rows {
				key, _, _ := r.Name(len(keys) - first)
				keys = append(keys, key)
				features.Data = append(features.Data, x.Data[i*x.Stride:i*x.Stride+x.Cols]...)
			}
		}
	}
	return features, keys, nil
}
