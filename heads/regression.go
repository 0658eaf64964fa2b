package heads

import (
	"context"
	"errors"
	"fmt"

	"github.com/attach-uncertainty/attach/heads/train"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/rows"
)

// RegressionNetworks are networks that learnt standardised targets from
// standardised rows, one for each target.
type RegressionNetworks struct {
	Networks []train.Network `state:"networks,least=1"`
	X        Standard        `state:"x"` // of inputs
	Y        Standard        `state:"y"` // of targets
}

// FitRegressionNetworks trains one network for each of p.Models and each
// target: y is n×t targets of the rows of x, n×d. It standardises x, y and the
// validation rows of p, which are in the units of x and y; p.X, p.Y and
// Target of p.Models are not read. Target t of a model has the seed Seed+t.
//
// Columns of x that are constant are ignored in prediction.
func FitRegressionNetworks(ctx context.Context, x, y blas32.General, tr train.Trainer, p train.Problem) ([]RegressionNetworks, error) {
	if err := checkRegression(x, y); err != nil {
		return nil, err
	}
	if tr == nil {
		return nil, errors.New("networks are trained, and there is no trainer")
	}
	sx, constant := NewStandard(x)
	sy, _ := NewStandard(y)
	p.X, p.Y = sx.standardised(x), sy.standardised(y)
	if v := p.Validation; v != nil {
		if v.X.Cols != x.Cols || v.Y.Cols != y.Cols {
			return nil, fmt.Errorf("validation rows have %d columns and %d targets, those to train on %d and %d", v.X.Cols, v.Y.Cols, x.Cols, y.Cols)
		}
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
	networks, err := tr.Train(ctx, p)
	if err != nil {
		return nil, err
	}
	if len(networks) != len(p.Models) {
		return nil, fmt.Errorf("training returned %d networks for %d models", len(networks), len(p.Models))
	}
	levels := 0
	if p.Conditional {
		levels = 1
	}
	fitted := make([]RegressionNetworks, len(configs))
	for i := range fitted {
		fitted[i] = RegressionNetworks{Networks: networks[i*y.Cols : (i+1)*y.Cols], X: sx, Y: sy}
		if err := fitted[i].Validate(levels, p.Outputs); err != nil {
			return nil, fmt.Errorf("training of quantile regression ended badly: %w", err)
		}
		fitted[i].ignore(constant)
	}
	return fitted, nil
}

func checkRegression(x, y blas32.General) error {
	if x.Rows != y.Rows {
		return fmt.Errorf("x has %d rows and y has %d: they must be equal", x.Rows, y.Rows)
	}
	if x.Rows < 2 {
		return &rows.TooFewRowsError{What: "quantile regressions", Have: x.Rows, Need: 2}
	}
	if x.Cols == 0 || y.Cols == 0 {
		return fmt.Errorf("x has %d columns and y has %d: both need one", x.Cols, y.Cols)
	}
	if err := rows.CheckFinite("x", x); err != nil {
		return err
	}
	return rows.CheckFinite("y", y)
}

// standardised is a copy of m on which s was applied.
func (s Standard) standardised(m blas32.General) blas32.General {
	out := rows.New(m.Rows, m.Cols)
	s.Apply(out, m)
	return out
}

// ignore sets the weights of input columns to zero: those of a column that
// was constant in the fit were never trained, and are as random as they began.
func (r RegressionNetworks) ignore(columns []int) {
	for _, n := range r.Networks {
		w := n.Layers[0].W
		for _, j := range columns {
			clear(w.Data[j*w.Stride : j*w.Stride+w.Cols])
		}
	}
}

// Validate checks networks that read the columns and so many levels.
func (r RegressionNetworks) Validate(levels, outputs int) error {
	if len(r.Y.Mean) == 0 {
		return errors.New("no targets")
	}
	for _, st := range []Standard{r.X, r.Y} {
		if err := st.validate(); err != nil {
			return err
		}
	}
	return train.Check(r.Networks, len(r.Y.Mean), len(r.X.Mean)+levels, outputs)
}

// regressionBlock bounds the rows whose hidden activations are held at once.
const regressionBlock = 4096

// EachBlock calls use with standardised rows of x, n×d, block after block, and
// the index of the first. It panics if x has the wrong width.
func (r RegressionNetworks) EachBlock(x blas32.General, use func(first int, rows blas32.General)) {
	if x.Rows > 0 && x.Cols != len(r.X.Mean) {
		panic(fmt.Sprintf("heads: networks on %d columns given %d", len(r.X.Mean), x.Cols))
	}
	for lo := 0; lo < x.Rows; lo += regressionBlock {
		use(lo, r.X.standardised(rows.Slice(x, lo, min(lo+regressionBlock, x.Rows))))
	}
}
