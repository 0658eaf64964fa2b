package engine

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"path/filepath"
	"slices"

	"github.com/attach-uncertainty/attach/internal/audit"
)

const (
	// maxSmallPart is the largest number of rows of a part that is combined with others.
	maxSmallPart = 1 << 12
	// combinedRows is the number of rows at which CombineParts begins the next part.
	combinedRows = 1 << 17
)

// CombineParts replaces small parts of an audit by fewer parts with the same rows. The paths are
// those of local files with the names of parts. A combined part has the name of the first part
// that it replaces. It is saved before the function remove gets the names of the others, so that
// no rows are lost if the process is killed, and CombineParts can be repeated.
func CombineParts(ctx context.Context, paths []string, save func(name string, part io.WriterTo) error, remove func(names []string) error) error {
	opened, errs := audit.OpenFiles(ctx, paths, true)
	var parts []*audit.File
	for i, err := range errs {
		if err != nil && !audit.Damaged(err) { // rows of damaged parts are scored again later
			return err
		}
		if err == nil {
			parts = append(parts, opened[i])
		}
	}
	parts, contained := splitContained(parts)
	if err := remove(namesOf(contained)); err != nil {
		return err
	}
	slices.SortFunc(parts, func(a, b *audit.File) int { // in the order of their rows
		first, _ := placeOf(filepath.Base(a.Path()))
		second, _ := placeOf(filepath.Base(b.Path()))
		return cmp.Or(cmp.Compare(first.Shard, second.Shard), cmp.Compare(first.Row, second.Row))
	})
	var group []*audit.File
	rows := 0
	flush := func() error {
		list := group
		if group, rows = nil, 0; len(list) < 2 {
			return nil
		}
		for _, part := range list {
			part.Identity = part.WithResultOptions(list[0].Identity)
		}
		var combined bytes.Buffer
		if err := audit.Combine(ctx, list, &combined); err != nil {
			return err
		}
		names := namesOf(list)
		if err := save(names[0], &combined); err != nil {
			return err
		}
		return remove(names[1:])
	}
	for _, part := range parts {
		n := part.Rows()
		if n > maxSmallPart || rows >= combinedRows {
			if err := flush(); err != nil {
				return err
			}
		}
		if n <= maxSmallPart {
			group, rows = append(group, part), rows+n
		}
	}
	return flush()
}

func namesOf(parts []*audit.File) (names []string) {
	for _, part := range parts {
		names = append(names, filepath.Base(part.Path()))
	}
	return names
}

// splitContained divides parts into those to keep, and those whose rows another one has. A part
// can remain beside the combined part that replaces it if a process is killed.
func splitContained(parts []*audit.File) (keep, contained []*audit.File) {
	type rangeOf struct {
		audit.Range
		part *audit.File
	}
	var all []rangeOf
	for _, part := range parts {
		for _, r := range part.Ranges {
			all = append(all, rangeOf{r, part})
		}
	}
	slices.SortStableFunc(all, func(a, b rangeOf) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End), cmp.Compare(b.part.Rows(), a.part.Rows()))
	})
	inside := map[*audit.File]int{} // number of ranges of a part that another one contains
	outer := rangeOf{}
	for _, r := range all {
		if r.Shard == outer.Shard && r.End <= outer.End && r.part != outer.part {
			inside[r.part]++
		} else {
			outer = r
		}
	}
	for _, part := range parts {
		if inside[part] == len(part.Ranges) {
			contained = append(contained, part)
		} else {
			keep = append(keep, part)
		}
	}
	return keep, contained
}
