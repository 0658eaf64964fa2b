package inputs

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/parquet"
)

// OpenTimes reads the times of all rows of a file. They are a column of texts, numbers or
// dates in a table, or an array of numbers in an .npz file.
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
	if IsTable(path) {
		t, err := readTable(ctx, path, Options{Groups: name, groupsAre: "times", Takes: []Takes{}})
		if err != nil {
			return nil, err
		}
		return t.groups, nil
	}
	z, err := openArrays(path)
	if err != nil {
		return nil, err
	}
	return readTimes(z, name)
}

// readTimes returns the numbers of an array as texts.
func readTimes(z arrayFile, name string) ([]string, error) {
	a, err := z.entry(name)
	if err != nil {
		return nil, err
	}
	if err := checkColumn(a); err != nil {
		return nil, err
	}
	all, err := valuesOf(a)
	if err != nil {
		return nil, err
	}
	var times []string
	switch d := all.Data.(type) {
	case []float64:
		for _, x := range d {
			times = append(times, strconv.FormatFloat(x, 'g', -1, 64))
		}
	case []float32:
		for _, x := range d {
			times = append(times, strconv.FormatFloat(float64(x), 'g', -1, 32))
		}
	default:
		numbers, err := npy.Ints(all)
		if err != nil {
			return nil, err
		}
		for _, x := range numbers {
			times = append(times, strconv.Itoa(x))
		}
	}
	return times, nil
}

// OpenGroups reads the groups of precomputed rows. They are an array of integers or
// texts, or a column of any text in a table, such as a Parquet file. An array must have the given
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
	if texts, ok := a.(npyArray); ok && texts.IsText() {
		return texts.Texts()
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
