package audit

import (
	"math"

	"github.com/parquet-go/parquet-go"
)

// duplicateColumns returns the columns of the file of copies. Column group is the row of
// Scores of the first input of a group. It is −1 for an input that equals or nearly equals a
// row of the fit, or equals a calibration row. Column of is the key of the nearest row of
// --fitted.
func duplicateColumns() *columns {
	c := &columns{index: map[string]int{}}
	c.add("group", parquet.Int(64))
	c.add("scores_row", parquet.Int(64))
	c.add("key", parquet.String())
	c.add("shard", repeatedText())
	c.add("row", parquet.Int(64))
	c.add("kind", repeatedText())
	c.add("distance", parquet.Leaf(parquet.DoubleType))
	c.add("of", parquet.String())
	return c
}

// writeCopies writes the copies among the rows of a block, whose marks are given.
func (m *Merge) writeCopies(out *writer, b block, marks []mark) error {
	nearFit := func(i int) string { return "" }
	if m.set.Fitted != "" {
		nearFit = func(i int) string { return string(b.texts("fit_duplicate_of")[i]) }
	}
	for i, mark := range marks {
		add := func(group int, kind string, distance float64, of string) error {
			out.addInteger(group)
			out.addInteger(b.row + i)
			out.addText(string(b.texts("key")[i]))
			out.addText(b.name)
			out.addInteger(int(b.numbers("row")[i]))
			out.addText(kind)
			out.addNumber(distance)
			out.addText(of)
			return out.endRow()
		}
		if mark.kind != noCopy {
			if err := add(m.firstOf(mark.first), mark.kind.String(), float64(mark.distance), ""); err != nil {
				return err
			}
		}
		if used := string(b.texts("used_in")[i]); used != "" {
			of := ""
			if used == "fit" {
				of = nearFit(i) // equal rows have equal features, so no row of --fitted is nearer
			}
			if err := add(-1, used, 0, of); err != nil {
				return err
			}
		}
		if of := nearFit(i); of != "" {
			if err := add(-1, "near fit", math.NaN(), of); err != nil {
				return err
			}
		}
	}
	return nil
}
