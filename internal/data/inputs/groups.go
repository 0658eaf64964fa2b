package inputs

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/parquet"
)

// OpenTimes reads the times of all rows of a file. They are a column of texts, numbers or
// dates in a table, or an array of integers in an .npz file.
func OpenTimes(ctx context.Context, path, name string) ([]string, error) {
	if !IsTable(path) && !strings.EqualFold(filepath.Ext(path), ".npz") {
		return nil, fmt.Errorf("%s: only a table or an .npz file has times; they cannot be %.100q here", path, name)
	}
	if strings.EqualFold(filepath.Ext(path), ".parquet") {
		f, err := parquet.Open(path)
		if err != nil {
			return nil, err
		}
		for j, c := range f.Columns() {
			if c.Name == name && c.Dates() {
				return f.ReadDates(ctx, j)
			}
		}
	}
	return openNames(ctx, path, Options{Groups: name, groupsAre: "times"}, -1)
}

// OpenGroups reads the groups of precomputed rows. They are an array of integers, or a
// column of any text in a table, such as a Parquet file. An array must have the given
// number of rows.
func OpenGroups(ctx context.Context, path, name string, rows int) ([]string, error) {
	return openNames(ctx, path, Options{Groups: name}, rows)
}

// openNames reads the groups of rows. A negative number of rows stands for any number.
func openNames(ctx context.Context, path string, o Options, rows int) ([]string, error) {
	if IsTable(path) {
		o.Takes = []Takes{}
		t, err := readTable(ctx, path, o)
		if err != nil {
			return nil, err
		}
		return t.groups, nil
	}
	z, err := openArrays(path)
	if err != nil {
		return nil, err
	}
	return readGroups(z, o.Groups, rows)
}

func readGroups(z arrayFile, name string, rows int) ([]string, error) {
	a, err := z.entry(name)
	if err != nil {
		return nil, err
	}
	if err := checkColumn(a); err != nil {
		return nil, err
	}
	if n := a.shape()[0]; rows >= 0 && n != rows {
		return nil, fmt.Errorf("%s: it has %d entries for %d rows", a.Name(), n, rows)
	}
	v, err := intsOf(a)
	if err != nil {
		return nil, err
	}
	groups := make([]string, len(v))
	for i, g := range v {
		groups[i] = strconv.Itoa(g)
	}
	return groups, nil
}
