package experiment

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"gonum.org/v1/gonum/stat"
)

// Keyed is a record that knows what it was measured with.
type Keyed[K comparable] interface{ Key() K }

// Store is a file of records, one JSON object a line, that is only appended to.
type Store[K comparable, R Keyed[K]] struct {
	mu      sync.Mutex
	file    *os.File
	Records map[K]R
}

// OpenStore reads what an earlier run left, and continues after it. A last line
// that was cut short is dropped.
func OpenStore[K comparable, R Keyed[K]](path string) (*Store[K, R], error) {
	s := &Store[K, R]{Records: map[K]R{}}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	s.file = file
	end, err := s.read(file, path)
	if err == nil {
		err = file.Truncate(end)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return s, nil
}

// read returns where the last whole line ends.
func (s *Store[K, R]) read(r io.Reader, path string) (end int64, err error) {
	in := bufio.NewReader(r)
	for line := 1; ; line++ {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		if err != nil {
			return 0, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		var r R
		if err := json.Unmarshal(text, &r); err != nil {
			return 0, fmt.Errorf("line %d of %s is not a result: %w: remove the line to have it measured again", line, path, err)
		}
		s.Records[r.Key()] = r
		end += int64(len(text))
	}
}

// Has reports whether a result is known.
func (s *Store[K, R]) Has(k K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.Records[k]
	return ok
}

// Add writes results.
func (s *Store[K, R]) Add(records []R) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []byte
	for _, r := range records {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		lines = append(append(lines, line...), '\n')
		s.Records[r.Key()] = r
	}
	_, err := s.file.Write(lines)
	return err
}

// Of returns the record of a key: the one that is known, or what measure makes,
// which it adds.
func (s *Store[K, R]) Of(k K, measure func() (R, error)) (R, error) {
	if !s.Has(k) {
		r, err := measure()
		if err != nil {
			return r, err
		}
		if err := s.Add([]R{r}); err != nil {
			return r, err
		}
	}
	return s.Records[k], nil
}

// Keep is the Run of a Job that adds what it measures.
func (s *Store[K, R]) Keep(measure func(ctx context.Context, progress func(share float64)) ([]R, error)) func(context.Context, func(float64)) error {
	return func(ctx context.Context, progress func(float64)) error {
		records, err := measure(ctx, progress)
		if err != nil {
			return err
		}
		return s.Add(records)
	}
}

// Close ends the writing of results.
func (s *Store[K, R]) Close() error { return s.file.Close() }

// WriteFile writes a file, and makes its folder.
func WriteFile(path string, write func(w io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// WriteText writes a file of one string.
func WriteText(path, text string) error {
	return WriteFile(path, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
}

// WriteCSV writes lines, of which the first has the names of the columns.
func WriteCSV(path string, lines [][]string) error {
	return WriteFile(path, func(w io.Writer) error { return csv.NewWriter(w).WriteAll(lines) })
}

// Cells is a line of a table, its floats with that many significant digits.
func Cells(digits int, values ...any) []string {
	line := make([]string, len(values))
	for i, v := range values {
		if f, ok := v.(float64); ok {
			v = Digits(f, digits)
		}
		line[i] = fmt.Sprint(v)
	}
	return line
}

// Known is v, or an empty cell where it is no finite number.
func Known(v float64) any {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return ""
	}
	return v
}

// WriteColumns writes columns of equal length under their names.
func WriteColumns(path string, header []string, columns [][]float64) error {
	lines := [][]string{header}
	for i := range columns[0] {
		line := make([]any, len(columns))
		for j, c := range columns {
			line[j] = c[i]
		}
		lines = append(lines, Cells(7, line...))
	}
	return WriteCSV(path, lines)
}

// Digits is a number of that many significant digits.
func Digits(v float64, n int) string { return strconv.FormatFloat(v, 'g', n, 64) }

// Short is a number of that many decimals, without a zero before the point.
func Short(v float64, decimals int) string {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return "∞"
	}
	return strings.TrimPrefix(strconv.FormatFloat(v, 'f', decimals, 64), "0")
}

// Across is the mean of a figure and its standard deviation over results.
func Across[T any](results []T, figure func(T) float64) string {
	values := Values(results, figure)
	if len(values) == 1 {
		return fmt.Sprintf("%.3g", values[0])
	}
	mean, std := stat.MeanStdDev(values, nil)
	return fmt.Sprintf("%.3g±%.2g", mean, std)
}
