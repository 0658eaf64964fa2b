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
	// Distinct is the number of different inputs. Repeated is the number of copies of
	// earlier inputs.
	Distinct int `json:"distinct"`
	Repeated int `json:"repeated"`
	// MostCopied lists the inputs with the most copies.
	MostCopied []Copied `json:"most_copied"`
}

// Copied is an input that occurs several times.
type Copied struct {
	Inputs int      `json:"inputs"`
	Keys   []string `json:"keys"` // keys of the first MaxCopyKeys inputs
}

const (
	// maxMostCopied is the largest length of Copies.MostCopied, and MaxCopyKeys is the
	// largest length of Copied.Keys.
	maxMostCopied = 20
	MaxCopyKeys   = 5
	// hashBins is the number of bins that rows are sorted into by their hashes. There are
	// many bins because the distinct rows of one bin must fit into memory.
	hashBins = 128
	// rowsPerBin is the number of consecutive rows that share a bin of copyFinder.copies.
	rowsPerBin = 1 << 20

	// hashRecordSize is the size of a hash, a row number, a rank, and a group number for each
	// of Kinds. The ranks of labels follow. copyRecordSize is that of a row number and flags.
	hashRecordSize = 16 + 8 + 4 + 4*kinds
	copyRecordSize = 8 + 1
)

// copyFinder finds rows that are copies of an earlier row.
type copyFinder struct {
	scores *ScoreSet
	byHash spill
	copies spill
	ranks  calibrate.Ranks   // ranks of the distinct rows
	labels []calibrate.Ranks // ranks of the labels of rows with distinct content or labels, by part
	count  int               // number of rows that are copies
	// mostCopied holds the rows with the most copies, in falling order.
	mostCopied []copySet

	flags []byte // copy flags of the rows in one bin of copies
	bin   int    // number of this bin, counted from 1, or 0 if no bin was read yet
}

// copySet describes equal rows.
type copySet struct {
	count int
	rows  []int // numbers of the first MaxCopyKeys rows
}

// copyOfAny flags a row that equals any earlier row.
const copyOfAny = 1

// copyInKind returns the flag of a row that equals an earlier row of its own group of this
// kind. The argument kind is an index of [Kinds].
func copyInKind(kind int) byte { return 2 << kind }

// findCopies finds copies in bounded memory. It sorts all rows into bins by hash, and finds
// the copies within each bin. It then sorts these copies into bins by row number.
func (w *ScoreSet) findCopies(ctx context.Context, dir string) (r *copyFinder, err error) {
	finder := &copyFinder{scores: w, ranks: calibrate.NewRanks(w.Calibration), labels: w.newLabelRanks(),
		byHash: spill{dir: dir, size: hashRecordSize + 8*w.labelLists()}, copies: spill{dir: dir, size: copyRecordSize}}
	defer finder.byHash.close()
	defer func() {
		if err != nil {
			finder.close()
		}
	}()
	if err := finder.binByHash(ctx); err != nil {
		return nil, err
	}
	known := map[rowhash.Hash]int{}
	var list []firstOccurrence // the distinct rows of a bin
	for i := range hashBins {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		clear(known)
		if list, err = finder.findInBin(i, known, list[:0]); err != nil {
			return nil, err
		}
	}
	return finder, nil
}

// binByHash sorts the rows into bins by hash.
func (r *copyFinder) binByHash(ctx context.Context) error {
	w := r.scores
	columns := []string{"input_hash", "p_value", "folder"}
	if w.Reading.Groups != "" {
		columns = append(columns, "group")
	}
	if w.Task == attach.Classification {
		columns = append(columns, "class")
	}
	for list := range w.labelLists() {
		given := "label"
		if w.Task != attach.Classification {
			given = w.targetColumn("target", list)
		}
		columns = append(columns, w.labelColumn("label_p_value", list), given)
	}
	var numbers [classKind]map[string]uint32 // for each kind, the number of each group by name
	for kind := range numbers {
		numbers[kind] = map[string]uint32{}
	}
	numberOf := func(kind int, name []byte) uint32 {
		n, ok := numbers[kind][string(name)]
		if !ok {
			n = uint32(len(numbers[kind]))
			numbers[kind][string(name)] = n
		}
		return n
	}
	row := 0
	return w.eachBlock(ctx, w.columns().subset(columns), func(b block) error {
		hashes, p, folders := b.texts("input_hash"), b.numbers("p_value"), b.texts("folder")
		shard := numberOf(shardKind, []byte(b.name))
		record := make([]byte, 16, r.byHash.size)
		for i := range b.n {
			if n, err := hex.Decode(record, hashes[i][:min(len(hashes[i]), 32)]); err != nil || n != 16 || len(hashes[i]) != 32 {
				return fmt.Errorf("%w: %.40q is not the hash of an input", ErrNotScores, hashes[i])
			}
			groups := [kinds]uint32{shardKind: shard, folderKind: numberOf(folderKind, folders[i])}
			if w.Reading.Groups != "" {
				groups[groupKind] = numberOf(groupKind, b.texts("group")[i])
			}
			if w.Task == attach.Classification {
				groups[classKind] = uint32(int32(b.numbers("class")[i]))
			}
			rank := w.rank(p[i])
			if rank < 1 || rank > len(r.ranks) {
				return fmt.Errorf("%w: %v is not a p-value of %d calibration rows", ErrNotScores, p[i], w.Calibration)
			}
			groups[labelKind] = w.labelNumber(b, i)
			encoded := binary.LittleEndian.AppendUint64(record, uint64(row))
			encoded = binary.LittleEndian.AppendUint32(encoded, uint32(rank))
			for _, n := range groups {
				encoded = binary.LittleEndian.AppendUint32(encoded, n)
			}
			for list := range w.labelLists() {
				part, rank, err := w.labelOf(b, list, i)
				if err != nil {
					return err
				}
				encoded = binary.LittleEndian.AppendUint32(encoded, uint32(part))
				encoded = binary.LittleEndian.AppendUint32(encoded, uint32(rank))
			}
			if err := r.byHash.add(int(record[0])%hashBins, encoded); err != nil {
				return err
			}
			row++
		}
		return nil
	})
}

// firstOccurrence is the first row with its hash.
type firstOccurrence struct {
	row         int
	groups      [kinds]uint32
	laterCopies *laterCopies // nil until a copy is found
}

// laterCopies describes the rows that equal a firstOccurrence. Its copySet also contains
// the first row itself.
type laterCopies struct {
	copySet
	groups [kinds]map[uint32]bool // for each kind, the groups of the copies, except that of the first row
}

// findInBin finds the copies in one bin of byHash. Rows in a bin keep their order, so the
// first row with a hash is the original. The caller passes an empty map and an empty list,
// so that their memory is reused for the next bin.
func (r *copyFinder) findInBin(bin int, known map[rowhash.Hash]int, list []firstOccurrence) ([]firstOccurrence, error) {
	err := r.byHash.each(bin, func(record []byte) error {
		hash, row := rowhash.Hash(record), int(binary.LittleEndian.Uint64(record[16:]))
		var groups [kinds]uint32
		for k := range groups {
			groups[k] = binary.LittleEndian.Uint32(record[28+4*k:])
		}
		at, again := known[hash]
		if !again {
			known[hash] = len(list)
			list = append(list, firstOccurrence{row: row, groups: groups})
			r.ranks[binary.LittleEndian.Uint32(record[24:])-1]++
			r.addLabels(record)
			return nil
		}
		s := &list[at]
		if s.laterCopies == nil {
			s.laterCopies = &laterCopies{copySet: copySet{1, []int{s.row}}}
		}
		m := s.laterCopies
		if m.count++; len(m.rows) < MaxCopyKeys {
			m.rows = append(m.rows, row)
		}
		r.count++
		flags := byte(copyOfAny)
		for k, n := range groups {
			if n == s.groups[k] || m.groups[k][n] {
				flags |= copyInKind(k)
				continue
			}
			if m.groups[k] == nil {
				m.groups[k] = map[uint32]bool{}
			}
			m.groups[k][n] = true
		}
		if flags&copyInKind(labelKind) == 0 {
			r.addLabels(record)
		}
		return r.copies.add(row/rowsPerBin, append(binary.LittleEndian.AppendUint64(nil, uint64(row)), flags))
	})
	for _, s := range list {
		if s.laterCopies != nil {
			r.mostCopied = append(r.mostCopied, s.laterCopies.copySet)
		}
	}
	slices.SortFunc(r.mostCopied, func(a, b copySet) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.rows[0], b.rows[0]))
	})
	r.mostCopied = slices.Clone(r.mostCopied[:min(len(r.mostCopied), maxMostCopied)])
	return list, err
}

// addLabels counts the labels of a row.
func (r *copyFinder) addLabels(record []byte) {
	for list := range r.scores.labelLists() {
		encoded := record[hashRecordSize+8*list:]
		from, _ := r.scores.partsOf(list)
		if part := int32(binary.LittleEndian.Uint32(encoded)); part >= 0 {
			r.labels[from+int(part)][binary.LittleEndian.Uint32(encoded[4:])]++
		}
	}
}

// close removes the temporary file of copies.
func (r *copyFinder) close() { r.copies.close() }

// flagsOf returns the copy flags of n rows that begin at row. Callers go through the rows
// in order, because only one bin is in memory.
func (r *copyFinder) flagsOf(row, n int) ([]byte, error) {
	var flags []byte
	for len(flags) < n {
		at := row + len(flags)
		if bin := at/rowsPerBin + 1; bin != r.bin {
			if r.flags == nil {
				r.flags = make([]byte, min(rowsPerBin, r.scores.ranks.Rows()))
			}
			clear(r.flags)
			r.bin = bin
			err := r.copies.each(bin-1, func(record []byte) error {
				r.flags[binary.LittleEndian.Uint64(record)%rowsPerBin] = record[8]
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
		begin := at % rowsPerBin
		flags = append(flags, r.flags[begin:min(begin+n-len(flags), len(r.flags))]...)
	}
	return flags, nil
}
