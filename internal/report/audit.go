package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/internal/version"
)

// These limits keep the page small, even if an audit has many groups, targets or pictures.
const (
	maxGroups       = 250     // groups shown of each kind, such as folders or classes
	maxTargets      = 10      // targets shown
	maxNameLength   = 240     // characters of a name or text
	maxPictureBytes = 9 << 18 // total size of the pictures in bytes
)

// Audit returns the page of an audit.
func Audit(a *audit.Audit) Page {
	p := Page{
		Title: "Outliers among " + shorten(a.Subject()),
		Lead:  auditHeadline(a),
	}
	if !hasOutliers(a) {
		p.Title = "Audit of " + shorten(a.Subject())
	}
	if n := len(a.Targets); n > maxTargets {
		first := *a
		first.Targets, first.Intervals = a.Targets[:maxTargets], a.Intervals[:maxTargets]
		a, p.Lead = &first, p.Lead+fmt.Sprintf(" The page shows the first %d of %d targets; audit.json has all.", maxTargets, n)
	}
	outlierFacts, labelFacts := auditFacts(a)
	warnings, columns, notes := auditNotes(a)
	if warnings != nil {
		p.blocks = append(p.blocks, block{Notes: warnings})
	}
	places, classes := groupBlocks(a)
	labels, copies := labelBlocks(a), copyBlocks(a)
	highest, reasons := highestScoringBlocks(a), reasonBlocks(a, columns)
	features := featureBlocks(a)
	if hasOutliers(a) {
		p.Facts = slices.Concat(copyFacts(a), outlierFacts, labelFacts)
		p.blocks = slices.Concat(p.blocks, places, reasons, features, classes, labels, highest)
	} else { // what was found comes first
		p.Facts = slices.Concat(copyFacts(a), labelFacts, outlierFacts)
		p.blocks = slices.Concat(p.blocks, labels, copies, reasons, places, classes, highest, features)
		copies = nil
	}
	p.blocks = append(p.blocks, findingsBlock(a, notes))
	if len(a.Intervals) > 0 {
		p.blocks = append(p.blocks, intervalsBlock(a))
	}
	p.blocks = slices.Concat(p.blocks, copies, []block{reproductionBlock(a)})
	return p
}

// hasOutliers reports whether there are outliers, proven ones or discoveries.
func hasOutliers(a *audit.Audit) bool { return a.Outliers > 0 || a.Discoveries > 0 }

// copyFacts returns the number of copies for the top of the page.
func copyFacts(a *audit.Audit) []Fact {
	c := a.Copies
	if c == nil {
		return nil
	}
	return []Fact{{display.Count(c.Repeated), fmt.Sprintf("copies of an earlier input, %s of them near copies; %s inputs differ", display.Count(c.Near), display.Count(c.Distinct))}}
}

// auditFacts returns the figures about outliers and about labels for the top of the page.
func auditFacts(a *audit.Audit) (outliers, labels []Fact) {
	count := func(n int, singular, label string) Fact {
		value, noun, _ := strings.Cut(rows.Count(n, singular), " ")
		return Fact{value, noun + label}
	}
	outliers = append(outliers,
		count(a.Outliers, "outlier", fmt.Sprintf(" at least (%s of the inputs), with probability %g", display.Percent(float64(a.Outliers)/float64(max(a.Inputs, 1))), 1-a.Delta)),
		count(a.Discoveries, "discovery", fmt.Sprintf(" at a false discovery rate of %g", a.FDR)))
	if a.Discoveries > 0 {
		outliers = append(outliers, Fact{display.Percent(a.FDP), fmt.Sprintf("of the discoveries are false at most, with probability %g", 1-a.Delta)})
	}
	outliers = append(outliers, Fact{formatPValue(a.Shift.Higher), "p-value of the shift test: " + shorten(a.ShiftFinding())})
	if a.FitDuplicates != nil {
		outliers = append(outliers, Fact{display.Count(*a.FitDuplicates), "with nearly the features of a fit row"})
	}
	for _, l := range a.LabelErrors[:min(maxTargets, len(a.LabelErrors))] {
		of := ""
		if len(a.LabelErrors) > 1 {
			of = " of " + shorten(l.Name)
		}
		labels = append(labels,
			count(l.Errors, "wrong label", fmt.Sprintf("%s at least, among %s, with probability %g", of, display.Count(l.Labelled), 1-a.Delta)),
			count(l.Discoveries, "wrong label", fmt.Sprintf("%s found at a false discovery rate of %g", of, a.FDR)))
	}
	return outliers, labels
}

// manyCopies is the smallest fraction of inputs at which auditHeadline mentions copies of
// other inputs or of rows of --fitted.
const manyCopies = 0.05

// auditHeadline says in a few sentences how many inputs do not belong, which ones, and where
// they are. Wrong labels follow, or come first if there are no outliers. Many copies come last.
func auditHeadline(a *audit.Audit) string {
	proven := fmt.Sprintf("At least %s of %s (%s) differ from the %s.", display.Count(a.Outliers), rows.Count(a.Inputs, "input"), display.Percent(float64(a.Outliers)/float64(max(a.Inputs, 1))), rows.Count(a.Calibration, "calibration row"))
	if a.Outliers == 0 {
		proven = fmt.Sprintf("None of %s is proven to differ from the %s.", rows.Count(a.Inputs, "input"), rows.Count(a.Calibration, "calibration row"))
	}
	named := fmt.Sprintf("%s, on average at most %s of them by mistake.", map[bool]string{true: "1 input is named as an outlier", false: display.Count(a.Discoveries) + " inputs are named as outliers"}[a.Discoveries == 1], display.GivenPercent(a.FDR))
	if a.Discoveries == 0 {
		named = "No single input can be named as an outlier."
	}
	where := capitalise(shorten(a.ShiftFinding())) + "."
	if places := a.OutlierPlaces(); places != "" {
		where = "There are at least " + places + "."
	}
	labels := ""
	if len(a.LabelErrors) == 1 && a.LabelErrors[0].Labelled > 0 {
		l := a.LabelErrors[0]
		labels = fmt.Sprintf("At least %s of %s are wrong; %s named, on average at most %s of them by mistake.", display.Count(l.Errors), rows.Count(l.Labelled, "label"), map[bool]string{true: "1 is", false: display.Count(l.Discoveries) + " are"}[l.Discoveries == 1], display.GivenPercent(a.FDR))
		if places := a.LabelErrorPlaces(0); places != "" {
			labels += " There are at least " + places + "."
		}
	}
	copies := ""
	if c := a.Copies; c != nil && float64(c.Repeated) >= manyCopies*float64(a.Inputs) {
		copies = fmt.Sprintf("%v.", c)
	}
	if n := a.FitDuplicates; n != nil && *n > 0 && float64(*n) >= manyCopies*float64(a.Inputs) {
		copies = strings.TrimSpace(fmt.Sprintf("%s %s of %s are near a row of --fitted.", copies, display.Count(*n), rows.Count(a.Inputs, "input")))
	}
	sentences := []string{proven, named, where, labels, copies}
	if !hasOutliers(a) { // labels come first
		sentences = []string{labels, proven, named, where, copies}
	}
	return strings.TrimSpace(strings.Join(sentences, " "))
}

// intervalsBlock shows, for each target, how wide its intervals are and how often they
// cover it.
func intervalsBlock(a *audit.Audit) block {
	b := block{Title: "Intervals", Lead: fmt.Sprintf("Unusually wide intervals are those that stand out from the intervals of the calibration rows, at a false discovery rate of %g. The level of the intervals is %g.", a.FDR, a.Level)}
	all := a.Intervals
	var g grid
	g.addText("target", mapSlice(all, func(interval audit.Interval) string { return shorten(interval.Name) }))
	g.addNumbers("unusually wide", "intervals that are wider than those of the calibration rows", mapSlice(all, func(interval audit.Interval) float64 { return float64(interval.Wide) }), formatWhole)
	g.addNumbers("p of all widths", "p-value of the test that all intervals are as wide as those of the calibration rows", mapSlice(all, func(interval audit.Interval) float64 { return interval.Shift.Higher }), formatFourDigits)
	if slices.ContainsFunc(all, func(interval audit.Interval) bool { return interval.WithTarget > 0 }) {
		g.addNumbers("with target", "", mapSlice(all, func(interval audit.Interval) float64 { return float64(interval.WithTarget) }), formatWhole)
		g.addNumbers("covered", "fraction of targets within their intervals", mapSlice(all, audit.Interval.CoveredFraction), display.Percent)
	}
	b.Tables = []grid{g}
	for k, interval := range all {
		w := grid{Title: capitalise(targetColumnName("widest intervals", interval.Name, k, a))}
		number := func(name string, x func(r audit.Row) float64) {
			w.addNumbers(name, "", mapSlice(interval.Widest, x), formatFourDigits)
		}
		w.addText("input", mapSlice(interval.Widest, func(r audit.Row) string { return shorten(r.Key) }))
		number("width", func(r audit.Row) float64 { return float64(r.Upper[k] - r.Lower[k]) })
		number("prediction", func(r audit.Row) float64 { return float64(r.Prediction[k]) })
		number("lower", func(r audit.Row) float64 { return float64(r.Lower[k]) })
		number("upper", func(r audit.Row) float64 { return float64(r.Upper[k]) })
		number("p-value of the OOD score", func(r audit.Row) float64 { return r.PValue })
		b.Tables = append(b.Tables, w)
	}
	return b
}

// formatPValue formats a p-value. A p-value below the range of float64 arrives as 0.
func formatPValue(p float64) string {
	if p == 0 {
		return "< 1e-300"
	}
	return display.Number(p, 2)
}

// reproductionBlock lists the hashes of the files that an audit was made from.
func reproductionBlock(a *audit.Audit) block {
	b := block{Title: "How to reproduce", Lead: "audit.json lists all files and options. Run attach audit in the same folder with the same options, and with files of these SHA-256: it writes the same audit.json, to the byte."}
	if names := mapSlice(a.Shards, func(s audit.Shard) string { return s.Name }); len(slices.Compact(slices.Sorted(slices.Values(names)))) < len(names) {
		b.Lead += " Some merged audits have different files of the same name. Audit each file where it is, then merge the audits."
	}
	read := a.Reading
	for _, f := range []Fact{
		{a.Bundle, "SHA-256 of the .attach file"}, {a.Model, "SHA-256 of the model"}, {a.Preprocess, "SHA-256 of --preprocess"}, {read.Weights, "SHA-256 of --weights"}, {read.ClassNames, "SHA-256 of --class-names"},
		{a.Fitted, "SHA-256 of --fitted (names and content)"}, {version.String(), "version of attach"},
	} {
		if f.Value != "" {
			b.Facts = append(b.Facts, f)
		}
	}
	return b
}

// shorten cuts a long name in the middle.
func shorten(name string) string { return display.Shorten(name, maxNameLength) }

// auditNotes returns the notes of an audit: warnings, columns that differ from the fit rows, and
// others.
func auditNotes(a *audit.Audit) (warnings, columns, others []verdict) {
	first := len(a.Cautions())
	if a.Copies != nil {
		first++ // the note on copies comes before the columns
	}
	list, more := a.NotableColumns()
	guarantee := first + len(list) + min(1, more)
	for i, note := range a.Notes {
		switch {
		case i < len(a.Cautions()):
			warnings = append(warnings, verdict{Label: "warning", Style: "bad", Message: note})
		case i >= first && i < guarantee:
			columns = append(columns, verdict{Label: "column", Message: note})
		case i == guarantee:
			others = append(others, verdict{Label: "guarantee", Message: note})
		default:
			others = append(others, verdict{Label: "note", Message: note})
		}
	}
	return warnings, columns, others
}

// findingsBlock shows the p-values of an audit, the guarantee and other notes.
func findingsBlock(a *audit.Audit, notes []verdict) block {
	c := countChart("p-values", "p-value", evaluate.Histogram{Counts: a.PValueCounts, Expected: hypothesis.PValues(a.Inputs, a.Calibration)})
	c.Note = "Dashed: expected count if all inputs come from the source of the calibration rows. A peak at the left: outliers."
	b := block{Title: "All p-values, and what is guaranteed", Notes: notes, Charts: []chart{c}}
	g := grid{Title: "Inputs by largest p-value"}
	var p, n, fdp []float64
	for _, t := range a.Thresholds {
		if t.Inputs > 0 {
			p, n, fdp = append(p, t.PValue), append(n, float64(t.Inputs)), append(fdp, t.FDP)
		}
	}
	g.addNumbers("p-value up to", "", p, formatFourDigits)
	g.addNumbers("inputs", "", n, formatWhole)
	g.addNumbers("false at most", "upper bound on the fraction of these inputs that are inliers", fdp, display.Percent)
	if len(p) > 0 {
		b.Tables = []grid{g}
	}
	return b
}

// highestScoringBlocks shows the inputs with the highest OOD scores.
func highestScoringBlocks(a *audit.Audit) []block {
	if len(a.HighestScoring) == 0 {
		return nil
	}
	hasReasons := slices.ContainsFunc(a.HighestScoring, func(r audit.Row) bool { return r.Reasons != nil })
	b := block{Title: "Inputs with the highest scores", Filter: true, By: map[int]string{}}
	if n := len(a.HighestScoring); n < a.Inputs {
		b.Lead = fmt.Sprintf("%s of %s. At most a third of them is from one file, if the others have enough. A file that is not among them can still have outliers: see the tables above, and %s.", display.Count(n), rows.Count(a.Inputs, "input"), audit.Scores)
	}
	var g grid
	text := func(name string, get func(r audit.Row) string) {
		g.addText(name, mapSlice(mapSlice(a.HighestScoring, get), shorten))
	}
	groupBy := func(name string, get func(r audit.Row) string) {
		b.By[len(g.Heads)] = name
		text(name, get)
	}
	number := func(name string, get func(r audit.Row) float64) {
		g.addNumbers(name, "", mapSlice(a.HighestScoring, get), formatFourDigits)
	}
	text("input", func(r audit.Row) string { return r.Key })
	texts, numbers := cellColumns(a.HighestScoring)
	b.Lead = strings.TrimSpace(b.Lead + " " + wordsLegend(texts))
	for _, c := range texts {
		g.addCells(c)
	}
	if hasReasons {
		g.addCells(Column{Name: "reasons", Text: mapSlice(a.HighestScoring, func(r audit.Row) string { return strings.Join(r.Reasons, "; ") })})
	}
	if slices.ContainsFunc(a.HighestScoring, func(r audit.Row) bool { return r.NearestFitRow != "" }) {
		text("nearest fit row", func(r audit.Row) string { return r.NearestFitRow })
	}
	number("p-value", func(r audit.Row) float64 { return r.PValue })
	number("score", func(r audit.Row) float64 { return float64(r.Score) })
	text("discovery", func(r audit.Row) string { return yesNo(r.Discovery) })
	first := a.HighestScoring[0]
	switch hasFolder := func(r audit.Row) bool { return audit.Within(r.Folder, r.Shard) }; {
	case slices.ContainsFunc(a.HighestScoring, hasFolder) && slices.ContainsFunc(a.HighestScoring, func(r audit.Row) bool { return r.Folder != first.Folder }):
		groupBy("folder", func(r audit.Row) string { return r.Folder })
	case slices.ContainsFunc(a.HighestScoring, func(r audit.Row) bool { return r.Shard != first.Shard }):
		groupBy("file", func(r audit.Row) string { return r.Shard })
	}
	if len(b.By) > 0 { // the page groups inputs by folder or file, so it hides this column
		g.hideLastColumn()
	}
	if slices.ContainsFunc(a.HighestScoring, func(r audit.Row) bool { return r.FitDuplicateOf != "" }) {
		text("near fit row", func(r audit.Row) string { return r.FitDuplicateOf })
	}
	if a.Task == attach.Classification {
		groupBy("class", className)
		number("confidence", func(r audit.Row) float64 { return float64(*r.Confidence) })
	}
	for k, name := range a.Targets {
		number(targetColumnName("prediction", name, k, a), func(r audit.Row) float64 { return float64(r.Prediction[k]) })
		number(targetColumnName("lower", name, k, a), func(r audit.Row) float64 { return float64(r.Lower[k]) })
		number(targetColumnName("upper", name, k, a), func(r audit.Row) float64 { return float64(r.Upper[k]) })
	}
	for _, c := range numbers {
		g.addCells(c)
	}
	bytesLeft := pictureBytes(a)
	for i, r := range a.HighestScoring {
		if r.Shown == nil || len(r.Shown.Picture) == 0 || bytesLeft < len(r.Shown.Picture) {
			continue
		}
		bytesLeft -= len(r.Shown.Picture)
		pic := picture{Row: i, Encoded: r.Shown.Picture, Caption: shorten(r.Key), Facts: []Fact{{formatFourDigits(r.PValue), "p-value"}, {formatFourDigits(float64(r.Score)), "score"}}}
		for _, m := range []labelledImage{{Encoded: r.Shown.HeatMap, Label: "what raised the score"}, {Encoded: r.Shown.NearestPicture, Label: "nearest fit row"}} {
			if size := len(m.Encoded); size > 0 && size <= bytesLeft {
				bytesLeft -= size
				pic.Beside = append(pic.Beside, m)
			}
		}
		if r.Class != nil {
			pic.Facts = append(pic.Facts, Fact{shorten(className(r)), "class"})
		}
		for _, reason := range r.Reasons {
			pic.Facts = append(pic.Facts, Fact{reason, "reason"})
		}
		b.Pictures = append(b.Pictures, pic)
	}
	b.Tables = []grid{g}
	return []block{b}
}

// pictureBytes returns the total size of the pictures of one list of inputs.
func pictureBytes(a *audit.Audit) int {
	return maxPictureBytes / (1 + min(maxTargets, len(a.LabelErrors)))
}

// labelBlocks shows the label errors of each list with labels.
func labelBlocks(a *audit.Audit) (blocks []block) {
	for k, l := range a.LabelErrors[:min(maxTargets, len(a.LabelErrors))] {
		if l.Labelled > 0 {
			blocks = append(blocks, labelBlock(a, k))
		}
	}
	return blocks
}

// labelBlock shows the label errors of list k: which classes are confused, and the labels to
// look at first.
func labelBlock(a *audit.Audit, k int) block {
	l := a.LabelErrors[k]
	b := block{Title: "Wrong labels", Filter: true, Lead: fmt.Sprintf("%s of %s are discoveries at a false discovery rate of %g: on average, at most this fraction of them is right.", display.Count(l.Discoveries), rows.Count(l.Labelled, "label"), a.FDR)}
	if a.Task != attach.Classification {
		b.Title = capitalise(targetColumnName("wrong targets", l.Name, k, a))
	}
	if l.Discoveries > 0 {
		b.Lead += fmt.Sprintf(" With probability %g, at most %s are right.", 1-a.Delta, display.Percent(l.FDP))
	}
	b.Lead = strings.TrimSpace(b.Lead + " " + capitalise(l.FewRows()))
	if c := l.Confusions; len(c) > 0 {
		g := grid{Title: "Confused classes"}
		g.addText("given label", mapSlice(mapSlice(c, audit.Confusion.Given), shorten))
		g.addText("looks like", mapSlice(mapSlice(c, audit.Confusion.SuggestedText), shorten))
		g.addNumbers("label errors", "", mapSlice(c, func(c audit.Confusion) float64 { return float64(c.Discoveries) }), formatWhole)
		b.Tables = append(b.Tables, g)
	}
	g, list := grid{Title: "The most suspicious first"}, l.MostSuspicious
	text := func(name string, get func(r audit.Row) string) {
		g.addText(name, mapSlice(mapSlice(list, get), shorten))
	}
	number := func(name string, get func(r audit.Row) float64) {
		g.addNumbers(name, "", mapSlice(list, get), formatFourDigits)
	}
	text("input", func(r audit.Row) string { return r.Key })
	if a.Task == attach.Classification {
		text("given label", givenLabel)
		text("looks like", suggestedLabel)
	} else {
		number("target", func(r audit.Row) float64 { return float64(r.Target[k]) })
		number("prediction", func(r audit.Row) float64 { return float64(r.Prediction[k]) })
		number("lower", func(r audit.Row) float64 { return float64(r.Lower[k]) })
		number("upper", func(r audit.Row) float64 { return float64(r.Upper[k]) })
	}
	number("p-value of the label", func(r audit.Row) float64 { return float64(r.LabelPValue[k]) })
	number("score of the label", func(r audit.Row) float64 { return float64(r.LabelScore[k]) })
	text("label error", func(r audit.Row) string { return yesNo(r.LabelDiscovery[k]) })
	number("p-value of the OOD score", func(r audit.Row) float64 { return r.PValue })
	b.Tables = append([]grid{g}, b.Tables...) // pictures belong to the first table
	bytesLeft := pictureBytes(a)
	for i, r := range list {
		if r.Shown == nil || len(r.Shown.Picture) == 0 || bytesLeft < len(r.Shown.Picture) {
			continue
		}
		bytesLeft -= len(r.Shown.Picture)
		pic := picture{Row: i, Encoded: r.Shown.Picture, Caption: shorten(r.Key), Facts: []Fact{{formatFourDigits(float64(r.LabelPValue[k])), "p-value of the label"}}}
		if r.Label != nil {
			pic.Facts = append([]Fact{{shorten(givenLabel(r)), "given label"}, {shorten(suggestedLabel(r)), "looks like"}}, pic.Facts...)
		}
		b.Pictures = append(b.Pictures, pic)
	}
	return b
}

func givenLabel(r audit.Row) string { return cmp.Or(r.LabelName, strconv.Itoa(*r.Label)) }

func suggestedLabel(r audit.Row) string { return cmp.Or(r.SuggestedName, strconv.Itoa(*r.Suggested)) }

// cellColumns returns the cells of rows of a table as columns of texts and columns of numbers,
// in the order in which they appear.
func cellColumns(list []audit.Row) (texts, numbers []Column) {
	var all []*Column
	byName := map[string]*Column{}
	for i, r := range list {
		if r.Shown == nil {
			continue
		}
		for _, c := range r.Shown.Cells {
			column := byName[c.Column]
			if column == nil {
				column = &Column{Name: c.Column, Text: make([]string, len(list)), Numbers: slices.Repeat([]float64{math.NaN()}, len(list)), Marked: map[int]bool{}, Shares: map[int]float64{}, Words: map[int][]Word{}}
				byName[c.Column], all = column, append(all, column)
			}
			if column.Text[i] = shorten(c.Text); c.Number != nil {
				column.Numbers[i] = *c.Number
			}
			if c.Unusual {
				column.Marked[i] = true
			}
			if c.Share > 0 {
				column.Shares[i] = c.Share
			}
			for _, w := range c.Words {
				column.Words[i] = append(column.Words[i], Word(w))
			}
		}
	}
	for _, c := range all {
		if slices.ContainsFunc(c.Text, func(s string) bool { return s != "" }) {
			c.Numbers = nil
			texts = append(texts, *c)
		} else {
			numbers = append(numbers, *c)
		}
	}
	return texts, numbers
}

func className(r audit.Row) string {
	return cmp.Or(r.ClassName, strconv.Itoa(*r.Class))
}

// targetColumnName names a figure of target k. A classifier has no targets.
func targetColumnName(figure, name string, k int, a *audit.Audit) string {
	if len(a.Targets) <= 1 {
		return figure
	}
	return figure + " of " + shorten(cmp.Or(name, strconv.Itoa(k)))
}

// groupBlocks shows the tables of groups, the worst first. The first blocks are about folders,
// files and groups, and others about classes. A column without any count is left out, and one
// sentence stands for tables without columns.
func groupBlocks(a *audit.Audit) (byPlace, byClass []block) {
	titles := map[string]string{"folder": "Folders, with their sub-folders", "shard": "Files", "group": "Groups", "class": "By predicted class", "label": "By given label"}
	names := map[string]string{"folder": "folder", "shard": "file", "group": "group", "class": "predicted class", "label": "given label"}
	where := block{Title: "Where the outliers are"}
	if !hasOutliers(a) {
		where.Title = "Folders, files and groups"
	}
	var empty []string // names of kinds without a table
	groups := a.GroupsWithSubfolders()
	for i := 0; i < len(groups); {
		j := i
		for j < len(groups) && groups[j].Kind == groups[i].Kind {
			j++
		}
		all, kind := groups[i:j], groups[i].Kind
		isClass := kind == "class" || kind == "label"
		if i = j; !isClass { // a group of all inputs tells nothing new
			all = slices.DeleteFunc(slices.Clone(all), func(g audit.Group) bool { return g.Inputs == a.Inputs })
		}
		if len(all) == 0 {
			continue
		}
		g, lead := groupTable(a, all), ""
		if g == nil {
			empty = append(empty, names[kind])
		} else if n := len(all); n > 1 {
			lead = "Those with the most outliers come first"
			switch {
			case hasOutliers(a):
			case a.LabelErrors != nil:
				lead = "Those with the most wrong labels come first"
			default:
				lead = "Those with the most inputs come first"
			}
			if n > maxGroups {
				lead = fmt.Sprintf("%s; %d of %d are shown, and attach audit DIR --list groups has all", lead, maxGroups, n)
			}
			lead += "."
		}
		if !isClass {
			if g != nil {
				g.Title, where.Lead = titles[kind], cmp.Or(lead, where.Lead)
				where.Tables = append(where.Tables, *g)
			}
			continue
		}
		b := block{Title: titles[kind], Lead: lead}
		if g != nil {
			b.Tables = append(b.Tables, *g)
		}
		if a.Classes != nil && kind == "class" {
			classFrequencies(a, &b)
		}
		if b.Tables != nil || b.Lead != "" {
			byClass = append(byClass, b)
		}
	}
	if len(empty) > 0 {
		last := len(empty) - 1
		text := empty[last]
		if last > 0 {
			text = strings.Join(empty[:last], ", ") + " or " + text
		}
		where.Lead = strings.TrimSpace(where.Lead + " No " + text + " has a discovery or a proven outlier.")
	}
	if where.Tables != nil || where.Lead != "" {
		byPlace = []block{where}
	}
	return byPlace, byClass
}

// groupTable shows groups of one kind. It returns nil if they only have inputs.
func groupTable(a *audit.Audit, groups []audit.Group) *grid {
	groups = groups[:min(maxGroups, len(groups))]
	var g grid
	g.Save = map[string]string{"folder": "folders.csv", "shard": "files.csv", "group": "groups.csv", "class": "classes.csv", "label": "labels.csv"}[groups[0].Kind]
	g.addText("name", mapSlice(groups, func(g audit.Group) string { return shorten(g.Name) }))
	number := func(name, help string, get func(g audit.Group) float64, format func(float64) string, shown func(v float64) bool) {
		if x := mapSlice(groups, get); slices.ContainsFunc(x, shown) {
			g.addNumbers(name, help, x, format)
		}
	}
	positive := func(v float64) bool { return v > 0 }
	count := func(name, help string, get func(g audit.Group) int) {
		number(name, help, func(g audit.Group) float64 { return float64(get(g)) }, formatWhole, positive)
	}
	count("inputs", "", func(g audit.Group) int { return g.Inputs })
	count("discoveries", "", func(g audit.Group) int { return g.Discoveries })
	count("outliers at least", "", func(g audit.Group) int { return g.Outliers })
	number("fraction of inputs", "outliers at least, as a fraction of the inputs", func(g audit.Group) float64 { return float64(g.Outliers) / float64(max(g.Inputs, 1)) }, display.Percent, positive)
	count("with unusual values", "", func(g audit.Group) int { return g.Unusual })
	count("near fit rows", "inputs with nearly the features of a fit row", func(g audit.Group) int { return g.FitDuplicates })
	for k, l := range a.LabelErrors[:min(maxTargets, len(a.LabelErrors))] {
		at := func(list []int) int {
			if k >= len(list) {
				return 0
			}
			return list[k]
		}
		count(targetColumnName("labelled", l.Name, k, a), "inputs with a label or target", func(g audit.Group) int { return at(g.Labelled) })
		count(targetColumnName("label errors", l.Name, k, a), "labels that are discoveries", func(g audit.Group) int { return at(g.LabelDiscoveries) })
		count(targetColumnName("wrong labels at least", l.Name, k, a), "", func(g audit.Group) int { return at(g.LabelErrors) })
	}
	for k, name := range a.Targets {
		number(targetColumnName("coverage", name, k, a), "fraction of targets within their intervals", func(g audit.Group) float64 { return g.CoveredFraction(k) }, display.Percent, func(v float64) bool { return !math.IsNaN(v) })
	}
	const names = 2 // the name, and the number of inputs
	if len(g.Heads) <= names {
		return nil
	}
	return &g
}

// reasonBlocks shows the columns that differ from the fit rows, and counts the inputs with the
// same unusual values. It returns nil if there are neither.
func reasonBlocks(a *audit.Audit, columns []verdict) []block {
	groups := a.ReasonGroups
	b := block{Title: "Unusual values in the inputs", Notes: columns}
	if !slices.ContainsFunc(groups, func(g audit.ReasonGroup) bool { return g.Reasons != "" }) {
		if columns == nil {
			return nil
		}
		return []block{b}
	}
	b.Lead = "Values that are unusual for the rows of the fit, in groups of inputs, those with the most discoveries first. They do not depend on the score, and need not be its cause. Rows count from 0."
	var g grid
	g.addText("unusual values", mapSlice(groups, func(g audit.ReasonGroup) string { return shorten(cmp.Or(g.Reasons, "none")) }))
	g.addNumbers("inputs", "", mapSlice(groups, func(g audit.ReasonGroup) float64 { return float64(g.Inputs) }), formatWhole)
	g.addNumbers("discoveries", "", mapSlice(groups, func(g audit.ReasonGroup) float64 { return float64(g.Discoveries) }), formatWhole)
	g.addCells(Column{Name: "most of them in", Text: mapSlice(groups, func(g audit.ReasonGroup) string {
		return strings.Join(mapSlice(g.Places, audit.ReasonPlace.String), "; ")
	})})
	b.Tables = []grid{g}
	return []block{b}
}

// copyBlocks shows the groups of copies with the most inputs.
func copyBlocks(a *audit.Audit) []block {
	c := a.Copies
	if c == nil {
		return nil
	}
	var g grid
	g.addText("inputs", mapSlice(c.MostCopied, func(copied audit.Copied) string { return strings.Join(mapSlice(copied.Keys, shorten), ", ") }))
	g.addNumbers("copies", "number of equal or nearly equal inputs", mapSlice(c.MostCopied, func(copied audit.Copied) float64 { return float64(copied.Inputs) }), formatWhole)
	var files grid
	files.addText("file", mapSlice(c.Between, func(n audit.FileCopies) string { return shorten(n.Shard) }))
	files.addText("copies inputs of", mapSlice(c.Between, func(n audit.FileCopies) string { return shorten(n.Of) }))
	for _, kind := range []struct {
		name  string
		count func(audit.FileCopies) float64
	}{
		{"exact", func(n audit.FileCopies) float64 { return float64(n.Exact) }},
		{"near", func(n audit.FileCopies) float64 { return float64(n.Near) }},
		{"mirrored", func(n audit.FileCopies) float64 { return float64(n.Mirrored) }},
	} {
		files.addNumbers(kind.name, "number of "+kind.name+" copies", mapSlice(c.Between, kind.count), formatWhole)
	}
	return []block{{Title: "Copies", Lead: fmt.Sprintf("Equal or nearly equal inputs: the pairs of files with the most copies, and the inputs with the most copies, with up to %d of their names. %s lists all.", audit.MaxCopyKeys, audit.Duplicates), Tables: []grid{files, g}}}
}

// classFrequencies adds a table to b that compares how often the model predicts each class for
// the audited inputs and for the calibration rows, or a sentence if no class differs.
func classFrequencies(a *audit.Audit, b *block) {
	all := slices.SortedStableFunc(slices.Values(a.Classes), func(a, b audit.Class) int { return cmp.Compare(a.PValue, b.PValue) })
	if p := all[0].PValue; p > a.Delta {
		b.Lead = strings.TrimSpace(fmt.Sprintf("%s No class is predicted more or less often than for the calibration rows, as far as can be told (p = %.2g).", b.Lead, p))
		return
	}
	g := grid{Title: "Frequency of predicted classes, the least likely first"}
	all = all[:min(maxGroups, len(all))]
	g.addText("class", mapSlice(all, func(c audit.Class) string {
		if number := strconv.Itoa(c.Class); c.Name == "" || c.Name == number { // a class without predictions has no name
			return "class " + number
		}
		return shorten(c.Name)
	}))
	g.addNumbers("inputs", "", mapSlice(all, func(c audit.Class) float64 { return c.Audited }), display.Percent)
	g.addNumbers("calibration rows", "", mapSlice(all, func(c audit.Class) float64 { return c.Calibration }), display.Percent)
	g.addNumbers("p", "p-value that any class differs as much, if frequencies are equal", mapSlice(all, func(c audit.Class) float64 { return c.PValue }), formatFourDigits)
	b.Tables = append(b.Tables, g)
}
