package calibrate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// adaptiveStateVersion is the version of the format of MarshalJSON.
const adaptiveStateVersion = 1

// adaptiveState is the state of an Adaptive as JSON.
type adaptiveState struct {
	Version     int                   `json:"version"`
	Method      string                `json:"method"`
	Alpha       float64               `json:"alpha"`
	Steps       []float64             `json:"steps"`
	Window      int                   `json:"window,omitempty"`
	Memory      int                   `json:"memory,omitempty"`
	Gain        float64               `json:"gain,omitempty"`
	Saturation  float64               `json:"saturation,omitempty"`
	Rows        int                   `json:"rows"`
	Misses      int                   `json:"misses"`
	Levels      []float64             `json:"levels,omitempty"`
	Weights     []float64             `json:"weights,omitempty"`
	Quantile    float64               `json:"quantile,omitempty"`
	Scores      []extended            `json:"scores"`
	Outstanding []outstandingRowState `json:"outstanding"`
}

// outstandingRowState is the state of an outstanding row as JSON. For "dtaci", Since is the number
// of scores that have entered the window after the row got its threshold.
type outstandingRowState struct {
	ID        string    `json:"id"`
	Level     float64   `json:"level,omitempty"`
	Threshold extended  `json:"threshold"`
	Levels    []float64 `json:"levels,omitempty"`
	Since     int       `json:"since,omitempty"`
}

// extended is a number that may be infinite. JSON has no infinite numbers, so these are the
// strings "+Inf" and "-Inf".
type extended float64

func (v extended) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(v), 0) {
		return strconv.AppendQuote(nil, strconv.FormatFloat(float64(v), 'g', -1, 64)), nil
	}
	return json.Marshal(float64(v))
}

func (v *extended) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case `"+Inf"`:
		*v = extended(math.Inf(1))
	case `"-Inf"`:
		*v = extended(math.Inf(-1))
	case "null":
		return errors.New("null is not a number")
	default:
		return json.Unmarshal(data, (*float64)(v))
	}
	return nil
}

// MarshalJSON encodes the state with the options, the calibration scores and the outstanding
// rows. Equal states have equal encodings.
func (a *Adaptive) MarshalJSON() ([]byte, error) {
	if err := a.initialized(); err != nil {
		return nil, err
	}
	o := a.options
	s := adaptiveState{
		Version: adaptiveStateVersion, Method: o.Method, Alpha: o.Alpha, Steps: o.Steps, Window: o.Window, Memory: o.Memory,
		Gain: o.Gain, Saturation: o.Saturation, Rows: a.rows, Misses: a.misses, Levels: a.levels, Weights: a.weights,
		Quantile: a.quantile, Outstanding: []outstandingRowState{},
	}
	scores := a.scores[len(a.scores)-a.needed():]
	s.Scores = make([]extended, len(scores))
	for i, score := range scores {
		s.Scores[i] = extended(score)
	}
	for _, id := range slices.Sorted(maps.Keys(a.outstanding)) {
		row := a.outstanding[id]
		saved := outstandingRowState{ID: id, Threshold: extended(row.threshold), Levels: row.levels}
		if o.Method != pid {
			saved.Level = row.level
		}
		if o.Method == dtaci {
			saved.Since = a.added - row.added
		}
		s.Outstanding = append(s.Outstanding, saved)
	}
	return json.Marshal(s)
}

// UnmarshalJSON replaces the Adaptive by a state that MarshalJSON wrote. The Adaptive then
// continues as the saved one would have. UnmarshalJSON returns an error for a state that is
// damaged or was written by a later version, and leaves the Adaptive as it was.
func (a *Adaptive) UnmarshalJSON(data []byte) error {
	var s adaptiveState
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil && s.Version <= adaptiveStateVersion { // a later version can have other fields
		return fmt.Errorf("not the state of an Adaptive: %w", err)
	}
	if s.Version != adaptiveStateVersion {
		return fmt.Errorf("the state of an Adaptive has version %d, and this program reads version %d", s.Version, adaptiveStateVersion)
	}
	restored, err := s.restore()
	if err != nil {
		return fmt.Errorf("the state of an Adaptive is damaged: %w", err)
	}
	*a = *restored
	return nil
}

// restore checks the state and returns the Adaptive that wrote it.
func (s adaptiveState) restore() (*Adaptive, error) {
	o := AdaptiveOptions{
		Alpha: s.Alpha, Method: s.Method, Steps: s.Steps, Window: s.Window, Memory: s.Memory, Gain: s.Gain, Saturation: s.Saturation,
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	levels, weights := len(o.Steps), 0
	switch o.Method {
	case dtaci:
		weights = len(o.Steps)
	case pid:
		levels = 0
	}
	total := 0.
	for _, w := range s.Weights {
		total += w
	}
	switch {
	case s.Rows < 0 || s.Misses < 0 || s.Misses > s.Rows:
		return nil, fmt.Errorf("%d of %d rows are misses", s.Misses, s.Rows)
	case len(s.Levels) != levels || len(s.Weights) != weights || o.Method != pid && s.Quantile != 0:
		return nil, fmt.Errorf("%q has %d levels and %d weights, and there are %d and %d", o.Method, levels, weights, len(s.Levels), len(s.Weights))
	case weights > 0 && (slices.Min(s.Weights) < 0 || math.Abs(total-1) > 1e-9):
		return nil, fmt.Errorf("the weights sum to %v instead of 1, or one is negative", total)
	case math.Abs(s.Quantile) > 1e3*maxPIDScore:
		return nil, fmt.Errorf("the quantile is %v", s.Quantile)
	case o.Method != aci && len(s.Scores) == 0:
		return nil, errors.New("there are no calibration scores")
	}
	for i, level := range s.Levels {
		if largest := o.Steps[i] * float64(s.Rows); math.Abs(level-o.Alpha) > largest+1e-6*(1+largest) {
			return nil, fmt.Errorf("level %v cannot be reached in %d rows", level, s.Rows)
		}
	}
	a := &Adaptive{
		options: o, rows: s.Rows, misses: s.Misses, levels: s.Levels, weights: s.Weights, quantile: s.Quantile,
		scores: make([]float64, len(s.Scores)), outstanding: map[string]outstandingRow{},
	}
	for i, score := range s.Scores {
		a.scores[i] = float64(score)
		if err := checkScore(o.Method, a.scores[i]); err != nil {
			return nil, fmt.Errorf("score %d (counted from 0): %w", i, err)
		}
	}
	calibration := a.scores
	if o.Window > 0 {
		calibration = a.scores[max(0, len(a.scores)-o.Window):]
	}
	a.sorted = slices.Sorted(slices.Values(calibration))
	for _, saved := range s.Outstanding {
		a.added = max(a.added, saved.Since)
	}
	for _, saved := range s.Outstanding {
		row := outstandingRow{saved.Level, float64(saved.Threshold), saved.Levels, a.added - saved.Since}
		if o.Method == pid {
			row.level = math.NaN()
		}
		_, twice := a.outstanding[saved.ID]
		switch {
		case twice:
			return nil, fmt.Errorf("row %q is outstanding twice", saved.ID)
		case len(saved.Levels) != weights:
			return nil, fmt.Errorf("row %q has %d levels instead of %d", saved.ID, len(saved.Levels), weights)
		case saved.Since < 0 || saved.Since > s.Rows || saved.Since > len(s.Scores) || o.Window == 0 && saved.Since != 0:
			return nil, fmt.Errorf("row %q is older than %d scores, which is not possible", saved.ID, saved.Since)
		}
		a.outstanding[saved.ID] = row
	}
	if surplus := len(a.scores) - len(a.sorted); surplus > a.added {
		return nil, fmt.Errorf("there are %d scores, more than the window and the outstanding rows need", len(a.scores))
	}
	return a, nil
}
