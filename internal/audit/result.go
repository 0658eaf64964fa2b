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
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/numeric/duplicates"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// Audit is the result of an audit. docs/reference/json.md describes its keys.
type Audit struct {
	Inputs int `json:"inputs"`
	Identity
	Outliers        int         `json:"outliers_lower_bound"`
	Discoveries     int         `json:"discoveries"`
	PValueThreshold float64     `json:"p_value_threshold"`
	MinDiscoveries  int         `json:"min_discoveries"`
	FDP             float64     `json:"fdp_upper_bound"`
	Storey          Storey      `json:"storey"`
	Flagged         int         `json:"flagged"`
	FitDuplicates   *int        `json:"fit_duplicates,omitempty"` // nil without --fitted
	Shift           AnyShift    `json:"shift"`
	Thresholds      []Threshold `json:"thresholds"`
	PValueCounts    []int       `json:"p_value_counts"`
	Groups          []Group     `json:"groups"`
	Classes         []Class     `json:"class_shares,omitempty"`
	Intervals       []Interval  `json:"intervals,omitempty"`
	Shards          []Shard     `json:"shards"`
	HighestScoring  []Row       `json:"highest_scoring"`
	Copies          *Copies     `json:"copies,omitempty"` // nil if all inputs differ
	Duplicates      [][]string  `json:"duplicates,omitempty"`
	// Gaps are the columns that are empty more often than in the fit rows.
	Gaps  []attach.ColumnGaps `json:"gaps,omitempty"`
	Notes []string            `json:"notes"`
	kept  kept

	// UsedInFit and UsedInCalibration estimate how many inputs were used before. They are 0
	// if none were, or if the .attach file keeps no hashes.
	UsedInFit         int `json:"used_in_fit,omitempty"`
	UsedInCalibration int `json:"used_in_calibration,omitempty"`
	used              used
	cautions          int // number of the first Notes that are cautions
}

// Storey holds the discoveries of Storey's procedure.
type Storey struct {
	Discoveries     int     `json:"discoveries"`
	PValueThreshold float64 `json:"p_value_threshold"`
}

// Shift holds the p-values of the tests that inputs score no higher, and no lower, than the
// calibration rows.
type Shift struct {
	Higher float64 `json:"p_higher"`
	Lower  float64 `json:"p_lower"`
}

// AnyShift combines the tests of all inputs and of each file, folder and group. As in the
// bounds on outliers, half of the error is spent on all inputs and half, in equal parts, on
// the groups. So Higher is at most Delta if and only if Outliers is above 0.
type AnyShift struct {
	Shift
	// HigherIn and LowerIn are the places with the smallest p-values.
	HigherIn Place `json:"higher_in"`
	LowerIn  Place `json:"lower_in"`
	// GroupsTested is the number of files, folders and groups tested. AllInputs is the test
	// of all inputs alone.
	GroupsTested int   `json:"groups_tested"`
	AllInputs    Shift `json:"all_inputs"`
}

// Place is a group by kind and name, or all inputs, of kind "all".
type Place struct {
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
}

// Threshold bounds the fraction of inliers among the inputs with p-values up to PValue.
type Threshold struct {
	PValue float64 `json:"p_value"`
	Inputs int     `json:"inputs"`
	FDP    float64 `json:"fdp_upper_bound"`
}

// Group holds the counts of a shard, a folder, a group of --groups or a predicted class.
type Group struct {
	Kind          string `json:"kind"`
	Name          string `json:"name"`
	Inputs        int    `json:"inputs"`
	Discoveries   int    `json:"discoveries"`
	Outliers      int    `json:"outliers_lower_bound"`
	FitDuplicates int    `json:"fit_duplicates,omitempty"`
	// WithTarget counts the rows with a target, and Covered those whose target is within
	// its interval, for each target.
	WithTarget []int `json:"with_target,omitempty"`
	Covered    []int `json:"covered,omitempty"`
}

// Class compares how often a class is predicted for calibration rows and for inputs.
type Class struct {
	Class       int     `json:"class"`
	Name        string  `json:"name,omitempty"`
	Calibration float64 `json:"calibration"`
	Audited     float64 `json:"audited"`
	PValue      float64 `json:"p_value"`
}

// Interval describes the widths of the intervals of a target against those of the
// calibration rows.
type Interval struct {
	Name            string  `json:"name,omitempty"`
	Wide            int     `json:"wide"`
	PValueThreshold float64 `json:"width_p_value_threshold"`
	Shift           Shift   `json:"width_shift"`
	WithTarget      int     `json:"with_target,omitempty"`
	Covered         int     `json:"covered,omitempty"`
	Widest          []Row   `json:"widest,omitempty"`
}

// CoveredShare is the fraction of targets within their intervals, or NaN if no target is
// known.
func (i Interval) CoveredShare() float64 { return coveredShare(i.Covered, i.WithTarget) }

// CoveredShare is that of target k in the group.
func (g Group) CoveredShare(k int) float64 {
	if k >= len(g.WithTarget) {
		return math.NaN()
	}
	return coveredShare(g.Covered[k], g.WithTarget[k])
}

func coveredShare(covered, known int) float64 { return float64(covered) / float64(known) }

// mostWidest is the number of rows in Widest.
const mostWidest = 20

// Shard is a file or folder with the numbers of its rows and of its audited rows.
type Shard struct {
	Name   string `json:"name"`
	Rows   int    `json:"rows"`
	Inputs int    `json:"inputs"`
}

// Row is an input.
type Row struct {
	Key       string    `json:"key"`
	Shard     string    `json:"shard"`
	At        int       `json:"row"`
	Score     JSONFloat `json:"ood_score"`
	PValue    float64   `json:"p_value"`
	Discovery bool      `json:"discovery"`
	Class     *int      `json:"class,omitempty"`
	ClassName string    `json:"class_name,omitempty"`
	// Confidence is that of the class. Prediction, Lower and Upper have an element for each
	// target.
	Confidence     *JSONFloat  `json:"confidence,omitempty"`
	Prediction     []JSONFloat `json:"prediction,omitempty"`
	Lower          []JSONFloat `json:"lower,omitempty"`
	Upper          []JSONFloat `json:"upper,omitempty"`
	FitDuplicateOf string      `json:"fit_duplicate_of,omitempty"`
	// Folder is the folder of the row, and Shown its picture or text.
	Folder string `json:"-"`
	Shown  *Shown `json:"-"`
}

// JSONFloat is a number that is written as null if it is not finite.
type JSONFloat float64

// MarshalJSON writes nine significant digits.
func (f JSONFloat) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(f), 0) || math.IsNaN(float64(f)) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(f), 'g', 9, 64), nil
}

// tally accumulates the results over all rows.
type tally struct {
	w      *Whole
	a      *Audit
	ranks  counted
	bounds bounds // at half of Delta
	copies *repeats
	next   int   // row
	halves []int // hypothesis.Looks: the ranks at which bounds are evaluated
	groups map[groupKey]*counts

	widths         [][]float64         // of the widest intervals, for each target
	shown          map[int]map[int]int // places in HighestScoring, by shard and row
	at             []copiedRow         // rows whose keys are needed, in order
	scratch        counted
	distinctWidths []calibrate.Ranks // for each target
}

// copiedRow is a row whose key Copies lists.
type copiedRow struct {
	row int
	key *string
}

type groupKey struct {
	kind  int
	class int
	name  string
}

// Kinds are the kinds of groups, in the order of audit.json.
func Kinds() []string { return []string{"shard", "folder", "group", "class"} }

const (
	ofShard = iota
	ofFolder
	ofGroup
	ofClass
)

// counts are the counts of a group.
type counts struct {
	name             string
	rows, discovered int
	like             int // rows near a fit row
	distinct         int
	halves           [2][]int // of all rows, and of distinct rows, by index of tally.halves
	known, covered   []int    // of targets
	both             [2]int   // outliers, with copies counted and with copies counted once
	outliers         int      // the smaller of both
	// within is the folder with all rows of this shard, the shard with all rows of this
	// folder, or nil.
	within *counts
}

// addWithin records that the next row is in another group too.
func (c *counts) addWithin(in *counts) {
	switch {
	case c.rows == 0:
		c.within = in
	case c.within != in:
		c.within = nil
	}
}

// half is the number of looks at or above a rank, which is counted from 1.
func half(at []int, rank int) int {
	j := 0
	for j < len(at) && rank <= at[j] {
		j++
	}
	return j
}

// ranksOf are ranks that give the same bounds as the ranks of the group.
func (t *tally) ranksOf(c *counts) counted {
	for way, ranks := range []calibrate.Ranks{t.scratch.all, t.scratch.distinct} {
		clear(ranks)
		for j, count := range c.halves[way] {
			k := len(ranks)
			if j > 0 {
				k = t.halves[j-1]
			}
			ranks[k-1] += count
		}
	}
	return t.scratch
}

// begin computes the results that need ranks only.
func (w *Whole) begin(copies *repeats) (*tally, error) {
	a := &Audit{Inputs: w.ranks.Rows(), Identity: w.Identity, kept: w.kept, used: w.used}
	a.UsedInFit, a.UsedInCalibration = w.used[0].Known(), w.used[1].Known()
	for _, s := range w.Shards {
		a.Shards = append(a.Shards, Shard{s.Shard, s.Rows, s.Of})
	}
	t := &tally{w: w, a: a, halves: hypothesis.Looks(w.Calibration), groups: map[groupKey]*counts{}, shown: map[int]map[int]int{}, scratch: counted{calibrate.NewRanks(w.Calibration), calibrate.NewRanks(w.Calibration)}}
	t.ranks, t.copies = counted{w.ranks, copies.ranks}, copies
	t.name()
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
	a.Discoveries, a.PValueThreshold, a.MinDiscoveries, a.Storey = d.Count, d.PValue, d.Least, Storey{storey.Count, storey.PValue}
	a.FDP = t.bounds.falsely(t.ranks, d.PValue)
	n := float64(w.Calibration + 1)
	for _, k := range slices.Backward(t.halves) {
		p := float64(k) / n
		a.Thresholds = append(a.Thresholds, Threshold{p, below(w.ranks, k), t.bounds.falsely(t.ranks, p)})
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
		t.distinctWidths = append(t.distinctWidths, calibrate.NewRanks(w.Calibration))
	}
	if w.Fitted != "" {
		a.FitDuplicates = new(int)
	}
	a.HighestScoring = make([]Row, len(w.kept.Worst))
	type called struct {
		shard  string
		digest uint64
	}
	at := map[called]map[int]int{}
	for i, r := range w.kept.Worst {
		of := called{r.Shard, r.Digest}
		if at[of] == nil {
			at[of] = map[int]int{}
		}
		at[of][r.At] = i
	}
	for k, s := range w.Shards {
		t.shown[k] = at[called{s.Shard, s.Digest}]
	}
	return t, nil
}

func below(r calibrate.Ranks, k int) (sum int) {
	for _, count := range r[:k] {
		sum += count
	}
	return sum
}

// rank is the rank of a p-value, from 1.
func (w *Whole) rank(p float64) int { return int(math.Round(p * float64(w.Calibration+1))) }

// name registers the rows with many copies, whose keys add fills in.
func (t *tally) name() {
	if t.copies.count == 0 {
		return
	}
	c := &Copies{Distinct: t.a.Inputs - t.copies.count, Repeated: t.copies.count}
	for _, most := range t.copies.most {
		of := Copied{most.count, make([]string, len(most.rows))}
		for i, row := range most.rows {
			t.at = append(t.at, copiedRow{row, &of.Keys[i]})
		}
		c.MostCopied = append(c.MostCopied, of)
	}
	slices.SortFunc(t.at, func(a, b copiedRow) int { return cmp.Compare(a.row, b.row) })
	t.a.Copies = c
}

// sixDigits rounds a number to six digits, which do not differ between processors.
func sixDigits(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	if err != nil {
		panic(err) // a number that was just written
	}
	return y
}

// discovered reports whether a p-value is that of a discovery.
func (t *tally) discovered(p float64) bool { return p <= t.a.PValueThreshold }

// add counts rows.
func (t *tally) add(b block) error {
	w := t.w
	p, folders, shown := b.numbers("p_value"), b.texts("folder"), t.shown[b.shard]
	var groups, like [][]byte
	var classes []float64
	var classNames [][]byte
	if w.Reading.Groups != "" {
		groups = b.texts("group")
	}
	if w.Fitted != "" {
		like = b.texts("fit_duplicate_of")
	}
	if w.Task == attach.Classification {
		classes, classNames = b.numbers("class"), b.texts("class_name")
	}
	known, inside := make([]bool, len(w.Targets)), make([]bool, len(w.Targets))
	shard := t.group(groupKey{kind: ofShard, name: b.name}, "")
	copied, err := t.copies.of(t.next, b.n)
	if err != nil {
		return err
	}
	for i := range b.n {
		for ; len(t.at) > 0 && t.at[0].row == t.next+i; t.at = t.at[1:] {
			*t.at[0].key = string(b.texts("key")[i])
		}
		h, is := half(t.halves, w.rank(p[i])), t.discovered(p[i])
		for k := range inside {
			if known[k], inside[k] = t.within(b, k, i); known[k] {
				t.a.Intervals[k].WithTarget++
			}
			if inside[k] {
				t.a.Intervals[k].Covered++
			}
			t.wide(b, k, i, is)
			if copied[i]&copyOfAny == 0 {
				if err := t.distinctWidths[k].Add(t.of(b, "width_p_value", k, i)); err != nil {
					return fmt.Errorf("%w: %w", ErrNoScores, err)
				}
			}
		}
		fitted := like != nil && len(like[i]) > 0
		if fitted {
			*t.a.FitDuplicates++
		}
		count := func(kind int, c *counts) {
			c.rows++
			if fitted {
				c.like++
			}
			c.halves[0][h]++
			if copied[i]&copyInKind(kind) == 0 {
				c.distinct++
				c.halves[1][h]++
			}
			if is {
				c.discovered++
			}
			for k := range inside {
				if known[k] {
					c.known[k]++
				}
				if inside[k] {
					c.covered[k]++
				}
			}
		}
		folder := t.named(ofFolder, folders[i])
		shard.addWithin(folder)
		folder.addWithin(shard)
		count(ofShard, shard)
		count(ofFolder, folder)
		if groups != nil {
			count(ofGroup, t.named(ofGroup, groups[i]))
		}
		if classes != nil && classes[i] >= 0 {
			c := t.group(groupKey{kind: ofClass, class: int(classes[i])}, string(classNames[i]))
			count(ofClass, c)
		}
		if place, ok := shown[b.start+i]; ok {
			t.a.HighestScoring[place] = t.row(b, i, is)
			t.a.HighestScoring[place].Shown = w.kept.Worst[place].Shown
		}
	}
	t.next += b.n
	return nil
}

// wide keeps row i if its interval of target k is among the widest. Rows come in order, so
// the first of equal widths stay.
func (t *tally) wide(b block, k, i int, is bool) {
	width := t.of(b, "upper", k, i) - t.of(b, "lower", k, i)
	if math.IsNaN(width) {
		width = math.Inf(1)
	}
	list := t.widths[k]
	place, _ := slices.BinarySearchFunc(list, width, func(w, than float64) int {
		if w >= than {
			return -1
		}
		return 1
	})
	if place == mostWidest {
		return
	}
	most := min(len(list)+1, mostWidest)
	t.widths[k] = slices.Insert(list, place, width)[:most]
	interval := &t.a.Intervals[k]
	interval.Widest = slices.Insert(interval.Widest, place, t.row(b, i, is))[:most]
}

// named is the group of a kind with a name. The look-up does not copy the name.
func (t *tally) named(kind int, name []byte) *counts {
	if c, ok := t.groups[groupKey{kind: kind, name: string(name)}]; ok {
		return c
	}
	return t.group(groupKey{kind: kind, name: string(name)}, "")
}

func (t *tally) group(key groupKey, name string) *counts {
	c, ok := t.groups[key]
	if !ok {
		c = &counts{name: cmp.Or(name, key.name), known: make([]int, len(t.w.Targets)), covered: make([]int, len(t.w.Targets))}
		for way := range c.halves {
			c.halves[way] = make([]int, len(t.halves)+1)
		}
		if key.kind == ofClass && name == "" {
			c.name = strconv.Itoa(key.class)
		}
		t.groups[key] = c
	}
	return c
}

// within reports whether target k of row i is known, and whether its interval contains it.
func (t *tally) within(b block, k, i int) (known, inside bool) {
	y := t.of(b, "target", k, i)
	return !math.IsNaN(y), t.of(b, "lower", k, i) <= y && y <= t.of(b, "upper", k, i)
}

// of is the value of a column of target k in row i.
func (t *tally) of(b block, column string, k, i int) float64 {
	return b.numbers(t.w.column(column, k))[i]
}

// row is row i for HighestScoring or Widest.
func (t *tally) row(b block, i int, is bool) Row {
	get := func(column string) float64 { return b.numbers(column)[i] }
	text := func(column string) string { return string(b.texts(column)[i]) }
	r := Row{Key: text("key"), Shard: b.name, Folder: text("folder"), At: int(get("row")), Score: JSONFloat(get("ood_score")), PValue: get("p_value"), Discovery: is}
	if t.w.Task == attach.Classification {
		class, confidence := int(get("class")), JSONFloat(get("confidence"))
		r.Class, r.Confidence, r.ClassName = &class, &confidence, text("class_name")
	}
	if t.w.Fitted != "" {
		r.FitDuplicateOf = text("fit_duplicate_of")
	}
	for k := range t.w.Targets {
		r.Prediction = append(r.Prediction, JSONFloat(t.of(b, "prediction", k, i)))
		r.Lower = append(r.Lower, JSONFloat(t.of(b, "lower", k, i)))
		r.Upper = append(r.Upper, JSONFloat(t.of(b, "upper", k, i)))
	}
	return r
}

// end computes the results that need all rows.
func (t *tally) end(ctx context.Context) (*Audit, error) {
	a := t.a
	if err := t.bound(); err != nil {
		return nil, err
	}
	if err := t.intervals(); err != nil {
		return nil, err
	}
	for _, key := range t.order() {
		if t.isShard(key) {
			continue
		}
		c := t.groups[key]
		g := Group{Kind: Kinds()[key.kind], Name: c.name, Inputs: c.rows, Discoveries: c.discovered, Outliers: c.outliers, FitDuplicates: c.like}
		if slices.ContainsFunc(c.known, func(n int) bool { return n > 0 }) {
			g.WithTarget, g.Covered = c.known, c.covered
		}
		a.Groups = append(a.Groups, g)
	}
	if err := t.shares(); err != nil {
		return nil, err
	}
	if err := t.duplicates(ctx); err != nil {
		return nil, err
	}
	a.Gaps = attach.UnusualGaps(t.w.gaps)
	a.notes()
	return a, nil
}

// bound computes the lower bounds on outliers in each group and in all inputs, and the shift
// tests. Half of Delta is spent on bounds that hold for every subset of the inputs. The other
// half is divided among the groups that are defined without a look at their scores. So all
// bounds hold at once, and those of groups that share no row add up.
func (t *tally) bound() error {
	own := 0
	for key := range t.groups {
		if t.tested(key) {
			own++
		}
	}
	share := 2 * float64(own) // of Delta
	all := Place{Kind: "all"}
	highest, lowest := [2]Place{all, all}, [2]Place{all, all}
	higher, lower := t.ranks.shift()
	shift := AnyShift{AllInputs: Shift{slices.Max(higher[:]), slices.Max(lower[:])}, GroupsTested: own}
	for way := range higher {
		higher[way], lower[way] = 2*higher[way], 2*lower[way]
	}
	whole := t.bounds.outliers(t.ranks)
	for _, key := range t.order() {
		c := t.groups[key]
		ranks := t.ranksOf(c)
		c.both = t.bounds.outliers(ranks)
		if !t.tested(key) {
			continue
		}
		bounds, err := ranks.bounds(t.w.Delta / share)
		if err != nil {
			return err
		}
		up, down := ranks.shift()
		place := Place{Kinds()[key.kind], c.name}
		for way, outliers := range bounds.outliers(ranks) {
			c.both[way] = max(c.both[way], outliers)
			if up[way] *= share; up[way] < higher[way] {
				higher[way], highest[way] = up[way], place
			}
			if down[way] *= share; down[way] < lower[way] {
				lower[way], lowest[way] = down[way], place
			}
		}
	}
	shift.Higher, shift.HigherIn = larger(higher, highest)
	shift.Lower, shift.LowerIn = larger(lower, lowest)
	t.a.Shift = shift.rounded()
	inside := map[*counts][2]int{}
	for _, c := range t.groups {
		if c.within != nil {
			sum := inside[c.within]
			for way, outliers := range c.both {
				sum[way] += outliers
			}
			inside[c.within] = sum
		}
	}
	for way := range whole {
		var sums [ofClass]int
		for key, c := range t.groups {
			c.both[way] = max(c.both[way], inside[c][way])
			if key.kind != ofClass {
				sums[key.kind] += c.both[way]
			}
		}
		whole[way] = max(whole[way], slices.Max(sums[:]))
	}
	t.a.Outliers = min(whole[0], whole[1])
	for _, c := range t.groups {
		if c.outliers = min(c.both[0], c.both[1]); c.rows == t.a.Inputs {
			c.outliers = t.a.Outliers
		}
	}
	return nil
}

// larger returns the larger of two p-values and its place.
func larger(p [2]float64, in [2]Place) (float64, Place) {
	way := 0
	if p[1] > p[0] {
		way = 1
	}
	if p[way] >= 1 { // then no place stands out
		return 1, Place{Kind: "all"}
	}
	return p[way], in[way]
}

// tested reports whether a group has bounds and a test of its own: it is defined without a
// look at its scores, and no other tested group has the same rows.
func (t *tally) tested(key groupKey) bool {
	c := t.groups[key]
	return key.kind != ofClass && c.rows < t.a.Inputs && !(key.kind == ofFolder && c.within != nil && c.within.within == c)
}

// order returns the groups in the order of audit.json.
func (t *tally) order() []groupKey {
	return slices.SortedFunc(maps.Keys(t.groups), func(a, b groupKey) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.class, b.class), cmp.Compare(a.name, b.name))
	})
}

// rounded rounds to six digits, which do not differ between processors.
func (s Shift) rounded() Shift { return Shift{sixDigits(s.Higher), sixDigits(s.Lower)} }

func (s AnyShift) rounded() AnyShift {
	s.Shift, s.AllInputs = s.Shift.rounded(), s.AllInputs.rounded()
	return s
}

// intervals counts the unusually wide intervals.
func (t *tally) intervals() error {
	for k := range t.a.Intervals {
		of, ranks := &t.a.Intervals[k], counted{t.w.widths[k], t.distinctWidths[k]}
		wide, err := ranks.discoveries(calibrate.DiscoveryOptions{FDR: t.w.FDR})
		if err != nil {
			return err
		}
		higher, lower := ranks.shift()
		of.Wide, of.PValueThreshold = wide.Count, wide.PValue
		of.Shift = Shift{slices.Max(higher[:]), slices.Max(lower[:])}.rounded()
	}
	return nil
}

// isShard reports whether a folder has the name and the rows of a shard.
func (t *tally) isShard(key groupKey) bool {
	if key.kind != ofFolder {
		return false
	}
	folder, shard := t.groups[key], t.groups[groupKey{kind: ofShard, name: key.name}]
	return shard != nil && folder.within == shard && shard.within == folder
}

// shares compares the frequencies of predicted classes with those of the calibration rows.
func (t *tally) shares() error {
	if t.w.Predicted == nil {
		return nil
	}
	audited, distinct := make([]int, len(t.w.Predicted)), make([]int, len(t.w.Predicted))
	names := make([]string, len(audited))
	for key, c := range t.groups {
		if key.kind != ofClass {
			continue
		}
		if key.class >= len(audited) {
			return fmt.Errorf("class %d is predicted, but there are %d classes", key.class, len(audited))
		}
		audited[key.class], distinct[key.class] = c.rows, c.distinct
		names[key.class] = c.name
	}
	all, err := hypothesis.ClassShares(t.w.Predicted, audited)
	if err != nil {
		return err
	}
	once, err := hypothesis.ClassShares(t.w.Predicted, distinct)
	if err != nil {
		return err
	}
	for c, s := range all {
		if audited[c] > 0 || t.w.Predicted[c] > 0 {
			t.a.Classes = append(t.a.Classes, Class{c, names[c], s.Calibration, s.Audited, sixDigits(max(s.PValue, once[c].PValue))})
		}
	}
	return nil
}

// duplicates finds near duplicates among the rows with the highest scores. Their features
// must be nearer than those of a sample of all rows usually are, and their content must
// confirm it: a model can map different inputs, above all outliers, to nearly the same
// features.
func (t *tally) duplicates(ctx context.Context) error {
	reference, err := duplicates.New(ctx, features(t.w.kept.Drawn))
	if err != nil {
		return err
	}
	groups, err := reference.Groups(ctx, features(t.w.kept.Worst), func(i, j int) bool { return t.w.kept.Worst[i].nearly(t.w.kept.Worst[j]) })
	for _, g := range groups {
		var keys []string
		for _, i := range g {
			keys = append(keys, t.a.HighestScoring[i].Key)
		}
		t.a.Duplicates = append(t.a.Duplicates, keys)
	}
	return err
}

// features returns the features of rows.
func features(list []keptRow) blas32.General {
	if len(list) == 0 {
		return blas32.General{}
	}
	x := rows.New(len(list), len(list[0].Features))
	for i, r := range list {
		copy(rows.Row(x, i), r.Features)
	}
	return x
}

// Of names what was audited: its file or folder, or the first of several.
func (a *Audit) Of() string {
	name := a.Shards[0].Name
	if n := len(a.Shards); n > 1 {
		name += fmt.Sprintf(" and %d more", n-1)
	}
	return name
}

// TooFew reports whether there is no discovery because too few inputs have the smallest
// p-value for one.
func (a *Audit) TooFew() bool {
	return a.Discoveries == 0 && a.MinDiscoveries > 1 && a.Thresholds[0].Inputs < a.MinDiscoveries
}

// FewRows explains that the calibration rows are too few for a small number of discoveries.
func (a *Audit) FewRows() string {
	return fmt.Sprintf("with %s there are at least %s among %s, or none", rows.Count(a.Calibration, "calibration row"), rows.Count(a.MinDiscoveries, "discovery"), rows.Count(a.Inputs, "input"))
}

// String is the kind and the name of a place, or empty for all inputs.
func (p Place) String() string {
	switch p.Kind {
	case "all":
		return ""
	case "shard":
		return p.Name
	}
	return p.Kind + " " + p.Name
}

// of is " of" the place, or empty for all inputs.
func (p Place) of() string {
	if name := p.String(); name != "" {
		return " of " + name
	}
	return ""
}

// ShiftFinding is the result of the shift test in a sentence without a full stop.
func (a *Audit) ShiftFinding() string {
	if a.Shift.Higher > a.Delta {
		return "no evidence that the inputs score higher than the calibration rows"
	}
	if name := a.Shift.HigherIn.String(); name != "" {
		return "the inputs of " + name + " score higher than the calibration rows"
	}
	return "the inputs score higher than the calibration rows"
}

// Unnamed reports whether there are many more outliers than discoveries.
func (a *Audit) Unnamed() bool { return a.Outliers > 2*a.Discoveries }

// Cautions returns the first of the notes: the reasons why the guarantee does not hold.
func (a *Audit) Cautions() []string { return a.Notes[:a.cautions] }

// notes adds the sentences on guarantees, on what violates them and on what else to know.
func (a *Audit) notes() {
	say := func(format string, args ...any) { a.Notes = append(a.Notes, fmt.Sprintf(format, args...)) }
	are := func(n int, one string) string {
		if n == 1 {
			return rows.Count(n, one) + " is"
		}
		return rows.Count(n, one) + " are"
	}
	a.used.notes(a, say)
	a.cautions = len(a.Notes)
	if c := a.Copies; c != nil {
		verb := " exact copies"
		if c.Repeated == 1 {
			verb = " an exact copy"
		}
		say("%s%s of an earlier input; %s of the %s differ. Copies are not independent evidence, so each figure is the more careful of two: with all inputs counted, and with copies counted once. Near copies, such as frames of a video, are counted, and many of them invalidate all figures.",
			are(c.Repeated, "input"), verb, display.Count(c.Distinct), rows.Count(a.Inputs, "input"))
	}
	for _, g := range a.Gaps {
		say("%v. An empty cell in a column that never was empty has an infinite score.", g)
	}
	draws := "on average over draws of calibration rows and audited inputs"
	if a.Conditional {
		draws = fmt.Sprintf("on average over draws of audited inputs, for a fraction %g of all calibration sets", 1-a.Delta)
	}
	say("At most a fraction %g of the discoveries is false, %s, if inliers are exchangeable with the %s.", a.FDR, draws, rows.Count(a.Calibration, "calibration row"))
	say("All bounds hold at once with probability %g, for every threshold and group. The bounds of groups that share no input add up.", 1-a.Delta)
	if a.Unnamed() {
		say("There are at least %s among the inputs, but %s. The other outliers cannot be told, one by one, from inliers. The highest scores come first, and the tables of groups show where outliers are.", rows.Count(a.Outliers, "outlier"), rows.Count(a.Discoveries, "discovery"))
	}
	if few := a.FewRows(); a.TooFew() {
		say("W%s. Calibrate with more rows, or use the bounds.", few[1:])
	}
	if a.Discoveries == 0 && a.Storey.Discoveries > 0 {
		say("Storey's procedure, which estimates the number of inliers, makes %s at the same rate: the inputs with p-values up to %.3g.", rows.Count(a.Storey.Discoveries, "discovery"), a.Storey.PValueThreshold)
	}
	say("The guarantee does not hold if many inputs are near copies of each other, such as frames of a video, or if the model or the detector was trained on the calibration rows.")
	if a.HeldOut == rows.SplitOff {
		say("The calibration rows were split off the rows fitted on. If the model was trained on these, there are too many discoveries.")
	}
	if n := len(a.Duplicates); n > 0 {
		say("Among the %d highest scores, %s near duplicates. Each input counts, unless it is an exact copy.", len(a.HighestScoring), map[bool]string{true: "1 group of inputs is", false: rows.Count(n, "group") + " of inputs are"}[n == 1])
	}
	if a.FitDuplicates != nil && *a.FitDuplicates > 0 {
		say("%s nearly the features of a fit row, which the column fit_duplicate_of of %s names. About 1 in 1,000 inputs has by chance. A copy of a fit row scores low, and its p-value means nothing.", rows.Count(*a.FitDuplicates, "input")+map[bool]string{true: " has", false: " have"}[*a.FitDuplicates == 1], Scores)
	}
	if a.Shift.Lower < .01 {
		say("Fewer inputs%s have high scores than expected (p = %.3g), as if the model had been trained on them.", a.Shift.LowerIn.of(), a.Shift.Lower)
	}
}
