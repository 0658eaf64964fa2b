package table3

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/npy"
)

// pair is a sample of two variables. One of them causes the other.
type pair struct {
	number  string
	x, y    []float64
	forward bool // x causes y
	weight  float64
}

// pairSet holds the scored pairs of one file and counts the pairs left out.
type pairSet struct {
	name                 string
	pairs                []pair
	binary, multivariate int
}

// setNames returns the names of the sets in the order of the paper's table.
func setNames() []string { return []string{"an", "an-s", "ls", "ls-s", "mn-u", "tuebingen"} }

// readSet reads a set and swaps x and y in half of its pairs.
func readSet(data, name string, seed uint64) (pairSet, error) {
	s := pairSet{name: name}
	archive, err := npy.OpenNPZ(filepath.Join(data, "causal", name+".npz"))
	if err != nil {
		return s, err
	}
	meta := filepath.Join(data, "causal", name+".meta.txt")
	f, err := os.Open(meta)
	if err != nil {
		return s, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		if err := s.add(archive, strings.Fields(lines.Text())); err != nil {
			return s, fmt.Errorf("line %d of %s: %w", n, meta, err)
		}
	}
	if err := lines.Err(); err != nil {
		return s, err
	}
	if len(s.pairs) == 0 {
		return s, fmt.Errorf("%s names no pair of two variables with more than two values", meta)
	}
	swapHalf(s.pairs, seed)
	return s, nil
}

// add reads the pair of one line of the meta file. The fields are the number of the pair,
// the first and last columns of the cause and of the effect, and the weight. Columns count
// from 1.
func (s *pairSet) add(archive *npy.NPZ, fields []string) error {
	if len(fields) != 6 {
		return fmt.Errorf("%d fields, want a number, four columns and a weight", len(fields))
	}
	var columns [4]int
	for i := range columns {
		var err error
		if columns[i], err = strconv.Atoi(fields[i+1]); err != nil {
			return err
		}
	}
	weight, err := strconv.ParseFloat(fields[5], 64)
	if err != nil {
		return err
	}
	if columns[0] != columns[1] || columns[2] != columns[3] {
		s.multivariate++
		return nil
	}
	entry, err := archive.Entry("pair" + fields[0])
	if err != nil {
		return err
	}
	array, err := entry.Read()
	if err != nil {
		return err
	}
	values, ok := array.Data.([]float64)
	if !ok || len(array.Shape) != 2 {
		return fmt.Errorf("pair%s is %T of shape %v, want float64 rows", fields[0], array.Data, array.Shape)
	}
	p := pair{number: fields[0], forward: true, weight: weight}
	if p.x, err = column(values, array.Shape, columns[0]); err != nil {
		return err
	}
	if p.y, err = column(values, array.Shape, columns[2]); err != nil {
		return err
	}
	if countDistinct(p.x) <= 2 || countDistinct(p.y) <= 2 {
		s.binary++
		return nil
	}
	s.pairs = append(s.pairs, p)
	return nil
}

func column(values []float64, shape []int, number int) ([]float64, error) {
	rows, cols := shape[0], shape[1]
	if number < 1 || number > cols {
		return nil, fmt.Errorf("there is no column %d of %d", number, cols)
	}
	if rows < 8 {
		return nil, errors.New("a pair has at least 8 rows")
	}
	out := make([]float64, rows)
	for i := range out {
		out[i] = values[i*cols+number-1]
	}
	return out, nil
}

func countDistinct(v []float64) int { return len(slices.Compact(slices.Sorted(slices.Values(v)))) }

// swapHalf swaps x and y in random pairs that hold about half of the weight. A method that
// always gives the same direction is then right for about half of the weight.
func swapHalf(pairs []pair, seed uint64) {
	var unswapped, swapped float64
	for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(len(pairs)) {
		p := &pairs[i]
		if swapped > unswapped {
			unswapped += p.weight
			continue
		}
		swapped += p.weight
		p.x, p.y, p.forward = p.y, p.x, !p.forward
	}
}
