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

// Flags describes the flagged rows of a file.
type Flags struct {
	Bundle, Rows string
	Summary      string // a sentence without a full stop
	Facts        []Fact
	PValues      evaluate.Histogram
	Guarantee    string // what it means that a row is flagged
	Caution      string // why the guarantee may be weaker, or empty
	N            int    // number of flagged rows
	// Columns describe the flagged rows with the highest scores, at most N rows. Images are
	// pictures of these rows, or nil.
	Columns []Column
	Images  []image.Image
}

// Column is a column of a table. It holds Numbers or, if these are nil, Text.
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

// digits returns the format of a column. Whole numbers keep all their digits, because they
// may be identifiers, such as order numbers.
func digits(column []float64) func(x float64) string {
	if slices.ContainsFunc(column, func(x float64) bool { return x != math.Trunc(x) || !display.Plain(x) }) {
		return fourDigits
	}
	return wholes
}

func fourDigits(x float64) string { return display.Number(x, 4) }

// Flagged returns the page of the flagged rows of a file.
func Flagged(f Flags) Page {
	p := Page{Title: "Rows of " + f.Rows + " flagged by " + f.Bundle, Lead: capital(f.Summary) + ".", Facts: f.Facts}
	c := counts("p-values", "p-value", f.PValues)
	c.Note = "Dashed: expected count if the rows come from the source of the calibration rows. A peak at the left: out-of-distribution rows."
	says := block{Charts: []chart{c}, Notes: []verdict{{Label: "guarantee", Message: f.Guarantee}, {
		Label: "violated by", Message: "Rows from another source, such as another camera, sensor, season, population or preparation: more of them are flagged, and most of these flags are right.",
	}}}
	if f.Caution != "" {
		says.Notes = append(says.Notes, verdict{Label: "weaker", Message: capital(f.Caution) + "."})
	}
	says.Tables = []grid{cumulative(f.PValues)}
	p.blocks = []block{says}
	if f.N == 0 {
		return p
	}
	worst := block{Title: "Flagged rows, the highest scores first"}
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

// cumulative counts the rows up to each of several p-values, and the number of rows
// expected.
func cumulative(h evaluate.Histogram) grid {
	g := grid{Title: "Rows by largest p-value"}
	var ends, counts, expected []float64
	for _, end := range []float64{.05, .1, .2, .5, 1} {
		n := int(math.Round(end * float64(len(h.Counts))))
		count, want := 0, 0.
		for k := range n {
			count += h.Counts[k]
			want += h.Expected[k]
		}
		ends, counts, expected = append(ends, end), append(counts, float64(count)), append(expected, want)
	}
	g.numbers("p-value up to", "", ends, exactly)
	g.numbers("rows", "", counts, wholes)
	g.numbers("expected", "expected number if the rows come from the source of the calibration rows", expected, wholes)
	return g
}

// picture returns the picture of row i. The caption is the first column, which holds the
// name of the row.
func (f *Flags) picture(i int, img image.Image) picture {
	p := picture{Image: img, Caption: f.Columns[0].at(i)}
	for _, c := range f.Columns[1:] {
		p.Facts = append(p.Facts, Fact{cmp.Or(c.at(i), "–"), c.Name})
	}
	return p
}
