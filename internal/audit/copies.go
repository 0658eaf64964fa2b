package audit

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rowhash"
)

// Copies counts inputs with equal content.
type Copies struct {
	// Distinct is the number of different inputs, and Repeated the number of copies of
	// earlier inputs.
	Distinct int `json:"distinct"`
	Repeated int `json:"repeated"`
	// MostCopied are the inputs with the most copies.
	MostCopied []Copied `json:"most_copied"`
}

// Copied is an input that occurs several times.
type Copied struct {
	Inputs int      `json:"inputs"`
	Keys   []string `json:"keys"` // of the first inputs
}

const (
	// mostCopied is the number of inputs in Copies.MostCopied, and MostCopies the number of
	// keys of each.
	mostCopied = 20
	MostCopies = 5
	// hashBins is the number of bins that rows are sorted into by their hashes. The distinct
	// rows of one bin fit into memory.
	hashBins = 128
	// rowBins is the number of rows of each bin of repeats.again.
	rowBins = 1 << 20

	seenSize  = 16 + 8 + 4 + 4*4 // a hash, a row, a rank, an entry of each of Kinds
	againSize = 8 + 1            // a row, and in which groups it came before
)

// repeats are the rows that are copies of an earlier one.
type repeats struct {
	w      *Whole
	hashes spill
	again  spill
	ranks  calibrate.Ranks // of distinct rows
	count  int             // of rows that are copies
	most   []copied

	flags []byte // of the rows of a bin of again
	bin   int    // whose flags these are, from 1
}

// copied is a row with copies.
type copied struct {
	count int
	rows  []int // the first ones
}

// Flags of a row that has an earlier copy: among all rows, and in its group of each of
// [Kinds].
const copyOfAny = 1

func copyInKind(kind int) byte { return 2 << kind }

// repeats finds copies in bounded memory: rows are sorted into bins by hash, and the copies
// found into bins by row number.
func (w *Whole) repeats(ctx context.Context, dir string) (r *repeats, err error) {
	found := &repeats{w: w, ranks: calibrate.NewRanks(w.Calibration), hashes: spill{dir: dir}, again: spill{dir: dir}}
	defer found.hashes.close()
	defer func() {
		if err != nil {
			found.close()
		}
	}()
	if err := found.sort(ctx); err != nil {
		return nil, err
	}
	known := map[rowhash.Hash]int{}
	var list []seen // the distinct rows of a bin
	for i := range hashBins {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		clear(known)
		if list, err = found.find(i, known, list[:0]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// sort sorts the rows into bins by hash.
func (r *repeats) sort(ctx context.Context) error {
	w := r.w
	names := []string{"input_hash", "p_value", "folder"}
	if w.Reading.Groups != "" {
		names = append(names, "group")
	}
	if w.Task == attach.Classification {
		names = append(names, "class")
	}
	var numbers [ofClass]map[string]uint32 // of the groups of kinds
	for kind := range numbers {
		numbers[kind] = map[string]uint32{}
	}
	number := func(kind int, name []byte) uint32 {
		n, ok := numbers[kind][string(name)]
		if !ok {
			n = uint32(len(numbers[kind]))
			numbers[kind][string(name)] = n
		}
		return n
	}
	row := 0
	return w.each(ctx, w.columns().only(names), func(b block) error {
		hashes, p, folders := b.texts("input_hash"), b.numbers("p_value"), b.texts("folder")
		shard := number(ofShard, []byte(b.name))
		var record [seenSize]byte
		for i := range b.n {
			if n, err := hex.Decode(record[:16], hashes[i][:min(len(hashes[i]), 32)]); err != nil || n != 16 || len(hashes[i]) != 32 {
				return fmt.Errorf("%w: %.40q is no hash of an input", ErrNoScores, hashes[i])
			}
			of := [ofClass + 1]uint32{ofShard: shard, ofFolder: number(ofFolder, folders[i])}
			if w.Reading.Groups != "" {
				of[ofGroup] = number(ofGroup, b.texts("group")[i])
			}
			if w.Task == attach.Classification {
				of[ofClass] = uint32(int32(b.numbers("class")[i]))
			}
			rank := w.rank(p[i])
			if rank < 1 || rank > len(r.ranks) {
				return fmt.Errorf("%w: %v is no p-value of %d calibration rows", ErrNoScores, p[i], w.Calibration)
			}
			rest := binary.LittleEndian.AppendUint64(record[:16], uint64(row))
			rest = binary.LittleEndian.AppendUint32(rest, uint32(rank))
			for _, n := range of {
				rest = binary.LittleEndian.AppendUint32(rest, n)
			}
			if err := r.hashes.add(int(record[0])%hashBins, rest); err != nil {
				return err
			}
			row++
		}
		return nil
	})
}

// seen is the first row with a hash.
type seen struct {
	row  int
	of   [ofClass + 1]uint32
	more *seenAgain // nil until there is a copy
}

type seenAgain struct {
	copied
	of [ofClass + 1]map[uint32]bool // groups beside that of the first row
}

// find finds the copies in a bin, whose rows are in order. Known and list are empty; all
// bins share their memory.
func (r *repeats) find(bin int, known map[rowhash.Hash]int, list []seen) ([]seen, error) {
	err := r.hashes.each(bin, seenSize, func(record []byte) error {
		hash, row := rowhash.Hash(record), int(binary.LittleEndian.Uint64(record[16:]))
		var of [ofClass + 1]uint32
		for k := range of {
			of[k] = binary.LittleEndian.Uint32(record[28+4*k:])
		}
		at, again := known[hash]
		if !again {
			known[hash] = len(list)
			list = append(list, seen{row: row, of: of})
			r.ranks[binary.LittleEndian.Uint32(record[24:])-1]++
			return nil
		}
		s := &list[at]
		if s.more == nil {
			s.more = &seenAgain{copied: copied{1, []int{s.row}}}
		}
		m := s.more
		if m.count++; len(m.rows) < MostCopies {
			m.rows = append(m.rows, row)
		}
		r.count++
		flags := byte(copyOfAny)
		for k, n := range of {
			if n == s.of[k] || m.of[k][n] {
				flags |= copyInKind(k)
				continue
			}
			if m.of[k] == nil {
				m.of[k] = map[uint32]bool{}
			}
			m.of[k][n] = true
		}
		return r.again.add(row/rowBins, append(binary.LittleEndian.AppendUint64(nil, uint64(row)), flags))
	})
	for _, s := range list {
		if s.more != nil {
			r.most = append(r.most, s.more.copied)
		}
	}
	slices.SortFunc(r.most, func(a, b copied) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.rows[0], b.rows[0]))
	})
	r.most = slices.Clone(r.most[:min(len(r.most), mostCopied)])
	return list, err
}

// close removes the temporary file.
func (r *repeats) close() { r.again.close() }

// of returns the flags of n rows from a row on. Calls must be in the order of rows.
func (r *repeats) of(row, n int) ([]byte, error) {
	var flags []byte
	for len(flags) < n {
		at := row + len(flags)
		if bin := at/rowBins + 1; bin != r.bin {
			if r.flags == nil {
				r.flags = make([]byte, min(rowBins, r.w.ranks.Rows()))
			}
			clear(r.flags)
			r.bin = bin
			err := r.again.each(bin-1, againSize, func(record []byte) error {
				r.flags[binary.LittleEndian.Uint64(record)%rowBins] = record[8]
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
		begin := at % rowBins
		flags = append(flags, r.flags[begin:min(begin+n-len(flags), len(r.flags))]...)
	}
	return flags, nil
}
