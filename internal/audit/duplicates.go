package audit

import (
	"context"
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

// write writes the copies, in the order of the rows.
func (r *copyFinder) write(ctx context.Context, to *table) error {
	w, row := r.scores, 0
	columns := []string{"key", "row", "used_in"}
	if w.Fitted != "" {
		columns = append(columns, "fit_duplicate_of")
	}
	err := w.eachBlock(ctx, w.columns().subset(columns), func(b block) error {
		marks, err := r.marks.of(row, b.n)
		if err != nil {
			return err
		}
		for i, m := range marks {
			add := func(group int, kind string, distance float64, of string) error {
				out, err := to.row()
				if err != nil {
					return err
				}
				out.addInteger(group)
				out.addInteger(row + i)
				out.addText(string(b.texts("key")[i]))
				out.addText(b.name)
				out.addInteger(int(b.numbers("row")[i]))
				out.addText(kind)
				out.addNumber(distance)
				out.addText(of)
				return out.endRow()
			}
			if m.kind != noCopy {
				if err := add(r.firstOf(m.first), m.kind.String(), float64(m.distance), ""); err != nil {
					return err
				}
			}
			nearFit := ""
			if w.Fitted != "" {
				nearFit = string(b.texts("fit_duplicate_of")[i])
			}
			if used := string(b.texts("used_in")[i]); used != "" {
				of := ""
				if used == "fit" {
					of = nearFit // equal rows have equal features, so no row of --fitted is nearer
				}
				if err := add(-1, used, 0, of); err != nil {
					return err
				}
			}
			if nearFit != "" {
				if err := add(-1, "near fit", math.NaN(), nearFit); err != nil {
					return err
				}
			}
		}
		row += b.n
		return nil
	})
	if err != nil {
		return err
	}
	return to.close()
}
