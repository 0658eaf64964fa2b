package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/evidence"
	"github.com/attach-uncertainty/attach/internal/rows"
)

// mostGroups is how many groups of a kind are shown.
const mostGroups = 500

// Audit is the page of an audit.
func Audit(a *audit.Audit) Page {
	p := Page{
		Title: "What does not belong",
		Lead:  fmt.Sprintf("%s of %s, compared with %s.", rows.Count(a.Inputs, "input"), rows.Count(len(a.Shards), "file"), rows.Count(a.Calibration, "calibration row")),
	}
	fact := func(value, label string) { p.Facts = append(p.Facts, Fact{value, label}) }
	fact(strconv.Itoa(a.Outliers), fmt.Sprintf("outliers at least, %s of the inputs, with probability %g", percent(float64(a.Outliers)/float64(max(a.Inputs, 1))), 1-a.Delta))
	fact(strconv.Itoa(a.Discoveries), fmt.Sprintf("discoveries at a false discovery rate of %g", a.FDR))
	if a.Discoveries > 0 {
		fact(percent(a.FDP), fmt.Sprintf("of them are false at most, with probability %g", 1-a.Delta))
	}
	fact(least(a.Shift.Higher), "probability that so many score so high if all are like the calibration rows")
	if a.LikeFitted != nil {
		fact(strconv.Itoa(*a.LikeFitted), "nearly the same as a row fitted on")
	}
	p.blocks = append(p.blocks, promised(a))
	if g := shownWorst(a); g != nil {
		p.blocks = append(p.blocks, *g)
	}
	if len(a.Intervals) > 0 {
		p.blocks = append(p.blocks, intervals(a))
	}
	p.blocks = append(p.blocks, groups(a)...)
	p.blocks = append(p.blocks, reproduced(a))
	return p
}

// intervals are how wide those of each target are, and how often they hold it.
func intervals(a *audit.Audit) block {
	b := block{Title: "Intervals", Lead: fmt.Sprintf("At a false discovery rate of %g so many are wider than those of the calibration rows. A share %g of the targets is to lie within.", a.FDR, a.Level)}
	all := a.Intervals
	var g grid
	g.text("target", each(all, func(of audit.Interval) string { return of.Name }))
	g.numbers("stand out", "intervals that are wider than those of the calibration rows", each(all, func(of audit.Interval) float64 { return float64(of.Wide) }), whole)
	g.numbers("p of all", "the probability that so many are so wide if all are like those of the calibration rows", each(all, func(of audit.Interval) float64 { return of.Shift.Higher }), fourDigits)
	if slices.ContainsFunc(all, func(of audit.Interval) bool { return of.Known > 0 }) {
		g.numbers("with target", "", each(all, func(of audit.Interval) float64 { return float64(of.Known) }), whole)
		g.numbers("covered", "the share of targets within their intervals", each(all, func(of audit.Interval) float64 {
			if of.Known == 0 {
				return math.NaN()
			}
			return float64(of.Covered) / float64(of.Known)
		}), percent)
	}
	b.Tables = []grid{g}
	for k, of := range all {
		w := grid{Title: capital(targetHead("the widest", of.Name, k, a))}
		number := func(name string, x func(r audit.Row) float64) { w.numbers(name, "", each(of.Widest, x), fourDigits) }
		w.text("input", each(of.Widest, func(r audit.Row) string { return r.Key }))
		number("width", func(r audit.Row) float64 { return float64(r.Upper[k] - r.Lower[k]) })
		number("prediction", func(r audit.Row) float64 { return float64(r.Prediction[k]) })
		number("lower", func(r audit.Row) float64 { return float64(r.Lower[k]) })
		number("upper", func(r audit.Row) float64 { return float64(r.Upper[k]) })
		number("p-value", func(r audit.Row) float64 { return r.PValue })
		b.Tables = append(b.Tables, w)
	}
	return b
}

// least is a probability, which may be too small to be written.
func least(p float64) string {
	if p == 0 {
		return "< 1e-300"
	}
	return fmt.Sprintf("%.2g", p)
}

// reproduced is what was audited with what.
func reproduced(a *audit.Audit) block {
	b := block{Title: "How to reproduce", Lead: "attach audit with the file of this SHA-256, these inputs and options gives the same audit.json, to the byte."}
	fact := func(label, value string) { b.Facts = append(b.Facts, Fact{value, label}) }
	fact("SHA-256 of M.attach", a.Bundle)
	if a.Model != "" {
		fact("SHA-256 of the network", a.Model)
	}
	options := fmt.Sprintf("--fdr %g --delta %g --alpha %g", a.FDR, a.Delta, a.Alpha)
	if a.Level > 0 {
		options += fmt.Sprintf(" --level %g", a.Level)
	}
	if a.Conditional {
		options += " --conditional"
	}
	if a.Every > 0 {
		options += fmt.Sprintf(" --every %d", a.Every)
	}
	if a.Limit > 0 {
		options += fmt.Sprintf(" --limit %d", a.Limit)
	}
	fact("options", options)
	return b
}

// promised is what is promised, and what p-values look like.
func promised(a *audit.Audit) block {
	c := counts("p-values", "p-value", attach.Histogram{Counts: a.PValues, Expected: evidence.PValues(a.Inputs, a.Calibration)})
	c.Note = "Dashed: the reference, what inputs like the calibration rows would give. Inputs heaped at the left are unlike these."
	b := block{Charts: []chart{c}}
	if m, err := plane(a); err == nil && m != nil { // or features that no plane holds
		b.Charts = append(b.Charts, *m)
	}
	for i, says := range a.Notes {
		word := "note"
		if i == 0 {
			word = "promise"
		}
		b.Notes = append(b.Notes, verdict{Word: word, Says: says})
	}
	g := grid{Title: "Any threshold"}
	var p, n, fdp []float64
	for _, t := range a.Thresholds {
		p, n, fdp = append(p, t.PValue), append(n, float64(t.Inputs)), append(fdp, t.FDP)
	}
	g.numbers("p-value up to", "", p, fourDigits)
	g.numbers("inputs", "", n, whole)
	g.numbers("false at most", "the share of inputs that are like the calibration rows after all", fdp, percent)
	b.Tables = []grid{g}
	return b
}

// plane draws rows where their features lie.
func plane(a *audit.Audit) (*chart, error) {
	points, err := a.Projection()
	if err != nil || points == nil {
		return nil, err
	}
	x, y := each(points, func(p audit.Point) float64 { return p.X }), each(points, func(p audit.Point) float64 { return p.Y })
	c := newChart("first direction", "second direction", span{slices.Min(x), slices.Max(x)}.open(), span{slices.Min(y), slices.Max(y)}.open(), chartWidth, 5, 5)
	c.Title = "Features"
	var worst strings.Builder
	for _, p := range points {
		at := c.path([]point{{p.X, p.Y}}) + "h0"
		if p.Worst {
			worst.WriteString(at)
		} else {
			c.Dots += at
		}
	}
	c.Marks = []shape{{1, worst.String()}}
	c.Key = []shapeKey{{1, "the highest scores"}}
	c.Note = "Along the two directions in which features vary the most. Other dots: inputs drawn from all."
	return &c, nil
}

func whole(x float64) string { return strconv.FormatFloat(x, 'f', 0, 64) }

// shownWorst are the inputs with the highest scores.
func shownWorst(a *audit.Audit) *block {
	if len(a.Worst) == 0 {
		return nil
	}
	b := block{Title: "The most unlike the domain first"}
	if n := len(a.Worst); n < a.Inputs {
		b.Lead = fmt.Sprintf("The first %d of %d.", n, a.Inputs)
	}
	var g grid
	text := func(name string, of func(r audit.Row) string) { g.text(name, each(a.Worst, of)) }
	number := func(name string, of func(r audit.Row) float64) { g.numbers(name, "", each(a.Worst, of), fourDigits) }
	text("input", func(r audit.Row) string { return r.Key })
	if slices.ContainsFunc(a.Worst, func(r audit.Row) bool { return r.Shown != nil && r.Shown.Text != "" }) {
		text("text", func(r audit.Row) string {
			if r.Shown == nil {
				return ""
			}
			return r.Shown.Text
		})
	}
	number("p-value", func(r audit.Row) float64 { return r.PValue })
	number("score", func(r audit.Row) float64 { return float64(r.Score) })
	text("discovery", func(r audit.Row) string { return map[bool]string{true: "yes", false: "no"}[r.Discovery] })
	folders := slices.ContainsFunc(a.Worst, func(r audit.Row) bool { return r.Folder != a.Worst[0].Folder })
	if folders {
		text("folder", func(r audit.Row) string { return r.Folder })
	}
	if slices.ContainsFunc(a.Worst, func(r audit.Row) bool { return r.LikeFitted != "" }) {
		text("like fitted row", func(r audit.Row) string { return r.LikeFitted })
	}
	if a.Task == attach.Classification {
		text("class", className)
		number("confidence", func(r audit.Row) float64 { return float64(*r.Confidence) })
	}
	for k, name := range a.Targets {
		number(targetHead("prediction", name, k, a), func(r audit.Row) float64 { return float64(r.Prediction[k]) })
		number(targetHead("lower", name, k, a), func(r audit.Row) float64 { return float64(r.Lower[k]) })
		number(targetHead("upper", name, k, a), func(r audit.Row) float64 { return float64(r.Upper[k]) })
	}
	b.Filter = true
	left := mostPictures
	var images []picture
	for _, r := range a.Worst {
		if r.Shown == nil || len(r.Shown.Picture) == 0 || left < len(r.Shown.Picture) {
			continue
		}
		left -= len(r.Shown.Picture)
		pic := picture{Encoded: r.Shown.Picture, Caption: r.Key, Facts: []Fact{{fourDigits(r.PValue), "p-value"}, {fourDigits(float64(r.Score)), "score"}}}
		if r.Class != nil {
			pic.Facts = append(pic.Facts, Fact{className(r), "class"})
		}
		if folders {
			pic.Facts = append(pic.Facts, Fact{r.Folder, "folder"})
		}
		images = append(images, pic)
	}
	b.Pictures, b.Tables = images, []grid{g}
	return &b
}

// mostPictures bounds the bytes of all pictures.
const mostPictures = 3 << 20

func className(r audit.Row) string {
	if r.ClassName != "" {
		return r.ClassName
	}
	return strconv.Itoa(*r.Class)
}

func targetHead(of, name string, k int, a *audit.Audit) string {
	if len(a.Targets) == 1 {
		return of
	}
	if name == "" {
		name = strconv.Itoa(k)
	}
	return of + " of " + name
}

// groups are tables of the groups of each kind.
func groups(a *audit.Audit) []block {
	titles := map[string]string{"shard": "By file", "folder": "By folder", "group": "By group", "class": "By predicted class"}
	var list []block
	for i := 0; i < len(a.Groups); {
		j := i
		for j < len(a.Groups) && a.Groups[j].Kind == a.Groups[i].Kind {
			j++
		}
		all := a.Groups[i:j]
		b := block{Title: titles[a.Groups[i].Kind]}
		if i = j; all[0].Kind == "folder" && len(all) == 1 && all[0].Inputs == a.Inputs {
			continue // one that holds all says nothing more
		}
		if len(all) > mostGroups {
			b.Lead = fmt.Sprintf("The first %d of %d; audit.json has all.", mostGroups, len(all))
			all = all[:mostGroups]
		}
		var g grid
		g.text("name", each(all, func(g audit.Group) string { return g.Name }))
		g.numbers("inputs", "", each(all, func(g audit.Group) float64 { return float64(g.Inputs) }), whole)
		g.numbers("discoveries", "", each(all, func(g audit.Group) float64 { return float64(g.Discoveries) }), whole)
		g.numbers("outliers at least", "", each(all, func(g audit.Group) float64 { return float64(g.Outliers) }), whole)
		if a.LikeFitted != nil {
			g.numbers("like fitted rows", "inputs that are nearly the same as a row fitted on", each(all, func(g audit.Group) float64 { return float64(g.LikeFitted) }), whole)
		}
		for k, name := range a.Targets {
			covered := each(all, func(g audit.Group) float64 {
				if k >= len(g.Known) || g.Known[k] == 0 {
					return math.NaN()
				}
				return float64(g.Covered[k]) / float64(g.Known[k])
			})
			g.numbers(targetHead("covered", name, k, a), "the share of targets within their intervals", covered, percent)
		}
		if all[0].Kind == "class" && a.Classes != nil {
			b.Tables = append(b.Tables, shares(a))
		}
		b.Tables = append([]grid{g}, b.Tables...)
		list = append(list, b)
	}
	if len(a.Duplicates) > 0 {
		var g grid
		g.text("inputs", each(a.Duplicates, func(keys []string) string { return strings.Join(keys, ", ") }))
		list = append(list, block{Title: "Nearly the same", Lead: "Inputs among those with the highest scores whose features are nearer than almost all inputs are to any other: each counts, where there may be one.", Tables: []grid{g}})
	}
	return list
}

// shares are how often classes are predicted here and of calibration rows.
func shares(a *audit.Audit) grid {
	g := grid{Title: "How often classes are predicted"}
	all := a.Classes[:min(mostGroups, len(a.Classes))]
	g.text("class", each(all, func(c audit.Class) string {
		if c.Name == "" {
			return strconv.Itoa(c.Class)
		}
		return c.Name
	}))
	g.numbers("here", "", each(all, func(c audit.Class) float64 { return c.Audited }), percent)
	g.numbers("of calibration rows", "", each(all, func(c audit.Class) float64 { return c.Calibration }), percent)
	g.numbers("p", "the probability that any class differs as much if all are alike", each(all, func(c audit.Class) float64 { return c.PValue }), fourDigits)
	return g
}
