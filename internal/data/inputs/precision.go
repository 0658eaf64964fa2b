package inputs

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
)

// maxExact64 is 2⁵³. Float64 represents every integer up to it, and numbers in files become
// float64 before they become float32.
const maxExact64 = 1 << 53

// lossyNumber reports whether a number is an integer that may have lost its last digits.
// Numbers beyond 64 bits are assumed not to be integers.
func lossyNumber(x float64) bool { return math.Abs(x) >= maxExact64 && math.Abs(x) < 1<<64 }

// noteLossyNumbers adds a note for each column of numbers whose first rows contain integers
// that lose their last digits, such as identifiers.
func (t *tableReader) noteLossyNumbers(ctx context.Context, first position) {
	var columns []int
	for _, b := range t.bindings {
		if b.tensor.Strings == nil && !b.images && !b.list {
			columns = append(columns, b.columns...)
		}
	}
	if !t.o.NoTargets {
		columns = append(columns, t.targetColumns...)
	}
	if len(columns) == 0 {
		return
	}
	counts, n := make([]int, t.columns), 0
	for rec, err := range recordsOf(ctx, t, columns, first) {
		if err != nil || len(rec.cells) < t.columns {
			break // scan will report the error
		}
		for _, j := range columns {
			c := &rec.cells[j]
			x := c.number
			if c.kind == text {
				x, _ = strconv.ParseFloat(strings.TrimSpace(c.text), 64)
			}
			if (c.kind == text || c.kind == number) && lossyNumber(x) {
				counts[j]++
			}
		}
		if n++; n == sniffedRows {
			break
		}
	}
	for j, count := range counts {
		if count > 0 {
			t.notes = append(t.notes, lossyNote(t.quotedName(j), count, n))
		}
	}
}

func lossyNote(name string, count, total int) string {
	return fmt.Sprintf("%s: %d of the first %s hold whole numbers beyond 2^53, which lose their last digits; give identifiers as texts, or leave them out", name, count, rows.Count(total, "row"))
}

// lossyArrayNote returns the note of noteLossyNumbers for an array of integers, or "". It
// reads at most 1 MB, because the width of rows has not been checked yet.
func lossyArrayNote(name string, l *npy.Lazy) string {
	n := min(sniffedRows, l.Rows(), 1<<17/l.RowLen())
	if n == 0 || l.DType.Size < 8 || l.DType.Kind == 'f' {
		return ""
	}
	c, err := l.Open()
	if err != nil {
		return "" // reading it will report the error
	}
	defer c.Close()
	a, err := c.ReadRows(0, n)
	v, whole := a.Data.([]int64)
	if err != nil || !whole {
		return ""
	}
	count := 0
	for i := range n {
		if slices.ContainsFunc(v[i*len(v)/n:(i+1)*len(v)/n], func(x int64) bool { return lossyNumber(float64(x)) }) {
			count++
		}
	}
	if count == 0 {
		return ""
	}
	return lossyNote(fmt.Sprintf("%.100q", name), count, n)
}

// minSteps is the smallest range of targets that gets no note, as a multiple of the
// distance between neighbouring float32 numbers.
const minSteps = 1000

// CoarseTargets returns a note for each column of targets that float32 hardly
// distinguishes, because they are large relative to their differences. Labels, which are
// small integers, get no note.
func (s *Set) CoarseTargets() (notes []string) {
	if s.Labels != nil {
		return nil
	}
	for j := range s.Targets.Cols {
		lowest, highest := math.Inf(1), math.Inf(-1)
		for i := range s.Targets.Rows {
			if v := float64(rows.Row(s.Targets, i)[j]); v == v {
				lowest, highest = min(lowest, v), max(highest, v)
			}
		}
		magnitude := max(math.Abs(lowest), math.Abs(highest))
		step := float64(math.Nextafter32(float32(magnitude), math.MaxFloat32)) - float64(float32(magnitude))
		// Small targets that are all equal are not a rounding problem.
		if !(highest-lowest < minSteps*step) || highest == lowest && magnitude < rows.MaxExact {
			continue
		}
		name := "the targets"
		if j < len(s.TargetNames) {
			name = fmt.Sprintf("the targets %.100q", s.TargetNames[j])
		} else if s.Targets.Cols > 1 {
			name = fmt.Sprintf("the targets of column %d", j)
		}
		spread := "are all " + formatLarge(lowest, 8)
		if highest > lowest {
			spread = fmt.Sprintf("lie between %s and %s", formatLarge(lowest, 8), formatLarge(highest, 8))
		}
		notes = append(notes, fmt.Sprintf("%s %s as float32 numbers, which are %s apart there: differences between targets are lost; subtract a number near them all, here and from the model's predictions", name, spread, formatLarge(step, 3)))
	}
	return notes
}

// formatLarge formats numbers from 1e7 to 1e15 with all digits before the point, and other
// numbers with the given number of digits.
func formatLarge(x float64, digits int) string {
	if magnitude := math.Abs(x); magnitude >= 1e7 && magnitude < 1e15 {
		return display.Fixed(x, 0)
	}
	return display.Number(x, digits)
}
