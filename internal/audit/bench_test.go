package audit

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkManyParts measures how long an audit takes to open and check 10,000 small parts, and
// to merge them.
func BenchmarkManyParts(b *testing.B) {
	const parts, partRows = 10_000, 30
	s, err := NewScorer(bundle(b), Identity{FDR: .1, Delta: .1})
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	var paths []string
	scoring := s.Begin(func(p *Part) error {
		var content bytes.Buffer
		if _, err := p.WriteTo(&content); err != nil {
			return err
		}
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("%06d.parquet", len(paths))))
		return os.WriteFile(paths[len(paths)-1], content.Bytes(), 0o666)
	})
	for i := range parts {
		r := memoryRows(fmt.Sprintf("%06d.npz", i), sample(partRows, uint64(i), 0))
		if err := scoring.Rows(context.Background(), fmt.Sprintf("%06d.npz", i), r, 0, r.Len, nil); err != nil {
			b.Fatal(err)
		}
		if err := scoring.Flush(); err != nil {
			b.Fatal(err)
		}
	}
	open := func() (files []*File) {
		files, errs := OpenFiles(context.Background(), paths, true)
		if err := cmp.Or(errs...); err != nil {
			b.Fatal(err)
		}
		return files
	}
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			open()
		}
	})
	files := open()
	b.Run("merge", func(b *testing.B) {
		for b.Loop() {
			if _, err := Finish(context.Background(), files, Output{Dir: b.TempDir(), Page: func(io.Writer, *Audit) error { return nil }}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
