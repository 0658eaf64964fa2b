package inputs

import (
	"strconv"

	"github.com/attach-uncertainty/attach/internal/npy"
)

// OpenGroups reads the group of each row from an array of whole numbers in an
// .npz archive.
func OpenGroups(path, name string) ([]string, error) {
	z, err := npy.OpenNPZ(path)
	if err != nil {
		return nil, err
	}
	return readGroups(z, name)
}

func readGroups(z *npy.NPZ, name string) ([]string, error) {
	v, err := readInts(z, name)
	if err != nil {
		return nil, err
	}
	groups := make([]string, len(v))
	for i, g := range v {
		groups[i] = strconv.Itoa(g)
	}
	return groups, nil
}
