package report

import (
	"cmp"
	"fmt"
	"image"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/display"
)

// Flags is what was flagged of rows.
type Flags struct {
	Bundle, Rows string
	Summary      string // a sentence without a full stop
	Facts        []Fact
	PValues      evaluate.Histogram
	Guarantee    string // what a flag guarantees
	Caution      string // why it may guarantee less, or empty
	N            int    // rows flagged, of which those below may be the first
	// Columns are of the rows flagged, the worst first, and Images their pictures, or
	// nil.
	Columns []Column
	Images  []image.Image
}

// Column is what there is of each row under a name: Numbers or, where these are
// nil, Text.
type Column struct {
	Name    string
	Numbers []float64
	Text    []string
}

func (c *Column) at(i int) string {
	if c.Numbers != nil {
		return digits(c.Numbers)(c.Numbers[i])
	}
	return c.Text[i]
}

// digits writes the numbers of a column. Whole ones may be names, such as that of an
// order, and keep all their digits.
func digits(column []float64) func(x float64) string {
	if slices.ContainsFunc(column, func(x float64) bool { return x != math.Trunc(x) || !display.Plain(x) }) {
		return fourDigits
	}
	return wholes
}

func fourDigits(x float64) string { return display.Number(x, 4) }

// Flagged is the page of what was flagged.
func Flagged(f Flags) Page {
	p := Page{Title: "What " + f.Bundle + " flags of " + f.Rows, Lead: capital(f.Summary) + ".", Facts: f.Facts}
	c := counts("p-values", "p-value", f.PValues)
	c.Note = "Dashed: expected of rows like the calibration rows. Rows heaped at the left are unlike these."
	says := block{Charts: []chart{c}, Notes: []verdict{{Label: "guarantee", Message: f.Guarantee}, {
		Label: "violated by", Message: "Rows of another origin, such as another camera, sensor, season, population or way of preparing them: more of them are flagged, and most of these flags are right.",
	}}}
	if f.Caution != "" {
		says.Notes = append(says.Notes, verdict{Label: "weaker", Message: capital(f.Caution) + "."})
	}
	p.blocks = []block{says}
	if f.N == 0 {
		return p
	}
	worst := block{Title: "Flagged, the most unlike the domain first"}
	shown := len(f.Images)
	if f.Images != nil {
		for i, img := range f.Images {
			worst.Pictures = append(worst.Pictures, f.picture(i, img))
		}
	} else {
		var g grid
		for _, c := range f.Columns {
			if c.Numbers != nil {
				g.numbers(c.Name, "", c.Numbers, digits(c.Numbers))
			} else {
				g.text(c.Name, c.Text)
			}
		}
		worst.Tables, shown = []grid{g}, len(g.Rows)
	}
	if shown < f.N {
		worst.Lead = fmt.Sprintf("The first %s of %s.", display.Count(shown), display.Count(f.N))
	}
	p.blocks = append(p.blocks, worst)
	return p
}

// picture is a row with what there is of it; the first column names it.
func (f *Flags) picture(i int, img image.Image) picture {
	p := picture{Image: img, Caption: f.Columns[0].at(i)}
	for _, c := range f.Columns[1:] {
		p.Facts = append(p.Facts, Fact{cmp.Or(c.at(i), "–"), c.Name})
	}
	return p
}
