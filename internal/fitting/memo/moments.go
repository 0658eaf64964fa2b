package memo

import (
	"context"
	"fmt"

	"github.com/attach-uncertainty/attach/internal/numeric/eigen"
	"github.com/attach-uncertainty/attach/internal/numeric/moments"
	"github.com/attach-uncertainty/attach/ood"
)

// Moments returns the mean and second moments of the training features. If unit is set,
// each row is first scaled to norm 1.
func Moments(ctx context.Context, t ood.Training, unit bool) (*moments.Moments, error) {
	type key struct{ unit bool }
	return Cached(ctx, t.Batch, key{unit}, func() (*moments.Moments, error) {
		m := &moments.Moments{UnitNorm: unit}
		return m, m.Add(ctx, t.Features)
	})
}

// Spectrum returns the moments of the features and an eigendecomposition. It decomposes the
// covariance if centred is set, and otherwise the uncentred second moment.
func Spectrum(ctx context.Context, t ood.Training, unit, centred bool) (*moments.Moments, *eigen.Spectrum, error) {
	m, err := Moments(ctx, t, unit)
	if err != nil {
		return nil, nil, err
	}
	type key struct{ unit, centred bool }
	s, err := Cached(ctx, t.Batch, key{unit, centred}, func() (*eigen.Spectrum, error) { return SpectrumOf(m, centred) })
	return m, s, err
}

// SpectrumOf returns the eigendecomposition for given moments. See Spectrum for centred.
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
