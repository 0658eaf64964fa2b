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

// Keyed is a record with a key. The key must contain everything that the measurement
// depends on.
type Keyed[K comparable] interface{ Key() K }

// Store is an append-only file of records, with one JSON object on each line.
type Store[K comparable, R Keyed[K]] struct {
	mu      sync.Mutex
	file    *os.File
	Records map[K]R
}

// OpenStore opens a file of records, which it creates if necessary, and reads the records of
// an earlier run. It drops an incomplete last line, and returns an error if any other line is
// not a record.
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

// read adds all records to s. It returns the offset after the last complete line.
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

// Has reports whether the store has a record with this key.
func (s *Store[K, R]) Has(k K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.Records[k]
	return ok
}

// Add appends records to the file and adds them to Records.
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

// Of returns the record with key k. If there is none, it calls measure and stores the
// result.
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

// Keep returns a function for Job.Run that stores the records returned by measure.
func (s *Store[K, R]) Keep(measure func(ctx context.Context, progress func(fraction float64)) ([]R, error)) func(context.Context, func(float64)) error {
	return func(ctx context.Context, progress func(float64)) error {
		records, err := measure(ctx, progress)
		if err != nil {
			return err
		}
		return s.Add(records)
	}
}

// Close closes the file.
func (s *Store[K, R]) Close() error { return s.file.Close() }

// WriteFile writes a file and creates its folder if needed.
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

// WriteText writes a string to a file.
func WriteText(path, text string) error {
	return WriteFile(path, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
}

// WriteCSV writes lines to a CSV file. The first line has the column names.
func WriteCSV(path string, lines [][]string) error {
	return WriteFile(path, func(w io.Writer) error { return csv.NewWriter(w).WriteAll(lines) })
}

// Cells formats the cells of a table line. Floats have the given number of significant
// digits.
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

// Known returns v, or "" if v is not finite.
func Known(v float64) any {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return ""
	}
	return v
}

// WriteColumns writes a header and columns of equal length to a CSV file.
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

// Digits formats v with n significant digits.
func Digits(v float64, n int) string { return strconv.FormatFloat(v, 'g', n, 64) }

// Short formats v with the given number of decimals and without a leading zero. Values that
// are not finite become ∞.
func Short(v float64, decimals int) string {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return "∞"
	}
	return strings.TrimPrefix(strconv.FormatFloat(v, 'f', decimals, 64), "0")
}

// Across formats the mean and the standard deviation of a value over results. For a single
// result, it formats only the value.
func Across[T any](results []T, value func(T) float64) string {
	values := Values(results, value)
	if len(values) == 1 {
		return fmt.Sprintf("%.3g", values[0])
	}
	mean, std := stat.MeanStdDev(values, nil)
	return fmt.Sprintf("%.3g±%.2g", mean, std)
}
