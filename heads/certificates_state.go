package heads

import (
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"
)

// State has the arrays "certificates" (h×k, float32) and, if rows are
// centred, "mean" (1×h, float32).
func (c *Certificates) State() State {
	s := State{
		Params: map[string]any{
			"loss": string(c.Loss), "unit_norm": c.UnitNorm, "exact": c.Exact, "lambda": c.Lambda,
		},
		Arrays: map[string]Array{"certificates": ArrayOf(c.C)},
	}
	if c.Mean != nil {
		s.Arrays["mean"] = ArrayOf(blas32.General{Rows: 1, Cols: len(c.Mean), Stride: len(c.Mean), Data: c.Mean})
	}
	return s
}

// RestoreCertificates rebuilds certificates from their State.
func RestoreCertificates(s State) (*Certificates, error) {
	c, err := restoreCertificates(s)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	return c, nil
}

func restoreCertificates(s State) (*Certificates, error) {
	var c Certificates
	loss, err := s.Text("loss")
	if err != nil {
		return nil, err
	}
	switch c.Loss = Loss(loss); c.Loss {
	case BCE, MSE, L1, Pinball:
	default:
		return nil, fmt.Errorf("unknown loss %q", loss)
	}
	if c.UnitNorm, err = s.Flag("unit_norm"); err != nil {
		return nil, err
	}
	if c.Exact, err = s.Flag("exact"); err != nil {
		return nil, err
	}
	if c.Lambda, err = s.Number("lambda"); err != nil {
		return nil, err
	}
	if c.C, err = s.General("certificates"); err != nil {
		return nil, err
	}
	if c.C.Rows == 0 || c.C.Cols == 0 {
		return nil, fmt.Errorf("array %q is empty", "certificates")
	}
	if err := CheckFinite("array \"certificates\"", c.C); err != nil {
		return nil, err
	}
	if _, ok := s.Arrays["mean"]; ok {
		mean, err := s.General("mean")
		if err != nil {
			return nil, err
		}
		if mean.Rows != 1 || mean.Cols != c.C.Rows {
			return nil, fmt.Errorf("array %q has shape [%d %d], want [1 %d]", "mean", mean.Rows, mean.Cols, c.C.Rows)
		}
		c.Mean = mean.Data
	}
	return &c, nil
}
