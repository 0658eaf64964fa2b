package audit

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
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
	// maxFilePairs pairs of files of a partition, and of all rows, because the counts are in memory.
	maxBetween   = 20
	maxFilePairs = 100_000

	hashRecordSize = 16 + 8        // a hash and a row number
	markRecordSize = 8 + 8 + 1 + 4 // a row number and a mark
	flagRecordSize = 8 + 1         // a row number and its copy flags
	// memberRecordSize is the size of the row numbers of the first row and of the row, a rank,
	// and a number of the group for each of Kinds. The ranks of labels follow.
	memberRecordSize = 8 + 8 + 4 + 8*kinds
)

// copySummary describes the copies in a set.
type copySummary struct {
	Ranks  calibrate.Ranks   // ranks of the distinct rows
	Labels []calibrate.Ranks // ranks of the labels of rows with distinct content or labels, by part
	// Count is the number of rows that are copies, Near that of near copies, and Mirrored that of
	// mirrored ones among these.
	Count, Near, Mirrored int
	// MostCopied holds the rows with the most copies, in falling order.
	MostCopied []copySet
	// Between holds the pairs of files with the most copies, in falling order.
	Between []FileCopies
}

// most returns the largest number of times that a row occurs.
func (c *copySummary) most() int {
	if len(c.MostCopied) == 0 {
		return 1
	}
	return c.MostCopied[0].Count
}

// copySet describes equal rows.
type copySet struct {
	Count int
	Rows  []int // numbers of the first MaxCopyKeys rows
}

// keepMost sorts sets of equal rows by falling number of rows, and keeps the first ones.
func keepMost(sets []copySet) []copySet {
	slices.SortFunc(sets, func(a, b copySet) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Rows[0], b.Rows[0]))
	})
	return slices.Clone(sets[:min(len(sets), maxMostCopied)])
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

// nearRow is a near copy. First is the first row of its group.
type nearRow struct {
	Row, First int
	Kind       copyKind
	Distance   float32
}

func (n nearRow) mark() mark { return mark{n.First, n.Kind, n.Distance} }

// copyOfAny flags a row that equals any earlier row.
const copyOfAny = 1

// copyInKind returns the flag of a row that equals an earlier row of its own group of this
// kind. The argument kind is an index of [Kinds].
func copyInKind(kind int) byte { return 2 << kind }

// findCopies finds the copies in the set, in bounded memory. It calls the function run for each
// round: exact copies have equal hashes, near copies are found among the distinct rows, and last
// the copies of each group are counted.
func (m *Merge) findCopies(ctx context.Context, run func(context.Context, Round) error) error {
	if err := run(ctx, Round{Name: exactRound}); err != nil {
		return err
	}
	copied, err := m.indexSketches(ctx)
	if err != nil {
		return err
	}
	bands := 0
	for _, x := range m.indices {
		bands = max(bands, x.bands())
	}
	for band := range bands {
		if err := run(ctx, Round{nearRound, band}); err != nil {
			return err
		}
	}
	if err := m.joinNear(ctx, bands); err != nil {
		return err
	}
	if err := m.share(ctx, nearFile, m.near); err != nil {
		return err
	}
	m.copies = copySummary{Ranks: m.set.ranks, Labels: m.set.labels}
	if copied || len(m.near) > 0 {
		if err := run(ctx, Round{Name: flagRound}); err != nil {
			return err
		}
		if err := m.sumCopies(ctx); err != nil {
			return err
		}
	}
	return m.share(ctx, summaryFile, m.copies)
}

func decodeMark(record []byte) mark {
	return mark{int(binary.BigEndian.Uint64(record)), copyKind(record[8]), math.Float32frombits(binary.BigEndian.Uint32(record[9:]))}
}

func encodeMark(row int, m mark) []byte {
	record := binary.BigEndian.AppendUint64(nil, uint64(row))
	record = append(binary.BigEndian.AppendUint64(record, uint64(m.first)), byte(m.kind))
	return binary.BigEndian.AppendUint32(record, math.Float32bits(m.distance))
}

// scatterHashes sends the hash of each row of a partition.
func (m *Merge) scatterHashes(ctx context.Context, partition int, send func(bin int, record []byte) error) error {
	w := m.set
	return m.eachBlock(ctx, partition, w.columns().subset([]string{"input_hash", "p_value"}), func(b block) error {
		hashes, p := b.texts("input_hash"), b.numbers("p_value")
		var record [hashRecordSize]byte
		for i := range b.n {
			if n, err := hex.Decode(record[:16], hashes[i][:min(len(hashes[i]), 32)]); err != nil || n != 16 || len(hashes[i]) != 32 {
				return fmt.Errorf("%w: %.40q is not the hash of an input", ErrNotScores, hashes[i])
			}
			if rank := w.rank(p[i]); rank < 1 || rank > len(w.ranks) {
				return fmt.Errorf("%w: %v is not a p-value of %d calibration rows", ErrNotScores, p[i], w.Calibration)
			}
			binary.BigEndian.PutUint64(record[16:], uint64(b.row+i))
			if err := send(int(binary.BigEndian.Uint32(record[:]))%m.bins, record[:]); err != nil {
				return err
			}
		}
		return nil
	})
}

// equalRows describes rows with equal hashes.
type equalRows struct {
	first int
	again bool // whether there are several
}

// matchHashes marks rows with equal hashes.
func matchHashes(records Records, send func(record []byte) error) error {
	found := map[rowhash.Hash]equalRows{}
	err := records(func(record []byte) error {
		hash, row := rowhash.Hash(record[:16]), int(binary.BigEndian.Uint64(record[16:]))
		before, again := found[hash]
		if again {
			row = min(row, before.first)
		}
		found[hash] = equalRows{row, again}
		return nil
	})
	if err != nil {
		return err
	}
	return records(func(record []byte) error {
		equal, row := found[rowhash.Hash(record[:16])], int(binary.BigEndian.Uint64(record[16:]))
		switch {
		case !equal.again:
			return nil
		case row == equal.first:
			return send(encodeMark(row, mark{first: row, kind: firstOfCopy}))
		}
		return send(encodeMark(row, mark{first: equal.first, kind: exactCopy}))
	})
}

// firstOf returns the first row of the group of a row.
func (m *Merge) firstOf(row int) int {
	if at, found := slices.BinarySearchFunc(m.near, row, func(n nearRow, row int) int { return cmp.Compare(n.Row, row) }); found {
		return m.near[at].First
	}
	return row
}

// marks reads the marks of the rows of a partition.
type marks struct {
	exact  *rowReader[mark]
	near   []nearRow // those of the partition
	firsts []int     // rows of the partition that near copies copy, sorted
}

// openMarks opens the marks of a partition. Near copies have marks after all of them are found.
func (m *Merge) openMarks(ctx context.Context, partition int) (r *marks, err error) {
	start := m.partitions[partition].firstRow
	end := start + m.size
	r = &marks{}
	for _, n := range m.near {
		if n.First >= start && n.First < end {
			r.firsts = append(r.firsts, n.First)
		}
		if n.Row >= start && n.Row < end {
			r.near = append(r.near, n)
		}
	}
	slices.Sort(r.firsts)
	r.exact, err = openRows(ctx, m.files, m.fileName(exactRound, partition), markRecordSize, decodeMark)
	return r, err
}

// of returns the marks of n rows that begin at row. Callers go through the rows in order.
func (r *marks) of(row, n int) ([]mark, error) {
	list, err := r.exact.of(row, n)
	if err != nil {
		return nil, err
	}
	for ; len(r.near) > 0 && r.near[0].Row < row+n; r.near = r.near[1:] {
		list[r.near[0].Row-row] = r.near[0].mark()
	}
	for ; len(r.firsts) > 0 && r.firsts[0] < row+n; r.firsts = r.firsts[1:] {
		if m := &list[r.firsts[0]-row]; m.kind == noCopy { // otherwise it has exact copies too
			*m = mark{first: r.firsts[0], kind: firstOfCopy}
		}
	}
	return list, nil
}

func (r *marks) close() { r.exact.close() }

// scatterCopies sends the copies of a partition, and the rows that they copy, by the first row of
// their group. It also counts the copies by pair of files.
func (m *Merge) scatterCopies(ctx context.Context, partition int, send func(bin int, record []byte) error) error {
	w := m.set
	read, err := m.openMarks(ctx, partition)
	if err != nil {
		return err
	}
	defer read.close()
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
	between := newPairCounts(w.fileStarts())
	err = m.eachBlock(ctx, partition, w.columns().subset(columns), func(b block) error {
		marks, err := read.of(b.row, b.n)
		if err != nil {
			return err
		}
		p, folders, shard := b.numbers("p_value"), b.texts("folder"), hashName([]byte(b.name))
		for i, mark := range marks {
			if mark.kind == noCopy {
				continue
			}
			between.count(b.row+i, mark)
			groups := [kinds]uint64{shardKind: shard, folderKind: hashName(folders[i]), labelKind: uint64(w.labelNumber(b, i))}
			if w.Reading.Groups != "" {
				groups[groupKind] = hashName(b.texts("group")[i])
			}
			if w.Task == attach.Classification {
				groups[classKind] = uint64(int(b.numbers("class")[i]))
			}
			first := m.firstOf(mark.first)
			record := binary.BigEndian.AppendUint64(nil, uint64(first))
			record = binary.BigEndian.AppendUint64(record, uint64(b.row+i))
			record = binary.BigEndian.AppendUint32(record, uint32(w.rank(p[i])))
			for _, n := range groups {
				record = binary.BigEndian.AppendUint64(record, n)
			}
			for list := range w.labelLists() {
				part, rank, err := w.labelOf(b, list, i)
				if err != nil {
					return err
				}
				record = binary.BigEndian.AppendUint32(record, uint32(part))
				record = binary.BigEndian.AppendUint32(record, uint32(rank))
			}
			if err := send(first%m.bins, record); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return m.put(ctx, m.fileName(pairFile, partition), between.list)
}

// hashName returns a number that is equal for equal names, and in practice differs for others.
func hashName(name []byte) uint64 {
	h := fnv.New64a()
	h.Write(name)
	return h.Sum64()
}

// binCopies counts the copies whose first rows are in one bin.
type binCopies struct {
	Count      int
	MostCopied []copySet
	// Ranks and Labels count the copies by rank, and by part and rank of their labels.
	Ranks  map[int]int
	Labels map[[2]int]int
}

// copyGroup describes the rows of a group of copies.
type copyGroup struct {
	copySet
	firsts [kinds]map[uint64]int // for each kind, the first row of each group
}

// matchCopies flags and counts the copies of a bin. A row is a copy in a group, unless it is the
// first of its copies there.
func (m *Merge) matchCopies(ctx context.Context, bin int, records Records, send func(record []byte) error) error {
	groups := map[uint64]*copyGroup{} // by first row
	err := records(func(record []byte) error {
		first, row := binary.BigEndian.Uint64(record), int(binary.BigEndian.Uint64(record[8:]))
		g := groups[first]
		if g == nil {
			g = &copyGroup{}
			groups[first] = g
		}
		g.Count++
		if at, _ := slices.BinarySearch(g.Rows, row); at < MaxCopyKeys {
			g.Rows = slices.Insert(g.Rows, at, row)
			g.Rows = g.Rows[:min(len(g.Rows), MaxCopyKeys)]
		}
		for k := range g.firsts {
			if g.firsts[k] == nil {
				g.firsts[k] = map[uint64]int{}
			}
			group := groupIn(record, k)
			if before, ok := g.firsts[k][group]; !ok || row < before {
				g.firsts[k][group] = row
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	found := binCopies{Ranks: map[int]int{}, Labels: map[[2]int]int{}}
	for _, g := range groups {
		found.Count += g.Count - 1
		found.MostCopied = append(found.MostCopied, g.copySet)
	}
	found.MostCopied = keepMost(found.MostCopied)
	err = records(func(record []byte) error {
		row, g := int(binary.BigEndian.Uint64(record[8:])), groups[binary.BigEndian.Uint64(record)]
		var flags byte
		if row != g.Rows[0] {
			flags = copyOfAny
			found.Ranks[int(binary.BigEndian.Uint32(record[16:]))-1]++
		}
		for k := range g.firsts {
			if row != g.firsts[k][groupIn(record, k)] {
				flags |= copyInKind(k)
			}
		}
		if flags&copyInKind(labelKind) != 0 {
			for list := range m.set.labelLists() {
				encoded := record[memberRecordSize+8*list:]
				from, _ := m.set.partsOf(list)
				if part := int(int32(binary.BigEndian.Uint32(encoded))); part >= 0 {
					found.Labels[[2]int{from + part, int(binary.BigEndian.Uint32(encoded[4:]))}]++
				}
			}
		}
		if flags == 0 {
			return nil
		}
		return send(append(slices.Clone(record[8:16]), flags))
	})
	if err != nil {
		return err
	}
	return m.put(ctx, m.fileName(binFile, bin), found)
}

// groupIn returns the number of the group of a kind in a record of scatterCopies.
func groupIn(record []byte, kind int) uint64 { return binary.BigEndian.Uint64(record[20+8*kind:]) }

// openFlags opens the copy flags of the rows of a partition.
func (m *Merge) openFlags(ctx context.Context, partition int) (*rowReader[byte], error) {
	if m.copies.Count == 0 { // there was no flagRound
		return &rowReader[byte]{close: func() {}}, nil
	}
	return openRows(ctx, m.files, m.fileName(flagRound, partition), flagRecordSize, func(record []byte) byte { return record[0] })
}

// sumCopies sets m.copies from the counts of all bins and partitions.
func (m *Merge) sumCopies(ctx context.Context) error {
	s := copySummary{Ranks: slices.Clone(m.set.ranks), Near: len(m.near)}
	for _, ranks := range m.set.labels {
		s.Labels = append(s.Labels, slices.Clone(ranks))
	}
	for _, n := range m.near {
		if n.Kind == mirroredCopy {
			s.Mirrored++
		}
	}
	for bin := range m.bins {
		var found binCopies
		if err := m.get(ctx, m.fileName(binFile, bin), &found); err != nil {
			return err
		}
		s.Count += found.Count
		for rank, n := range found.Ranks {
			if s.Ranks[rank] -= n; s.Ranks[rank] < 0 {
				return fmt.Errorf("%w: its ranks do not match its p-values", ErrNotScores)
			}
		}
		for at, n := range found.Labels {
			s.Labels[at[0]][at[1]] -= n
		}
		s.MostCopied = keepMost(append(s.MostCopied, found.MostCopied...))
	}
	between := newPairCounts(m.set.fileStarts())
	for i := range m.partitions {
		var list []filePair
		if err := m.get(ctx, m.fileName(pairFile, i), &list); err != nil {
			return err
		}
		for _, p := range list {
			between.add(p)
		}
	}
	s.Between = between.most()
	m.copies = s
	return nil
}

// fileStart is the first row of a file.
type fileStart struct {
	row  int
	name string
}

// fileStarts returns the first rows of the files of the whole set. Files with one name that follow
// each other count as one.
func (w *ScoreSet) fileStarts() (list []fileStart) {
	row := 0
	for _, s := range w.Shards {
		if n := len(list); n == 0 || list[n-1].name != s.Shard {
			list = append(list, fileStart{row, s.Shard})
		}
		row += s.Audited
	}
	return list
}

// filePair counts the copies in the file Copy of rows of the file Of, as indices of fileStarts.
type filePair struct {
	Copy, Of, Exact, Near, Mirrored int
}

// pairCounts counts copies by pair of files.
type pairCounts struct {
	files []fileStart
	list  []filePair     // in the order of their first copies
	index map[[2]int]int // of list
}

func newPairCounts(files []fileStart) *pairCounts {
	return &pairCounts{files: files, index: map[[2]int]int{}}
}

// count counts a row that is a copy.
func (c *pairCounts) count(row int, m mark) {
	p := filePair{Copy: c.fileOf(row), Of: c.fileOf(m.first)}
	switch m.kind {
	case firstOfCopy:
		return
	case exactCopy:
		p.Exact = 1
	case nearCopy:
		p.Near = 1
	case mirroredCopy:
		p.Mirrored = 1
	}
	c.add(p)
}

// add adds the counts of a pair. It leaves out a new pair if there are maxFilePairs.
func (c *pairCounts) add(p filePair) {
	key := [2]int{p.Copy, p.Of}
	at, ok := c.index[key]
	switch {
	case ok:
		c.list[at].Exact += p.Exact
		c.list[at].Near += p.Near
		c.list[at].Mirrored += p.Mirrored
	case len(c.list) < maxFilePairs:
		c.index[key] = len(c.list)
		c.list = append(c.list, p)
	}
}

// fileOf returns the index of the file of a row.
func (c *pairCounts) fileOf(row int) int {
	at, found := slices.BinarySearchFunc(c.files, row, func(f fileStart, row int) int { return cmp.Compare(f.row, row) })
	if !found {
		at--
	}
	return at
}

// most returns the pairs of files with the most copies, in falling order.
func (c *pairCounts) most() (list []FileCopies) {
	total := func(p filePair) int { return p.Exact + p.Near + p.Mirrored }
	pairs := slices.SortedFunc(slices.Values(c.list), func(a, b filePair) int {
		return cmp.Or(cmp.Compare(total(b), total(a)), cmp.Compare(a.Copy, b.Copy), cmp.Compare(a.Of, b.Of))
	})
	for _, p := range pairs[:min(len(pairs), maxBetween)] {
		list = append(list, FileCopies{Shard: c.files[p.Copy].name, Of: c.files[p.Of].name, Exact: p.Exact, Near: p.Near, Mirrored: p.Mirrored})
	}
	return list
}
