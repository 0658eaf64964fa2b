package report

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/attach-uncertainty/attach/internal/display"
)

// writeText writes the verdicts, notes and tables of blocks. It leaves out everything else,
// such as titles, charts and pictures.
func writeText(b *strings.Builder, blocks []block) {
	for _, block := range blocks {
		for _, v := range slices.Concat(block.Verdicts, block.Notes) {
			b.WriteString(display.Printable(v.format()) + "\n")
			if v.Advice != "" {
				fmt.Fprintf(b, "%-12s  what to do: %s\n", "", display.Printable(v.Advice))
			}
		}
		for _, g := range block.Tables {
			if len(g.Rows) > 0 && !g.PageOnly {
				b.WriteString("\n" + g.format())
			}
			for _, sentence := range g.Below {
				b.WriteString(display.Printable(sentence) + "\n")
			}
		}
	}
}

// format formats a verdict as text: a label 12 characters wide, then the message.
func (v verdict) format() string {
	message := v.Message
	if v.Subject != "" {
		message = v.Subject + ": " + message
	}
	return fmt.Sprintf("%-12s  %s", v.Label, message)
}

// maxTextRows is the maximum number of rows of a ranked table in a text, which shows the
// worst ones.
const maxTextRows = 20

// format formats the table as text. The first column is aligned to the left, and the others
// to the right.
func (g grid) format() string {
	rows, truncation := g.Rows, ""
	if n := len(rows); g.rowOrder != nil && n > maxTextRows {
		rows, truncation = g.Ranked()[:maxTextRows], fmt.Sprintf(", %s %d of %d", g.worstEnd, maxTextRows, n)
	}
	lines := make([][]string, 1+len(rows))
	add := func(head string, get func(row []cell) string) {
		lines[0] = append(lines[0], display.Printable(head))
		for i, row := range rows {
			lines[i+1] = append(lines[i+1], display.Printable(get(row)))
		}
	}
	heads := slices.Clone(g.Heads)
	if g.Name != "" && heads[0].IsText {
		heads[0].Text = g.Name
	} else if g.Name != "" {
		add(g.Name, func([]cell) string { return "" })
	}
	for j, h := range heads {
		add(h.Text, func(row []cell) string {
			if row[j].Text == "" && j > 0 {
				return "–"
			}
			return row[j].Text + row[j].Spread
		})
		if h.Interval {
			add("95 % interval", func(row []cell) string { return row[j].Range })
		}
	}
	lines[0][0] += truncation
	width := 0
	for _, line := range lines {
		width = max(width, len([]rune(line[0])))
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, line := range lines {
		fmt.Fprintf(t, "%-*s\t%s\t\n", width, line[0], strings.Join(line[1:], "\t"))
	}
	t.Flush() // writing to memory cannot fail
	return b.String()
}
