package reasons

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/reproduce/uci"
)

// column holds the cells of one column: numbers, in which NaN is an empty cell, or texts.
type column struct {
	name    string
	numbers []float32
	texts   []string
}

// table holds the input columns of one data set.
type table struct {
	name    string
	columns []column
	rows    int
}

// block returns the picked rows as a model with one input per column takes them.
func (t table) block(picked []int) (b ood.InputBlock) {
	for _, c := range t.columns {
		x := ood.Tensor{Name: c.name, Shape: []int{len(picked), 1}}
		for _, i := range picked {
			if c.texts != nil {
				x.Strings = append(x.Strings, c.texts[i])
			} else {
				x.Data = append(x.Data, c.numbers[i])
			}
		}
		b.Tensors = append(b.Tensors, x)
	}
	return b
}

// readTables reads the ten tables from the folder of the data sets.
func readTables(dir string) ([]table, error) {
	california, err := readCalifornia(filepath.Join(dir, "california.csv"))
	if err != nil {
		return nil, err
	}
	abalone, err := readCSV(filepath.Join(dir, "abalone.csv"), strings.Fields("sex length diameter height whole shucked viscera shell rings"), []string{"sex"}, []string{"rings"})
	if err != nil {
		return nil, err
	}
	star, err := readCSV(filepath.Join(dir, "star", "kdg.csv"), nil,
		strings.Fields("sch cltype hdeg clad trace ses schtype sx eth birthq birthy tch"), strings.Fields("id gr read math ach_score"))
	if err != nil {
		return nil, err
	}
	tables := []table{california, abalone, star}
	for _, set := range uci.Sets() {
		if set.Name == "yacht" {
			continue // it has 308 rows, too few for a fit and a batch
		}
		t, err := readUCI(dir, set)
		if err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// readCalifornia reads the California housing set. It adds a category with hundreds of
// values, as a postcode would be: the place to 0.1 degrees.
func readCalifornia(path string) (table, error) {
	t, err := readCSV(path, nil, nil, []string{"MedHouseVal"})
	if err != nil {
		return table{}, err
	}
	place := column{name: "place"}
	latitude, longitude := t.columns[6].numbers, t.columns[7].numbers
	for i := range latitude {
		place.texts = append(place.texts, fmt.Sprintf("%.1f,%.1f", latitude[i], longitude[i]))
	}
	t.columns = append(t.columns, place)
	return t, nil
}

// readUCI reads a UCI set. Codes of categories become texts, as a user would name them.
func readUCI(dir string, set uci.Set) (table, error) {
	text, err := os.ReadFile(filepath.Join(dir, "uci", set.File+".txt"))
	if err != nil {
		return table{}, err
	}
	codes := map[string][]string{"energy": {"x5", "x7"}, "boston": {"x3", "x8"}}[set.Name]
	var records [][]string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 0 {
			records = append(records, fields)
		}
	}
	var header []string
	for j := range records[0] {
		header = append(header, fmt.Sprint("x", j))
	}
	return newTable(set.Name, header, records, codes, header[len(header)-1:])
}

// readCSV reads a CSV file. header is nil if the first line names the columns.
func readCSV(path string, header, categories, dropped []string) (table, error) {
	f, err := os.Open(path)
	if err != nil {
		return table{}, err
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return table{}, fmt.Errorf("read %s: %w", path, err)
	}
	if header == nil {
		header, records = records[0], records[1:]
	}
	name := strings.TrimSuffix(filepath.Base(path), ".csv")
	if name == "kdg" {
		name = "star"
	}
	return newTable(name, header, records, categories, dropped)
}

func newTable(name string, header []string, records [][]string, categories, dropped []string) (table, error) {
	t := table{name: name, rows: len(records)}
	for j, h := range header {
		if slices.Contains(dropped, h) {
			continue
		}
		c := column{name: h}
		for i, r := range records {
			cell := r[j]
			if cell == "NA" {
				cell = ""
			}
			if slices.Contains(categories, h) {
				c.texts = append(c.texts, cell)
				continue
			}
			x := math.NaN()
			if cell != "" {
				var err error
				if x, err = strconv.ParseFloat(cell, 32); err != nil {
					return table{}, fmt.Errorf("%s: row %d, column %q: %q is not a number", name, i+1, h, cell)
				}
			}
			c.numbers = append(c.numbers, float32(x))
		}
		t.columns = append(t.columns, c)
	}
	return t, nil
}
