package audit

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rowhash"
)

const (
	// maxMostCopied is the largest length of Copies.MostCopied, and MaxCopyKeys is the
	// largest length of Copied.Keys.
	maxMostCopied = 20
	MaxCopyKeys   = 5
	// maxBetween is the largest length of Copies.Between. Copies are counted for at most
	// maxFilePairs pairs of files, because the counts are in memory.
	maxBetween   = 20
	maxFilePairs = 100_000
	// hashBins is the number of bins that rows are sorted into by their hashes. There are
	// many bins because the distinct rows of one bin must fit into memory.
	hashBins = 128

	hashRecordSize = 16 + 8        // a hash and a row number
	markRecordSize = 8 + 8 + 1 + 4 // a row number and a mark
	flagRecordSize = 8 + 1         // a row number and its copy flags
	// memberRecordSize is the size of the row numbers of the first row and of the row, a rank,
	// and a group number for each of Kinds. The ranks of labels follow.
	memberRecordSize = 8 + 8 + 4 + 4*kinds
)

// copyFinder finds rows that are copies of an earlier row.
type copyFinder struct {
	scores *ScoreSet
	dir    string
	marks  rowValues[mark]   // of copies, and of the rows that they copy
	flags  rowValues[byte]   // copy flags
	ranks  calibrate.Ranks   // ranks of the distinct rows
	labels []calibrate.Ranks // ranks of the labels of rows with distinct content or labels, by part
	count  int               // number of rows that are copies
	near   []nearRow         // near copies, in the order of their rows
	// mostCopied holds the rows with the most copies, in falling order.
	mostCopied []copySet
	// between counts copies by pair of files. It holds the first maxFilePairs pairs.
	between map[filePair]*FileCopies
	files   []fileStart
}

// filePair holds the indices in copyFinder.files of the file of a copy and of the file of the
// row that it copies.
type filePair struct{ copy, first int }

// fileStart is the first row of a file.
type fileStart struct {
	row  int
	name string
}

// copyKind says how a row belongs to a group of copies.
type copyKind byte

const (
	noCopy      copyKind = iota
	firstOfCopy          // later rows copy it
	exactCopy
	nearCopy
	mirroredCopy
)

// String returns the name of a kind in the column kind of the file of duplicates.
func (k copyKind) String() string { return [...]string{"", "first", "exact", "near", "mirrored"}[k] }

// mark says which row a row copies. The row that it copies may itself be a near copy of the
// first row of the group.
type mark struct {
	first    int
	kind     copyKind
	distance float32
}

// nearRow is a near copy. Its mark holds the first row of its group.
type nearRow struct {
	row int
	mark
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
// the exact copies within each bin. Then it finds near copies among the distinct rows.
func (w *ScoreSet) findCopies(ctx context.Context, dir string) (r *copyFinder, err error) {
	finder := &copyFinder{scores: w, dir: dir, ranks: slices.Clone(w.ranks), between: map[filePair]*FileCopies{}}
	for _, ranks := range w.labels {
		finder.labels = append(finder.labels, slices.Clone(ranks))
	}
	finder.marks = rowValues[mark]{spill: spill{dir: dir, size: markRecordSize}, decode: decodeMark}
	finder.flags = rowValues[byte]{spill: spill{dir: dir, size: flagRecordSize}, decode: func(record []byte, flags *byte) { *flags = record[0] }}
	defer func() {
		if err != nil {
			finder.close()
		}
	}()
	for _, step := range []func(context.Context) error{finder.findExact, finder.findNear, finder.flagCopies} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return finder, nil
}

func decodeMark(record []byte, m *mark) {
	kind := copyKind(record[8])
	if kind == firstOfCopy && m.kind != noCopy { // the row is itself a copy
		return
	}
	*m = mark{int(binary.LittleEndian.Uint64(record)), kind, math.Float32frombits(binary.LittleEndian.Uint32(record[9:]))}
}

// addMark records that a row copies another, or that it is the first row of its group.
func (r *copyFinder) addMark(row int, m mark) error {
	record := binary.LittleEndian.AppendUint64(nil, uint64(m.first))
	record = append(record, byte(m.kind))
	return r.marks.set(row, binary.LittleEndian.AppendUint32(record, math.Float32bits(m.distance)))
}

// findExact marks rows with equal hashes.
func (r *copyFinder) findExact(ctx context.Context) error {
	byHash := spill{dir: r.dir, size: hashRecordSize}
	defer byHash.close()
	w := r.scores
	err := w.eachBlock(ctx, w.columns().subset([]string{"input_hash", "p_value"}), func(b block) error {
		hashes, p := b.texts("input_hash"), b.numbers("p_value")
		var record [hashRecordSize]byte
		for i := range b.n {
			if n, err := hex.Decode(record[:16], hashes[i][:min(len(hashes[i]), 32)]); err != nil || n != 16 || len(hashes[i]) != 32 {
				return fmt.Errorf("%w: %.40q is not the hash of an input", ErrNotScores, hashes[i])
			}
			if rank := w.rank(p[i]); rank < 1 || rank > len(w.ranks) {
				return fmt.Errorf("%w: %v is not a p-value of %d calibration rows", ErrNotScores, p[i], w.Calibration)
			}
			binary.LittleEndian.PutUint64(record[16:], uint64(b.row+i))
			if err := byHash.add(int(record[0])%hashBins, record[:]); err != nil {
				return err
			}
		}
		return nil
	})
	known := map[rowhash.Hash]int{} // first row with each hash of a bin
	for i := range hashBins {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		clear(known)
		err = byHash.each(i, func(record []byte) error { // rows in a bin keep their order
			hash, row := rowhash.Hash(record), int(binary.LittleEndian.Uint64(record[16:]))
			first, again := known[hash]
			if !again {
				known[hash] = row
				return nil
			}
			return cmp.Or(r.addMark(first, mark{first: first, kind: firstOfCopy}), r.addMark(row, mark{first: first, kind: exactCopy}))
		})
	}
	return err
}

// firstOf returns the first row of the group of a row.
func (r *copyFinder) firstOf(row int) int {
	if at, found := slices.BinarySearchFunc(r.near, row, func(n nearRow, row int) int { return cmp.Compare(n.row, row) }); found {
		return r.near[at].first
	}
	return row
}

// flagCopies counts the copies and sets their flags. It sorts the rows of groups of copies into
// bins by the first row of their group.
func (r *copyFinder) flagCopies(ctx context.Context) error {
	if r.marks.empty() {
		return nil
	}
	byFirst := spill{dir: r.dir, size: memberRecordSize + 8*r.scores.labelLists()}
	defer byFirst.close()
	w := r.scores
	columns := []string{"p_value", "folder"}
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
	read := r.marks.reader()
	err := w.eachBlock(ctx, w.columns().subset(columns), func(b block) error {
		marks, err := read.of(b.row, b.n)
		if err != nil {
			return err
		}
		if n := len(r.files); n == 0 || r.files[n-1].name != b.name {
			r.files = append(r.files, fileStart{b.row, b.name})
		}
		p, folders, shard := b.numbers("p_value"), b.texts("folder"), numberOf(shardKind, []byte(b.name))
		for i, m := range marks {
			if m.kind == noCopy {
				continue
			}
			r.countBetween(m)
			groups := [kinds]uint32{shardKind: shard, folderKind: numberOf(folderKind, folders[i])}
			if w.Reading.Groups != "" {
				groups[groupKind] = numberOf(groupKind, b.texts("group")[i])
			}
			if w.Task == attach.Classification {
				groups[classKind] = uint32(int32(b.numbers("class")[i]))
			}
			groups[labelKind] = w.labelNumber(b, i)
			first := r.firstOf(m.first)
			record := binary.LittleEndian.AppendUint64(nil, uint64(first))
			record = binary.LittleEndian.AppendUint64(record, uint64(b.row+i))
			record = binary.LittleEndian.AppendUint32(record, uint32(w.rank(p[i])))
			for _, n := range groups {
				record = binary.LittleEndian.AppendUint32(record, n)
			}
			for list := range w.labelLists() {
				part, rank, err := w.labelOf(b, list, i)
				if err != nil {
					return err
				}
				record = binary.LittleEndian.AppendUint32(record, uint32(part))
				record = binary.LittleEndian.AppendUint32(record, uint32(rank))
			}
			if err := byFirst.add(first%hashBins, record); err != nil {
				return err
			}
		}
		return nil
	})
	for bin := range hashBins {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		err = r.flagBin(&byFirst, bin)
	}
	return err
}

// countBetween counts a copy in the file that was begun last.
func (r *copyFinder) countBetween(m mark) {
	if m.kind == firstOfCopy {
		return
	}
	first, found := slices.BinarySearchFunc(r.files, m.first, func(f fileStart, row int) int { return cmp.Compare(f.row, row) })
	if !found {
		first--
	}
	pair := filePair{len(r.files) - 1, first}
	n := r.between[pair]
	if n == nil {
		if len(r.between) == maxFilePairs {
			return
		}
		n = &FileCopies{Shard: r.files[pair.copy].name, Of: r.files[first].name}
		r.between[pair] = n
	}
	switch m.kind {
	case exactCopy:
		n.Exact++
	case nearCopy:
		n.Near++
	case mirroredCopy:
		n.Mirrored++
	}
}

// mostBetween returns the pairs of files with the most copies, in falling order.
func (r *copyFinder) mostBetween() []FileCopies {
	pairs := slices.SortedFunc(maps.Keys(r.between), func(a, b filePair) int {
		total := func(p filePair) int { n := r.between[p]; return n.Exact + n.Near + n.Mirrored }
		return cmp.Or(cmp.Compare(total(b), total(a)), cmp.Compare(a.copy, b.copy), cmp.Compare(a.first, b.first))
	})
	var list []FileCopies
	for _, pair := range pairs[:min(len(pairs), maxBetween)] {
		list = append(list, *r.between[pair])
	}
	return list
}

// copyGroup describes the rows of a group of copies that were read.
type copyGroup struct {
	copySet
	groups [kinds]map[uint32]bool // for each kind, the groups of the rows
}

// flagBin sets the flags of the copies in one bin. Rows in a bin keep their order.
func (r *copyFinder) flagBin(byFirst *spill, bin int) error {
	known := map[uint64]*copyGroup{}
	err := byFirst.each(bin, func(record []byte) error {
		first, row := binary.LittleEndian.Uint64(record), int(binary.LittleEndian.Uint64(record[8:]))
		g := known[first]
		if g == nil {
			g = &copyGroup{}
			known[first] = g
		}
		var flags byte
		if g.count > 0 {
			flags = copyOfAny
			r.count++
			rank := binary.LittleEndian.Uint32(record[16:]) - 1
			if r.ranks[rank]--; r.ranks[rank] < 0 {
				return fmt.Errorf("%w: its ranks do not match its p-values", ErrNotScores)
			}
		}
		if g.count++; len(g.rows) < MaxCopyKeys {
			g.rows = append(g.rows, row)
		}
		for k := range g.groups {
			if g.groups[k] == nil {
				g.groups[k] = map[uint32]bool{}
			}
			if n := binary.LittleEndian.Uint32(record[20+4*k:]); g.groups[k][n] {
				flags |= copyInKind(k)
			} else {
				g.groups[k][n] = true
			}
		}
		if flags&copyInKind(labelKind) != 0 {
			r.dropLabels(record)
		}
		if flags == 0 {
			return nil
		}
		return r.flags.set(row, []byte{flags})
	})
	for _, g := range known {
		r.mostCopied = append(r.mostCopied, g.copySet)
	}
	slices.SortFunc(r.mostCopied, func(a, b copySet) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.rows[0], b.rows[0]))
	})
	r.mostCopied = slices.Clone(r.mostCopied[:min(len(r.mostCopied), maxMostCopied)])
	return err
}

// dropLabels takes the labels of a copy out of the distinct ones.
func (r *copyFinder) dropLabels(record []byte) {
	for list := range r.scores.labelLists() {
		encoded := record[memberRecordSize+8*list:]
		from, _ := r.scores.partsOf(list)
		if part := int32(binary.LittleEndian.Uint32(encoded)); part >= 0 {
			r.labels[from+int(part)][binary.LittleEndian.Uint32(encoded[4:])]--
		}
	}
}

// most returns the largest number of times that a row occurs.
func (r *copyFinder) most() int {
	if len(r.mostCopied) == 0 {
		return 1
	}
	return r.mostCopied[0].count
}

// close removes the temporary files.
func (r *copyFinder) close() {
	r.marks.close()
	r.flags.close()
}
