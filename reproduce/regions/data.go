package regions

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// set is a data set with several targets.
type set struct {
	name string
	read func(dir string) (x, y blas32.General, err error)
}

func sets() []set {
	return []set{
		table("star", "star/kdg.csv", []int{8, 9}, []int{0, 17, 18}),
		table("california", "california.csv", []int{6, 7}, nil),
		table("abalone", "abalone.csv", []int{4, 5, 6, 7}, nil),
		table("naval", "uci/naval-propulsion-plant.txt", []int{16, 17}, nil),
		drawn("correlated", 2, .9),
		drawn("independent", 2, 0),
		drawn("eight", 8, .6),
	}
}

// table returns a set in a file of values, separated by commas or blanks. The columns in targets
// are its targets. The columns in ignored are neither inputs nor targets.
func table(name, file string, targets, ignored []int) set {
	return set{name, func(dir string) (x, y blas32.General, err error) {
		path := filepath.Join(dir, file)
		records, err := readRecords(path)
		if err != nil {
			return x, y, err
		}
		if _, err := strconv.ParseFloat(records[0][targets[0]], 64); err != nil {
			records = records[1:] // the first line names the columns
		}
		var inputs [][]float32
		for c := range records[0] {
			switch {
			case slices.Contains(ignored, c):
			case slices.Contains(targets, c):
				y.Cols++
			default:
				inputs = append(inputs, numbers(records, c))
			}
		}
		x.Cols, x.Stride, y.Stride = len(inputs), len(inputs), y.Cols
		for i, record := range records {
			var row []float32
			for _, c := range targets {
				v, err := strconv.ParseFloat(record[c], 32)
				if err != nil {
					break // the target is unknown
				}
				row = append(row, float32(v))
			}
			if len(row) < len(targets) {
				continue
			}
			y.Data = append(y.Data, row...)
			for _, column := range inputs {
				x.Data = append(x.Data, column[i])
			}
		}
		x.Rows = len(y.Data) / y.Cols
		y.Rows = x.Rows
		if x.Rows < 100 {
			return x, y, fmt.Errorf("%s has %d rows with all targets, and at least 100 are needed", path, x.Rows)
		}
		return x, y, nil
	}}
}

// readRecords reads the cells of all lines. All lines have the same number of cells.
func readRecords(path string) ([][]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var records [][]string
	if filepath.Ext(path) == ".csv" {
		if records, err = csv.NewReader(f).ReadAll(); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
	} else {
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			if record := strings.Fields(lines.Text()); len(record) > 0 {
				records = append(records, record)
			}
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
	}
	for i, r := range records {
		if len(r) != len(records[0]) {
			return nil, fmt.Errorf("%s, line %d: %d values, and the first line has %d", path, i+1, len(r), len(records[0]))
		}
	}
	if len(records) < 2 {
		return nil, fmt.Errorf("%s has no rows", path)
	}
	return records, nil
}

// numbers returns a column as numbers. Texts are numbered in sorted order, and an unknown number
// is −1.
func numbers(records [][]string, c int) []float32 {
	out, isText := make([]float32, len(records)), false
	texts := map[string]bool{}
	for i, r := range records {
		texts[r[c]] = true
		v, err := strconv.ParseFloat(r[c], 32)
		switch {
		case r[c] == "NA" || r[c] == "":
			v = -1
		case err != nil:
			isText = true
		}
		out[i] = float32(v)
	}
	if isText {
		sorted := make([]string, 0, len(texts))
		for text := range texts {
			sorted = append(sorted, text)
		}
		slices.Sort(sorted)
		for i, r := range records {
			out[i] = float32(slices.Index(sorted, r[c]))
		}
	}
	return out
}

// drawn returns 6,000 rows with normal errors. The errors of any two targets have the given
// correlation, and their size depends on an input.
func drawn(name string, targets int, correlation float64) set {
	return set{name, func(string) (x, y blas32.General, err error) {
		rng := rand.New(rand.NewPCG(1, uint64(targets)))
		x, y = rows.New(6000, 3), rows.New(6000, targets)
		for i := range x.Rows {
			row := rows.Row(x, i)
			for j := range row {
				row[j] = float32(rng.NormFloat64())
			}
			common := rng.NormFloat64()
			for t := range targets {
				noise := math.Sqrt(correlation)*common + math.Sqrt(1-correlation)*rng.NormFloat64()
				rows.Row(y, i)[t] = row[0] + row[1] + float32((.2+math.Abs(float64(row[2])))*noise)
			}
		}
		return x, y, nil
	}}
}
