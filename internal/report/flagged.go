package report

import (
	"cmp"
	"fmt"
	"image"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/display"
)

// Flags describes the flagged rows of a file.
type Flags struct {
	Bundle, Rows string
	Summary      string // sentences without the last full stop
	Facts        []Fact
	PValues      evaluate.Histogram
	Guarantee    string // what a flag means
	Caution      string // why the guarantee may be weaker, or empty
	// Total is the number of rows of the file, and RowName returns the name of each. Flagged
	// holds all flagged rows by increasing position, and Expected is their expected number if
	// all rows are in-distribution.
	Total    int
	RowName  func(position int) string
	Flagged  []FlaggedRow
	Expected float64
	// Columns describe the flagged rows with the highest scores. Images are pictures of these
	// rows, or nil. Others says where to find the other flagged rows.
	Columns []Column
	Images  []image.Image
	Others  string
	// HeatMaps holds pictures that show which regions raised the score, and Nearest holds the
	// pictures of the nearest fit rows. Both have an entry for each of Images, which may be
	// nil, or are nil.
	HeatMaps, Nearest []image.Image
	// Changes describes input columns that differ from the fit rows. It may be nil.
	Changes []string
}

// Column is a column of a table. It holds Numbers or, if these are nil, Text.
type Column struct {
	Name    string
	Numbers []float64
	Text    []string
	Marked  map[int]bool // rows whose cell is a reason
	// Shares holds the fraction of the score that the cell of a row explains, and Words the
	// words of such a cell with their fractions.
	Shares map[int]float64
	Words  map[int][]Word
}

// Word is a part of a text with the fraction of the score that it explains.
type Word struct {
	Text    string
	Share   float64
	Unknown bool // whether the profile of the fit rows lacks it
}

func (c *Column) formatCell(i int) string {
	if c.Numbers != nil {
		return columnFormat(c.Numbers)(c.Numbers[i])
	}
	return c.Text[i]
}

// columnFormat returns the format of a column. If a column has only whole numbers of
// ordinary size, they keep all their digits, because they may be identifiers, such as order
// numbers.
func columnFormat(column []float64) func(x float64) string {
	if slices.ContainsFunc(column, func(x float64) bool { return !math.IsNaN(x) && (x != math.Trunc(x) || !display.Plain(x)) }) {
		return formatFourDigits
	}
	return formatWhole
}

func formatFourDigits(x float64) string { return display.Number(x, 4) }

// Flagged returns the page of the flagged rows of a file.
func Flagged(f Flags) Page {
	p := Page{Title: "Rows of " + f.Rows + " flagged by " + f.Bundle, Lead: capitalise(f.Summary) + ".", Facts: f.Facts}
	c := countChart("p-values", "p-value", f.PValues)
	c.Note = "If all rows were like the calibration rows, each bar would end near the dashed line. If the bar at the left is higher, more rows are unusual than chance explains."
	summary := block{}
	for _, change := range f.Changes {
		summary.Notes = append(summary.Notes, verdict{Label: "differs", Message: change + "."})
	}
	clusters := f.clusterNotes()
	summary.Notes = slices.Concat(summary.Notes, clusters, f.topNotes())
	if f.Caution != "" {
		summary.Notes = append(summary.Notes, verdict{Label: "weaker", Message: capitalise(f.Caution) + "."})
	}
	summary.Charts = append(f.orderChart(clusters != nil), c)
	if reasons := countRows(f.Flagged, reasonsOf); len(reasons) > 1 || len(reasons) == 1 && reasons[0].text != "" {
		summary.Tables = append(summary.Tables, reasonTable(reasons))
	}
	summary.Tables = append(summary.Tables, cumulativeTable(f.PValues))
	p.blocks = []block{summary}
	if len(f.Flagged) > 0 {
		p.blocks = append(p.blocks, f.rowsBlock())
	}
	p.blocks = append(p.blocks, block{Title: "What a flag means", Notes: []verdict{{Label: "guarantee", Message: f.Guarantee}, {
		Label: "violated by", Message: "Rows from another source, such as another camera, sensor, season, population or preparation: more of them are flagged, and most of these flags are right.",
	}}})
	return p
}

// rowsBlock shows the flagged rows with the highest scores.
func (f *Flags) rowsBlock() block {
	b := block{Title: "Flagged rows, the highest scores first"}
	shown := len(f.Images)
	if f.Images != nil {
		for i, img := range f.Images {
			b.Pictures = append(b.Pictures, f.newPicture(i, img))
		}
	} else {
		var g grid
		for _, c := range f.Columns {
			g.addCells(c)
		}
		b.Tables, shown = []grid{g}, len(g.Rows)
	}
	var lead []string
	if shown < len(f.Flagged) {
		lead = append(lead, fmt.Sprintf("The first %s of %s. %s", display.Count(shown), display.Count(len(f.Flagged)), f.Others))
	}
	if slices.ContainsFunc(f.Columns, func(c Column) bool { return c.Name == "ood_score" && slices.Contains(c.Numbers, math.Inf(1)) }) {
		lead = append(lead, "A score of inf is infinite: arithmetic overflows, or cells are empty that hardly ever were in the fit rows.")
	}
	b.Lead = strings.TrimSpace(strings.Join(lead, " ") + " " + wordsLegend(f.Columns))
	return b
}

// wordsLegend explains how words are marked, or returns "" if none are.
func wordsLegend(columns []Column) string {
	legend := ""
	for _, c := range columns {
		for _, words := range c.Words {
			for _, w := range words {
				if w.Unknown {
					return "Coloured words raised the score. Underlined words are in no fit row, or hardly any."
				}
				if w.Percent() > 0 {
					legend = "Coloured words raised the score."
				}
			}
		}
	}
	return legend
}

// widestText is the largest width in characters that a column of text is sure to have.
const widestText = 36

// addCells adds a column with its marks.
func (g *grid) addCells(c Column) {
	if c.Numbers != nil {
		g.addNumbers(c.Name, "", c.Numbers, columnFormat(c.Numbers))
	} else {
		g.addText(c.Name, c.Text)
		head := &g.Heads[len(g.Heads)-1]
		for _, text := range c.Text {
			head.Width = max(head.Width, min(widestText, utf8.RuneCountInString(text)))
		}
	}
	g.markLastColumn(&c)
}

// maxReasons is the largest number of reasons that the table lists.
const maxReasons = 12

// reasonTable counts the flagged rows by their reasons.
func reasonTable(list []count) grid {
	g := grid{Title: "Flagged rows by unusual value"}
	if more := len(list) - maxReasons; more > 0 {
		rest := 0
		for _, r := range list[maxReasons:] {
			rest += r.rows
		}
		list = append(slices.Clone(list[:maxReasons]), count{fmt.Sprintf("%d other combinations", more), rest})
	}
	g.addText("unusual value", mapSlice(list, func(r count) string {
		return cmp.Or(r.text, "no single value is unusual")
	}))
	g.addNumbers("rows", "", mapSlice(list, func(r count) float64 { return float64(r.rows) }), formatWhole)
	return g
}

// AddWords divides the text of row i into words, which begin and end at the given bytes, and
// the text between them. shares holds the fraction of the score that each word explains. unknown
// holds whether the profile lacks each word, or is nil.
func (c *Column) AddWords(i int, offsets [][2]int, shares []float64, unknown []bool) {
	if c.Words == nil {
		c.Words = map[int][]Word{}
	}
	end := 0
	for k, at := range offsets {
		if at[0] < end || at[1] > len(c.Text[i]) {
			return // the text was cut for the table
		}
		word := Word{Text: c.Text[i][at[0]:at[1]], Share: shares[k], Unknown: unknown != nil && unknown[k]}
		c.Words[i] = append(c.Words[i], Word{Text: c.Text[i][end:at[0]]}, word)
		end = at[1]
	}
	c.Words[i] = append(c.Words[i], Word{Text: c.Text[i][end:]})
}

// Percent returns the share in per cent, or 0 if it is too small to show.
func (w Word) Percent() int {
	if w.Share < leastShare {
		return 0
	}
	return int(math.Round(100 * w.Share))
}

// cumulativeTable lists, for each of several limits, the number of rows with a p-value up
// to that limit and the expected number.
func cumulativeTable(h evaluate.Histogram) grid {
	g := grid{Title: "Rows by largest p-value"}
	var limits, counts, expected []float64
	for _, limit := range []float64{.05, .1, .2, .5, 1} {
		n := int(math.Round(limit * float64(len(h.Counts))))
		count, want := 0, 0.
		for k := range n {
			count += h.Counts[k]
			want += h.Expected[k]
		}
		limits, counts, expected = append(limits, limit), append(counts, float64(count)), append(expected, want)
	}
	g.addNumbers("p-value up to", "", limits, formatExact)
	g.addNumbers("rows", "", counts, formatWhole)
	g.addNumbers("expected", "expected number if the rows come from the source of the calibration rows", expected, formatWhole)
	return g
}

// newPicture returns the picture of row i. The caption is the first column, which holds the
// name of the row.
func (f *Flags) newPicture(i int, img image.Image) picture {
	p := picture{Image: img, Caption: f.Columns[0].formatCell(i)}
	if f.HeatMaps != nil && f.HeatMaps[i] != nil {
		p.Beside = append(p.Beside, labelledImage{Image: f.HeatMaps[i], Label: "what raised the score"})
	}
	if f.Nearest != nil && f.Nearest[i] != nil {
		p.Beside = append(p.Beside, labelledImage{Image: f.Nearest[i], Label: "nearest fit row"})
	}
	for _, c := range f.Columns[1:] {
		p.Facts = append(p.Facts, Fact{cmp.Or(c.formatCell(i), "–"), c.Name})
	}
	return p
}
