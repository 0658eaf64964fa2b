package command

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/attach-uncertainty/attach/internal/display"
)

// previewRows is the largest number of rows that a preview shows. previewCell is the largest
// number of characters that it shows of a text.
const (
	previewRows = 10
	previewCell = 40
)

// previewTable shows the first rows on a terminal in aligned columns. It leaves out columns
// that are mainly for programs, and tells the user how to write all columns.
type previewTable struct {
	w       io.Writer
	colour  bool
	names   []string
	cells   [][]string
	numeric []bool // whether each column holds numbers
	rows    int
}

// newPreview returns a preview table if w is a terminal, and otherwise nil.
func newPreview(w io.Writer) *previewTable {
	t, ok := w.(*terminal)
	if !ok {
		return nil
	}
	// previewTable escapes the cells itself, because the terminal would also escape the
	// colours.
	return &previewTable{w: t.raw, colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// isPreviewed reports whether the preview shows a column.
func isPreviewed(name string, row []field) bool {
	has := func(name string) bool { return slices.ContainsFunc(row, func(f field) bool { return f.name == name }) }
	switch name {
	case "class", "label", "set":
		return !has(map[string]string{"class": "class_name", "label": "label_name", "set": "set_names"}[name])
	case "set_size", "ood_score", "samples", "factor", "class_p_value":
		return false
	}
	return true
}

func (t *previewTable) write(row []field) error {
	if t.rows++; t.rows > previewRows {
		return nil
	}
	var cells []string
	for _, f := range row {
		if !isPreviewed(f.name, row) {
			continue
		}
		text, numeric := previewText(f)
		if t.rows == 1 {
			t.names, t.numeric = append(t.names, f.name), append(t.numeric, numeric)
		}
		cells = append(cells, text)
	}
	t.cells = append(t.cells, cells)
	return nil
}

// previewText formats a value with few characters, and reports whether it is a number.
func previewText(f field) (text string, numeric bool) {
	short := func(n number) string { return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%.4g", n.x), "+")) }
	switch v := f.value.(type) {
	case number:
		return short(v), true
	case int:
		return fmt.Sprint(v), true
	case bool:
		if !v {
			return "", false
		}
		if f.name == "flag" {
			return "FLAG", false
		}
		return f.name, false
	case []number:
		var list []string
		for _, n := range v {
			list = append(list, short(n))
		}
		text = strings.Join(list, " ")
	default:
		text = formatText(v)
	}
	text = display.Printable(text)
	if utf8.RuneCountInString(text) > previewCell {
		text = string([]rune(text)[:previewCell-1]) + "…"
	}
	return text, false
}

func (t *previewTable) writeHeader([]field) error { return nil }

func (t *previewTable) close() error {
	widths := make([]int, len(t.names))
	for _, cells := range append([][]string{t.names}, t.cells...) {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for k, cells := range append([][]string{t.names}, t.cells...) {
		var line strings.Builder
		for i, cell := range cells {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if t.colour && k > 0 && cell == "FLAG" && t.names[i] == "flag" {
				cell = "\x1b[31m" + cell + "\x1b[0m"
			}
			if t.numeric[i] {
				cell = gap + cell
			} else {
				cell += gap
			}
			line.WriteString("  " + cell)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	if t.rows > previewRows {
		fmt.Fprintf(&b, "  %d of %s rows; write all rows and columns with -o FILE.csv\n", previewRows, display.Count(t.rows))
	} else {
		b.WriteString("  write all columns with -o FILE.csv\n")
	}
	_, err := io.WriteString(t.w, b.String())
	return err
}
