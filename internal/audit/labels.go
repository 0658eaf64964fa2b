package audit

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/parquet-go/parquet-go"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/binarylogit"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
)

// These are the values of Identity.LabelErrorsBy. A given label is compared with all
// calibration rows, with those of its class, or with those of a cluster of classes. See
// calibrate.SetOptions.ByCluster.
const (
	byAll     = "all"
	byClass   = "class"
	byCluster = "cluster"
)

// LabelErrorChoices returns the values of Identity.LabelErrorsBy.
func LabelErrorChoices() []string { return []string{byAll, byClass, byCluster} }

// addLabelNote adds a note about the guarantee of label errors, which holds on average over draws.
func (a *Audit) addLabelNote(add func(format string, args ...any), draws string) {
	if a.LabelErrorsBy == "" {
		return
	}
	noise := "are right"
	if a.LabelNoise > 0 {
		noise = fmt.Sprintf("are wrong in at most a fraction %g of them", a.LabelNoise)
	}
	add("At most a fraction %g of the label errors found is a right label, %s, if the labels of the calibration rows %s, and if inputs with right labels are exchangeable with the calibration rows%s. The bounds on wrong labels hold at once with probability %g, apart from the bounds on outliers.", a.FDR, draws, noise, map[string]string{byClass: " of the same class", byCluster: " of the same cluster of classes"}[a.LabelErrorsBy], 1-a.Delta)
}

const (
	maxConfusions = 100 // largest length of LabelErrors.Confusions
	maxSuspicious = 100 // largest length of LabelErrors.MostSuspicious
)

// labelLists returns the number of lists of label errors: one for a classifier, and one for
// each target of a regressor.
func (id Identity) labelLists() int {
	switch {
	case id.LabelErrorsBy == "":
		return 0
	case id.Task == attach.Classification:
		return 1
	}
	return len(id.Targets)
}

// labelColumn returns the name of a column of a list of label errors.
func (id Identity) labelColumn(name string, list int) string {
	if id.Task == attach.Classification {
		return name
	}
	return id.targetColumn(name, list)
}

// newLabelRanks returns empty ranks for each part.
func (id Identity) newLabelRanks() (list []calibrate.Ranks) {
	for _, n := range id.LabelRows {
		list = append(list, calibrate.NewRanks(n))
	}
	return list
}

// validLabelParts reports whether LabelRows and LabelParts are possible.
func (id Identity) validLabelParts() bool {
	outside := func(list []int, end int) bool {
		return slices.ContainsFunc(list, func(n int) bool { return n < 0 || n >= end })
	}
	switch {
	case !(id.LabelNoise >= 0 && id.LabelNoise < 1) || outside(id.LabelRows, id.Calibration+1) || outside(id.LabelParts, len(id.LabelRows)):
		return false
	case id.LabelErrorsBy == "":
		return id.LabelRows == nil && id.LabelParts == nil
	case id.Task == attach.Classification:
		return len(id.LabelParts) > 0
	}
	return len(id.LabelRows) == len(id.Targets) && id.LabelParts == nil
}

// checkLabelErrors returns an error if a .attach file cannot find label errors.
func (s *Scorer) checkLabelErrors() error {
	c := s.bundle.Calibration
	switch {
	case s.LabelErrorsBy == "":
		return nil
	case s.Task == attach.Classification && len(c.TrueClasses.Labels) == 0:
		return errors.New("label errors need a softmax classifier whose calibration rows had labels and logits; fit again with both")
	case s.Task == attach.Classification:
		return nil
	case len(c.Quantiles) == 0 || s.groupedIntervals || c.Folds != nil:
		return errors.New("label errors of a regressor need an interval model whose calibration rows are neither grouped nor cross-fitted; fit again with such intervals")
	case s.LabelErrorsBy != byAll:
		return fmt.Errorf("label errors by %s need a classifier, and this is a regressor; compare with all calibration rows", s.LabelErrorsBy)
	}
	return nil
}

// labelOptions adds to o what predictions need for label errors of a classifier.
func (s *Scorer) labelOptions(o *attach.PredictOptions) {
	if s.LabelErrorsBy != "" && s.Task == attach.Classification {
		o.Sets, o.ClassPValues, o.Seed = conformal.LAC, true, s.bundle.Calibration.Seed
		o.SetsByClass, o.SetsByCluster = s.LabelErrorsBy == byClass, s.LabelErrorsBy == byCluster
	}
}

// setLabelParts sets LabelRows and LabelParts, and the calibration scores of targets.
func (s *Scorer) setLabelParts(o attach.PredictOptions) {
	if s.LabelErrorsBy == "" {
		return
	}
	if s.Task == attach.Classification {
		for class := range max(2, s.bundle.Base.Outputs) {
			part, n := s.predictor.Sets().Part(class)
			for len(s.LabelRows) <= part {
				s.LabelRows = append(s.LabelRows, 0)
			}
			s.LabelParts, s.LabelRows[part] = append(s.LabelParts, part), n
		}
		return
	}
	for _, q := range s.bundle.Calibration.Quantiles {
		scores := TargetScores(q, o.Levels)
		slices.Sort(scores)
		s.labelScores = append(s.labelScores, scores)
		s.LabelRows = append(s.LabelRows, len(q.Y))
	}
}

// TargetScores returns the score of the target of each calibration row: see targetScore. levels
// are those of both ends of the interval.
func TargetScores(q calibrate.QuantileCalibration, levels []float64) []float64 {
	n := len(q.Levels)
	list := make([]float64, len(q.Y))
	for i, y := range q.Y {
		row := q.Grid[i*n : (i+1)*n]
		list[i] = targetScore(float64(quantile.Interpolate(q.Levels, row, levels[0])), float64(quantile.Interpolate(q.Levels, row, levels[1])), float64(y))
	}
	return list
}

// targetScore returns how far a target lies outside the interval between two quantiles, in
// widths of the interval. It is negative inside. A large error is thus less suspicious where
// the model expects large errors.
func targetScore(lower, upper, y float64) float64 {
	return max(lower-y, y-upper) / max(upper-lower, math.SmallestNonzeroFloat32)
}

// givenLabel describes the label of a row.
type givenLabel struct {
	label, suggested int // −1 if the label is unknown
	score, p         float64
}

// givenLabels describes the labels of a batch. It returns nil if they are not checked.
func (s *Scorer) givenLabels(batch Batch, predictions []attach.Prediction) []givenLabel {
	if s.LabelErrorsBy == "" || s.Task != attach.Classification {
		return nil
	}
	list, logits := make([]givenLabel, len(predictions)), binarylogit.Batch(batch.Batch).Logits
	for i, p := range predictions {
		list[i] = givenLabel{-1, -1, math.NaN(), math.NaN()}
		if batch.Labels == nil || batch.Labels[i] < 0 || batch.Labels[i] >= len(p.ClassPValues) {
			continue
		}
		list[i] = newGivenLabel(logits, i, batch.Labels[i])
		list[i].p = p.ClassPValues[batch.Labels[i]]
	}
	return list
}

// newGivenLabel returns the label of row i without its p-value. The suggested label is the
// most probable one of the other classes.
func newGivenLabel(logits blas32.General, i, label int) givenLabel {
	z := rows.Row(logits, i)
	g := givenLabel{label: label, suggested: -1, score: 1 - softmax.New(z, 1).Of(z[label], 1)}
	for class, v := range z {
		if class != label && (g.suggested < 0 || v > z[g.suggested]) {
			g.suggested = class
		}
	}
	return g
}

// withNoise returns ranks that are valid although a fraction noise of the calibration rows
// may have wrong labels. With n calibration rows, b of them wrong, a p-value becomes
//
//	min(1, (1 + #{calibration scores ≥ s}) / (n−b+1))
//
// This is at least the p-value that the n−b or more right rows give alone, whatever the
// scores of the others are. If the score of an audited row with a right label falls, no such
// p-value of any row falls. Benjamini and Hochberg's method therefore keeps its rate, by the
// proof of Bates et al. (2023), theorem 2. In effect, the b lowest scores are left out. To
// leave out the b highest scores would not be valid, because they may be of right labels.
func withNoise(r calibrate.Ranks, noise float64) calibrate.Ranks {
	if noise == 0 {
		return r
	}
	clean := calibrate.NewRanks(cleanRows(len(r)-1, noise))
	for k, count := range r {
		clean[min(k, len(clean)-1)] += count
	}
	return clean
}

// cleanRows returns how many of n calibration rows have right labels at least.
func cleanRows(n int, noise float64) int {
	return n - int(math.Floor(noise*float64(n)*(1+hypothesis.Slack)))
}

// labelTally accumulates a list of label errors.
type labelTally struct {
	result     *LabelErrors
	ranks      [2][]calibrate.Ranks          // for all rows and for distinct rows, by part
	pValues    [][]float64                   // p-value of each rank, by part
	bounds     [2][]*calibrate.OutlierBounds // by part; nil for a part without rows
	looks      [][]int                       // by part
	confusions map[[2]int]*Confusion
	order      []suspicion // of result.MostSuspicious
}

// suspicion orders rows by how suspicious their labels are.
type suspicion struct{ P, Score float64 }

func (s suspicion) compare(other suspicion) int {
	return cmp.Or(cmp.Compare(s.P, other.P), cmp.Compare(other.Score, s.Score))
}

// newLabelTally returns a tally with the results that only need ranks. all and distinct are
// the ranks of the parts of the list, and no row occurs more than most times. delta is the error
// probability of the bounds.
func (w *ScoreSet) newLabelTally(name string, all, distinct []calibrate.Ranks, most int, delta float64) (*labelTally, error) {
	t := &labelTally{result: &LabelErrors{Name: name}, confusions: map[[2]int]*Confusion{}}
	used := 0 // number of parts with rows
	for _, r := range all {
		t.result.Labelled += r.Rows()
		used += min(1, r.Rows())
	}
	for k := range all {
		clean := [2]calibrate.Ranks{withNoise(all[k], w.LabelNoise), withNoise(distinct[k], w.LabelNoise)}
		n := len(clean[0]) - 1
		p := make([]float64, n+1)
		for rank := range p {
			p[rank] = float64(rank+1) / float64(n+1)
		}
		var looks []int
		if n > 0 {
			looks = hypothesis.Looks(n)
		}
		if w.Conditional && used > 0 && n > 0 {
			p = calibrate.ConditionalPValues(n, w.Delta/float64(used))
		}
		t.pValues, t.looks = append(t.pValues, p), append(t.looks, looks)
		for way, r := range clean {
			var bounds *calibrate.OutlierBounds
			if n > 0 && r.Rows() > 0 {
				b, err := r.OutlierBounds(delta / float64(used))
				if err != nil {
					return nil, err
				}
				bounds = &b
			}
			t.ranks[way], t.bounds[way] = append(t.ranks[way], r), append(t.bounds[way], bounds)
		}
	}
	t.discover(w.FDR)
	var errorsOf, found [2]int
	var fdp [2]float64
	for way, parts := range t.ranks {
		inliers := 0.
		for k, r := range parts {
			upTo := t.rankOf(k, t.result.PValueThreshold)
			n := countUpTo(r, upTo)
			found[way] += n
			if b := t.bounds[way][k]; b != nil {
				errorsOf[way] += b.Outliers(r)
				inliers += float64(n) * b.FDP(r, float64(upTo)/float64(len(r)))
			} else {
				inliers += float64(n)
			}
		}
		if found[way] > 0 {
			fdp[way] = inliers / float64(found[way])
		}
	}
	t.result.FDP = max(fdp[0], fdpWithCopies(fdp[1], found[1], found[0], most))
	t.result.Errors = min(errorsOf[0], errorsOf[1])
	return t, nil
}

// FindLabelErrors returns the label errors of rows whose labels have the given ranks, by part.
// The function discovered counts the discoveries among some of these rows.
func (id Identity) FindLabelErrors(parts []calibrate.Ranks) (found LabelErrors, discovered func(some []calibrate.Ranks) int, err error) {
	t, err := (&ScoreSet{Identity: id}).newLabelTally("", parts, parts, 1, id.Delta)
	if err != nil {
		return found, nil, err
	}
	return t.finish(), func(some []calibrate.Ranks) (n int) {
		for k, r := range some {
			n += countUpTo(withNoise(r, id.LabelNoise), t.rankOf(k, t.result.PValueThreshold))
		}
		return n
	}, nil
}

// rankOf returns the number of ranks of a part whose p-value is at most p.
func (t *labelTally) rankOf(part int, p float64) int {
	n, found := slices.BinarySearch(t.pValues[part], p)
	for found && n < len(t.pValues[part]) && t.pValues[part][n] == p {
		n++
	}
	return n
}

// discover sets the discoveries. Both ways of counting rows must make them, as in
// countedRanks.discoveries.
func (t *labelTally) discover(fdr float64) {
	r := t.result
	r.PValueThreshold = 1
	for last := 2.; r.PValueThreshold != last; {
		last = r.PValueThreshold
		for way := range t.ranks {
			r.PValueThreshold, _ = t.benjaminiHochberg(1-way, fdr, r.PValueThreshold)
		}
	}
	_, r.MinDiscoveries = t.benjaminiHochberg(0, fdr, r.PValueThreshold)
	for k, ranks := range t.ranks[0] {
		r.Discoveries += countUpTo(ranks, t.rankOf(k, r.PValueThreshold))
	}
}

// benjaminiHochberg returns the largest p-value p, at most limit, with
//
//	rows · p ≤ fdr · #{p-values ≤ p}
//
// or 0, and the smallest possible number of discoveries other than 0. The p-values of rows of
// all parts are sorted together. Those of one part are PRDS (see calibrate.Ranks), and parts
// are independent, so all of them are PRDS and the method of Benjamini and Hochberg controls
// the false discovery rate (Benjamini & Yekutieli 2001).
func (t *labelTally) benjaminiHochberg(way int, fdr, limit float64) (threshold float64, least int) {
	type value struct {
		p     float64
		count int
	}
	var list []value
	smallest, total := 1., 0
	for k, ranks := range t.ranks[way] {
		for rank, count := range ranks {
			if p := t.pValues[k][rank]; count > 0 && p <= limit {
				list = append(list, value{p, count})
			}
			total += count
		}
		if ranks.Rows() > 0 {
			smallest = min(smallest, t.pValues[k][0])
		}
	}
	slices.SortFunc(list, func(a, b value) int { return cmp.Compare(a.p, b.p) })
	fdr = hypothesis.Forgive(fdr)
	seen := 0
	for _, v := range list {
		if seen += v.count; float64(total)*v.p <= fdr*float64(seen) {
			threshold = v.p
		}
	}
	return threshold, max(1, int(math.Ceil(float64(total)*smallest/fdr)))
}

// labelOf returns the part of list in which the label of row i is ranked, counted within the
// list, and its rank, counted from 0. The part is −1 if the label is unknown.
func (w *ScoreSet) labelOf(b block, list, i int) (part, rank int, err error) {
	p := b.numbers(w.labelColumn("label_p_value", list))[i]
	if math.IsNaN(p) {
		return -1, 0, nil
	}
	n := 0
	if w.Task == attach.Classification {
		label := b.numbers("label")[i]
		if !(label >= 0 && label < float64(len(w.LabelParts))) {
			return 0, 0, fmt.Errorf("%w: %v is not a label of %d classes", ErrNotScores, label, len(w.LabelParts))
		}
		part = w.LabelParts[int(label)]
		n = w.LabelRows[part]
	} else {
		n = w.LabelRows[list]
	}
	if rank = int(math.Round(p*float64(n+1))) - 1; rank < 0 || rank > n {
		return 0, 0, fmt.Errorf("%w: %v is not a p-value of %d calibration rows", ErrNotScores, p, n)
	}
	return part, rank, nil
}

// partsOf returns the parts of a list among all parts.
func (id Identity) partsOf(list int) (from, to int) {
	if id.Task == attach.Classification {
		return 0, len(id.LabelRows)
	}
	return list, list + 1
}

// newLabels sets the tallies of label errors.
func (t *tally) newLabels(copies *copySummary) error {
	w := t.scores
	for list := range w.labelLists() {
		name := ""
		if w.Task != attach.Classification {
			name = w.Targets[list]
		}
		from, to := w.partsOf(list)
		l, err := w.newLabelTally(name, w.labels[from:to], copies.Labels[from:to], copies.most(), w.Delta/float64(w.labelLists()))
		if err != nil {
			return err
		}
		t.labels = append(t.labels, l)
	}
	t.a.labels = t.labels
	return nil
}

// pValue returns the p-value of a rank after Identity.LabelNoise and Identity.Conditional.
func (t *labelTally) pValue(part, rank int) float64 {
	return t.pValues[part][min(rank, len(t.pValues[part])-1)]
}

// discovered reports whether a label with this p-value is a discovery.
func (t *labelTally) discovered(p float64) bool { return p <= t.result.PValueThreshold }

// givenRank is the rank of a label in its part, counted from 0. The part is −1 if the label is
// unknown.
type givenRank struct {
	part, rank int
	look       int // result of lookIndex for the rank
	discovery  bool
}

// addLabel counts the label of row i in the results of a list, and returns its rank.
func (t *tally) addLabel(b block, list, i int, outlier bool) (g givenRank, err error) {
	l, w := t.labels[list], t.scores
	if g.part, g.rank, err = w.labelOf(b, list, i); err != nil || g.part < 0 {
		return g, err
	}
	g.rank = min(g.rank, len(l.pValues[g.part])-1)
	p := l.pValues[g.part][g.rank]
	g.look, g.discovery = lookIndex(l.looks[g.part], g.rank+1), l.discovered(p)
	if g.discovery && w.Task == attach.Classification {
		label, suggested := int(b.numbers("label")[i]), int(b.numbers("suggested_label")[i])
		c := l.confusions[[2]int{label, suggested}]
		if c == nil {
			c = &Confusion{Label: label, LabelName: string(b.texts("label_name")[i]), Suggested: suggested, SuggestedName: string(b.texts("suggested_label_name")[i])}
			l.confusions[[2]int{label, suggested}] = c
		}
		c.Discoveries++
	}
	l.addSuspicious(suspicion{p, b.numbers(w.labelColumn("label_score", list))[i]}, func() Row {
		row := t.newRow(b, i, outlier)
		if kept, ok := t.suspicious[b.shard][b.start+i]; ok {
			row.Shown = w.retained.Labels[kept].Shown
		}
		return row
	})
	return g, nil
}

// addSuspicious adds a row after those in MostSuspicious that are as suspicious. It calls the
// function row only if the label is among the most suspicious.
func (t *labelTally) addSuspicious(s suspicion, row func() Row) {
	place, _ := slices.BinarySearchFunc(t.order, s, func(have, want suspicion) int {
		if have.compare(want) <= 0 {
			return -1
		}
		return 1
	})
	if place == maxSuspicious {
		return
	}
	length := min(len(t.order)+1, maxSuspicious)
	t.order = slices.Insert(t.order, place, s)[:length]
	t.result.MostSuspicious = slices.Insert(t.result.MostSuspicious, place, row())[:length]
}

// setLabels sets the fields of a row that describe its label or its targets.
func (t *tally) setLabels(r *Row, b block, i int) {
	w := t.scores
	for list, l := range t.labels {
		column := func(name string) float64 { return b.numbers(w.labelColumn(name, list))[i] }
		part, rank, err := w.labelOf(b, list, i)
		found := err == nil && part >= 0 && l.discovered(l.pValue(part, rank))
		r.LabelScore, r.LabelPValue, r.LabelDiscovery = append(r.LabelScore, JSONFloat(column("label_score"))), append(r.LabelPValue, JSONFloat(column("label_p_value"))), append(r.LabelDiscovery, found)
		if w.Task != attach.Classification {
			r.Target = append(r.Target, JSONFloat(column("target")))
			continue
		}
		label, suggested := int(column("label")), int(column("suggested_label"))
		r.Label, r.LabelName, r.Suggested, r.SuggestedName = &label, string(b.texts("label_name")[i]), &suggested, string(b.texts("suggested_label_name")[i])
	}
}

// labelCounts holds the counts of the labels of a group.
type labelCounts struct {
	Rows, Discoveries int
	errors            int // lower bound on the number of wrong labels
	// looks counts rows by their part and their look, for all rows and for distinct rows.
	Looks [2]map[[2]int]int
}

// add counts a row. A copy equals an earlier row of the group, in content and label.
func (c *labelCounts) add(g givenRank, isCopy bool) {
	if g.part < 0 {
		return
	}
	c.Rows++
	if g.discovery {
		c.Discoveries++
	}
	for way := range c.Looks {
		if c.Looks[way] == nil {
			c.Looks[way] = map[[2]int]int{}
		}
		if way == 0 || !isCopy {
			c.Looks[way][[2]int{g.part, g.look}]++
		}
	}
}

// boundLabelErrors bounds the number of wrong labels of each group.
func (t *tally) boundLabelErrors() {
	for _, c := range t.groups {
		for list := range c.Labels {
			c.Labels[list].errors = t.labels[list].errorsIn(c.Labels[list])
		}
	}
}

// errorsIn returns a lower bound on the number of wrong labels of a group. As in
// tally.groupRanks, ranks between two looks count as the higher one.
func (t *labelTally) errorsIn(c labelCounts) int {
	var total [2]int
	for way, counts := range c.Looks {
		parts := map[int]calibrate.Ranks{}
		for at, count := range counts {
			part, look := at[0], at[1]
			if t.bounds[way][part] == nil {
				continue
			}
			if parts[part] == nil {
				parts[part] = make(calibrate.Ranks, len(t.pValues[part]))
			}
			k := len(parts[part])
			if look > 0 {
				k = t.looks[part][look-1]
			}
			parts[part][k-1] += count
		}
		for part, ranks := range parts {
			total[way] += t.bounds[way][part].Outliers(ranks)
		}
	}
	return min(total[0], total[1])
}

// labelNumber returns a number that is equal for rows with equal labels or targets.
func (w *ScoreSet) labelNumber(b block, i int) (n uint32) {
	switch {
	case w.LabelErrorsBy == "":
	case w.Task == attach.Classification:
		n = uint32(int32(b.numbers("label")[i]))
	default: // equal inputs rarely have different targets with one checksum
		var encoded []byte
		for k := range w.Targets {
			encoded = binary.LittleEndian.AppendUint64(encoded, math.Float64bits(b.numbers(w.targetColumn("target", k))[i]))
		}
		n = crc32.ChecksumIEEE(encoded)
	}
	return n
}

// finish sets the results that need all rows.
func (t *labelTally) finish() LabelErrors {
	for _, c := range t.confusions {
		t.result.Confusions = append(t.result.Confusions, *c)
	}
	slices.SortFunc(t.result.Confusions, func(a, b Confusion) int {
		return cmp.Or(b.Discoveries-a.Discoveries, a.Label-b.Label, a.Suggested-b.Suggested)
	})
	t.result.Confusions = t.result.Confusions[:min(maxConfusions, len(t.result.Confusions))]
	return *t.result
}

// discoveryColumns returns, for each column of flags, whether row i of a block is a discovery
// by the results a.
func (w *ScoreSet) discoveryColumns(a *Audit, b block) map[string]func(i int) bool {
	p := b.numbers("p_value")
	columns := map[string]func(i int) bool{"discovery": func(i int) bool { return p[i] <= a.PValueThreshold }}
	for list, l := range a.labels {
		columns[w.labelColumn("label_discovery", list)] = func(i int) bool {
			part, rank, err := w.labelOf(b, list, i)
			return err == nil && part >= 0 && l.discovered(l.pValue(part, rank))
		}
	}
	return columns
}

// worstLabel returns how suspicious the label of row i is, or the most suspicious of its targets.
func (w *ScoreSet) worstLabel(a *Audit, b block, i int) suspicion {
	worst := suspicion{P: math.Inf(1)}
	for list, l := range a.labels {
		if part, rank, err := w.labelOf(b, list, i); err == nil && part >= 0 {
			s := suspicion{l.pValue(part, rank), b.numbers(w.labelColumn("label_score", list))[i]}
			if s.compare(worst) < 0 {
				worst = s
			}
		}
	}
	return worst
}

// addLabel writes the label of a row.
func (s *Scorer) addLabel(part *Part, g givenLabel) error {
	w, names := part.w, s.bundle.Base.Classes
	name := func(class int) string {
		if class >= 0 && class < len(names) {
			return names[class]
		}
		return ""
	}
	w.addInteger(g.label)
	w.addText(name(g.label))
	w.addNumber(g.score)
	w.addNumber(g.p)
	w.addInteger(g.suggested)
	w.addText(name(g.suggested))
	w.add(parquet.BooleanValue(false)) // discoveries are known only after all rows are scored
	if g.label < 0 {
		return nil
	}
	return part.labels[s.LabelParts[g.label]].Add(g.p)
}

// addTarget writes how suspicious target k of a row is.
func (s *Scorer) addTarget(part *Part, k int, lower, upper, y float64) (givenLabel, error) {
	g := givenLabel{-1, -1, math.NaN(), math.NaN()}
	if !math.IsNaN(y) {
		g.score = targetScore(lower, upper, y)
		g.p = calibrate.Conformal{Scores: s.labelScores[k]}.PValue(g.score)
	}
	part.w.addNumber(g.score)
	part.w.addNumber(g.p)
	part.w.add(parquet.BooleanValue(false))
	if math.IsNaN(g.p) {
		return g, nil
	}
	return g, part.labels[k].Add(g.p)
}
