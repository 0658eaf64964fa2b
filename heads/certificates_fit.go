package heads

import (
	"context"
	"errors"
	"fmt"

	"github.com/attach-uncertainty/attach/heads/train"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/rows"
)

// FitCertificates fits certificates to in-domain features phi, n×h. The
// trainer tr is not used, and may be nil, where the squared loss is solved
// exactly.
func FitCertificates(ctx context.Context, phi blas32.General, tr train.Trainer, o CertificatesOptions) (*Certificates, error) {
	fitted, err := FitCertificatesGrid(ctx, phi, tr, []CertificatesOptions{o}, nil)
	if err != nil {
		return nil, err
	}
	return fitted[0], nil
}

// FitCertificatesGrid fits several configurations to the same features, in
// order, at less cost than one by one: exact ones share one pass over the
// rows, and trained ones that differ in λ, learning rate or seed alone are
// trained together.
//
// The function progress, if not nil, is called with the share of training that
// is done.
func FitCertificatesGrid(
	ctx context.Context, phi blas32.General, tr train.Trainer, grid []CertificatesOptions, progress func(share float64),
) ([]*Certificates, error) {
	if err := rows.CheckFinite("features", phi); err != nil {
		return nil, err
	}
	fitted := make([]*Certificates, len(grid))
	moments := map[bool]*Moments{}
	groups := map[certificatesGroup][]int{}
	var order []certificatesGroup
	resolved := make([]CertificatesOptions, len(grid))
	for i, o := range grid {
		o, err := o.resolve(phi.Rows, phi.Cols)
		if err != nil {
			return nil, err
		}
		resolved[i] = o
		g := groupOf(o)
		if o.Trained && groups[g] == nil {
			order = append(order, g)
		}
		if o.Trained {
			groups[g] = append(groups[g], i)
		}
	}
	momentsOf := func(unitNorm bool) (*Moments, error) {
		if moments[unitNorm] == nil {
			m := &Moments{UnitNorm: unitNorm}
			if err := m.Add(phi); err != nil {
				return nil, err
			}
			moments[unitNorm] = m
		}
		return moments[unitNorm], nil
	}
	for i, o := range resolved {
		if o.Trained {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m, err := momentsOf(o.UnitNorm)
		if err != nil {
			return nil, err
		}
		if fitted[i], err = ExactCertificates(m, o); err != nil {
			return nil, err
		}
	}
	if len(order) > 0 && tr == nil {
		return nil, errors.New("certificates of this loss are trained, and there is no trainer")
	}
	for done, g := range order {
		var mean []float32
		if g.centre {
			for _, v := range meanRow(phi, g.unitNorm) {
				mean = append(mean, float32(v))
			}
		}
		configs := make([]CertificatesOptions, len(groups[g]))
		for j, i := range groups[g] {
			configs[j] = resolved[i]
		}
		if progress != nil {
			configs[0].Progress = func(steps, total int) {
				progress((float64(done) + float64(steps)/float64(total)) / float64(len(order)))
			}
		}
		trained, err := trainCertificates(ctx, phi, mean, tr, configs)
		if err != nil {
			return nil, err
		}
		for j, i := range groups[g] {
			fitted[i] = trained[j]
		}
	}
	return fitted, nil
}

// certificatesGroup is what configurations must share to be trained together.
type certificatesGroup struct {
	k, epochs, batch int
	unitNorm, centre bool
	loss             train.Loss
	level            float64
}

func groupOf(o CertificatesOptions) certificatesGroup {
	return certificatesGroup{
		k: o.K, epochs: o.Epochs, batch: o.BatchSize,
		unitNorm: o.UnitNorm, centre: o.Centre, loss: o.Loss, level: o.Level,
	}
}

// trainCertificates trains one group; every configuration is resolved.
func trainCertificates(ctx context.Context, phi blas32.General, mean []float32, tr train.Trainer, group []CertificatesOptions) ([]*Certificates, error) {
	first := group[0]
	x := phi
	if first.UnitNorm || mean != nil {
		x = rows.New(phi.Rows, phi.Cols)
		for i := range phi.Rows {
			prepareRow(x.Data[i*x.Stride:(i+1)*x.Stride], phi.Data[i*phi.Stride:i*phi.Stride+phi.Cols], first.UnitNorm, mean)
		}
	}
	p := train.Problem{
		X: x, Outputs: first.K, NoBias: true, Loss: first.Loss,
		Epochs: first.Epochs, BatchSize: first.BatchSize, Progress: first.Progress,
	}
	if first.Loss == train.Pinball {
		p.Levels = make([]float64, first.K)
		for j := range p.Levels {
			p.Levels[j] = first.Level
		}
	}
	for _, o := range group {
		p.Models = append(p.Models, train.ModelConfig{
			Seed: o.Seed, LearningRate: o.LearningRate, Orthonormal: o.Lambda, Target: -1,
		})
	}
	networks, err := tr.Train(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := train.Check(networks, len(group), phi.Cols, first.K); err != nil {
		return nil, fmt.Errorf("training of certificates ended badly: %w", err)
	}
	fitted := make([]*Certificates, len(group))
	for i, n := range networks {
		fitted[i] = &Certificates{
			C: n.Layers[0].W, Mean: mean, UnitNorm: first.UnitNorm, Loss: first.Loss, Lambda: group[i].Lambda,
		}
	}
	return fitted, nil
}
