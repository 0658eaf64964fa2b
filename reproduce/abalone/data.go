package abalone

import (
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/blas/blas32"
)

// youngRings is the largest number of rings of a young abalone.
const youngRings = 10

// abaloneData holds the UCI Abalone data set.
type abaloneData struct {
	x       blas32.General // n×10: three indicators of the sex and seven measurements
	rings   []float64
	old     []bool // true for more than youngRings rings
	dropped int    // number of rows with a missing value
}

// readAbalone reads a CSV file without a header. Each line has the sex (M, F or I), seven
// measurements and the number of rings. The values "", "?" and "NA" count as missing, and
// so does a measurement of 0.
func readAbalone(path string) (abaloneData, error) {
	f, err := os.Open(path)
	if err != nil {
		return abaloneData{}, fmt.Errorf("%w (the UCI Abalone data, abalone.csv)", err)
	}
	defer f.Close()
	in := csv.NewReader(f)
	in.FieldsPerRecord = 9
	records, err := in.ReadAll()
	if err != nil {
		return abaloneData{}, fmt.Errorf("read %s: sex, seven measurements and rings are wanted in a line: %w", path, err)
	}
	d := abaloneData{x: blas32.General{Cols: 10, Stride: 10}}
	for line, r := range records {
		row := make([]float32, d.x.Cols)
		sex := slices.Index([]string{"M", "F", "I"}, r[0])
		if sex < 0 {
			return abaloneData{}, fmt.Errorf("%s, line %d: the sex is M, F or I, not %q", path, line+1, r[0])
		}
		row[sex] = 1
		missing, rings := false, 0.
		for j, text := range r[1:] {
			if slices.Contains([]string{"", "?", "NA"}, text) {
				missing = true
				continue
			}
			v, err := strconv.ParseFloat(text, 32)
			if err != nil {
				return abaloneData{}, fmt.Errorf("%s, line %d, column %d: %q is no number", path, line+1, j+2, text)
			}
			if j == 7 {
				rings = v
				continue
			}
			missing = missing || v == 0
			row[3+j] = float32(v)
		}
		if missing {
			d.dropped++
			continue
		}
		d.x.Data = append(d.x.Data, row...)
		d.rings, d.old = append(d.rings, rings), append(d.old, rings > youngRings)
	}
	d.x.Rows = len(d.rings)
	if d.x.Rows < 20 || !slices.Contains(d.old, true) || !slices.Contains(d.old, false) {
		return abaloneData{}, fmt.Errorf("%s has %d complete rows: at least 20 are needed, of both classes", path, d.x.Rows)
	}
	return d, nil
}
