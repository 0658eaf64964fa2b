package audit

import (
	"cmp"
	"context"
	"maps"
	"slices"
)

// slice returns the rows of the set from number start to number end. It has the counts of the
// whole set.
func (w *ScoreSet) slice(start, end int) *ScoreSet {
	part := *w
	part.segments, part.firstRow = nil, start
	at := 0
	for _, s := range w.segments {
		n := s.End - s.Start
		if from, to := max(start-at, 0), min(end-at, n); from < to {
			cut := s
			cut.Start, cut.End, cut.first = s.Start+from, s.Start+to, s.first+from
			part.segments = append(part.segments, cut)
		}
		at += n
	}
	return &part
}

// partitions divides the set into sets of consecutive rows. All but the last have size rows.
func (w *ScoreSet) partitions(size int) (all []*ScoreSet) {
	for at := 0; at < w.ranks.Rows(); at += size {
		all = append(all, w.slice(at, at+size))
	}
	return all
}

// tables holds the tables that a merge writes.
type tables struct{ scores, duplicates *table }

// tableFiles holds the files of a partition.
type tableFiles struct{ scores, duplicates *tableFile }

// create begins the files of a partition.
func (t *tables) create(partition int) (files tableFiles, err error) {
	if files.scores, err = t.scores.create(partition); err == nil {
		files.duplicates, err = t.duplicates.create(partition)
	}
	return files, err
}

// results returns the results of the set, from those of its partitions. It writes the rows of
// each partition to a file of each table, unless to is nil.
func (m *Merge) results(ctx context.Context, to *tables) (*Audit, error) {
	tallies := make([]*tally, len(m.partitions))
	err := inParallel(len(m.partitions), func(i int) (err error) {
		var files *tableFiles
		if to != nil {
			created, err := to.create(i)
			if err != nil {
				return err
			}
			files = &created
		}
		tallies[i], err = m.tally(ctx, i, files)
		return err
	})
	if err != nil {
		return nil, err
	}
	return mergeTallies(ctx, tallies)
}

// mergeTallies returns the results of all partitions.
func mergeTallies(ctx context.Context, tallies []*tally) (*Audit, error) {
	for i, later := range tallies[1:] {
		if err := tallies[0].merge(later); err != nil {
			return nil, err
		}
		tallies[i+1] = nil
	}
	return tallies[0].finish(ctx)
}

// tally counts the rows of a partition. It writes them to files, unless to is nil.
func (m *Merge) tally(ctx context.Context, partition int, to *tableFiles) (*tally, error) {
	flags, err := m.openFlags(ctx, partition)
	if err != nil {
		return nil, err
	}
	defer flags.close()
	t, err := m.partitions[partition].newTally(&m.copies, flags)
	if err != nil {
		return nil, err
	}
	columns := m.set.columns()
	if to == nil {
		return t, m.eachBlock(ctx, partition, columns, t.add)
	}
	marks, err := m.openMarks(ctx, partition)
	if err != nil {
		return nil, err
	}
	defer marks.close()
	err = m.eachBlock(ctx, partition, columns, func(b block) error {
		discovered := m.set.discoveryColumns(t.a, b) // they are known only after all rows were scored
		for i := range b.n {
			if err := to.scores.copyRow(b, i, discovered); err != nil {
				return err
			}
		}
		marked, err := marks.of(b.row, b.n)
		if err == nil {
			err = m.writeCopies(to.duplicates.writer, b, marked)
		}
		if err != nil {
			return err
		}
		return t.add(b)
	})
	if err != nil {
		return nil, err
	}
	return t, cmp.Or(to.scores.end(), to.duplicates.end())
}

// merge adds the counts of the rows after those of t.
func (t *tally) merge(later *tally) error {
	for k := range t.a.Intervals {
		interval, other := &t.a.Intervals[k], later.a.Intervals[k]
		interval.WithTarget += other.WithTarget
		interval.Covered += other.Covered
		for i, width := range later.widths[k] {
			t.addWidest(k, width, func() Row { return other.Widest[i] })
		}
		if err := t.distinctWidths[k].Merge(later.distinctWidths[k]); err != nil {
			return err
		}
	}
	if t.a.FitDuplicates != nil {
		*t.a.FitDuplicates += *later.a.FitDuplicates
	}
	for i, r := range later.a.HighestScoring {
		if r.Key != "" {
			t.a.HighestScoring[i] = r
		}
	}
	for i, r := range later.a.mapped {
		if r.Key != "" {
			t.a.mapped[i] = r
		}
	}
	if t.a.Copies != nil {
		for i, set := range later.a.Copies.MostCopied {
			for j, key := range set.Keys {
				t.a.Copies.MostCopied[i].Keys[j] = cmp.Or(t.a.Copies.MostCopied[i].Keys[j], key)
			}
		}
	}
	for i, l := range t.labels {
		l.merge(later.labels[i])
	}
	for key, other := range later.groups {
		if c, ok := t.groups[key]; ok {
			c.merge(other)
		} else {
			t.groups[key] = other
		}
	}
	for _, other := range slices.SortedFunc(maps.Values(later.reasonGroups), func(a, b *reasonCounts) int { return a.Order - b.Order }) {
		switch c, ok := t.reasonGroups[other.Reasons]; {
		case ok:
			c.merge(other)
		case len(t.reasonGroups) < maxCountedGroups || other.Reasons == "":
			other.Order = len(t.reasonGroups)
			t.reasonGroups[other.Reasons] = other
		}
	}
	return nil
}

// merge adds the counts of rows of a group after those of c.
func (c *groupCounts) merge(later *groupCounts) {
	c.Rows += later.Rows
	c.Discovered += later.Discovered
	c.Unusual += later.Unusual
	c.FitDuplicates += later.FitDuplicates
	c.Distinct += later.Distinct
	for way := range c.LookCounts {
		addCounts(c.LookCounts[way], later.LookCounts[way])
	}
	addCounts(c.WithTarget, later.WithTarget)
	addCounts(c.Covered, later.Covered)
	for list := range c.Labels {
		c.Labels[list].merge(&later.Labels[list])
	}
	if c.Counterpart != later.Counterpart {
		c.Counterpart = groupKey{}
	}
}

func addCounts(to, from []int) {
	for i, n := range from {
		to[i] += n
	}
}

// merge adds the counts of other rows.
func (c *labelCounts) merge(other *labelCounts) {
	c.Rows += other.Rows
	c.Discoveries += other.Discoveries
	for way, looks := range other.Looks {
		if c.Looks[way] == nil {
			c.Looks[way] = looks
			continue
		}
		for at, n := range looks {
			c.Looks[way][at] += n
		}
	}
}

// merge adds the label errors of the rows after those of t.
func (t *labelTally) merge(later *labelTally) {
	for pair, other := range later.confusions {
		if c := t.confusions[pair]; c != nil {
			c.Discoveries += other.Discoveries
		} else {
			t.confusions[pair] = other
		}
	}
	for i, s := range later.order {
		t.addSuspicious(s, func() Row { return later.result.MostSuspicious[i] })
	}
}
