package modelrows

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

// checkFeatureName returns an error if a file with this name cannot contain precomputed
// features.
func checkFeatureName(path string) error {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".npz", ".npy", ".parquet":
		return nil
	}
	return fmt.Errorf("%s: features must be an .npz file (for example from `attach features`), a .parquet file with lists, or an .npy file with rows and columns; to run a model on inputs, name MODEL.onnx", path)
}

// LoadWeights reads the last layer at path. It returns nil if path is empty.
func LoadWeights(path string, expected ...inputs.Widths) (*ood.Linear, error) {
	if path == "" {
		return nil, nil
	}
	return inputs.LoadWeights(path, expected...)
}

// OpenFeatures reads a slice of precomputed features. If the file has no logits and last is
// not nil, it computes them with last, which was read from the file weights. It also
// returns the number of all rows at path.
func OpenFeatures(note Note, path string, slice inputs.Slice, weights string, last *ood.Linear, expected ...inputs.Widths) (ood.Batch, int, error) {
	if err := checkFeatureName(path); err != nil {
		return ood.Batch{}, 0, err
	}
	b, n, err := inputs.OpenFeatureRows(path, slice, append(expected, layerWidths(weights, last))...)
	if err != nil {
		return b, n, err
	}
	if err := checkLayer(path, weights, last, b, note); err != nil {
		return ood.Batch{}, n, err
	}
	return withLogits(b, last), n, nil
}

// layerWidths returns the numbers of features and logits of the last layer, or no widths if
// last is nil.
func layerWidths(weights string, last *ood.Linear) inputs.Widths {
	if last == nil {
		return inputs.Widths{}
	}
	return inputs.Widths{Says: fmt.Sprintf("the weights in %s have", weights), Widths: batchparts.Widths{"features": last.Weight.Cols, "logits": last.Weight.Rows}}
}

func withLogits(b ood.Batch, last *ood.Linear) ood.Batch {
	if last != nil && b.Features.Cols > 0 && b.Logits.Cols == 0 {
		b.Logits = rows.Linear(b.Features, last.Weight, last.Bias)
	}
	return b
}

const (
	layerRows = 256 // number of rows whose logits are compared
	// layerTolerance is the largest accepted difference between logits and the output of
	// the last layer, relative to the norm of the logits. Rounding to half precision stays
	// below it. A different layer exceeds it.
	layerTolerance = .05
	// otherLayer is the difference above which the weights belong to another layer. A
	// number that is the same for all logits of a row does not count, because
	// log-probabilities differ from logits by such a number.
	otherLayer = .5
)

// checkLayer compares the logits in b with those that the last layer computes from the
// features in b. Methods that read weights assume that they are equal. It reports a note if
// they differ, and returns an error if the weights belong to another layer.
func checkLayer(path, weights string, last *ood.Linear, b ood.Batch, note Note) error {
	if last == nil || b.Features.Cols == 0 || b.Logits.Cols == 0 {
		return nil
	}
	first := b.Features
	first.Rows = min(first.Rows, layerRows)
	computed := rows.Linear(first, last.Weight, last.Bias)
	var squaredDifference, norm, squaredDeviation, squaredSpread float64
	for i := range computed.Rows {
		z, difference := make([]float64, computed.Cols), make([]float64, computed.Cols)
		for j := range z {
			z[j] = float64(b.Logits.Data[i*b.Logits.Stride+j])
			difference[j] = z[j] - float64(computed.Data[i*computed.Stride+j])
		}
		squaredDifference, norm = squaredDifference+floats.Dot(difference, difference), norm+floats.Dot(z, z)
		if len(z) > 1 {
			floats.AddConst(-stat.Mean(difference, nil), difference)
			floats.AddConst(-stat.Mean(z, nil), z)
		}
		squaredDeviation, squaredSpread = squaredDeviation+floats.Dot(difference, difference), squaredSpread+floats.Dot(z, z)
	}
	difference := math.Sqrt(squaredDifference / norm)
	switch {
	case squaredDifference == 0 || difference <= layerTolerance:
		return nil
	case math.Sqrt(squaredDeviation/squaredSpread) > otherLayer:
		return fmt.Errorf("%s: the logits differ by %.2g of their norm from those that the weights in %s compute from the features; give the weights of the layer that computed these logits, or none", path, difference, weights)
	}
	note("note: %s: the logits differ by %.2g of their norm from those that the weights in %s compute from the features; methods that read weights need equal ones",
		path, difference, weights)
	return nil
}

// FeatureGroups reads the groups of a slice of n precomputed rows. It returns nil if name is
// empty.
func FeatureGroups(ctx context.Context, x, name string, slice inputs.Slice, n int) ([]string, error) {
	if name == "" {
		return nil, nil
	}
	groups, err := inputs.OpenGroups(ctx, x, name, n)
	if err != nil {
		return nil, err
	}
	first, last, err := slice.Of(n)
	return groups[first:last], err
}

// FeatureTargets reads the targets of a slice of n precomputed rows. They come from y or,
// if y is empty and the model is a regressor, from x. In all other cases, and if x has no
// targets, it returns none.
func FeatureTargets(ctx context.Context, x, y string, base attach.Base, slice inputs.Slice, n int) (t inputs.Targets, err error) {
	if y == "" && (base.Task != attach.Regression || !inputs.HoldsAny(x, "y", "targets")) {
		return t, nil
	}
	if t, err = inputs.OpenTargets(ctx, cmp.Or(y, x), n, base.Outputs, base.Classes); err != nil {
		return t, err
	}
	return t.Slice(slice)
}
