package inputs

import (
	"context"
	"fmt"
	"strconv"
)

// OpenGroups reads the groups of precomputed rows. They are an array of integers, or a
// column of any text in a table, such as a Parquet file. An array must have the given
// number of rows.
func OpenGroups(ctx context.Context, path, name string, rows int) ([]string, error) {
	if IsTable(path) {
		t, err := readTable(ctx, path, Options{Groups: name, Takes: []Takes{}})
		if err != nil {
			return nil, err
		}
		return t.groups, nil
	}
	z, err := openArrays(path)
	if err != nil {
		return nil, err
	}
	return readGroups(z, name, rows)
}

func readGroups(z arrayFile, name string, rows int) ([]string, error) {
	a, err := z.entry(name)
	if err != nil {
		return nil, err
	}
	if err := checkColumn(a); err != nil {
		return nil, err
	}
	if n := a.shape()[0]; n != rows {
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
