package baselines

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/blas/blas64"

	"github.com/attach-uncertainty/attach/heads"
)

// whole returns the parameter called name, a whole number of at least atLeast.
func whole(s heads.State, name string, atLeast int) (int, error) {
	v, err := s.Number(name)
	if err != nil {
		return 0, err
	}
	if v != math.Trunc(v) || v < float64(atLeast) || v > math.MaxUint32 {
		return 0, fmt.Errorf("parameter %q must be a whole number of at least %d, not %v", name, atLeast, v)
	}
	return int(v), nil
}

// matrix64 returns the float64 array called name, h×k, as a matrix that shares
// its data.
func matrix64(s heads.State, name string, h, k int) (blas64.General, error) {
	a, ok := s.Arrays[name]
	if !ok {
		return blas64.General{}, fmt.Errorf("array %q is missing", name)
	}
	data, ok := a.Data.([]float64)
	if !ok || len(a.Shape) != 2 || a.Shape[0] != h || a.Shape[1] != k || len(data) != h*k {
		return blas64.General{}, fmt.Errorf("array %q must be float64 of shape [%d %d], not %T of shape %v", name, h, k, a.Data, a.Shape)
	}
	return blas64.General{Rows: h, Cols: k, Stride: k, Data: data}, nil
}

// matrixArray is m, which is contiguous, as an array.
func matrixArray(m blas64.General) heads.Array {
	return heads.Array{Shape: []int{m.Rows, m.Cols}, Data: m.Data}
}

// positive returns the parameter called name, a finite number above 0.
func positive(s heads.State, name string) (float64, error) {
	v, err := s.Number(name)
	if err != nil {
		return 0, err
	}
	if !(v > 0) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("parameter %q must be positive, not %v", name, v)
	}
	return v, nil
}

// nonNegative returns the parameter called name, a finite number of at least 0.
func nonNegative(s heads.State, name string) (float64, error) {
	v, err := s.Number(name)
	if err != nil {
		return 0, err
	}
	if !(v >= 0) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("parameter %q must be zero or positive, not %v", name, v)
	}
	return v, nil
}

func checkFinite64(name string, v []float64) error {
	for i, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("array %q has %v at %d", name, x, i)
		}
	}
	return nil
}

// nest puts a part's state into the whole's, under names that begin with the
// part's and a dot.
func nest(s heads.State, part string, own heads.State) {
	for name, v := range own.Params {
		s.Params[part+"."+name] = v
	}
	for name, a := range own.Arrays {
		s.Arrays[part+"."+name] = a
	}
}

// nested is the state that nest was given.
func nested(s heads.State, part string) heads.State {
	own := heads.State{Params: map[string]any{}, Arrays: map[string]heads.Array{}}
	for name, v := range s.Params {
		if rest, ok := strings.CutPrefix(name, part+"."); ok {
			own.Params[rest] = v
		}
	}
	for name, a := range s.Arrays {
		if rest, ok := strings.CutPrefix(name, part+"."); ok {
			own.Arrays[rest] = a
		}
	}
	return own
}

// seedParams stores a seed in halves, which float64 holds exactly.
func seedParams(seed uint64) map[string]any {
	return map[string]any{"seed_high": float64(seed >> 32), "seed_low": float64(uint32(seed))}
}

func restoreSeed(s heads.State) (uint64, error) {
	high, err := whole(s, "seed_high", 0)
	if err != nil {
		return 0, err
	}
	low, err := whole(s, "seed_low", 0)
	return uint64(high)<<32 | uint64(low), err
}
