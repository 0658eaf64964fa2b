package heads

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/heads/train"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/rows"
)

// FitNonlinearCertificates fits non-linear certificates to in-domain features
// phi, n×h.
//
// Reference: Tagasovska & Lopez-Paz (2019), section 3, which asks for a
// gradient penalty and for variance of the predictions around zero. Here that
// variance is measured on isotropic noise, where it is the paper's penalty
// CᵀC = I if the certificates are linear.
func FitNonlinearCertificates(ctx context.Context, phi blas32.General, tr train.Trainer, o NonlinearOptions) (*NonlinearCertificates, error) {
	fitted, err := FitNonlinearCertificatesGrid(ctx, phi, tr, []NonlinearOptions{o})
	if err != nil {
		return nil, err
	}
	return fitted[0], nil
}

// FitNonlinearCertificatesGrid fits several configurations to the same
// features, in order. Those that differ in penalties, learning rate or seed
// alone are trained together, and the first of such a group reports progress.
func FitNonlinearCertificatesGrid(ctx context.Context, phi blas32.General, tr train.Trainer, grid []NonlinearOptions) ([]*NonlinearCertificates, error) {
	if err := rows.CheckFinite("features", phi); err != nil {
		return nil, err
	}
	if tr == nil {
		return nil, errors.New("non-linear certificates are trained, and there is no trainer")
	}
	groups := map[string][]int{}
	var order []string
	resolved := make([]NonlinearOptions, len(grid))
	for i, o := range grid {
		o, err := o.resolve(phi.Rows, phi.Cols)
		if err != nil {
			return nil, err
		}
		resolved[i] = o
		key := fmt.Sprint(o.K, o.Hidden, o.UnitNorm, o.Loss, o.Epochs, o.BatchSize)
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], i)
	}
	fitted := make([]*NonlinearCertificates, len(grid))
	for _, key := range order {
		group := make([]NonlinearOptions, len(groups[key]))
		for j, i := range groups[key] {
			group[j] = resolved[i]
		}
		trained, err := trainNonlinear(ctx, phi, tr, group)
		if err != nil {
			return nil, err
		}
		for j, i := range groups[key] {
			fitted[i] = trained[j]
		}
	}
	return fitted, nil
}

func trainNonlinear(ctx context.Context, phi blas32.General, tr train.Trainer, group []NonlinearOptions) ([]*NonlinearCertificates, error) {
	first := group[0]
	base := NonlinearCertificates{UnitNorm: first.UnitNorm, Loss: first.Loss}
	if err := base.standardise(phi); err != nil {
		return nil, err
	}
	x := rows.New(phi.Rows, phi.Cols)
	base.prepare(x, phi)
	p := train.Problem{
		X: x, Hidden: first.Hidden, Outputs: first.K, Loss: first.Loss,
		Epochs: first.Epochs, BatchSize: first.BatchSize, Progress: first.Progress,
	}
	for _, o := range group {
		p.Models = append(p.Models, train.ModelConfig{
			Seed: o.Seed, LearningRate: o.LearningRate, Target: -1, GradientPenalty: o.GradientPenalty, Diversity: o.Diversity,
		})
	}
	networks, err := tr.Train(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := train.Check(networks, len(group), phi.Cols, first.K); err != nil {
		return nil, fmt.Errorf("training of non-linear certificates ended badly: %w", err)
	}
	fitted := make([]*NonlinearCertificates, len(group))
	for i, n := range networks {
		c := base
		c.Network, c.GradientPenalty, c.Diversity = n, group[i].GradientPenalty, group[i].Diversity
		fitted[i] = &c
	}
	return fitted, nil
}

// standardise sets Mean and Scale from the rows.
func (c *NonlinearCertificates) standardise(phi blas32.General) error {
	var squares, variance float64
	mean := meanRow(phi, c.UnitNorm)
	for _, v := range mean {
		c.Mean = append(c.Mean, float32(v))
		squares += v * v
	}
	for i := range phi.Rows {
		row := phi.Data[i*phi.Stride : i*phi.Stride+phi.Cols]
		scale := rowScale(row, c.UnitNorm)
		for j, v := range row {
			d := scale*float64(v) - mean[j]
			variance += d * d / float64(phi.Rows)
		}
	}
	c.Scale = float64(float32(math.Sqrt(variance / float64(phi.Cols))))
	// The mean of equal rows is off by rounding, and so is their spread.
	if !(c.Scale > 0) || variance <= 1e-13*squares {
		return errors.New("all rows are equal: certificates have nothing to learn from")
	}
	return nil
}

// Restored implements rows.Restored.
func (c *NonlinearCertificates) Restored() error {
	if c.Network.In() != len(c.Mean) {
		return fmt.Errorf("a network of %d inputs for %d features", c.Network.In(), len(c.Mean))
	}
	return nil
}
