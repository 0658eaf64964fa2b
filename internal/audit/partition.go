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

// results returns the results of the set, from those of its partitions. It writes the rows of
// each partition to a file of each table, unless to is nil.
func (m *Merge) results(ctx context.Context, to *tables) (*Audit, error) {
	tallies := make([]*tally, len(m.partitions))
	err := inParallel(len(m.partitions), func(i int) (err error) {
		tallies[i], err = m.tally(ctx, i, to)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, later := range tallies[1:] {
		if err := tallies[0].merge(later); err != nil {
			return nil, err
		}
		tallies[i+1] = nil
	}
	return tallies[0].finish(ctx)
}

// tally counts the rows of a partition. It writes them to a file of each table, unless to is nil.
func (m *Merge) tally(ctx context.Context, partition int, to *tables) (*tally, error) {
	w := m.partitions[partition]
	flags, err := m.openFlags(ctx, partition)
	if err != nil {
		return nil, err
	}
	defer flags.close()
	t, err := w.newTally(&m.copies, flags)
	if err != nil {
		return nil, err
	}
	if to == nil {
		return t, w.eachBlock(ctx, w.columns(), t.add)
	}
	marks, err := m.openMarks(ctx, partition)
	if err != nil {
		return nil, err
	}
	defer marks.close()
	scores, err := to.scores.create(partition)
	if err != nil {
		return nil, err
	}
	duplicates, err := to.duplicates.create(partition)
	if err != nil {
		return nil, err
	}
	err = w.eachBlock(ctx, w.columns(), func(b block) error {
		discovered := w.discoveryColumns(t.a, b) // they are known only after all rows were scored
		for i := range b.n {
			if err := scores.copyRow(b, i, discovered); err != nil {
				return err
			}
		}
		marked, err := marks.of(b.row, b.n)
		if err == nil {
			err = m.writeCopies(duplicates.writer, b, marked)
		}
		if err != nil {
			return err
		}
		return t.add(b)
	})
	if err != nil {
		return nil, err
	}
	return t, cmp.Or(scores.end(), duplicates.end())
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
	for _, other := range slices.SortedFunc(maps.Values(later.reasonGroups), func(a, b *reasonCounts) int { return a.order - b.order }) {
		switch c, ok := t.reasonGroups[other.Reasons]; {
		case ok:
			c.merge(other)
		case len(t.reasonGroups) < maxCountedGroups || other.Reasons == "":
			other.order = len(t.reasonGroups)
			t.reasonGroups[other.Reasons] = other
		}
	}
	return nil
}

// merge adds the counts of rows of a group after those of c.
func (c *groupCounts) merge(later *groupCounts) {
	c.rows += later.rows
	c.discovered += later.discovered
	c.unusual += later.unusual
	c.fitDuplicates += later.fitDuplicates
	c.distinct += later.distinct
	for way := range c.lookCounts {
		addCounts(c.lookCounts[way], later.lookCounts[way])
	}
	addCounts(c.withTarget, later.withTarget)
	addCounts(c.covered, later.covered)
	for list := range c.labels {
		c.labels[list].merge(&later.labels[list])
	}
	if c.counterpart != later.counterpart {
		c.counterpart = groupKey{}
	}
}

func addCounts(to, from []int) {
	for i, n := range from {
		to[i] += n
	}
}

// merge adds the counts of other rows.
func (c *labelCounts) merge(other *labelCounts) {
	c.rows += other.rows
	c.discoveries += other.discoveries
	for way, looks := range other.looks {
		if c.looks[way] == nil {
			c.looks[way] = looks
			continue
		}
		for at, n := range looks {
			c.looks[way][at] += n
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
