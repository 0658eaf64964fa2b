package inputs

import (
	"fmt"
	"strconv"

	"github.com/attach-uncertainty/attach/internal/npy"
)

// OpenGroups reads the group of each of so many rows from an array of whole
// numbers in an .npz archive.
func OpenGroups(path, name string, rows int) ([]string, error) {
	z, err := npy.OpenNPZ(path)
	if err != nil {
		return nil, err
	}
	return readGroups(z, name, rows)
}

func readGroups(z *npy.NPZ, name string, rows int) ([]string, error) {
	l, err := z.Entry(name)
	if err != nil {
		return nil, err
	}
	if err := checkColumn(l); err != nil {
		return nil, err
	}
	if l.Rows() != rows {
		return nil, fmt.Errorf("%s: there are %d entries for %d rows", l.Name(), l.Rows(), rows)
	}
	v, err := intsOf(l)
	if err != nil {
		return nil, err
	}
	groups := make([]string, len(v))
	for i, g := range v {
		groups[i] = strconv.Itoa(g)
	}
	return groups, nil
}
