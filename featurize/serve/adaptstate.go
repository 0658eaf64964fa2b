package serve

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/attach-uncertainty/attach/calibrate"
)

// adaptationVersion is the version of the format of MarshalBinary.
const adaptationVersion = 1

// adaptationState is the state of an Adaptation as JSON.
type adaptationState struct {
	Version     int                       `json:"version"`
	Model       string                    `json:"model"`
	Calibration string                    `json:"calibration"`
	Options     calibrate.AdaptiveOptions `json:"options"`
	NextRow     uint64                    `json:"next_row"`
	Adaptive    []*calibrate.Adaptive     `json:"adaptive"`
	Monitors    [][]byte                  `json:"monitors"`
	Pending     []pendingState            `json:"pending"`
}

// pendingState is the state of a request that waits for targets as JSON. Values holds
// little-endian float32 numbers.
type pendingState struct {
	ID     string    `json:"id"`
	First  uint64    `json:"first"`
	Since  time.Time `json:"since"`
	Rows   int       `json:"rows"`
	Done   []int     `json:"done,omitempty"`
	Values []byte    `json:"values"`
}

// MarshalBinary encodes the state with the rows that wait for their targets.
func (a *Adaptation) MarshalBinary() ([]byte, error) {
	s, pending, err := a.snapshot()
	if err != nil {
		return nil, err
	}
	for _, p := range pending {
		saved := pendingState{ID: p.id, First: p.first, Since: p.since.UTC(), Rows: p.rows}
		for row, done := range p.done {
			if done {
				saved.Done = append(saved.Done, row)
			}
		}
		saved.Values, _ = binary.Append(nil, binary.LittleEndian, p.values)
		s.Pending = append(s.Pending, saved)
	}
	return json.Marshal(s)
}

// snapshot copies the state and the requests that wait, so that no request has to wait until they
// are encoded.
func (a *Adaptation) snapshot() (s adaptationState, pending []pendingRequest, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s = adaptationState{Version: adaptationVersion, Model: a.model, Calibration: a.calibration, Options: a.options, NextRow: a.nextRow, Pending: []pendingState{}}
	for t, m := range a.monitors {
		state, err := m.MarshalBinary()
		if err != nil {
			return s, nil, err
		}
		s.Adaptive, s.Monitors = append(s.Adaptive, a.adaptive[t].Clone()), append(s.Monitors, state)
	}
	for _, p := range a.queue {
		if p.waiting > 0 {
			copied := *p
			copied.done = slices.Clone(p.done)
			pending = append(pending, copied)
		}
	}
	return s, pending, nil
}

// UnmarshalBinary replaces the state by one that MarshalBinary wrote, in this process or in a
// different one. It returns an error if the state is damaged, or if it belongs to another model,
// other calibration rows, another level or other options.
func (a *Adaptation) UnmarshalBinary(data []byte) error {
	var s adaptationState
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil && s.Version <= adaptationVersion { // a later version can have other fields
		return fmt.Errorf("not the state of adaptive intervals, or damaged: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case s.Version != adaptationVersion:
		return fmt.Errorf("the state has version %d, and this program reads version %d", s.Version, adaptationVersion)
	case s.Model != a.model:
		return errors.New("the state is of another model")
	case s.Options.Alpha != a.options.Alpha:
		return fmt.Errorf("the state is of intervals with the level %.6g, and these have the level %.6g", 1-s.Options.Alpha, 1-a.options.Alpha)
	case !a.sameOptions(s.Options):
		return errors.New("the state is of adaptive intervals with another method, step or window")
	case s.Calibration != a.calibration:
		return errors.New("the state is of other calibration rows, as after a new fit")
	}
	restored, err := a.restore(s)
	if err != nil {
		return fmt.Errorf("the state of adaptive intervals is damaged: %w", err)
	}
	for t, m := range a.monitors {
		if err := m.UnmarshalBinary(s.Monitors[t]); err != nil {
			return fmt.Errorf("the state of adaptive intervals is damaged: %w", err)
		}
	}
	a.adaptive, a.nextRow, a.pending, a.queue, a.waiting = s.Adaptive, s.NextRow, restored.pending, restored.queue, restored.waiting
	return nil
}

// restore returns an Adaptation with the requests of a state.
func (a *Adaptation) restore(s adaptationState) (*Adaptation, error) {
	targets := len(a.adaptive)
	if len(s.Adaptive) != targets || len(s.Monitors) != targets || slices.Contains(s.Adaptive, nil) {
		return nil, fmt.Errorf("it has %d and %d targets instead of %d", len(s.Adaptive), len(s.Monitors), targets)
	}
	r := &Adaptation{pending: map[string]*pendingRequest{}}
	next := uint64(0)
	for _, saved := range s.Pending {
		p := &pendingRequest{id: saved.ID, first: saved.First, since: saved.Since, rows: saved.Rows, waiting: saved.Rows}
		width := targets * a.width
		_, twice := r.pending[p.id]
		switch {
		case p.id == "" || twice:
			return nil, fmt.Errorf("the id %.100q is empty or there twice", p.id)
		case saved.Rows <= 0 || saved.Rows > maxRows || len(saved.Values) != 4*saved.Rows*width:
			return nil, fmt.Errorf("the request %.100q has %d rows and %d bytes of values", p.id, saved.Rows, len(saved.Values))
		case p.first < next || s.NextRow < uint64(saved.Rows) || p.first > s.NextRow-uint64(saved.Rows):
			return nil, fmt.Errorf("the request %.100q begins at row %d", p.id, p.first)
		}
		if len(saved.Done) > 0 {
			p.done = make([]bool, saved.Rows)
		}
		for _, row := range saved.Done {
			if row < 0 || row >= saved.Rows || p.done[row] {
				return nil, fmt.Errorf("row %d of the request %.100q", row, p.id)
			}
			p.done[row] = true
			p.waiting--
		}
		if p.waiting == 0 {
			return nil, fmt.Errorf("the request %.100q waits for nothing", p.id)
		}
		p.values = make([]float32, saved.Rows*width)
		binary.Decode(saved.Values, binary.LittleEndian, p.values)
		next = p.first + uint64(saved.Rows)
		r.pending[p.id] = p
		r.queue = append(r.queue, p)
		r.waiting += p.waiting
	}
	return r, nil
}
