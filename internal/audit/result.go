package audit

import (
	"cmp"
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
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/schema"
)

// Audit is the result of an audit. docs/reference/json.md describes its JSON keys.
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
	// GroupsLeftOut and ShardsLeftOut count what is not listed in audit.json.
	GroupsLeftOut int     `json:"groups_left_out,omitempty"`
	ShardsLeftOut int     `json:"shards_left_out,omitempty"`
	Classes       []Class `json:"class_shares,omitempty"`
	// LabelErrors has one element for a classifier, and one per target for a regressor. It is
	// nil unless Identity.LabelErrorsBy is set.
	LabelErrors    []LabelErrors `json:"label_errors,omitempty"`
	Intervals      []Interval    `json:"intervals,omitempty"`
	Shards         []Shard       `json:"shards"`
	HighestScoring []Row         `json:"highest_scoring"`
	Copies         *Copies       `json:"copies,omitempty"` // nil if all inputs differ
	// Schema compares the columns of the inputs with those of the fit rows. It is nil if the
	// .attach file has no profile.
	Schema *schema.Summary `json:"schema,omitempty"`
	// ReasonGroups counts inputs by their reasons, those with the most discoveries first.
	// Inputs without a reason come last.
	ReasonGroups []ReasonGroup `json:"reason_groups,omitempty"`
	Notes        []string      `json:"notes"`
	// folders holds the counts of folders with their sub-folders.
	folders  []Group
	retained retainedRows

	// UsedInFit and UsedInCalibration estimate how many inputs were used to fit and to
	// calibrate. Both are 0 if the .attach file keeps no hashes.
	UsedInFit         int `json:"used_in_fit,omitempty"`
	UsedInCalibration int `json:"used_in_calibration,omitempty"`
	used              usedCounts
	cautions          int // Notes[:cautions] are cautions
	labels            []*labelTally
}

// Storey holds the discoveries of Storey's procedure.
type Storey struct {
	Discoveries     int     `json:"discoveries"`
	PValueThreshold float64 `json:"p_value_threshold"`
}

// Shift holds the p-values of two tests. Higher is small if the inputs score higher than
// the calibration rows. Lower is small if they score lower.
type Shift struct {
	Higher float64 `json:"p_higher"`
	Lower  float64 `json:"p_lower"`
}

// AnyShift combines the shift test of all inputs with the shift tests of each file, folder
// and group. Half of the error probability is spent on all inputs. The other half is
// divided equally among the files, folders and groups. Those that hold all inputs, and
// folders with exactly the rows of one file, have no test of their own. The bounds on
// outliers divide Delta in the same way, so Higher is at most Delta if and only if Outliers
// is above 0.
type AnyShift struct {
	Shift
	// HigherIn is the place with the smallest p-value for higher scores. LowerIn is the
	// place with the smallest p-value for lower scores.
	HigherIn Place `json:"higher_in"`
	LowerIn  Place `json:"lower_in"`
	// GroupsTested is the number of files, folders and groups tested. AllInputs is the test
	// of all inputs, without correction for the other tests.
	GroupsTested int   `json:"groups_tested"`
	AllInputs    Shift `json:"all_inputs"`
}

// Place names a group by its kind and name. The kind "all" stands for all inputs.
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

// Group holds the counts of a shard, a folder, a group of --groups, a predicted class or a
// given label.
type Group struct {
	Kind          string `json:"kind"`
	Name          string `json:"name"`
	Inputs        int    `json:"inputs"`
	Discoveries   int    `json:"discoveries"`
	Outliers      int    `json:"outliers_lower_bound"`
	Unusual       int    `json:"unusual,omitempty"` // inputs with a reason
	FitDuplicates int    `json:"fit_duplicates,omitempty"`
	// WithTarget counts the rows whose target is known. Covered counts the rows whose
	// interval contains the target. Both have one element per target.
	WithTarget []int `json:"with_target,omitempty"`
	Covered    []int `json:"covered,omitempty"`
	// Labelled counts the rows whose label is known, LabelDiscoveries those of them that are
	// discoveries, and LabelErrors bounds the number of wrong labels. They have one element for
	// each of Audit.LabelErrors.
	Labelled         []int `json:"labelled,omitempty"`
	LabelDiscoveries []int `json:"label_discoveries,omitempty"`
	LabelErrors      []int `json:"label_errors_lower_bound,omitempty"`
}

// Class compares how often a class is predicted for calibration rows and for inputs.
type Class struct {
	Class       int     `json:"class"`
	Name        string  `json:"name,omitempty"`
	Calibration float64 `json:"calibration"`
	Audited     float64 `json:"audited"`
	PValue      float64 `json:"p_value"`
}

// Interval compares the widths of the intervals of a target with the widths for the
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

// ReasonGroup counts the inputs that have the same reasons. Reasons is the text that
// schema.Group returns. It is empty for inputs without a reason.
type ReasonGroup struct {
	Reasons     string `json:"reasons"`
	Inputs      int    `json:"inputs"`
	Discoveries int    `json:"discoveries"`
	// Places are the files or folders with the most of these inputs, at most three.
	Places []ReasonPlace `json:"places"`
}

// ReasonPlace counts the inputs of a reason group in a file or folder. First and Last are the
// numbers of the first and of the last of these rows, counted from 0.
type ReasonPlace struct {
	Shard  string `json:"shard"`
	Inputs int    `json:"inputs"`
	First  int    `json:"first_row"`
	Last   int    `json:"last_row"`
}

// String returns a phrase such as "day/tue.csv: 400 in rows 500–899".
func (p ReasonPlace) String() string {
	if p.First == p.Last {
		return fmt.Sprintf("%s: row %d", p.Shard, p.First)
	}
	return fmt.Sprintf("%s: %s in rows %d–%d", p.Shard, display.Count(p.Inputs), p.First, p.Last)
}

// CoveredFraction returns the fraction of known targets that are within their intervals, or
// NaN if no target is known.
func (i Interval) CoveredFraction() float64 { return coveredFraction(i.Covered, i.WithTarget) }

// CoveredFraction returns the fraction of the known targets k in the group that are within
// their intervals. It returns NaN if target k is not known for any row.
func (g Group) CoveredFraction(k int) float64 {
	if k >= len(g.WithTarget) {
		return math.NaN()
	}
	return coveredFraction(g.Covered[k], g.WithTarget[k])
}

func coveredFraction(covered, known int) float64 { return float64(covered) / float64(known) }

// maxWidest is the largest length of Interval.Widest.
const maxWidest = 20

// Shard describes an audited file or folder. Rows is the number of all its rows, and Inputs
// the number of audited rows.
type Shard struct {
	Name   string `json:"name"`
	Rows   int    `json:"rows"`
	Inputs int    `json:"inputs"`
}

// Row describes one input and its results.
type Row struct {
	Key       string    `json:"key"`
	Shard     string    `json:"shard"`
	At        int       `json:"row"`
	Score     JSONFloat `json:"ood_score"`
	PValue    float64   `json:"p_value"`
	Discovery bool      `json:"discovery"`
	Class     *int      `json:"class,omitempty"`
	ClassName string    `json:"class_name,omitempty"`
	// Confidence is the confidence in Class. Prediction, Lower and Upper have one element
	// per target.
	Confidence     *JSONFloat  `json:"confidence,omitempty"`
	Prediction     []JSONFloat `json:"prediction,omitempty"`
	Lower          []JSONFloat `json:"lower,omitempty"`
	Upper          []JSONFloat `json:"upper,omitempty"`
	Target         []JSONFloat `json:"target,omitempty"`
	FitDuplicateOf string      `json:"fit_duplicate_of,omitempty"`
	// Label is the given label of a classifier's row, and Suggested the most probable other
	// class. LabelScore, LabelPValue and LabelDiscovery have one element for each of
	// Audit.LabelErrors.
	Label          *int        `json:"label,omitempty"`
	LabelName      string      `json:"label_name,omitempty"`
	Suggested      *int        `json:"suggested_label,omitempty"`
	SuggestedName  string      `json:"suggested_label_name,omitempty"`
	LabelScore     []JSONFloat `json:"label_score,omitempty"`
	LabelPValue    []JSONFloat `json:"label_p_value,omitempty"`
	LabelDiscovery []bool      `json:"label_discovery,omitempty"`
	// NearestFitRow is the key of the fit row with the nearest features, for a row of
	// HighestScoring.
	NearestFitRow string `json:"nearest_fit_row,omitempty"`
	// Reasons are the first reasons of a row of HighestScoring, and what raised its score if
	// the score was attributed.
	Reasons []string `json:"reasons,omitempty"`
	// Folder is the folder of the row. Shown is what the report shows of the row.
	Folder string `json:"-"`
	Shown  *Shown `json:"-"`
}

// JSONFloat is a number whose JSON form is null if it is not finite.
type JSONFloat float64

// MarshalJSON implements json.Marshaler. It writes nine significant digits.
func (f JSONFloat) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(f), 0) || math.IsNaN(float64(f)) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(f), 'g', 9, 64), nil
}

// tally accumulates the results of an audit row by row.
type tally struct {
	scores  *ScoreSet
	a       *Audit
	ranks   countedRanks
	bounds  bounds // fail with probability at most Delta/2
	copies  *copyFinder
	labels  []*labelTally
	nextRow int   // number of the next row that add counts
	looks   []int // ranks at which bounds are evaluated, from hypothesis.Looks
	groups  map[groupKey]*groupCounts

	reasonGroups map[string]*reasonCounts

	widths         [][]float64         // per target, the widths of the widest intervals
	shownRows      map[int]map[int]int // indices in HighestScoring, by shard and row
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

type groupKey struct {
	kind  int
	class int
	name  string
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
	name                string
	rows, discovered    int
	unusual             int      // number of rows with a reason
	fitDuplicates       int      // number of rows near a fit row
	distinct            int      // number of rows that are not copies of an earlier row of the group
	lookCounts          [2][]int // numbers of rows by lookIndex, for all rows and for distinct rows
	withTarget, covered []int    // number of rows, per target
	labels              []labelCounts
	outlierPair         [2]int // bounds on outliers, with all rows and with distinct rows
	outliers            int    // the smaller of outlierPair
	// counterpart of a shard is the folder that has all its rows. The counterpart of a
	// folder is the shard that has all its rows. It is nil if there is no such group.
	counterpart *groupCounts
}

// addCounterpart updates the counterpart of c. If c is a shard, other is the folder of its
// next row. If c is a folder, other is the shard of its next row.
func (c *groupCounts) addCounterpart(other *groupCounts) {
	switch {
	case c.rows == 0:
		c.counterpart = other
	case c.counterpart != other:
		c.counterpart = nil
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
		for j, count := range c.lookCounts[way] {
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
func (w *ScoreSet) newTally(copies *copyFinder) (*tally, error) {
	a := &Audit{Inputs: w.ranks.Rows(), Identity: w.Identity, retained: w.retained, used: w.used}
	a.UsedInFit, a.UsedInCalibration = w.used[0].Known(), w.used[1].Known()
	for _, s := range w.Shards {
		a.Shards = append(a.Shards, Shard{s.Shard, s.Rows, s.Audited})
	}
	t := &tally{scores: w, a: a, looks: hypothesis.Looks(w.Calibration), groups: map[groupKey]*groupCounts{}, reasonGroups: map[string]*reasonCounts{}, scratch: countedRanks{calibrate.NewRanks(w.Calibration), calibrate.NewRanks(w.Calibration)}}
	t.ranks, t.copies = countedRanks{w.ranks, copies.ranks}, copies
	t.registerCopies()
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
	a.Discoveries, a.PValueThreshold, a.MinDiscoveries, a.Storey = d.Count, d.PValue, d.Least, Storey{storey.Count, storey.PValue}
	a.FDP = t.bounds.fdp(t.ranks, d.PValue, copies.most())
	n := float64(w.Calibration + 1)
	for _, k := range slices.Backward(t.looks) {
		p := float64(k) / n
		a.Thresholds = append(a.Thresholds, Threshold{p, countUpTo(w.ranks, k), t.bounds.fdp(t.ranks, p, copies.most())})
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
	t.shownRows, t.suspicious = w.placesOf(w.retained.Worst), w.placesOf(w.retained.Labels)
	return t, nil
}

// placesOf returns the indices of retained rows in their list, by the index of the shard and the
// index of the row.
func (w *ScoreSet) placesOf(list []retainedRow) map[int]map[int]int {
	at := map[shardID]map[int]int{}
	for i, r := range list {
		id := shardID{r.Shard, r.Digest}
		if at[id] == nil {
			at[id] = map[int]int{}
		}
		at[id][r.At] = i
	}
	rows := map[int]map[int]int{}
	for k, s := range w.Shards {
		rows[k] = at[shardID{s.Shard, s.Digest}]
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
func (t *tally) registerCopies() {
	if t.copies.count == 0 {
		return
	}
	c := &Copies{Distinct: t.a.Inputs - t.copies.count, Repeated: t.copies.count, Near: len(t.copies.near)}
	for _, set := range t.copies.mostCopied {
		entry := Copied{set.count, make([]string, len(set.rows))}
		for i, row := range set.rows {
			t.pendingKeys = append(t.pendingKeys, pendingKey{row, &entry.Keys[i]})
		}
		c.MostCopied = append(c.MostCopied, entry)
	}
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
	p, folders, shown := b.numbers("p_value"), b.texts("folder"), t.shownRows[b.shard]
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
	shard := t.group(groupKey{kind: shardKind, name: b.name}, "")
	copyFlags, err := t.copies.flags.of(t.nextRow, b.n)
	if err != nil {
		return err
	}
	for i := range b.n {
		for ; len(t.pendingKeys) > 0 && t.pendingKeys[0].row == t.nextRow+i; t.pendingKeys = t.pendingKeys[1:] {
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
			c.rows++
			if nearFitRow {
				c.fitDuplicates++
			}
			if unusual {
				c.unusual++
			}
			c.lookCounts[0][lookBin]++
			if copyFlags[i]&copyInKind(kind) == 0 {
				c.distinct++
				c.lookCounts[1][lookBin]++
			}
			if discovery {
				c.discovered++
			}
			for k := range contained {
				if known[k] {
					c.withTarget[k]++
				}
				if contained[k] {
					c.covered[k]++
				}
			}
			for list, g := range given {
				c.labels[list].add(g, copyFlags[i]&copyInKind(kind) != 0 && copyFlags[i]&copyInKind(labelKind) != 0)
			}
		}
		folder := t.groupNamed(folderKind, folders[i])
		shard.addCounterpart(folder)
		folder.addCounterpart(shard)
		count(shardKind, shard)
		count(folderKind, folder)
		if groups != nil {
			count(groupKind, t.groupNamed(groupKind, groups[i]))
		}
		if classes != nil && classes[i] >= 0 {
			c := t.group(groupKey{kind: classKind, class: int(classes[i])}, string(classNames[i]))
			count(classKind, c)
		}
		if labels != nil && labels[i] >= 0 {
			count(labelKind, t.group(groupKey{kind: labelKind, class: int(labels[i])}, string(b.texts("label_name")[i])))
		}
		if place, ok := shown[b.start+i]; ok {
			r, worst := t.newRow(b, i, discovery), w.retained.Worst[place]
			r.Shown = worst.Shown
			r.Reasons, r.NearestFitRow = worst.explanation()
			t.a.HighestScoring[place] = r
		}
	}
	t.nextRow += b.n
	return nil
}

const (
	// maxReasonGroups is the largest number of groups with a reason in Audit.ReasonGroups.
	// maxCountedGroups bounds the memory of counting: groups that appear later are left out.
	maxReasonGroups  = 100
	maxCountedGroups = 20_000
	maxReasonPlaces  = 3 // largest length of ReasonGroup.Places
)

// reasonCounts counts the inputs of a reason group. Rows arrive file by file, so only the
// current file is still counted.
type reasonCounts struct {
	ReasonGroup
	shard   int // index of the current file
	current ReasonPlace
}

// endFile adds the current file to Places if it is among those with the most inputs.
func (c *reasonCounts) endFile() {
	at, _ := slices.BinarySearchFunc(c.Places, c.current.Inputs, func(p ReasonPlace, inputs int) int {
		if p.Inputs >= inputs { // among equal numbers, the earlier file comes first
			return -1
		}
		return 1
	})
	c.Places = slices.Insert(c.Places, at, c.current)
	c.Places = c.Places[:min(maxReasonPlaces, len(c.Places))]
}

// countReasons counts row i in the group of its reasons.
func (t *tally) countReasons(reasons []byte, b block, i int, discovery bool) {
	g, ok := t.reasonGroups[string(reasons)]
	if !ok {
		if len(t.reasonGroups) >= maxCountedGroups && len(reasons) > 0 {
			return
		}
		g = &reasonCounts{ReasonGroup: ReasonGroup{Reasons: string(reasons)}, shard: -1}
		t.reasonGroups[g.Reasons] = g
	}
	row := int(b.numbers("row")[i])
	if g.shard != b.shard {
		if g.shard >= 0 {
			g.endFile()
		}
		g.shard, g.current = b.shard, ReasonPlace{Shard: b.name, First: row}
	}
	g.current.Inputs++
	g.current.Last = row
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
	for _, g := range t.reasonGroups {
		g.endFile()
	}
	none := t.reasonGroups[""]
	delete(t.reasonGroups, "")
	groups := slices.SortedFunc(maps.Values(t.reasonGroups), func(a, b *reasonCounts) int {
		return cmp.Or(b.Discoveries-a.Discoveries, b.Inputs-a.Inputs, cmp.Compare(a.Reasons, b.Reasons))
	})
	for _, g := range groups[:min(maxReasonGroups, len(groups))] {
		t.a.ReasonGroups = append(t.a.ReasonGroups, g.ReasonGroup)
	}
	if none != nil {
		t.a.ReasonGroups = append(t.a.ReasonGroups, none.ReasonGroup)
	}
}

// keepWidest adds row i to Interval.Widest if its interval of target k is among the widest.
// If widths are equal, the earlier row stays. A width of NaN counts as infinite.
func (t *tally) keepWidest(b block, k, i int, discovery bool) {
	width := t.targetValue(b, "upper", k, i) - t.targetValue(b, "lower", k, i)
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
	if place == maxWidest {
		return
	}
	length := min(len(list)+1, maxWidest)
	t.widths[k] = slices.Insert(list, place, width)[:length]
	interval := &t.a.Intervals[k]
	interval.Widest = slices.Insert(interval.Widest, place, t.newRow(b, i, discovery))[:length]
}

// groupNamed returns the counts of the group with a kind and a name. It looks up
// string(name) inside the map index, because the compiler then does not copy the name.
func (t *tally) groupNamed(kind int, name []byte) *groupCounts {
	if c, ok := t.groups[groupKey{kind: kind, name: string(name)}]; ok {
		return c
	}
	return t.group(groupKey{kind: kind, name: string(name)}, "")
}

func (t *tally) group(key groupKey, name string) *groupCounts {
	c, ok := t.groups[key]
	if !ok {
		c = &groupCounts{name: cmp.Or(name, key.name), withTarget: make([]int, len(t.scores.Targets)), covered: make([]int, len(t.scores.Targets)), labels: make([]labelCounts, len(t.labels))}
		for way := range c.lookCounts {
			c.lookCounts[way] = make([]int, len(t.looks)+1)
		}
		if key.kind >= classKind && name == "" {
			c.name = strconv.Itoa(key.class)
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
func (t *tally) finish() (*Audit, error) {
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
			a.Groups = append(a.Groups, t.groups[key].group(key.kind))
		}
	}
	a.folders = t.folders()
	if err := t.compareClasses(); err != nil {
		return nil, err
	}
	t.setSchema()
	for _, l := range t.labels {
		a.LabelErrors = append(a.LabelErrors, l.finish())
	}
	a.addNotes()
	return a, nil
}

// group returns the counts as a group of a kind.
func (c *groupCounts) group(kind int) Group {
	g := Group{Kind: Kinds()[kind], Name: c.name, Inputs: c.rows, Discoveries: c.discovered, Outliers: c.outliers, Unusual: c.unusual, FitDuplicates: c.fitDuplicates}
	if slices.ContainsFunc(c.withTarget, func(n int) bool { return n > 0 }) {
		g.WithTarget, g.Covered = c.withTarget, c.covered
	}
	for _, l := range c.labels {
		g.Labelled, g.LabelDiscoveries, g.LabelErrors = append(g.Labelled, l.rows), append(g.LabelDiscoveries, l.discoveries), append(g.LabelErrors, l.errors)
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
	shift := AnyShift{AllInputs: Shift{slices.Max(higher[:]), slices.Max(lower[:])}, GroupsTested: tested}
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
		place := Place{Kinds()[key.kind], c.name}
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
	t.a.Shift = shift.rounded()
	contained := map[*groupCounts][2]int{}
	for _, c := range t.groups {
		if c.counterpart != nil {
			sum := contained[c.counterpart]
			for way, outliers := range c.outlierPair {
				sum[way] += outliers
			}
			contained[c.counterpart] = sum
		}
	}
	for way := range total {
		var sums [classKind]int
		for key, c := range t.groups {
			c.outlierPair[way] = max(c.outlierPair[way], contained[c][way])
			if key.kind < classKind {
				sums[key.kind] += c.outlierPair[way]
			}
		}
		total[way] = max(total[way], slices.Max(sums[:]))
	}
	t.a.Outliers = min(total[0], total[1])
	for _, c := range t.groups {
		if c.outliers = min(c.outlierPair[0], c.outlierPair[1]); c.rows == t.a.Inputs {
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
	return key.kind < classKind && c.rows < t.a.Inputs && !(key.kind == folderKind && c.counterpart != nil && c.counterpart.counterpart == c)
}

// sortedKeys returns the keys of the groups, in the order of audit.json.
func (t *tally) sortedKeys() []groupKey {
	return slices.SortedFunc(maps.Keys(t.groups), func(a, b groupKey) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.class, b.class), cmp.Compare(a.name, b.name))
	})
}

// rounded returns s with six significant digits, because later digits can differ between
// processors.
func (s Shift) rounded() Shift { return Shift{sixDigits(s.Higher), sixDigits(s.Lower)} }

func (s AnyShift) rounded() AnyShift {
	s.Shift, s.AllInputs = s.Shift.rounded(), s.AllInputs.rounded()
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
		interval.Shift = Shift{slices.Max(higher[:]), slices.Max(lower[:])}.rounded()
	}
	return nil
}

// equalsShard reports whether key is a folder with the same name and the same rows as a
// shard.
func (t *tally) equalsShard(key groupKey) bool {
	if key.kind != folderKind {
		return false
	}
	folder, shard := t.groups[key], t.groups[groupKey{kind: shardKind, name: key.name}]
	return shard != nil && folder.counterpart == shard && shard.counterpart == folder
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
		if key.kind != classKind {
			continue
		}
		if key.class >= len(audited) {
			return fmt.Errorf("class %d is predicted, but there are %d classes", key.class, len(audited))
		}
		audited[key.class], distinct[key.class] = c.rows, c.distinct
		names[key.class] = c.name
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
			t.a.Classes = append(t.a.Classes, Class{c, names[c], s.Calibration, s.Audited, sixDigits(max(s.PValue, distinctShares[c].PValue))})
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

// Subject returns the name of the audited file or folder. If there are several, it returns
// the name of the first and the number of the others.
func (a *Audit) Subject() string {
	name := a.Shards[0].Name
	if n := len(a.Shards); n > 1 {
		name += fmt.Sprintf(" and %d more", n-1)
	}
	return name
}

// TooFew reports whether there is no discovery because fewer than MinDiscoveries inputs
// have the smallest possible p-value.
func (a *Audit) TooFew() bool {
	return a.Discoveries == 0 && a.MinDiscoveries > 1 && a.Thresholds[0].Inputs < a.MinDiscoveries
}

// FewRows returns an explanation that a small number of discoveries would need more
// calibration rows.
func (a *Audit) FewRows() string {
	return fmt.Sprintf("with %s there are at least %s among %s, or none", rows.Count(a.Calibration, "calibration row"), rows.Count(a.MinDiscoveries, "discovery"), rows.Count(a.Inputs, "input"))
}

// String returns the kind and the name of a place. For a shard it returns only the name, and
// for all inputs an empty string.
func (p Place) String() string {
	switch p.Kind {
	case "all":
		return ""
	case "shard":
		return p.Name
	}
	return p.Kind + " " + p.Name
}

// ofClause returns " of " and the place, or an empty string for all inputs.
func (p Place) ofClause() string {
	if name := p.String(); name != "" {
		return " of " + name
	}
	return ""
}

// ShiftFinding returns the result of the shift test as a sentence without a full stop.
func (a *Audit) ShiftFinding() string {
	if a.Shift.Higher > a.Delta {
		return "no evidence that the inputs score higher than the calibration rows"
	}
	if name := a.Shift.HigherIn.String(); name != "" {
		return "the inputs of " + name + " score higher than the calibration rows"
	}
	return "the inputs score higher than the calibration rows"
}

// Unnamed reports whether there are more than twice as many outliers as discoveries. If so,
// most outliers cannot be named.
func (a *Audit) Unnamed() bool { return a.Outliers > 2*a.Discoveries }

// Cautions returns the notes with reasons why the guarantee does not hold.
func (a *Audit) Cautions() []string { return a.Notes[:a.cautions] }

// maxNotedColumns is the largest number of columns that notes describe.
const maxNotedColumns = 10

// NotableColumns returns the columns to look at, at most ten, and the number of others.
func (a *Audit) NotableColumns() (first []schema.ColumnSummary, more int) {
	if a.Schema == nil {
		return nil, 0
	}
	all := a.Schema.NotableColumns()
	first = all[:min(maxNotedColumns, len(all))]
	return first, len(all) - len(first)
}

// noteColumns adds a note for each column that differs from the fit rows.
func (a *Audit) noteColumns(add func(format string, args ...any)) {
	columns, more := a.NotableColumns()
	for _, c := range columns {
		add("%v.", c)
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
		add("Fewer inputs%s have high scores than expected (p = %.3g), as if the model had been trained on them.", a.Shift.LowerIn.ofClause(), a.Shift.Lower)
	}
}
