package heads

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"
)

// State has the parameter "layers", the arrays "x_mean", "x_scale", "y_mean"
// and "y_scale", all float64, and per layer i "weight<i>" (targets×in×out) and
// "bias<i>" (targets×out), float32. The caller may add to it.
func (r RegressionNetworks) State() State {
	st := State{
		Params: map[string]any{"layers": float64(len(r.Networks[0].Layers))},
		Arrays: map[string]Array{
			"x_mean": Vector(r.X.Mean), "x_scale": Vector(r.X.Scale),
			"y_mean": Vector(r.Y.Mean), "y_scale": Vector(r.Y.Scale),
		},
	}
	for i, l := range r.Networks[0].Layers {
		var w, b []float32
		for _, n := range r.Networks {
			w = append(w, ArrayOf(n.Layers[i].W).Data.([]float32)...)
			b = append(b, n.Layers[i].B...)
		}
		st.Arrays[fmt.Sprintf("weight%d", i)] = Array{Shape: []int{len(r.Networks), l.In(), l.Out()}, Data: w}
		st.Arrays[fmt.Sprintf("bias%d", i)] = Array{Shape: []int{len(r.Networks), l.Out()}, Data: b}
	}
	return st
}

// RestoreRegressionNetworks rebuilds networks from their State. They must read
// the columns and so many levels, and make so many outputs.
func RestoreRegressionNetworks(st State, levels, outputs int) (RegressionNetworks, error) {
	r, err := restoreRegressionNetworks(st)
	if err != nil {
		return RegressionNetworks{}, err
	}
	if err := r.validate(levels, outputs); err != nil {
		return RegressionNetworks{}, err
	}
	return r, nil
}

func restoreRegressionNetworks(st State) (RegressionNetworks, error) {
	var r RegressionNetworks
	for _, v := range []struct {
		name string
		to   *[]float64
	}{
		{"x_mean", &r.X.Mean}, {"x_scale", &r.X.Scale}, {"y_mean", &r.Y.Mean}, {"y_scale", &r.Y.Scale},
	} {
		a, err := st.Float64s(v.name)
		if err != nil {
			return r, err
		}
		*v.to = a
	}
	layers, err := st.Whole("layers", 1)
	if err != nil {
		return r, err
	}
	if layers > len(st.Arrays) {
		return r, fmt.Errorf("%d layers cannot be right", layers)
	}
	r.Networks = make([]Network, len(r.Y.Mean))
	for i := range layers {
		shape, w, err := st.float32s(fmt.Sprintf("weight%d", i), 3)
		if err != nil {
			return r, err
		}
		b, err := st.General(fmt.Sprintf("bias%d", i))
		if err != nil {
			return r, err
		}
		if shape[0] != len(r.Networks) || b.Rows != shape[0] || b.Cols != shape[2] {
			return r, fmt.Errorf("layer %d has weights of shape %v and biases of shape [%d %d] for %d targets",
				i, shape, b.Rows, b.Cols, len(r.Networks))
		}
		in, out := shape[1], shape[2]
		for t := range r.Networks {
			r.Networks[t].Layers = append(r.Networks[t].Layers, Layer{
				W: blas32.General{Rows: in, Cols: out, Stride: max(out, 1), Data: slices.Clone(w[t*in*out : (t+1)*in*out])},
				B: slices.Clone(b.Data[t*out : (t+1)*out]),
			})
		}
	}
	return r, nil
}
