package heads

import "fmt"

// State is that of RegressionNetworks, whose networks read one level more than
// the columns, and the array "grid" (levels), float64.
func (s *SQR) State() State {
	st := RegressionNetworks{Networks: s.Networks, X: s.X, Y: s.Y}.State()
	st.Arrays["grid"] = Vector(s.Grid)
	return st
}

// RestoreSQR rebuilds quantile regression from its State.
func RestoreSQR(st State) (*SQR, error) {
	s, err := restoreSQR(st)
	if err != nil {
		return nil, fmt.Errorf("quantile regression: %w", err)
	}
	return s, nil
}

func restoreSQR(st State) (*SQR, error) {
	grid, err := st.Float64s("grid")
	if err != nil {
		return nil, err
	}
	r, err := restoreRegressionNetworks(st)
	if err != nil {
		return nil, err
	}
	s := &SQR{Networks: r.Networks, Grid: grid, X: r.X, Y: r.Y}
	return s, s.validate()
}
