package report

import (
	"bytes"
	"cmp"
	"html/template"
	"image"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// block is a titled part of a page or text. Empty fields are not shown.
type block struct {
	Title, Lead string
	Verdicts    []verdict
	Folded      []verdict // hidden until the reader opens them; Verdicts has their counts
	Notes       []verdict
	Facts       []Fact
	Charts      []chart
	Tables      []grid
	Pictures    []picture
	// Filter adds a search field for the rows of the first table and their pictures. By
	// maps the numbers of columns to names. The reader can group the rows by these columns.
	Filter bool
	By     map[int]string
}

// verdict is a message with a label, such as "met", and advice.
type verdict struct {
	Label           string
	Style           string // good, bad, open, limit or empty
	Subject         string // what the message is about, or empty
	Message, Advice string
}

// grid is a table. Some of its cells contain a small drawing.
type grid struct {
	Title    string // shown above the table of a page
	Name     string // in a text, the head of the first column; if that column has numbers, an empty column with this head precedes it
	Heads    []columnHead
	Rows     [][]cell
	Below    []string // sentences below the table
	Save     string   // name of the file that a button saves the table to, or empty
	PageOnly bool     // whether a text leaves the table out
	worstEnd string   // "most" if high rates are bad, "least" if low rates are bad
	rowOrder []int    // row numbers from the worst to the best, or nil to keep the order
}

// columnHead is the head of a column. Low and High label the ends of the axis in the column's
// drawings.
type columnHead struct {
	Text, Title string
	Low, High   string
	IsText      bool // whether rows are sorted by the text of the column
	Width       int  // the least width in characters, or 0
	Hidden      bool
	Descending  bool // whether high numbers are better, and therefore sorted first
	Interval    bool // whether a text shows the Range of the cells in a column of its own
}

// picture is an image with its caption.
type picture struct {
	Row     int // row of the table that the picture belongs to
	Image   image.Image
	Encoded []byte          // PNG or JPEG file, used instead of Image
	Beside  []labelledImage // pictures beside it
	Caption string
	Facts   []Fact
}

// Source returns the picture as a data URL.
func (p picture) Source() (template.URL, error) {
	if p.Encoded != nil {
		return encodedURL(p.Encoded), nil
	}
	return pictureURL(p.Image)
}

// labelledImage is an image that is shown beside a picture.
type labelledImage struct {
	Image   image.Image
	Encoded []byte // PNG or JPEG file, used instead of Image
	Label   string
}

// Source returns the image as a data URL.
func (m labelledImage) Source() (template.URL, error) {
	if m.Encoded != nil {
		return encodedURL(m.Encoded), nil
	}
	return pictureURL(m.Image)
}

// smoothWidth is the width in pixels below which a picture is shown with sharp pixels.
const smoothWidth = 100

// Small reports whether the picture is narrower than smoothWidth.
func (p picture) Small() bool {
	if p.Encoded != nil {
		size, _, err := image.DecodeConfig(bytes.NewReader(p.Encoded))
		return err == nil && size.Width < smoothWidth
	}
	return p.Image.Bounds().Dx() < smoothWidth
}

// NameWidth returns the minimum width of the first column in characters.
func (g grid) NameWidth() int {
	const maxWidth = 32
	longest := 0
	for _, row := range g.Rows {
		longest = max(longest, len(row[0].Text))
	}
	return min(longest, maxWidth)
}

// Off reports whether the nominal rate of some row lies outside its interval. Unlike
// reports whether some part of the rows misses its nominal rate by more than chance.
func (g grid) Off() bool    { return g.hasGlyph(func(g *glyph) bool { return g.Off && !g.Compared }) }
func (g grid) Unlike() bool { return g.hasGlyph(func(g *glyph) bool { return g.Off && g.Compared }) }

func (g grid) hasGlyph(match func(g *glyph) bool) bool {
	return slices.ContainsFunc(g.Rows, func(row []cell) bool {
		return slices.ContainsFunc(row, func(c cell) bool { return c.Forest != nil && match(c.Forest) })
	})
}

// mapSlice returns the results of a function for all elements of a list.
func mapSlice[T, U any](list []T, f func(T) U) []U {
	all := make([]U, len(list))
	for i, x := range list {
		all[i] = f(x)
	}
	return all
}

// addText adds a column of words.
func (g *grid) addText(name string, texts []string) {
	g.Heads = append(g.Heads, columnHead{Text: name, IsText: true})
	g.addColumn(len(texts), func(i int) cell { return cell{Text: texts[i], Words: true} })
}

// markLastColumn marks the cells of the last column that are reasons or raised the score.
func (g *grid) markLastColumn(c *Column) {
	last := len(g.Heads) - 1
	for i := range g.Rows {
		at := &g.Rows[i][last]
		at.Marked, at.Parts = c.Marked[i], c.Words[i]
		if share := c.Shares[i]; share >= leastShare {
			at.Share = int(math.Round(100 * share))
		}
	}
}

// leastShare is the smallest fraction of a score that is shown.
const leastShare = 0.05

// hideLastColumn hides the last column. The reader can still group rows by it.
func (g *grid) hideLastColumn() {
	last := len(g.Heads) - 1
	g.Heads[last].Hidden = true
	for _, row := range g.Rows {
		row[last].Hidden = true
	}
}

// addNumbers adds a column of numbers. NaN becomes an empty cell.
func (g *grid) addNumbers(name, title string, x []float64, format func(float64) string) {
	g.Heads = append(g.Heads, columnHead{Text: name, Title: title})
	g.addColumn(len(x), func(i int) cell {
		if math.IsNaN(x[i]) {
			return cell{}
		}
		key := strconv.FormatFloat(x[i], 'g', -1, 64)
		return cell{Text: format(x[i]), Key: strings.Replace(key, "Inf", "Infinity", 1)} // JavaScript writes Infinity
	})
}

func (g *grid) addColumn(n int, newCell func(i int) cell) {
	if g.Rows == nil {
		g.Rows = make([][]cell, n)
	}
	for i := range g.Rows {
		g.Rows[i] = append(g.Rows[i], newCell(i))
	}
}

// addRates adds a column of rates with a drawing in each cell. The drawing shows the rate,
// its interval and, unless it is 0, the nominal rate. A NaN rate becomes an empty cell.
func (g *grid) addRates(name, title string, list []evaluate.Rate) {
	axis := span{math.Inf(1), math.Inf(-1)}
	for _, r := range list {
		if math.IsNaN(r.Fraction) {
			continue
		}
		axis = span{min(axis.low, r.Low), max(axis.high, r.High)}
		if r.Nominal > 0 {
			axis = span{min(axis.low, r.Nominal), max(axis.high, r.Nominal)}
		}
	}
	axis = span{math.Floor(20*axis.low+1e-9) / 20, math.Ceil(20*axis.high-1e-9) / 20}
	if axis.low == axis.high {
		axis = span{axis.low - .05, axis.high + .05}
	}
	h := columnHead{Text: name, Title: title + ", with its 95 % interval", Interval: true}
	if axis.low < axis.high {
		h.Low, h.High = display.Percent(axis.low), display.Percent(axis.high)
	}
	g.Heads = append(g.Heads, h)
	g.addColumn(len(list), func(i int) cell {
		r := list[i]
		if math.IsNaN(r.Fraction) {
			return cell{}
		}
		g, position := intervalGlyph(axis, r.Low, r.Fraction, r.High)
		if r.Nominal > 0 {
			g.Chance, g.Off = position(r.Nominal), r.Nominal < r.Low || r.Nominal > r.High
		}
		if r.AdjustedPValue != nil {
			g.Compared, g.Off = true, *r.AdjustedPValue <= hypothesis.Unlikely
		}
		return cell{Text: display.Percent(r.Fraction), Range: display.Range(r.Low, r.High), Key: strconv.FormatFloat(r.Fraction, 'g', -1, 64), Forest: g}
	})
}

// intervalGlyph draws a number and its interval on an axis. It also returns the function
// that maps a value to its position in the drawing.
func intervalGlyph(axis span, low, value, high float64) (g *glyph, position func(v float64) float64) {
	const width, height, margin = 130.0, 18.0, 5.0
	position = func(v float64) float64 { return math.Round(10*(margin+axis.position(v)*(width-2*margin))) / 10 }
	return &glyph{Width: width, Height: height, Low: position(low), At: position(value), High: position(high)}, position
}

// rankRows sorts the rows of a page by their rates. worstEnd is "most" to put the highest
// rate first, or "least" to put the lowest rate first.
func (g *grid) rankRows(worstEnd string, list []evaluate.Rate) {
	g.worstEnd, g.rowOrder = worstEnd, make([]int, len(list))
	for i := range g.rowOrder {
		g.rowOrder[i] = i
	}
	slices.SortStableFunc(g.rowOrder, func(a, b int) int { return cmp.Compare(list[a].Fraction, list[b].Fraction) })
	if worstEnd == "most" {
		slices.Reverse(g.rowOrder)
	}
}

// Ranked returns the rows in the order in which a page shows them.
func (g grid) Ranked() [][]cell {
	if g.rowOrder == nil {
		return g.Rows
	}
	return mapSlice(g.rowOrder, func(k int) []cell { return g.Rows[k] })
}

// capitalise makes the first letter upper case.
func capitalise(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return strings.ToUpper(s[:n]) + s[n:]
}
