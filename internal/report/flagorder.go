package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
)

// FlaggedRow is a flagged row of a file.
type FlaggedRow struct {
	Position  int    // number of rows before it
	Reasons   string // its unusual values in words, or empty
	Explained bool   // whether its score was attributed to its inputs
	Top       string // the input that raised the score most; empty if none did alone
}

// cluster is a run of rows in which far more rows are flagged than around it.
type cluster struct {
	begin, end int // positions of the first row, and of the row after the last
	flagged    []FlaggedRow
}

// clusterFalseAlarmRate bounds the probability that findClusters returns a cluster if the rows
// are in random order.
const clusterFalseAlarmRate = 0.01

// findClusters returns the clusters among the rows from begin up to end, in their order. total
// is the number of rows of the file.
//
// A run of rows is compared with all rows by a likelihood ratio. If p is the fraction of all
// rows that is flagged, the alternative for the run is (1 + p)/2. In random order, the expected
// ratio of a given run is at most 1, because it is a convex function of the number of flagged
// rows (Hoeffding 1963, Probability inequalities for sums of bounded random variables, theorem
// 4). So Markov's inequality bounds the probability that any of all runs has a large ratio.
//
// It finds at most *left clusters and counts them down, because each takes a pass over the rows.
func findClusters(flagged []FlaggedRow, begin, end, total int, left *int) []cluster {
	if *left == 0 {
		return nil
	}
	rate := float64(len(flagged)) / float64(end-begin)
	if rate == 0 || rate == 1 {
		return nil
	}
	gain, loss := math.Log((1+rate)/(2*rate)), math.Ln2 // of a flagged and of another row
	best, sum, from, to, start := 0., 0., 0, 0, 0
	for i, r := range flagged {
		if i > 0 {
			sum -= loss * float64(r.Position-flagged[i-1].Position-1)
		}
		if sum <= 0 {
			sum, start = 0, i
		}
		if sum += gain; sum > best {
			best, from, to = sum, start, i+1
		}
	}
	runs := float64(total) * float64(total+1) / 2
	if best < math.Log(runs/clusterFalseAlarmRate) {
		return nil
	}
	c := cluster{flagged[from].Position, flagged[to-1].Position + 1, flagged[from:to]}
	*left--
	return slices.Concat(findClusters(flagged[:from], begin, c.begin, total, left), []cluster{c}, findClusters(flagged[to:], c.end, end, total, left))
}

// count is a text with the number of rows that have it.
type count struct {
	text string
	rows int
}

// countRows counts flagged rows by a text, the most frequent text first.
func countRows(flagged []FlaggedRow, text func(FlaggedRow) string) (list []count) {
	byText := map[string]int{}
	for _, r := range flagged {
		byText[text(r)]++
	}
	for text, n := range byText {
		list = append(list, count{text, n})
	}
	slices.SortFunc(list, func(a, b count) int { return cmp.Or(b.rows-a.rows, cmp.Compare(a.text, b.text)) })
	return list
}

func reasonsOf(r FlaggedRow) string { return r.Reasons }

// describe returns a sentence about a cluster. If most of its flagged rows have the same
// unusual values, it names these.
func (c cluster) describe(name func(position int) string) string {
	s := fmt.Sprintf("Rows %s to %s: %s flagged", name(c.begin), name(c.end-1), rows.CountOf(len(c.flagged), c.end-c.begin, "row"))
	if most := countRows(c.flagged, reasonsOf)[0]; most.text != "" && 2*most.rows > len(c.flagged) {
		among := display.Count(most.rows) + " of them"
		if most.rows == len(c.flagged) {
			among = "all of them"
		}
		s += fmt.Sprintf("; in %s, %s", among, most.text)
	}
	return s + "."
}

const (
	// maxClusters is the largest number of clusters that a page describes.
	maxClusters = 5
	// maxFound is the largest number of clusters that are searched for.
	maxFound = 100
)

// clusterNotes describes the clusters with the most flagged rows.
func (f *Flags) clusterNotes() (notes []verdict) {
	left := maxFound
	clusters := findClusters(f.Flagged, 0, f.Total, f.Total, &left)
	largest := slices.Clone(clusters)
	slices.SortStableFunc(largest, func(a, b cluster) int { return len(b.flagged) - len(a.flagged) })
	for _, c := range largest[:min(maxClusters, len(largest))] {
		notes = append(notes, verdict{Label: "where", Message: c.describe(f.RowName)})
	}
	if n := len(largest) - maxClusters; n > 0 {
		more := display.Count(n)
		if left == 0 {
			more = "At least " + more
		}
		notes = append(notes, verdict{Label: "where", Message: more + " more runs of rows have many flags."})
	}
	return notes
}

// topNotes names the inputs that raised the score most in many rows.
func (f *Flags) topNotes() []verdict {
	const (
		maxNamed      = 3
		leastFraction = 0.1 // of the explained rows
	)
	explained := slices.DeleteFunc(slices.Clone(f.Flagged), func(r FlaggedRow) bool { return !r.Explained })
	var parts []string
	for _, c := range countRows(explained, func(r FlaggedRow) string { return cmp.Or(r.Top, "nothing alone") }) {
		if len(parts) < maxNamed && c.rows > 1 && float64(c.rows) >= leastFraction*float64(len(explained)) {
			parts = append(parts, fmt.Sprintf("%s in %s", c.text, display.Count(c.rows)))
		}
	}
	if parts == nil { // no row is explained, or each has another input
		return nil
	}
	message := fmt.Sprintf("What raised the score most in %s: %s.", rows.Count(len(explained), "explained row"), strings.Join(parts, ", "))
	return []verdict{{Label: "score", Message: message}}
}

const (
	leastOrderedRows = 100 // smallest number of rows for a chart of flags by position
	maxOrderBins     = 50
	leastOrderRows   = 20 // smallest number of rows of a bar
)

// orderChart draws how many rows are flagged by their position in the file. It returns nil if
// there are too few rows.
func (f *Flags) orderChart(clustered bool) []chart {
	if f.Total < leastOrderedRows || len(f.Flagged) == 0 {
		return nil
	}
	width := max(leastOrderRows, int(roundStep(float64(f.Total)/maxOrderBins)))
	bins := (f.Total + width - 1) / width
	h := evaluate.Histogram{Counts: make([]int, bins), Expected: make([]float64, bins)}
	for _, r := range f.Flagged {
		h.Counts[r.Position/width]++
	}
	for k := range bins {
		h.Expected[k] = f.Expected / float64(f.Total) * float64(min(width, f.Total-k*width))
	}
	label, first := "row", f.firstRow()
	if first < 0 {
		label, first = "position of the row", 0
	}
	c := countChart("Flagged rows along the file", label, h)
	c.X = spacedTicks(span{float64(first), float64(first + bins*width)}, c.Width, 5)
	c.Note = fmt.Sprintf("Each bar counts the flagged rows among %s that follow each other. Dashed: the number to expect by chance.", rows.Count(width, "row"))
	if !clustered {
		c.Note += " No part of the file has clearly more than the others."
	}
	return []chart{c}
}

// firstRow returns the number of the first row, or -1 if the names of the rows are not
// consecutive numbers.
func (f *Flags) firstRow() int {
	first, err := strconv.Atoi(f.RowName(0))
	last, lastErr := strconv.Atoi(f.RowName(f.Total - 1))
	if err != nil || lastErr != nil || last-first != f.Total-1 {
		return -1
	}
	return first
}
