package memo

import (
	"context"
	"fmt"

	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/numeric/moments"
	"github.com/attach-uncertainty/attach/ood"
)

// Moments are those of the training features, of rows scaled to norm 1 with unit.
func Moments(ctx context.Context, t ood.Training, unit bool) (*moments.Moments, error) {
	type key struct{ unit bool }
	return Cached(ctx, t.Batch, key{unit}, func() (*moments.Moments, error) {
		m := &moments.Moments{UnitNorm: unit}
		return m, m.Add(ctx, t.Features)
	})
}

// Spectrum is that of their covariance or, where it is not centred, of their second
// moment, which knows no mean.
func Spectrum(ctx context.Context, t ood.Training, unit, centred bool) (*moments.Moments, *eigen.Spectrum, error) {
	m, err := Moments(ctx, t, unit)
	if err != nil {
		return nil, nil, err
	}
	type key struct{ unit, centred bool }
	s, err := Cached(ctx, t.Batch, key{unit, centred}, func() (*eigen.Spectrum, error) { return SpectrumOf(m, centred) })
	return m, s, err
}

// SpectrumOf is Spectrum of rows with these moments.
func SpectrumOf(m *moments.Moments, centred bool) (*eigen.Spectrum, error) {
	second := m.SecondMoment
	if centred {
		second = m.Covariance
	}
	s, err := eigen.NewSpectrum(second())
	if err != nil {
		return nil, fmt.Errorf("second moment of the features: %w", err)
	}
	return s, nil
}
