package heads

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"
)

// State has the arrays "grid" (levels), "x_mean", "x_scale", "y_mean" and
// "y_scale", all float64, and per layer i "weight<i>" (targets×in×out) and
// "bias<i>" (targets×out), float32.
func (s *SQR) State() State {
	st := State{
		Params: map[string]any{"layers": float64(len(s.Networks[0].Layers))},
		Arrays: map[string]Array{
			"grid":   Vector(s.Grid),
			"x_mean": Vector(s.X.Mean), "x_scale": Vector(s.X.Scale),
			"y_mean": Vector(s.Y.Mean), "y_scale": Vector(s.Y.Scale),
		},
	}
	for i, l := range s.Networks[0].Layers {
		var w, b []float32
		for _, n := range s.Networks {
			w = append(w, ArrayOf(n.Layers[i].W).Data.([]float32)...)
			b = append(b, n.Layers[i].B...)
		}
		st.Arrays[fmt.Sprintf("weight%d", i)] = Array{Shape: []int{len(s.Networks), l.In(), l.Out()}, Data: w}
		st.Arrays[fmt.Sprintf("bias%d", i)] = Array{Shape: []int{len(s.Networks), l.Out()}, Data: b}
	}
	return st
}

// RestoreSQR rebuilds quantile regression from its State.
func RestoreSQR(st State) (*SQR, error) {
	s, err := restoreSQR(st)
	if err == nil {
		err = s.validate()
	}
	if err != nil {
		return nil, fmt.Errorf("quantile regression: %w", err)
	}
	return s, nil
}

func restoreSQR(st State) (*SQR, error) {
	var s SQR
	for _, v := range []struct {
		name string
		to   *[]float64
	}{
		{"grid", &s.Grid}, {"x_mean", &s.X.Mean}, {"x_scale", &s.X.Scale}, {"y_mean", &s.Y.Mean}, {"y_scale", &s.Y.Scale},
	} {
		a, err := st.Float64s(v.name)
		if err != nil {
			return nil, err
		}
		*v.to = a
	}
	layers, err := st.Number("layers")
	if err != nil {
		return nil, err
	}
	if !(layers >= 1 && layers <= float64(len(st.Arrays))) {
		return nil, fmt.Errorf("%v layers cannot be right", layers)
	}
	s.Networks = make([]Network, len(s.Y.Mean))
	for i := range int(layers) {
		shape, w, err := st.float32s(fmt.Sprintf("weight%d", i), 3)
		if err != nil {
			return nil, err
		}
		b, err := st.General(fmt.Sprintf("bias%d", i))
		if err != nil {
			return nil, err
		}
		if shape[0] != len(s.Networks) || b.Rows != shape[0] || b.Cols != shape[2] {
			return nil, fmt.Errorf("layer %d has weights of shape %v and biases of shape [%d %d] for %d targets",
				i, shape, b.Rows, b.Cols, len(s.Networks))
		}
		in, out := shape[1], shape[2]
		for t := range s.Networks {
			s.Networks[t].Layers = append(s.Networks[t].Layers, Layer{
				W: blas32.General{Rows: in, Cols: out, Stride: max(out, 1), Data: slices.Clone(w[t*in*out : (t+1)*in*out])},
				B: slices.Clone(b.Data[t*out : (t+1)*out]),
			})
		}
	}
	return &s, nil
}
