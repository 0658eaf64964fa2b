package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"sync"

	"github.com/attach-uncertainty/attach/ood"
)

// configKey is what a line of results was measured with.
type configKey struct {
	Set      string  `json:"set"`
	Seed     int     `json:"seed"`
	Method   string  `json:"method"`
	Config   string  `json:"config"`   // as ood.Params writes it
	Coverage float64 `json:"coverage"` // of the intervals, .95
	Epochs   int     `json:"epochs"`   // of networks, 0 for trees
	Keep     string  `json:"keep"`     // which epoch's weights: best or last, empty for trees
}

func (k configKey) key() configKey { return k }

// measured is coverage and width of intervals, the width divided by the range
// of the target over the whole set.
type measured struct {
	PICP  float64 `json:"picp"`
	MPIW  float64 `json:"mpiw"`
	Score float64 `json:"score"` // Winkler's, divided like the width
	// Unbounded intervals are those that too few rows calibrate. Width and
	// score are then 0 instead of +Inf, which JSON lacks.
	Unbounded bool `json:"unbounded,omitempty"`
}

func (m measured) width() float64 {
	if m.Unbounded {
		return math.Inf(1)
	}
	return m.MPIW
}

// record is one line of results.
type record struct {
	configKey
	Fit        int      `json:"n_fit"`
	Validation measured `json:"validation"`
	Test       measured `json:"test"`
	// Calibrated are intervals after conformalization on all validation rows,
	// which choose among settings too.
	Calibrated measured `json:"cqr_reused"`
	// Honest are those after conformalization on one half of the validation
	// rows, NCal of them. The other half chooses epochs and settings:
	// Choosing are its intervals conformalized on itself.
	Honest   measured `json:"cqr"`
	Choosing measured `json:"cqr_choosing"`
	NCal     int      `json:"n_cal"`
	// Crossing is the share of neighbouring levels out of order before they
	// are sorted, of methods of all levels.
	Crossing float64 `json:"crossing,omitempty"`
	Seconds  float64 `json:"seconds"` // of the fit, shared among settings fitted at once
	Failed   string  `json:"failed,omitempty"`
}

func keyOf(set string, seed int, method string, config map[string]any, coverage float64) configKey {
	return configKey{Set: set, Seed: seed, Method: method, Config: ood.Params(config).String(), Coverage: coverage}
}

// keyed is a record that knows what it was measured with.
type keyed[K comparable] interface{ key() K }

// store is a file of records, one JSON object a line, that is only appended to.
type store[K comparable, R keyed[K]] struct {
	mu      sync.Mutex
	file    *os.File
	records map[K]R
}

// openStore reads what an earlier run left, and continues after it. A last line
// that was cut short is dropped.
func openStore[K comparable, R keyed[K]](path string) (*store[K, R], error) {
	s := &store[K, R]{records: map[K]R{}}
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
func (s *store[K, R]) read(r io.Reader, path string) (end int64, err error) {
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
		s.records[r.key()] = r
		end += int64(len(text))
	}
}

// has reports whether a result is known.
func (s *store[K, R]) has(k K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.records[k]
	return ok
}

// add writes results.
func (s *store[K, R]) add(records []R) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []byte
	for _, r := range records {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		lines = append(append(lines, line...), '\n')
		s.records[r.key()] = r
	}
	_, err := s.file.Write(lines)
	return err
}

func (s *store[K, R]) close() error { return s.file.Close() }
