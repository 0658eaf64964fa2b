package mlp

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// Regression holds one network per target. The networks read standardised rows and predict
// standardised targets.
type Regression struct {
	Networks []train.Network `state:"networks,least=1"`
	X        Standard        `state:"x"` // mean and scale of the inputs
	Y        Standard        `state:"y"` // mean and scale of the targets
}

// Fit trains one network for each target and each element of p.Models. The rows x are an
// n×d matrix and the targets y an n×t matrix, both finite. Fit standardises x and y. It
// also standardises the validation rows of p, which are in the units of x and y. Fit sets
// p.X, p.Y and the Target of each model itself. The network for target t gets the seed
// Seed+t.
//
// Predictions do not depend on columns that are constant in x.
func Fit(ctx context.Context, x, y blas32.General, tr train.Trainer, p train.Problem) ([]Regression, error) {
	if x.Rows < 2 {
		return nil, &rows.TooFewRowsError{What: "quantile regressions", Have: x.Rows, Need: 2}
	}
	sx, constant := NewStandard(x)
	sy, _ := NewStandard(y)
	p.X, p.Y = sx.standardised(x), sy.standardised(y)
	if v := p.Validation; v != nil {
		held := *v
		held.X, held.Y = sx.standardised(v.X), sy.standardised(v.Y)
		p.Validation = &held
	}
	configs := p.Models
	p.Models = make([]train.ModelConfig, 0, len(configs)*y.Cols)
	for _, c := range configs {
		first := c.Seed
		for t := range y.Cols {
			c.Seed, c.Target = first+uint64(t), t
			p.Models = append(p.Models, c)
		}
	}
	trained, err := tr.Train(ctx, p)
	if err != nil {
		return nil, err
	}
	fitted := make([]Regression, len(configs))
	for i := range fitted {
		fitted[i] = Regression{trained[i*y.Cols : (i+1)*y.Cols], sx, sy}
		fitted[i].clearWeights(constant)
	}
	return fitted, nil
}

// clearWeights sets the weights of input columns to zero. If a column was constant in the
// fit, the rows do not determine its weights.
func (r Regression) clearWeights(columns []int) {
	for _, n := range r.Networks {
		w := n.Layers[0].W
		for _, j := range columns {
			clear(w.Data[j*w.Stride : j*w.Stride+w.Cols])
		}
	}
}

// Check returns an error unless there is one network per target with the right widths. Each
// network must read all columns and the given number of levels, and return the given number
// of outputs.
func (r Regression) Check(levels, outputs int) error {
	if len(r.Networks) != len(r.Y.Mean) {
		return fmt.Errorf("%d networks for %d targets", len(r.Networks), len(r.Y.Mean))
	}
	want := len(r.X.Mean) + levels
	for i, n := range r.Networks {
		if in, out := n.Widths(); in != want || out != outputs {
			return fmt.Errorf("network %d maps %d values to %d, want %d to %d", i, in, out, want, outputs)
		}
	}
	return nil
}

// Apply runs the network of a target on standardised rows.
func (r Regression) Apply(target int, x blas32.General) blas32.General {
	return r.Networks[target].Apply(x)
}

// EachRow returns quantiles of the rows of x, an n×d matrix. For each target, outputs gets
// standardised rows, and write converts each row of its result to quantiles.
func (r Regression) EachRow(x blas32.General, levels []float64, outputs func(target int, x blas32.General) blas32.General, write func(target int, z, quantiles []float32)) ood.Quantiles {
	const atOnce = 4096 // number of rows per block; it limits the memory for hidden activations
	q := ood.NewQuantiles(x.Rows, len(r.Networks), levels)
	for lo := 0; lo < x.Rows; lo += atOnce {
		block := r.X.standardised(rows.Slice(x, lo, min(lo+atOnce, x.Rows)))
		for t := range r.Networks {
			z := outputs(t, block)
			for i := range z.Rows {
				write(t, rows.Row(z, i), q.Row(lo+i, t))
			}
		}
	}
	return q
}

// InUnits converts an output of a network to the units of the target.
func (r Regression) InUnits(target int, v float32) float64 {
	return r.Y.Mean[target] + r.Y.Scale[target]*float64(v)
}
