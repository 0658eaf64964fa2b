package modelrows

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

// checkFeatureName refuses files that hold no precomputed features.
func checkFeatureName(path string) error {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".npz", ".npy", ".parquet":
		return nil
	}
	return fmt.Errorf("%s: features are an .npz file, such as `attach features` writes, lists in a .parquet file, or an .npy file of rows and columns; to run a model on inputs, name MODEL.onnx", path)
}

// LoadWeights reads the last layer at path, or returns nil where that is "".
func LoadWeights(path string, wants ...inputs.Widths) (*ood.Linear, error) {
	if path == "" {
		return nil, nil
	}
	return inputs.LoadWeights(path, wants...)
}

// OpenFeatures reads precomputed features, and where they come without
// logits makes them with the last layer, if there is one: that in weights. It
// also returns the number of rows that there are beside those asked for.
func OpenFeatures(note Note, path string, of inputs.Slice, weights string, last *ood.Linear, wants ...inputs.Widths) (ood.Batch, int, error) {
	if err := checkFeatureName(path); err != nil {
		return ood.Batch{}, 0, err
	}
	b, n, err := inputs.OpenFeatureRows(path, of, append(wants, layerWidths(weights, last))...)
	if err != nil {
		return b, n, err
	}
	noteLayer(path, weights, last, b, note)
	return withLogits(b, last), n, nil
}

// layerWidths are those of the rows that the last layer, if there is one, takes
// and makes.
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
	layerRows = 256 // that the logits are compared on
	// layerTolerance is the share of their norm by which logits may differ from
	// what the layer makes: beyond half precision, and below another layer.
	layerTolerance = .05
)

// noteLayer compares precomputed rows with the last layer of weights. Logits
// that it does not make are noted: methods that read weights take them for the
// layer's.
func noteLayer(path, weights string, last *ood.Linear, b ood.Batch, note Note) {
	if last == nil || b.Features.Cols == 0 || b.Logits.Cols == 0 {
		return
	}
	some := b.Features
	some.Rows = min(some.Rows, layerRows)
	made := rows.Linear(some, last.Weight, last.Bias)
	var off, norm float64
	for i := range made.Rows {
		for j := range made.Cols {
			z := float64(b.Logits.Data[i*b.Logits.Stride+j])
			d := z - float64(made.Data[i*made.Stride+j])
			off, norm = off+d*d, norm+z*z
		}
	}
	if share := math.Sqrt(off / norm); off > 0 && !(share <= layerTolerance) {
		note("note: %s: its logits differ by %.2g of their norm from what the weights in %s make of its features; methods that read weights take them for the same",
			path, share, weights)
	}
}

// FeatureGroups reads the groups of some of n precomputed rows, where they have a
// name.
func FeatureGroups(ctx context.Context, x, name string, of inputs.Slice, n int) ([]string, error) {
	if name == "" {
		return nil, nil
	}
	groups, err := inputs.OpenGroups(ctx, x, name, n)
	if err != nil {
		return nil, err
	}
	first, last, err := of.Of(n)
	return groups[first:last], err
}

// FeatureTargets are those of some of n precomputed rows: at y or, where that is
// empty, beside the rows of a regressor, if there are any.
func FeatureTargets(ctx context.Context, x, y string, base attach.Base, of inputs.Slice, n int) (t inputs.Targets, err error) {
	if y == "" && (base.Task != attach.Regression || !inputs.HoldsAny(x, "y", "targets")) {
		return t, nil
	}
	if t, err = inputs.OpenTargets(ctx, cmp.Or(y, x), n, base.Outputs, base.Classes); err != nil {
		return t, err
	}
	return t.Slice(of)
}
