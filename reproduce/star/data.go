package star

import (
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/blas/blas32"
)

// starArm holds the children in classes of one kind.
type starArm struct {
	name    string         // value of the column cltype
	x       blas32.General // n×1, column exp: the teacher's years of experience
	y       blas32.General // n×1, column ach_score: reading plus mathematics
	teacher []string
}

// starData holds the kindergarten year of the Student-Teacher Achievement Ratio project.
// The project assigned children and teachers to classes at random.
type starData struct {
	small, regular starArm // small classes have 13 to 17 children, regular ones 22 to 25
	dropped        int     // number of rows in these arms with a missing value
}

// readSTAR reads a CSV file with the columns cltype, exp, ach_score and tch. It skips
// regular classes with an aide (reg+A), which belong to neither arm.
func readSTAR(path string) (starData, error) {
	f, err := os.Open(path)
	if err != nil {
		return starData{}, fmt.Errorf("%w (the STAR kindergarten data, kdg.csv)", err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return starData{}, fmt.Errorf("read %s: %w", path, err)
	}
	if len(records) == 0 {
		return starData{}, fmt.Errorf("%s is empty", path)
	}
	var columns [4]int
	for i, name := range []string{"cltype", "exp", "ach_score", "tch"} {
		if columns[i] = slices.Index(records[0], name); columns[i] < 0 {
			return starData{}, fmt.Errorf("%s has no column %q: its first line has to name the columns", path, name)
		}
	}
	d := starData{small: starArm{name: "small"}, regular: starArm{name: "reg"}}
	for line, r := range records[1:] {
		arm := &d.small
		switch r[columns[0]] {
		case d.small.name:
		case d.regular.name:
			arm = &d.regular
		default:
			continue
		}
		if r[columns[1]] == "NA" || r[columns[2]] == "NA" {
			d.dropped++
			continue
		}
		var values [2]float64
		for i := range values {
			text := r[columns[i+1]]
			if values[i], err = strconv.ParseFloat(text, 32); err != nil {
				return starData{}, fmt.Errorf("%s, row %d: column %q has %q, which is no number and not NA", path, line+1, records[0][columns[i+1]], text)
			}
		}
		arm.x.Data = append(arm.x.Data, float32(values[0]))
		arm.y.Data = append(arm.y.Data, float32(values[1]))
		arm.teacher = append(arm.teacher, r[columns[3]])
	}
	for _, arm := range []*starArm{&d.small, &d.regular} {
		n := len(arm.teacher)
		if n < 2 {
			return starData{}, fmt.Errorf("%s has %d complete rows with cltype %q, and at least 2 are needed", path, n, arm.name)
		}
		arm.x = blas32.General{Rows: n, Cols: 1, Stride: 1, Data: arm.x.Data}
		arm.y = blas32.General{Rows: n, Cols: 1, Stride: 1, Data: arm.y.Data}
	}
	return d, nil
}
