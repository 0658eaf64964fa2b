package report

import (
	"fmt"
	"math"
	"strconv"

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
		Lead: fmt.Sprintf("%s of %s, compared with %s. Made with %s.", rows.Count(a.Inputs, "input"), rows.Count(len(a.Shards), "file or folder"), rows.Count(a.Calibration, "calibration row"),
			"M.attach "+a.Bundle[:min(12, len(a.Bundle))]),
	}
	fact := func(value, label string) { p.Facts = append(p.Facts, Fact{value, label}) }
	fact(strconv.Itoa(a.Discoveries), fmt.Sprintf("discoveries at a false discovery rate of %g", a.FDR))
	if a.Discoveries > 0 {
		fact(percent(a.FDP), fmt.Sprintf("of them are false at most, with probability %g", 1-a.Delta))
	}
	fact(strconv.Itoa(a.Outliers), fmt.Sprintf("outliers at least, with probability %g", 1-a.Delta))
	fact(fmt.Sprintf("%.2g", a.Shift.Higher), "probability that so many score so high if all are like the calibration rows")
	p.blocks = append(p.blocks, promised(a))
	if g := shownWorst(a); g != nil {
		p.blocks = append(p.blocks, *g)
	}
	p.blocks = append(p.blocks, groups(a)...)
	return p
}

// promised is what is promised, and what p-values look like.
func promised(a *audit.Audit) block {
	c := counts("p-values", "p-value", attach.Histogram{Counts: a.PValues, Expected: evidence.PValues(a.Inputs, a.Calibration)})
	c.Note = "Dashed: the reference, what inputs like the calibration rows would give. Inputs heaped at the left are unlike these."
	b := block{Charts: []chart{c}}
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
	number("p-value", func(r audit.Row) float64 { return r.PValue })
	number("score", func(r audit.Row) float64 { return float64(r.Score) })
	text("discovery", func(r audit.Row) string { return map[bool]string{true: "yes", false: "no"}[r.Discovery] })
	if a.Task == attach.Classification {
		text("class", className)
		number("confidence", func(r audit.Row) float64 { return float64(*r.Confidence) })
	}
	for k, name := range a.Targets {
		number(targetHead("prediction", name, k, a), func(r audit.Row) float64 { return float64(r.Prediction[k]) })
		number(targetHead("lower", name, k, a), func(r audit.Row) float64 { return float64(r.Lower[k]) })
		number(targetHead("upper", name, k, a), func(r audit.Row) float64 { return float64(r.Upper[k]) })
	}
	b.Tables = []grid{g}
	return &b
}

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
		i = j
		if len(all) > mostGroups {
			b.Lead = fmt.Sprintf("The first %d of %d; audit.json has all.", mostGroups, len(all))
			all = all[:mostGroups]
		}
		var g grid
		g.text("name", each(all, func(g audit.Group) string { return g.Name }))
		g.numbers("inputs", "", each(all, func(g audit.Group) float64 { return float64(g.Inputs) }), whole)
		g.numbers("discoveries", "", each(all, func(g audit.Group) float64 { return float64(g.Discoveries) }), whole)
		g.numbers("outliers at least", "", each(all, func(g audit.Group) float64 { return float64(g.Outliers) }), whole)
		for k, name := range a.Targets {
			covered := each(all, func(g audit.Group) float64 {
				if k >= len(g.Known) || g.Known[k] == 0 {
					return math.NaN()
				}
				return float64(g.Covered[k]) / float64(g.Known[k])
			})
			g.numbers(targetHead("covered", name, k, a), "the share of targets within their intervals", covered, percent)
		}
		b.Tables = []grid{g}
		list = append(list, b)
	}
	return list
}
