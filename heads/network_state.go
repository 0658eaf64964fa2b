package heads

import "fmt"

// SetNetwork stores the layers of n under name: the parameters
// "<name>_layers" and "<name>_bias", and per layer i the arrays
// "<name>_weight<i>" (in×out) and, with biases, "<name>_bias<i>" (1×out), all
// float32. It panics if some layers have a bias and others have none.
func (s State) SetNetwork(name string, n Network) {
	biased := n.Layers[0].B != nil
	s.Params[name+"_layers"], s.Params[name+"_bias"] = float64(len(n.Layers)), biased
	for i, l := range n.Layers {
		if (l.B != nil) != biased {
			panic("heads: a network with biases in some layers alone")
		}
		s.Arrays[fmt.Sprintf("%s_weight%d", name, i)] = ArrayOf(l.W)
		if biased {
			b := append([]float32(nil), l.B...)
			s.Arrays[fmt.Sprintf("%s_bias%d", name, i)] = Array{Shape: []int{1, len(b)}, Data: b}
		}
	}
}

// Network returns the network that SetNetwork stored under name, sharing the
// arrays' data. Its layers fit together and are finite.
func (s State) Network(name string) (Network, error) {
	var n Network
	layers, err := s.Whole(name+"_layers", 1)
	if err != nil {
		return n, err
	}
	if layers > len(s.Arrays) {
		return n, fmt.Errorf("%q of %d layers cannot be right", name, layers)
	}
	biased, err := s.Flag(name + "_bias")
	if err != nil {
		return n, err
	}
	for i := range layers {
		var l Layer
		if l.W, err = s.General(fmt.Sprintf("%s_weight%d", name, i)); err != nil {
			return n, err
		}
		if biased {
			b, err := s.General(fmt.Sprintf("%s_bias%d", name, i))
			if err != nil {
				return n, err
			}
			if b.Rows != 1 {
				return n, fmt.Errorf("array \"%s_bias%d\" has %d rows, want 1", name, i, b.Rows)
			}
			l.B = b.Data
		}
		n.Layers = append(n.Layers, l)
	}
	if err := n.Validate(); err != nil {
		return n, fmt.Errorf("%q: %w", name, err)
	}
	return n, nil
}
