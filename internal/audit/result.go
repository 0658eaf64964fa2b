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
	"github.com/attach-uncertainty/attach/internal/duplicates"
	"github.com/attach-uncertainty/attach/internal/evidence"
	"github.com/attach-uncertainty/attach/internal/rows"
)

// Audit is what is said of inputs. docs/audit.md says what each key is.
type Audit struct {
	Inputs int `json:"inputs"`
	Identity
	Outliers    int         `json:"outliers_lower_bound"`
	Discoveries int         `json:"discoveries"`
	PValue      float64     `json:"p_value"`
	Least       int         `json:"least_discoveries"`
	FDP         float64     `json:"fdp_upper_bound"`
	Storey      Storey      `json:"storey"`
	Flagged     int         `json:"flagged"`
	LikeFitted  *int        `json:"like_fitted,omitempty"` // nil: rows fitted on are not known
	Shift       Shift       `json:"shift"`
	Thresholds  []Threshold `json:"thresholds"`
	PValues     []int       `json:"p_values"`
	Groups      []Group     `json:"groups"`
	Classes     []Class     `json:"class_shares,omitempty"`
	Intervals   []Interval  `json:"intervals,omitempty"`
	Shards      []Shard     `json:"shards"`
	Worst       []Row       `json:"worst"`
	Duplicates  [][]string  `json:"duplicates,omitempty"`
	// Gaps are the columns that are empty more often than in the rows fitted on.
	Gaps  []attach.ColumnGaps `json:"gaps,omitempty"`
	Notes []string            `json:"notes"`
	kept  kept

	// FittedOn and CalibratedOn are about how many inputs were used before, 0 if none
	// were or if M.attach does not tell.
	FittedOn     int `json:"fitted_on,omitempty"`
	CalibratedOn int `json:"calibrated_on,omitempty"`
	used         used
	cautions     int // of Notes, the first
}

// Storey is what Storey's procedure discovers.
type Storey struct {
	Discoveries int     `json:"discoveries"`
	PValue      float64 `json:"p_value"`
}

// Shift is whether the inputs as a whole score like the calibration rows.
type Shift struct {
	Higher float64 `json:"higher"`
	Lower  float64 `json:"lower"`
}

// Threshold bounds the share of false ones among the inputs with p-values up to one.
type Threshold struct {
	PValue float64 `json:"p_value"`
	Inputs int     `json:"inputs"`
	FDP    float64 `json:"fdp_upper_bound"`
}

// Group is some of the inputs: those of a shard, a folder, a group of the user's or a
// predicted class.
type Group struct {
	Kind        string `json:"kind"`
	Name        string `json:"name"`
	Inputs      int    `json:"inputs"`
	Discoveries int    `json:"discoveries"`
	Outliers    int    `json:"outliers_lower_bound"`
	LikeFitted  int    `json:"like_fitted,omitempty"`
	// Known is how many rows have a target, and Covered how many of these have it within
	// its interval, a target each.
	Known   []int `json:"with_target,omitempty"`
	Covered []int `json:"covered,omitempty"`
}

// Class compares how often a class is predicted.
type Class struct {
	Class       int     `json:"class"`
	Name        string  `json:"name,omitempty"`
	Calibration float64 `json:"calibration"`
	Audited     float64 `json:"audited"`
	PValue      float64 `json:"p_value"`
}

// Interval is what there is of intervals of a target: those wider than of the
// calibration rows, and whether widths as a whole are.
type Interval struct {
	Name    string  `json:"name,omitempty"`
	Wide    int     `json:"wide"`
	PValue  float64 `json:"width_p_value"`
	Shift   Shift   `json:"width_shift"`
	Known   int     `json:"with_target,omitempty"`
	Covered int     `json:"covered,omitempty"`
	Widest  []Row   `json:"widest,omitempty"`
}

// mostWidest is how many rows of a target are shown for their intervals.
const mostWidest = 20

// Shard is a file or folder, and how many of its rows were audited.
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
	// Confidence is that of the class; Prediction, Lower and Upper are a target each.
	Confidence *JSONFloat  `json:"confidence,omitempty"`
	Prediction []JSONFloat `json:"prediction,omitempty"`
	Lower      []JSONFloat `json:"lower,omitempty"`
	Upper      []JSONFloat `json:"upper,omitempty"`
	LikeFitted string      `json:"like_fitted,omitempty"`
	// Folder is where the row lies, and Shown what people see of it.
	Folder string `json:"-"`
	Shown  *Shown `json:"-"`
}

// JSONFloat is null where JSON has no number for it.
type JSONFloat float64

// MarshalJSON writes nine digits.
func (f JSONFloat) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(f), 0) || math.IsNaN(float64(f)) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(f), 'g', 9, 64), nil
}

// tally goes over the rows.
type tally struct {
	w      *Whole
	a      *Audit
	bounds calibrate.OutlierBounds // at half of Delta
	halves []int                   // evidence.Looks, all that bounds look at
	groups map[groupKey]*counts

	widths  [][]float64         // of the widest intervals, a target each
	shown   map[int]map[int]int // places of the worst rows, by shard and row
	scratch calibrate.Ranks
}

type groupKey struct {
	kind  int
	class int
	name  string
}

// Kinds are those of groups, in their order.
func Kinds() []string { return []string{"shard", "folder", "group", "class"} }

const (
	ofShard = iota
	ofFolder
	ofGroup
	ofClass
)

// counts are those of a group.
type counts struct {
	name             string
	rows, discovered int
	like             int // rows fitted on
	halves           []int
	known, covered   []int // of targets
	outliers         int
	// within is the folder that holds all rows of a shard, or the shard that holds all of
	// a folder, or nil.
	within *counts
}

// lies says that the next row, too, is of another group.
func (c *counts) lies(in *counts) {
	switch {
	case c.rows == 0:
		c.within = in
	case c.within != in:
		c.within = nil
	}
}

// half is which of the halves a rank, from 1, is in: the number of those that it is
// below.
func half(at []int, rank int) int {
	j := 0
	for j < len(at) && rank <= at[j] {
		j++
	}
	return j
}

// ranksOf are ranks of a group for which bounds are what they are of its own.
func (t *tally) ranksOf(c *counts) calibrate.Ranks {
	clear(t.scratch)
	for j, count := range c.halves {
		k := len(t.scratch)
		if j > 0 {
			k = t.halves[j-1]
		}
		t.scratch[k-1] += count
	}
	return t.scratch
}

// begin says what follows from ranks alone.
func (w *Whole) begin() (*tally, error) {
	a := &Audit{Inputs: w.ranks.Rows(), Identity: w.Identity, kept: w.kept, used: w.used}
	a.FittedOn, a.CalibratedOn = w.used[0].Known(), w.used[1].Known()
	for _, s := range w.Shards {
		a.Shards = append(a.Shards, Shard{s.Shard, s.Rows, s.Of})
	}
	t := &tally{w: w, a: a, halves: evidence.Looks(w.Calibration), groups: map[groupKey]*counts{}, shown: map[int]map[int]int{}, scratch: calibrate.NewRanks(w.Calibration)}
	o := calibrate.DiscoveryOptions{FDR: w.FDR}
	if w.Conditional {
		o.Delta = w.Delta
	}
	d, err := w.ranks.Discoveries(o)
	if err != nil {
		return nil, err
	}
	o.Lambda = .5
	storey, err := w.ranks.Discoveries(o)
	if err != nil {
		return nil, err
	}
	if t.bounds, err = w.ranks.OutlierBounds(w.Delta / 2); err != nil {
		return nil, err
	}
	a.Discoveries, a.PValue, a.Least, a.Storey = d.Count, d.PValue, d.Least, Storey{storey.Count, storey.PValue}
	a.FDP, a.Outliers = t.bounds.FDP(w.ranks, d.PValue), t.bounds.Outliers(w.ranks)
	a.Shift = shiftOf(w.ranks)
	n := float64(w.Calibration + 1)
	for _, k := range slices.Backward(t.halves) {
		p := float64(k) / n
		a.Thresholds = append(a.Thresholds, Threshold{p, below(w.ranks, k), t.bounds.FDP(w.ranks, p)})
	}
	a.PValues = make([]int, evidence.Bins)
	for k, count := range w.ranks {
		p := float64(k+1) / n
		a.PValues[evidence.Bin(p, evidence.Bins)] += count
		if p <= w.Alpha {
			a.Flagged += count
		}
	}
	t.widths = make([][]float64, len(w.Targets))
	for k, name := range w.Targets {
		wide, err := w.widths[k].Discoveries(calibrate.DiscoveryOptions{FDR: w.FDR})
		if err != nil {
			return nil, err
		}
		a.Intervals = append(a.Intervals, Interval{Name: name, Wide: wide.Count, PValue: wide.PValue, Shift: shiftOf(w.widths[k])})
	}
	if w.Fitted != "" {
		a.LikeFitted = new(int)
	}
	a.Worst = make([]Row, len(w.kept.Worst))
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

// shiftOf has six digits, which do not differ between processors.
func shiftOf(r calibrate.Ranks) Shift {
	higher, lower := r.Shift()
	return Shift{sixDigits(higher), sixDigits(lower)}
}

func sixDigits(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	if err != nil {
		panic(err) // of what was just written
	}
	return y
}

// discovered says whether a p-value is that of a discovery.
func (t *tally) discovered(p float64) bool { return p <= t.a.PValue }

// add counts rows.
func (t *tally) add(b block) {
	w := t.w
	p, folders, shown := b.numbers("p_value"), b.texts("folder"), t.shown[b.shard]
	var groups, like [][]byte
	var classes []float64
	var classNames [][]byte
	if w.Reading.Groups != "" {
		groups = b.texts("group")
	}
	if w.Fitted != "" {
		like = b.texts("like_fitted")
	}
	if w.Task == attach.Classification {
		classes, classNames = b.numbers("class"), b.texts("class_name")
	}
	known, inside := make([]bool, len(w.Targets)), make([]bool, len(w.Targets))
	shard := t.group(groupKey{kind: ofShard, name: b.name}, "")
	for i := range b.n {
		rank := int(math.Round(p[i] * float64(w.Calibration+1)))
		h, is := half(t.halves, rank), t.discovered(p[i])
		for k := range inside {
			if known[k], inside[k] = t.within(b, k, i); known[k] {
				t.a.Intervals[k].Known++
			}
			if inside[k] {
				t.a.Intervals[k].Covered++
			}
			t.wide(b, k, i, is)
		}
		copied := like != nil && len(like[i]) > 0
		if copied {
			*t.a.LikeFitted++
		}
		count := func(c *counts) {
			c.rows++
			if copied {
				c.like++
			}
			c.halves[h]++
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
		shard.lies(folder)
		folder.lies(shard)
		count(shard)
		count(folder)
		if groups != nil {
			count(t.named(ofGroup, groups[i]))
		}
		if classes != nil && classes[i] >= 0 {
			c := t.group(groupKey{kind: ofClass, class: int(classes[i])}, string(classNames[i]))
			count(c)
		}
		if place, ok := shown[b.start+i]; ok {
			t.a.Worst[place] = t.row(b, i, is)
			t.a.Worst[place].Shown = w.kept.Worst[place].Shown
		}
	}
}

// wide keeps row i where its interval of target k is among the widest. Rows come in
// their order, so that of equals the first stay.
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

// named is the group of a kind with a name. The key is looked up without a copy of
// the name.
func (t *tally) named(kind int, name []byte) *counts {
	if c, ok := t.groups[groupKey{kind: kind, name: string(name)}]; ok {
		return c
	}
	return t.group(groupKey{kind: kind, name: string(name)}, "")
}

func (t *tally) group(key groupKey, name string) *counts {
	c, ok := t.groups[key]
	if !ok {
		c = &counts{name: cmp.Or(name, key.name), halves: make([]int, len(t.halves)+1), known: make([]int, len(t.w.Targets)), covered: make([]int, len(t.w.Targets))}
		if key.kind == ofClass && name == "" {
			c.name = strconv.Itoa(key.class)
		}
		t.groups[key] = c
	}
	return c
}

// within says whether target k of row i is known, and whether its interval holds it.
func (t *tally) within(b block, k, i int) (known, inside bool) {
	y := t.of(b, "target", k, i)
	return !math.IsNaN(y), t.of(b, "lower", k, i) <= y && y <= t.of(b, "upper", k, i)
}

// of is what a column of target k has of row i.
func (t *tally) of(b block, column string, k, i int) float64 {
	return b.numbers(t.w.column(column, k))[i]
}

// row is one that is shown.
func (t *tally) row(b block, i int, is bool) Row {
	get := func(column string) float64 { return b.numbers(column)[i] }
	text := func(column string) string { return string(b.texts(column)[i]) }
	r := Row{Key: text("key"), Shard: b.name, Folder: text("folder"), At: int(get("row")), Score: JSONFloat(get("ood_score")), PValue: get("p_value"), Discovery: is}
	if t.w.Task == attach.Classification {
		class, confidence := int(get("class")), JSONFloat(get("confidence"))
		r.Class, r.Confidence, r.ClassName = &class, &confidence, text("class_name")
	}
	if t.w.Fitted != "" {
		r.LikeFitted = text("like_fitted")
	}
	for k := range t.w.Targets {
		r.Prediction = append(r.Prediction, JSONFloat(t.of(b, "prediction", k, i)))
		r.Lower = append(r.Lower, JSONFloat(t.of(b, "lower", k, i)))
		r.Upper = append(r.Upper, JSONFloat(t.of(b, "upper", k, i)))
	}
	return r
}

// end says what follows from all rows.
func (t *tally) end(ctx context.Context) (*Audit, error) {
	a := t.a
	if err := t.bound(); err != nil {
		return nil, err
	}
	order := slices.SortedFunc(maps.Keys(t.groups), func(a, b groupKey) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.class, b.class), cmp.Compare(a.name, b.name))
	})
	for _, key := range order {
		if t.isShard(key) {
			continue
		}
		c := t.groups[key]
		g := Group{Kind: Kinds()[key.kind], Name: c.name, Inputs: c.rows, Discoveries: c.discovered, Outliers: c.outliers, LikeFitted: c.like}
		if slices.ContainsFunc(c.known, func(n int) bool { return n > 0 }) {
			g.Known, g.Covered = c.known, c.covered
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

// bound says how many outliers there are at least in each group and in all. Half of
// Delta is of the bounds that hold of any group, and half is divided among the groups
// that are known without a look at their rows. So all hold at once, and those of
// groups that share no row add up.
func (t *tally) bound() error {
	own := 0
	for key := range t.groups {
		if key.kind != ofClass && !t.isShard(key) {
			own++
		}
	}
	for key, c := range t.groups {
		ranks := t.ranksOf(c)
		c.outliers = t.bounds.Outliers(ranks)
		if key.kind == ofClass || t.isShard(key) {
			continue
		}
		bounds, err := ranks.OutlierBounds(t.w.Delta / 2 / float64(own))
		if err != nil {
			return err
		}
		c.outliers = max(c.outliers, bounds.Outliers(ranks))
	}
	inside := map[*counts]int{}
	for _, c := range t.groups {
		if c.within != nil {
			inside[c.within] += c.outliers
		}
	}
	var all [ofClass]int
	for key, c := range t.groups {
		c.outliers = max(c.outliers, inside[c])
		if key.kind != ofClass {
			all[key.kind] += c.outliers
		}
	}
	t.a.Outliers = max(t.a.Outliers, slices.Max(all[:]))
	for _, c := range t.groups {
		if c.rows == t.a.Inputs {
			c.outliers = t.a.Outliers
		}
	}
	return nil
}

// isShard says that a folder has the name and the rows of a shard.
func (t *tally) isShard(key groupKey) bool {
	if key.kind != ofFolder {
		return false
	}
	folder, shard := t.groups[key], t.groups[groupKey{kind: ofShard, name: key.name}]
	return shard != nil && folder.within == shard && shard.within == folder
}

// shares compares predicted classes with those of calibration rows.
func (t *tally) shares() error {
	if t.w.Predicted == nil {
		return nil
	}
	audited := make([]int, len(t.w.Predicted))
	names := make([]string, len(audited))
	for key, c := range t.groups {
		if key.kind != ofClass {
			continue
		}
		if key.class >= len(audited) {
			return fmt.Errorf("class %d is predicted, and there are %d", key.class, len(audited))
		}
		audited[key.class] = c.rows
		names[key.class] = c.name
	}
	all, err := evidence.ClassShares(t.w.Predicted, audited)
	if err != nil {
		return err
	}
	for c, s := range all {
		if audited[c] > 0 || t.w.Predicted[c] > 0 {
			t.a.Classes = append(t.a.Classes, Class{c, names[c], s.Calibration, s.Audited, sixDigits(s.PValue)})
		}
	}
	return nil
}

// duplicates finds rows among the worst that are nearly the same. Those whose features
// are as near as distances among rows drawn from all say may be, and what they hold
// confirms it: a network can make nearly one of inputs that differ, above all of
// outliers.
func (t *tally) duplicates(ctx context.Context) error {
	reference, err := duplicates.New(ctx, features(t.w.kept.Drawn))
	if err != nil {
		return err
	}
	groups, err := reference.Groups(ctx, features(t.w.kept.Worst), func(i, j int) bool { return t.w.kept.Worst[i].nearly(t.w.kept.Worst[j]) })
	for _, g := range groups {
		var keys []string
		for _, i := range g {
			keys = append(keys, t.a.Worst[i].Key)
		}
		t.a.Duplicates = append(t.a.Duplicates, keys)
	}
	return err
}

// features are those of rows.
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

// Of names what was audited: its file or folder, or one of them.
func (a *Audit) Of() string {
	name := a.Shards[0].Name
	if n := len(a.Shards); n > 1 {
		name += fmt.Sprintf(" and %d more", n-1)
	}
	return name
}

// TooFew says that there is no discovery, and that too few inputs have the least p-value
// for one.
func (a *Audit) TooFew() bool {
	return a.Discoveries == 0 && a.Least > 1 && a.Thresholds[0].Inputs < a.Least
}

// FewRows says that calibration rows are too few for a few discoveries.
func (a *Audit) FewRows() string {
	return fmt.Sprintf("with %s there are at least %s among %s, or none", rows.Count(a.Calibration, "calibration row"), rows.Count(a.Least, "discovery"), rows.Count(a.Inputs, "input"))
}

// Unnamed says that there are many more outliers than discoveries.
func (a *Audit) Unnamed() bool { return a.Outliers > 2*a.Discoveries }

// Cautions are the first of the notes, and say why the promise does not hold.
func (a *Audit) Cautions() []string { return a.Notes[:a.cautions] }

// notes say in sentences what is to be known.
func (a *Audit) notes() {
	say := func(format string, args ...any) { a.Notes = append(a.Notes, fmt.Sprintf(format, args...)) }
	a.used.notes(a, say)
	a.cautions = len(a.Notes)
	for _, g := range a.Gaps {
		say("%v. Inputs score infinitely high for a cell that is empty in a column that never was.", g)
	}
	kind := "on average over draws of calibration and audited rows"
	if a.Conditional {
		kind = fmt.Sprintf("on average over draws of audited rows, for a share %g of all calibration sets", 1-a.Delta)
	}
	say("Of the discoveries at most a share %g is false, %s, where inliers are drawn like the %s.", a.FDR, kind, rows.Count(a.Calibration, "calibration row"))
	say("Bounds all hold at once with probability %g, whichever threshold or group is looked at; those of groups that share no input may be added up.", 1-a.Delta)
	if a.Unnamed() {
		say("There must be at least %s among the inputs, against %s: the rest of the outliers cannot be told, one by one, from inputs like the calibration rows. The highest scores come first, and groups tell where outliers are.", rows.Count(a.Outliers, "outlier"), rows.Count(a.Discoveries, "discovery"))
	}
	if few := a.FewRows(); a.TooFew() {
		say("W%s. Calibrate with more rows, or look at the bounds.", few[1:])
	}
	if a.Discoveries == 0 && a.Storey.Discoveries > 0 {
		say("Storey's procedure, which estimates how many inputs are inliers, has %s at the same rate, those with p-values up to %.3g.", rows.Count(a.Storey.Discoveries, "discovery"), a.Storey.PValue)
	}
	say("The promise is broken by copies among the inputs and by frames of a video, each of which counts as a witness of its own, and by calibration rows that the network or heads were trained on.")
	if a.HeldOut == rows.SplitOff {
		say("The calibration rows were split off the rows fitted on: if the network was trained on these, more inputs are discoveries than should be.")
	}
	if n := len(a.Duplicates); n > 0 {
		say("Among the %d highest scores %s that hold nearly the same. Each counts as a witness of its own, unless it is an exact copy.", len(a.Worst), map[bool]string{true: "is 1 group of inputs", false: "are " + rows.Count(n, "group") + " of inputs"}[n == 1])
	}
	if a.LikeFitted != nil && *a.LikeFitted > 0 {
		say("%s nearly the same as one fitted on, which the column like_fitted of %s names: such inputs score low, and their p-values mean nothing.", rows.Count(*a.LikeFitted, "input")+map[bool]string{true: " is", false: " are"}[*a.LikeFitted == 1], Scores)
	}
	if a.Shift.Lower < .01 {
		say("Fewer inputs score high than if all were like the calibration rows (p = %.3g), as where the network was trained on them.", a.Shift.Lower)
	}
}
