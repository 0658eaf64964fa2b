package audit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/audit/result"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// maxWidest is the largest length of Interval.Widest.
const maxWidest = 20

// tally accumulates the results of an audit row by row.
type tally struct {
	scores *ScoreSet
	a      *Audit
	ranks  countedRanks
	bounds bounds           // fail with probability at most Delta/2
	flags  *rowReader[byte] // copy flags
	labels []*labelTally
	looks  []int // ranks at which bounds are evaluated, from hypothesis.Looks
	groups map[groupKey]*groupCounts

	reasonGroups map[string]*reasonCounts

	widths         [][]float64         // per target, the widths of the widest intervals
	shownRows      map[int]map[int]int // indices in HighestScoring, by shard and row
	onMap          map[int]map[int]int // indices in Audit.mapped, by shard and row
	suspicious     map[int]map[int]int // indices in retained.Labels, by shard and row
	pendingKeys    []pendingKey        // keys that Copies lists, in the order of rows
	scratch        countedRanks        // result of groupRanks
	distinctWidths []calibrate.Ranks   // per target, the ranks of interval widths of distinct rows
}

// pendingKey is a key that is written to *key when its row is read.
type pendingKey struct {
	row int
	key *string
}

// groupKey identifies a group. The zero value identifies none, because shards have names.
type groupKey struct {
	Kind  int
	Class int
	Name  string
}

// Kinds returns the kinds of groups, in the order of audit.json.
func Kinds() []string { return []string{"shard", "folder", "group", "class", "label"} }

const (
	shardKind = iota
	folderKind
	groupKind
	classKind
	labelKind // the given label, or the targets
	kinds     // number of kinds
)

// groupCounts holds the counts of a group.
type groupCounts struct {
	Name                string
	Rows, Discovered    int
	Unusual             int      // number of rows with a reason
	FitDuplicates       int      // number of rows near a fit row
	Distinct            int      // number of rows that are not copies of an earlier row of the group
	LookCounts          [2][]int // numbers of rows by lookIndex, for all rows and for distinct rows
	WithTarget, Covered []int    // number of rows, per target
	Labels              []labelCounts
	outlierPair         [2]int // bounds on outliers, with all rows and with distinct rows
	outliers            int    // the smaller of outlierPair
	// counterpart of a shard is the folder that has all its rows. The counterpart of a
	// folder is the shard that has all its rows. It is zero if there is no such group.
	Counterpart groupKey
}

// addCounterpart updates the counterpart of c. If c is a shard, other is the folder of its
// next row. If c is a folder, other is the shard of its next row.
func (c *groupCounts) addCounterpart(other groupKey) {
	switch {
	case c.Rows == 0:
		c.Counterpart = other
	case c.Counterpart != other:
		c.Counterpart = groupKey{}
	}
}

// lookIndex returns the number of looks at or above a rank. Ranks are counted from 1.
func lookIndex(looks []int, rank int) int {
	index := 0
	for index < len(looks) && rank <= looks[index] {
		index++
	}
	return index
}

// groupRanks returns ranks that are coarser than the ranks of the group but give the same
// bounds, because bounds are evaluated only at looks. The result is valid until the next
// call.
func (t *tally) groupRanks(c *groupCounts) countedRanks {
	for way, ranks := range []calibrate.Ranks{t.scratch.all, t.scratch.distinct} {
		clear(ranks)
		for j, count := range c.LookCounts[way] {
			k := len(ranks)
			if j > 0 {
				k = t.looks[j-1]
			}
			ranks[k-1] += count
		}
	}
	return t.scratch
}

// newTally returns a tally with the results that only need the ranks of the rows.
func (w *ScoreSet) newTally(copies *copySummary, flags *rowReader[byte]) (*tally, error) {
	a := &Audit{Audit: result.Audit{Inputs: w.ranks.Rows(), Settings: result.Settings(w.Identity)}, retained: w.retained, used: w.used}
	a.UsedInFit, a.UsedInCalibration = w.used[0].Known(), w.used[1].Known()
	for _, s := range w.Shards {
		a.Shards = append(a.Shards, Shard{Name: s.Shard, Rows: s.Rows, Inputs: s.Audited})
	}
	t := &tally{scores: w, a: a, looks: hypothesis.Looks(w.Calibration), groups: map[groupKey]*groupCounts{}, reasonGroups: map[string]*reasonCounts{}, scratch: countedRanks{calibrate.NewRanks(w.Calibration), calibrate.NewRanks(w.Calibration)}}
	t.ranks, t.flags = countedRanks{w.ranks, copies.Ranks}, flags
	t.registerCopies(copies)
	if err := t.newLabels(copies); err != nil {
		return nil, err
	}
	o := calibrate.DiscoveryOptions{FDR: w.FDR}
	if w.Conditional {
		o.Delta = w.Delta
	}
	d, err := t.ranks.discoveries(o)
	if err != nil {
		return nil, err
	}
	o.Lambda = .5
	storey, err := t.ranks.discoveries(o)
	if err != nil {
		return nil, err
	}
	if t.bounds, err = t.ranks.bounds(w.Delta / 2); err != nil {
		return nil, err
	}
	a.Discoveries, a.PValueThreshold, a.MinDiscoveries, a.Storey = d.Count, d.PValue, d.Least, Storey{Discoveries: storey.Count, PValueThreshold: storey.PValue}
	a.FDP = t.bounds.fdp(t.ranks, d.PValue, copies.most())
	n := float64(w.Calibration + 1)
	for _, k := range slices.Backward(t.looks) {
		p := float64(k) / n
		a.Thresholds = append(a.Thresholds, Threshold{PValue: p, Inputs: countUpTo(w.ranks, k), FDP: t.bounds.fdp(t.ranks, p, copies.most())})
	}
	a.PValueCounts = make([]int, hypothesis.Bins)
	for k, count := range w.ranks {
		p := float64(k+1) / n
		a.PValueCounts[hypothesis.Bin(p, hypothesis.Bins)] += count
		if p <= w.Alpha {
			a.Flagged += count
		}
	}
	t.widths = make([][]float64, len(w.Targets))
	for _, name := range w.Targets {
		a.Intervals = append(a.Intervals, Interval{Name: name})
		t.distinctWidths = append(t.distinctWidths, calibrate.NewRanks(w.widthRows()))
	}
	if w.Fitted != "" {
		a.FitDuplicates = new(int)
	}
	a.HighestScoring = make([]Row, len(w.retained.Worst))
	mapRows := w.retained.mapRows()
	a.mapped, t.onMap = make([]MapRow, len(mapRows)), w.placesOf(mapRows)
	t.shownRows, t.suspicious = w.placesOf(w.retained.Worst), w.placesOf(w.retained.Labels)
	return t, nil
}

// placesOf returns the indices of retained rows in their list, by the index of the shard and the
// index of the row.
func (w *ScoreSet) placesOf(list []retainedRow) map[int]map[int]int {
	at := map[shardID]map[int]int{}
	for i, r := range list {
		id := r.shardID()
		if at[id] == nil {
			at[id] = map[int]int{}
		}
		at[id][r.At] = i
	}
	rows := map[int]map[int]int{}
	for k, s := range w.Shards {
		rows[k] = at[s.id()]
	}
	return rows
}

func countUpTo(r calibrate.Ranks, k int) (sum int) {
	for _, count := range r[:k] {
		sum += count
	}
	return sum
}

// rank returns the rank of a p-value, counted from 1.
func (w *ScoreSet) rank(p float64) int { return int(math.Round(p * float64(w.Calibration+1))) }

// registerCopies lists the rows with the most copies in the result. Their keys follow when
// add reads the rows.
func (t *tally) registerCopies(copies *copySummary) {
	if copies.Count == 0 {
		return
	}
	c := &Copies{Distinct: t.a.Inputs - copies.Count, Repeated: copies.Count, Near: copies.Near, Mirrored: copies.Mirrored, Between: copies.Between}
	for _, set := range copies.MostCopied {
		entry := Copied{Inputs: set.Count, Keys: make([]string, len(set.Rows))}
		for i, row := range set.Rows {
			t.pendingKeys = append(t.pendingKeys, pendingKey{row, &entry.Keys[i]})
		}
		c.MostCopied = append(c.MostCopied, entry)
	}
	t.pendingKeys = slices.DeleteFunc(t.pendingKeys, func(k pendingKey) bool { return k.row < t.scores.firstRow }) // of earlier partitions
	slices.SortFunc(t.pendingKeys, func(a, b pendingKey) int { return cmp.Compare(a.row, b.row) })
	t.a.Copies = c
}

// sixDigits rounds a number to six significant digits, because later digits can differ
// between processors.
func sixDigits(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	if err != nil {
		panic(err) // FormatFloat always returns a valid number
	}
	return y
}

// discovered reports whether a row with p-value p is a discovery.
func (t *tally) discovered(p float64) bool { return p <= t.a.PValueThreshold }

// add adds the rows of a block to the results.
func (t *tally) add(b block) error {
	w := t.scores
	p, folders, shown, onMap := b.numbers("p_value"), b.texts("folder"), t.shownRows[b.shard], t.onMap[b.shard]
	var groups, nearFit, reasonGroups [][]byte
	var classes []float64
	var classNames [][]byte
	if w.Reading.Groups != "" {
		groups = b.texts("group")
	}
	if w.Fitted != "" {
		nearFit = b.texts("fit_duplicate_of")
	}
	if w.Profiled {
		reasonGroups = b.texts("reason_group")
	}
	if w.Task == attach.Classification {
		classes, classNames = b.numbers("class"), b.texts("class_name")
	}
	var labels []float64
	if w.LabelErrorsBy != "" && w.Task == attach.Classification {
		labels = b.numbers("label")
	}
	known, contained := make([]bool, len(w.Targets)), make([]bool, len(w.Targets))
	given := make([]givenRank, len(t.labels))
	shardKey := groupKey{Kind: shardKind, Name: b.name}
	shard := t.group(shardKey, "")
	copyFlags, err := t.flags.of(b.row, b.n)
	if err != nil {
		return err
	}
	for i := range b.n {
		for ; len(t.pendingKeys) > 0 && t.pendingKeys[0].row == b.row+i; t.pendingKeys = t.pendingKeys[1:] {
			*t.pendingKeys[0].key = string(b.texts("key")[i])
		}
		lookBin, discovery := lookIndex(t.looks, w.rank(p[i])), t.discovered(p[i])
		for k := range contained {
			if known[k], contained[k] = t.covers(b, k, i); known[k] {
				t.a.Intervals[k].WithTarget++
			}
			if contained[k] {
				t.a.Intervals[k].Covered++
			}
			t.keepWidest(b, k, i, discovery)
			if copyFlags[i]&copyOfAny == 0 {
				if err := t.distinctWidths[k].Add(t.targetValue(b, "width_p_value", k, i)); err != nil {
					return fmt.Errorf("%w: %w", ErrNotScores, err)
				}
			}
		}
		for list := range given {
			if given[list], err = t.addLabel(b, list, i, discovery); err != nil {
				return err
			}
		}
		nearFitRow := nearFit != nil && len(nearFit[i]) > 0
		if nearFitRow {
			*t.a.FitDuplicates++
		}
		unusual := reasonGroups != nil && len(reasonGroups[i]) > 0
		if reasonGroups != nil {
			t.countReasons(reasonGroups[i], b, i, discovery)
		}
		count := func(kind int, c *groupCounts) {
			c.Rows++
			if nearFitRow {
				c.FitDuplicates++
			}
			if unusual {
				c.Unusual++
			}
			c.LookCounts[0][lookBin]++
			if copyFlags[i]&copyInKind(kind) == 0 {
				c.Distinct++
				c.LookCounts[1][lookBin]++
			}
			if discovery {
				c.Discovered++
			}
			for k := range contained {
				if known[k] {
					c.WithTarget[k]++
				}
				if contained[k] {
					c.Covered[k]++
				}
			}
			for list, g := range given {
				c.Labels[list].add(g, copyFlags[i]&copyInKind(kind) != 0 && copyFlags[i]&copyInKind(labelKind) != 0)
			}
		}
		folder := t.groupNamed(folderKind, folders[i])
		shard.addCounterpart(groupKey{Kind: folderKind, Name: folder.Name})
		folder.addCounterpart(shardKey)
		count(shardKind, shard)
		count(folderKind, folder)
		if groups != nil {
			count(groupKind, t.groupNamed(groupKind, groups[i]))
		}
		if classes != nil && classes[i] >= 0 {
			c := t.group(groupKey{Kind: classKind, Class: int(classes[i])}, string(classNames[i]))
			count(classKind, c)
		}
		if labels != nil && labels[i] >= 0 {
			count(labelKind, t.group(groupKey{Kind: labelKind, Class: int(labels[i])}, string(b.texts("label_name")[i])))
		}
		if at, ok := onMap[b.start+i]; ok {
			r := t.newRow(b, i, discovery)
			if place, ok := shown[b.start+i]; ok {
				worst := w.retained.Worst[place]
				r.Shown = worst.Shown
				r.Reasons, r.NearestFitRow = worst.explanation()
				t.a.HighestScoring[place] = r
			}
			if t.a.mapped[at] = (MapRow{Row: r}); reasonGroups != nil {
				t.a.mapped[at].ReasonGroup = string(reasonGroups[i])
			}
		}
	}
	return nil
}

const (
	// maxReasonGroups is the largest number of groups with a reason in Audit.ReasonGroups.
	// maxCountedGroups bounds the memory of counting: groups that appear later are left out.
	maxReasonGroups  = 100
	maxCountedGroups = 20_000
	maxReasonPlaces  = 3 // largest length of ReasonGroup.Places
)

// reasonCounts counts the inputs of a reason group. Rows arrive file by file.
type reasonCounts struct {
	ReasonGroup
	Order int // number of groups before it, by their first rows
	// ends holds the first and the last file. Other rows of them may be in the partitions before
	// and after. largest holds the files with the most inputs among those between.
	Ends, Largest []reasonFile
}

// reasonFile is a file with inputs of a reason group. The number shard is its index.
type reasonFile struct {
	ReasonPlace
	Shard int
}

// begin adds a file after the last one.
func (c *reasonCounts) begin(f reasonFile) {
	if len(c.Ends) == 2 {
		c.keep(c.Ends[1])
		c.Ends = c.Ends[:1]
	}
	c.Ends = append(c.Ends, f)
}

// keep adds a complete file to those with the most inputs. Among equal numbers, the earlier file
// comes first.
func (c *reasonCounts) keep(f reasonFile) {
	at, _ := slices.BinarySearchFunc(c.Largest, f, func(a, b reasonFile) int {
		return cmp.Or(cmp.Compare(b.Inputs, a.Inputs), cmp.Compare(a.Shard, b.Shard))
	})
	c.Largest = slices.Insert(c.Largest, at, f)
	c.Largest = c.Largest[:min(maxReasonPlaces, len(c.Largest))]
}

// merge adds the counts of the rows after those of c.
func (c *reasonCounts) merge(later *reasonCounts) {
	c.Inputs += later.Inputs
	c.Discoveries += later.Discoveries
	ends := later.Ends
	if last := &c.Ends[len(c.Ends)-1]; last.Shard == ends[0].Shard {
		last.Inputs += ends[0].Inputs
		last.Last = ends[0].Last
		ends = ends[1:]
	}
	for _, f := range ends {
		c.begin(f)
	}
	for _, f := range later.Largest {
		c.keep(f)
	}
}

// finish returns the group with its places.
func (c *reasonCounts) finish() ReasonGroup {
	for _, f := range c.Ends {
		c.keep(f)
	}
	for _, f := range c.Largest {
		c.Places = append(c.Places, f.ReasonPlace)
	}
	return c.ReasonGroup
}

// countReasons counts row i in the group of its reasons.
func (t *tally) countReasons(reasons []byte, b block, i int, discovery bool) {
	g, ok := t.reasonGroups[string(reasons)]
	if !ok {
		if len(t.reasonGroups) >= maxCountedGroups && len(reasons) > 0 {
			return
		}
		g = &reasonCounts{ReasonGroup: ReasonGroup{Reasons: string(reasons)}, Order: len(t.reasonGroups)}
		t.reasonGroups[g.Reasons] = g
	}
	row := int(b.numbers("row")[i])
	if n := len(g.Ends); n == 0 || g.Ends[n-1].Shard != b.shard {
		g.begin(reasonFile{ReasonPlace{Shard: b.name, First: row}, b.shard})
	}
	last := &g.Ends[len(g.Ends)-1]
	last.Inputs++
	last.Last = row
	g.Inputs++
	if discovery {
		g.Discoveries++
	}
}

// setSchema sets the results that describe the columns of the inputs.
func (t *tally) setSchema() {
	w := t.scores
	if !w.Profiled {
		return
	}
	s := w.profile.Summary(w.counts, func(column int) (sorted []float32) {
		for _, r := range w.retained.Sample {
			if x := r.Numbers[column]; x == x {
				sorted = append(sorted, x)
			}
		}
		slices.Sort(sorted)
		return sorted
	})
	t.a.Schema = &s
	none := t.reasonGroups[""]
	delete(t.reasonGroups, "")
	groups := slices.SortedFunc(maps.Values(t.reasonGroups), func(a, b *reasonCounts) int {
		return cmp.Or(b.Discoveries-a.Discoveries, b.Inputs-a.Inputs, cmp.Compare(a.Reasons, b.Reasons))
	})
	for _, g := range groups[:min(maxReasonGroups, len(groups))] {
		t.a.ReasonGroups = append(t.a.ReasonGroups, g.finish())
	}
	if none != nil {
		t.a.ReasonGroups = append(t.a.ReasonGroups, none.finish())
	}
}

// keepWidest adds row i to Interval.Widest if its interval of target k is among the widest.
// If widths are equal, the earlier row stays. A width of NaN counts as infinite.
func (t *tally) keepWidest(b block, k, i int, discovery bool) {
	width := t.targetValue(b, "upper", k, i) - t.targetValue(b, "lower", k, i)
	if math.IsNaN(width) {
		width = math.Inf(1)
	}
	t.addWidest(k, width, func() Row { return t.newRow(b, i, discovery) })
}

// addWidest adds a row after those in Interval.Widest that are as wide. It calls the function row
// only if the interval is among the widest.
func (t *tally) addWidest(k int, width float64, row func() Row) {
	list := t.widths[k]
	place, _ := slices.BinarySearchFunc(list, width, func(w, than float64) int {
		if w >= than {
			return -1
		}
		return 1
	})
	if place == maxWidest {
		return
	}
	length := min(len(list)+1, maxWidest)
	t.widths[k] = slices.Insert(list, place, width)[:length]
	interval := &t.a.Intervals[k]
	interval.Widest = slices.Insert(interval.Widest, place, row())[:length]
}

// groupNamed returns the counts of the group with a kind and a name. It looks up
// string(name) inside the map index, because the compiler then does not copy the name.
func (t *tally) groupNamed(kind int, name []byte) *groupCounts {
	if c, ok := t.groups[groupKey{Kind: kind, Name: string(name)}]; ok {
		return c
	}
	return t.group(groupKey{Kind: kind, Name: string(name)}, "")
}

func (t *tally) group(key groupKey, name string) *groupCounts {
	c, ok := t.groups[key]
	if !ok {
		c = &groupCounts{Name: cmp.Or(name, key.Name), WithTarget: make([]int, len(t.scores.Targets)), Covered: make([]int, len(t.scores.Targets)), Labels: make([]labelCounts, len(t.labels))}
		for way := range c.LookCounts {
			c.LookCounts[way] = make([]int, len(t.looks)+1)
		}
		if key.Kind >= classKind && name == "" {
			c.Name = strconv.Itoa(key.Class)
		}
		t.groups[key] = c
	}
	return c
}

// covers reports whether target k of row i is known, and whether the interval contains it.
func (t *tally) covers(b block, k, i int) (known, contained bool) {
	y := t.targetValue(b, "target", k, i)
	return !math.IsNaN(y), t.targetValue(b, "lower", k, i) <= y && y <= t.targetValue(b, "upper", k, i)
}

// targetValue returns the value of a column of target k in row i.
func (t *tally) targetValue(b block, column string, k, i int) float64 {
	return b.numbers(t.scores.targetColumn(column, k))[i]
}

// newRow returns row i for HighestScoring or Widest.
func (t *tally) newRow(b block, i int, discovery bool) Row {
	get := func(column string) float64 { return b.numbers(column)[i] }
	text := func(column string) string { return string(b.texts(column)[i]) }
	r := Row{Key: text("key"), Shard: b.name, Folder: text("folder"), At: int(get("row")), Score: JSONFloat(get("ood_score")), PValue: get("p_value"), Discovery: discovery}
	if t.scores.Task == attach.Classification {
		class, confidence := int(get("class")), JSONFloat(get("confidence"))
		r.Class, r.Confidence, r.ClassName = &class, &confidence, text("class_name")
	}
	if t.scores.Fitted != "" {
		r.FitDuplicateOf = text("fit_duplicate_of")
	}
	for k := range t.scores.Targets {
		r.Prediction = append(r.Prediction, JSONFloat(t.targetValue(b, "prediction", k, i)))
		r.Lower = append(r.Lower, JSONFloat(t.targetValue(b, "lower", k, i)))
		r.Upper = append(r.Upper, JSONFloat(t.targetValue(b, "upper", k, i)))
	}
	t.setLabels(&r, b, i)
	return r
}

// finish computes the results that need the counts of all rows.
func (t *tally) finish(ctx context.Context) (*Audit, error) {
	a := t.a
	if err := t.boundOutliers(); err != nil {
		return nil, err
	}
	if err := t.compareWidths(); err != nil {
		return nil, err
	}
	t.boundLabelErrors()
	for _, key := range t.sortedKeys() {
		if !t.equalsShard(key) {
			a.Groups = append(a.Groups, t.groups[key].group(key.Kind))
		}
	}
	a.folders = t.folders()
	if err := t.compareClasses(); err != nil {
		return nil, err
	}
	t.setSchema()
	if err := t.setClusters(ctx); err != nil {
		return nil, err
	}
	for _, l := range t.labels {
		a.LabelErrors = append(a.LabelErrors, l.finish())
	}
	a.addNotes()
	return a, nil
}

// group returns the counts as a group of a kind.
func (c *groupCounts) group(kind int) Group {
	g := Group{Kind: Kinds()[kind], Name: c.Name, Inputs: c.Rows, Discoveries: c.Discovered, Outliers: c.outliers, Unusual: c.Unusual, FitDuplicates: c.FitDuplicates}
	if slices.ContainsFunc(c.WithTarget, func(n int) bool { return n > 0 }) {
		g.WithTarget, g.Covered = c.WithTarget, c.Covered
	}
	for _, l := range c.Labels {
		g.Labelled, g.LabelDiscoveries, g.LabelErrors = append(g.Labelled, l.Rows), append(g.LabelDiscoveries, l.Discoveries), append(g.LabelErrors, l.errors)
	}
	return g
}

// boundOutliers computes the shift tests, and the lower bounds on outliers in each group
// and in all inputs. Half of Delta is spent on bounds that hold for every subset of the
// inputs. The other half is divided among the groups that are defined without using scores.
// Therefore all bounds hold at once, and bounds of groups without common rows add up.
func (t *tally) boundOutliers() error {
	tested := 0
	for key := range t.groups {
		if t.hasOwnTest(key) {
			tested++
		}
	}
	divisor := 2 * float64(tested) // each test gets an error probability of Delta/divisor
	all := Place{Kind: "all"}
	higherIn, lowerIn := [2]Place{all, all}, [2]Place{all, all}
	higher, lower := t.ranks.shift()
	shift := AnyShift{AllInputs: Shift{Higher: slices.Max(higher[:]), Lower: slices.Max(lower[:])}, GroupsTested: tested}
	for way := range higher {
		higher[way], lower[way] = 2*higher[way], 2*lower[way]
	}
	total := t.bounds.outliers(t.ranks)
	for _, key := range t.sortedKeys() {
		c := t.groups[key]
		ranks := t.groupRanks(c)
		c.outlierPair = t.bounds.outliers(ranks)
		if !t.hasOwnTest(key) {
			continue
		}
		bounds, err := ranks.bounds(t.scores.Delta / divisor)
		if err != nil {
			return err
		}
		groupHigher, groupLower := ranks.shift()
		place := Place{Kind: Kinds()[key.Kind], Name: c.Name}
		for way, outliers := range bounds.outliers(ranks) {
			c.outlierPair[way] = max(c.outlierPair[way], outliers)
			if groupHigher[way] *= divisor; groupHigher[way] < higher[way] {
				higher[way], higherIn[way] = groupHigher[way], place
			}
			if groupLower[way] *= divisor; groupLower[way] < lower[way] {
				lower[way], lowerIn[way] = groupLower[way], place
			}
		}
	}
	shift.Higher, shift.HigherIn = largerPValue(higher, higherIn)
	shift.Lower, shift.LowerIn = largerPValue(lower, lowerIn)
	t.a.Shift = roundedAny(shift)
	contained := map[groupKey][2]int{}
	for _, c := range t.groups {
		if c.Counterpart != (groupKey{}) {
			sum := contained[c.Counterpart]
			for way, outliers := range c.outlierPair {
				sum[way] += outliers
			}
			contained[c.Counterpart] = sum
		}
	}
	for way := range total {
		var sums [classKind]int
		for key, c := range t.groups {
			c.outlierPair[way] = max(c.outlierPair[way], contained[key][way])
			if key.Kind < classKind {
				sums[key.Kind] += c.outlierPair[way]
			}
		}
		total[way] = max(total[way], slices.Max(sums[:]))
	}
	t.a.Outliers = min(total[0], total[1])
	for _, c := range t.groups {
		if c.outliers = min(c.outlierPair[0], c.outlierPair[1]); c.Rows == t.a.Inputs {
			c.outliers = t.a.Outliers
		}
	}
	return nil
}

// largerPValue returns the larger of two p-values and its place. If the larger one is at
// least 1, it returns 1 and the place of all inputs.
func largerPValue(p [2]float64, in [2]Place) (float64, Place) {
	way := 0
	if p[1] > p[0] {
		way = 1
	}
	if p[way] >= 1 { // no place is significant
		return 1, Place{Kind: "all"}
	}
	return p[way], in[way]
}

// hasOwnTest reports whether a group has its own bounds and shift test. Predicted classes
// and given labels have none, because they may depend on scores. Groups that hold all inputs have none, and
// neither do folders with exactly the rows of one shard.
func (t *tally) hasOwnTest(key groupKey) bool {
	c := t.groups[key]
	return key.Kind < classKind && c.Rows < t.a.Inputs && !(key.Kind == folderKind && t.isCounterpart(key))
}

// sortedKeys returns the keys of the groups, in the order of audit.json.
func (t *tally) sortedKeys() []groupKey {
	return slices.SortedFunc(maps.Keys(t.groups), func(a, b groupKey) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Name, b.Name))
	})
}

// rounded returns s with six significant digits, because later digits can differ between
// processors.
func rounded(s Shift) Shift { return Shift{Higher: sixDigits(s.Higher), Lower: sixDigits(s.Lower)} }

func roundedAny(s AnyShift) AnyShift {
	s.Shift, s.AllInputs = rounded(s.Shift), rounded(s.AllInputs)
	return s
}

// compareWidths counts unusually wide intervals and tests whether widths shifted.
func (t *tally) compareWidths() error {
	for k := range t.a.Intervals {
		interval, ranks := &t.a.Intervals[k], countedRanks{t.scores.widths[k], t.distinctWidths[k]}
		wide, err := ranks.discoveries(calibrate.DiscoveryOptions{FDR: t.scores.FDR})
		if err != nil {
			return err
		}
		higher, lower := ranks.shift()
		interval.Wide, interval.PValueThreshold = wide.Count, wide.PValue
		interval.Shift = rounded(Shift{Higher: slices.Max(higher[:]), Lower: slices.Max(lower[:])})
	}
	return nil
}

// equalsShard reports whether key is a folder with the same name and the same rows as a
// shard.
func (t *tally) equalsShard(key groupKey) bool {
	if key.Kind != folderKind {
		return false
	}
	return t.groups[key].Counterpart.Name == key.Name && t.isCounterpart(key)
}

// isCounterpart reports whether a folder has exactly the rows of a shard.
func (t *tally) isCounterpart(folder groupKey) bool {
	shard := t.groups[t.groups[folder].Counterpart]
	return shard != nil && shard.Counterpart == folder
}

// compareClasses compares how often each class is predicted for inputs and for calibration
// rows.
func (t *tally) compareClasses() error {
	if t.scores.Predicted == nil {
		return nil
	}
	audited, distinct := make([]int, len(t.scores.Predicted)), make([]int, len(t.scores.Predicted))
	names := make([]string, len(audited))
	for key, c := range t.groups {
		if key.Kind != classKind {
			continue
		}
		if key.Class >= len(audited) {
			return fmt.Errorf("class %d is predicted, but there are %d classes", key.Class, len(audited))
		}
		audited[key.Class], distinct[key.Class] = c.Rows, c.Distinct
		names[key.Class] = c.Name
	}
	all, err := hypothesis.ClassShares(t.scores.Predicted, audited)
	if err != nil {
		return err
	}
	distinctShares, err := hypothesis.ClassShares(t.scores.Predicted, distinct)
	if err != nil {
		return err
	}
	for c, s := range all {
		if audited[c] > 0 || t.scores.Predicted[c] > 0 {
			t.a.Classes = append(t.a.Classes, Class{Class: c, Name: names[c], Calibration: s.Calibration, Audited: s.Audited, PValue: sixDigits(max(s.PValue, distinctShares[c].PValue))})
		}
	}
	return nil
}

// features returns a matrix with the features of each row.
func features(list []retainedRow) blas32.General {
	if len(list) == 0 {
		return blas32.General{}
	}
	x := rows.New(len(list), len(list[0].Features))
	for i, r := range list {
		copy(rows.Row(x, i), r.Features)
	}
	return x
}

// ofClause returns " of " and the place, or an empty string for all inputs.
func ofClause(p Place) string {
	if name := p.String(); name != "" {
		return " of " + name
	}
	return ""
}

// noteColumns adds a note for each column that differs from the fit rows.
func (a *Audit) noteColumns(add func(format string, args ...any)) {
	columns, more := a.NotableColumns()
	for _, c := range columns {
		add("%s.", a.ColumnText(c))
	}
	if more > 0 {
		add("%s more differ from the rows of the fit; see schema in audit.json.", rows.Count(more, "column"))
	}
}

// hasOutliers reports whether there are proven outliers in a place.
func (a *Audit) hasOutliers(p Place) bool {
	if p.Kind == "all" {
		return a.Outliers > 0
	}
	return slices.ContainsFunc(a.Groups, func(g Group) bool { return g.Kind == p.Kind && g.Name == p.Name && g.Outliers > 0 })
}

// addNotes adds notes about the guarantees, about what violates them, and about unusual
// results.
func (a *Audit) addNotes() {
	add := func(format string, args ...any) { a.Notes = append(a.Notes, fmt.Sprintf(format, args...)) }
	a.used.notes(a, add)
	a.cautions = len(a.Notes)
	if c := a.Copies; c != nil {
		add("%v. Copies are not independent evidence, so each figure is the more careful of two: with all inputs counted, and with copies counted once. %s lists them.", c, Duplicates)
	}
	a.noteColumns(add)
	draws := "on average over draws of calibration rows and audited inputs"
	if a.Conditional {
		draws = fmt.Sprintf("on average over draws of audited inputs, for a fraction %g of all calibration sets", 1-a.Delta)
	}
	add("At most a fraction %g of the discoveries is false, %s, if inliers are exchangeable with the %s.", a.FDR, draws, rows.Count(a.Calibration, "calibration row"))
	add("All bounds hold at once with probability %g, for every threshold and group. The bounds of groups that share no input add up.", 1-a.Delta)
	if a.Unnamed() {
		add("There are at least %s among the inputs, but %s. The other outliers cannot be told, one by one, from inliers. The highest scores come first, and the tables of groups show where outliers are.", rows.Count(a.Outliers, "outlier"), rows.Count(a.Discoveries, "discovery"))
	}
	a.addLabelNote(add, draws)
	if few := a.FewRows(); a.TooFew() {
		add("W%s. Calibrate with more rows, or use the bounds.", few[1:])
	}
	if a.Discoveries == 0 && a.Storey.Discoveries > 0 {
		add("Storey's procedure, which estimates the number of inliers, makes %s at the same rate: the inputs with p-values up to %.3g.", rows.Count(a.Storey.Discoveries, "discovery"), a.Storey.PValueThreshold)
	}
	add("The guarantee does not hold if many inputs depend on each other and are not recognised as copies, such as paraphrases and later frames of a video, or if the model or the detector was trained on the calibration rows.")
	if a.HeldOut == rows.SplitOff {
		add("The calibration rows were split off the rows fitted on. If the model was trained on these, there are too many discoveries.")
	}
	if a.FitDuplicates != nil && *a.FitDuplicates > 0 {
		add("%s nearly the features of a fit row, which the column fit_duplicate_of of %s names. About 1 in 1,000 inputs has by chance. A copy of a fit row scores low, and its p-value means nothing.", rows.Count(*a.FitDuplicates, "input")+map[bool]string{true: " has", false: " have"}[*a.FitDuplicates == 1], Scores)
	}
	if a.Shift.Lower < .01 && !a.hasOutliers(a.Shift.LowerIn) {
		add("Fewer inputs%s have high scores than expected (p = %.3g), as if the model had been trained on them.", ofClause(a.Shift.LowerIn), a.Shift.Lower)
	}
}
