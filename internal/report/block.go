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

// block is a titled part of a page or text. Empty fields are left out.
type block struct {
	Title, Lead string
	Verdicts    []verdict
	Folded      []verdict // counted in Verdicts, and shown on demand
	Notes       []verdict
	Facts       []Fact
	Charts      []chart
	Tables      []grid
	Pictures    []picture
	// Filter adds a search field for the rows of the first table and their pictures. By
	// names the columns that they can be grouped by.
	Filter bool
	By     map[int]string
}

// verdict is a message with a label, such as met, and advice.
type verdict struct {
	Label, Style    string // Style is good, bad, open, limit or empty
	Subject         string // of the message, or empty
	Message, Advice string
}

// grid is a table. Some of its cells are drawn on an axis.
type grid struct {
	Title    string // above it, in a page
	Name     string // in a text, the head of the first column, or a column of its own
	Heads    []head
	Rows     [][]cell
	Below    []string // sentences below it
	PageOnly bool     // a text leaves it out
	worst    string   // the worst rows are those with the most, or the least
	order    []int    // of the rows, the worst first, or nil
}

// head is the head of a column. Low and High are the ends of the axis that its cells are
// drawn on.
type head struct {
	Text, Title string
	Low, High   string
	IsText      bool // the column is sorted as text
	Hidden      bool
	Descending  bool // the largest is the best, and sorted first
	Interval    bool // a text has a column of Range beside it
}

// picture is an image with its caption.
type picture struct {
	Row     int // of the table, if there is one
	Image   image.Image
	Encoded []byte // in place of Image
	Caption string
	Facts   []Fact
}

// Source is the picture as part of the page.
func (p picture) Source() (template.URL, error) {
	if p.Encoded != nil {
		return inlined(p.Encoded), nil
	}
	return inline(p.Image)
}

// smallest is the width below which a picture is not smoothed.
const smallest = 100

// Small reports whether the picture is narrower than smallest.
func (p picture) Small() bool {
	if p.Encoded != nil {
		size, _, err := image.DecodeConfig(bytes.NewReader(p.Encoded))
		return err == nil && size.Width < smallest
	}
	return p.Image.Bounds().Dx() < smallest
}

// NameWidth is the least width of the first column, in letters.
func (g grid) NameWidth() int {
	const most = 32
	longest := 0
	for _, row := range g.Rows {
		longest = max(longest, len(row[0].Text))
	}
	return min(longest, most)
}

// Off reports whether a nominal rate lies outside an interval. Unlike reports whether a part
// misses its nominal rate by more than chance.
func (g grid) Off() bool    { return g.drawn(func(of *glyph) bool { return of.Off && !of.Compared }) }
func (g grid) Unlike() bool { return g.drawn(func(of *glyph) bool { return of.Off && of.Compared }) }

func (g grid) drawn(is func(of *glyph) bool) bool {
	return slices.ContainsFunc(g.Rows, func(row []cell) bool {
		return slices.ContainsFunc(row, func(c cell) bool { return c.Forest != nil && is(c.Forest) })
	})
}

// each applies a function to all elements of a list.
func each[T, U any](list []T, of func(T) U) []U {
	all := make([]U, len(list))
	for i, x := range list {
		all[i] = of(x)
	}
	return all
}

// text adds a column of words.
func (g *grid) text(name string, words []string) {
	g.Heads = append(g.Heads, head{Text: name, IsText: true})
	g.column(len(words), func(i int) cell { return cell{Text: words[i], Words: true} })
}

// hide hides the last column. It can still be grouped by.
func (g *grid) hide() {
	last := len(g.Heads) - 1
	g.Heads[last].Hidden = true
	for _, row := range g.Rows {
		row[last].Hidden = true
	}
}

// numbers adds a column. A cell is empty if its number is NaN.
func (g *grid) numbers(name, title string, x []float64, write func(float64) string) {
	g.Heads = append(g.Heads, head{Text: name, Title: title})
	g.column(len(x), func(i int) cell {
		if math.IsNaN(x[i]) {
			return cell{}
		}
		key := strconv.FormatFloat(x[i], 'g', -1, 64)
		return cell{Text: write(x[i]), Key: strings.Replace(key, "Inf", "Infinity", 1)} // as JavaScript writes it
	})
}

func (g *grid) column(n int, of func(i int) cell) {
	if g.Rows == nil {
		g.Rows = make([][]cell, n)
	}
	for i := range g.Rows {
		g.Rows[i] = append(g.Rows[i], of(i))
	}
}

// rates adds a column of rates. Each is drawn with its interval on an axis, and with its
// nominal rate unless that is 0. A cell is empty if its rate is NaN.
func (g *grid) rates(name, title string, list []evaluate.Rate) {
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
	h := head{Text: name, Title: title + ", with its 95 % interval", Interval: true}
	if axis.low < axis.high {
		h.Low, h.High = display.Percent(axis.low), display.Percent(axis.high)
	}
	g.Heads = append(g.Heads, h)
	g.column(len(list), func(i int) cell {
		r := list[i]
		if math.IsNaN(r.Fraction) {
			return cell{}
		}
		g, place := placed(axis, r.Low, r.Fraction, r.High)
		if r.Nominal > 0 {
			g.Chance, g.Off = place(r.Nominal), r.Nominal < r.Low || r.Nominal > r.High
		}
		if r.AdjustedPValue != nil {
			g.Compared, g.Off = true, *r.AdjustedPValue <= hypothesis.Unlikely
		}
		return cell{Text: display.Percent(r.Fraction), Range: display.Range(r.Low, r.High), Key: strconv.FormatFloat(r.Fraction, 'g', -1, 64), Forest: g}
	})
}

// placed draws a number with its interval on an axis, and returns the place of any number.
func placed(axis span, low, at, high float64) (g *glyph, place func(v float64) float64) {
	const width, height, margin = 130.0, 18.0, 5.0
	place = func(v float64) float64 { return math.Round(10*(margin+axis.share(v)*(width-2*margin))) / 10 }
	return &glyph{Width: width, Height: height, Low: place(low), At: place(at), High: place(high)}, place
}

// rank orders the rows of a page by their rates: the most first, or the least.
func (g *grid) rank(worst string, list []evaluate.Rate) {
	g.worst, g.order = worst, make([]int, len(list))
	for i := range g.order {
		g.order[i] = i
	}
	slices.SortStableFunc(g.order, func(a, b int) int { return cmp.Compare(list[a].Fraction, list[b].Fraction) })
	if worst == "most" {
		slices.Reverse(g.order)
	}
}

// Ranked returns the rows in the order of a page.
func (g grid) Ranked() [][]cell {
	if g.order == nil {
		return g.Rows
	}
	return each(g.order, func(k int) []cell { return g.Rows[k] })
}

// capital capitalises the first letter.
func capital(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return strings.ToUpper(s[:n]) + s[n:]
}
