package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

// weightsOption names the last layer of precomputed features.
func weightsOption(to *string, what string, unused ...never) table {
	return table{{name: "weights", to: to, file: otherFile, never: unused,
		usage: "FILE: .npz of the last layer's weight c×h and bias c, " + what + "; features that come without logits get them from it"}}
}

// checkFeatureName refuses files that hold no precomputed features.
func checkFeatureName(path string) error {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".npz", ".npy", ".parquet":
		return nil
	}
	return fmt.Errorf("%s: features are an .npz file, such as `attach features` writes, lists in a .parquet file, or an .npy file of rows and columns; to run a model on inputs, name MODEL.onnx", path)
}

// noteFeatures says how the rows of an .npy file are taken, which may as well be
// a model's inputs.
func noteFeatures(path string, stderr io.Writer) {
	if strings.EqualFold(filepath.Ext(path), ".npy") {
		printf(stderr, "note: %s: its rows are taken to be features; to run a model on inputs, name MODEL.onnx\n", path)
	}
}

// loadWeights reads the last layer at path, or returns nil where that is "".
func loadWeights(path string, wants ...inputs.Widths) (*ood.Linear, error) {
	if path == "" {
		return nil, nil
	}
	return inputs.LoadWeights(path, wants...)
}

// widthsOf are what precomputed rows must be like to go with those of path.
func widthsOf(path string, b ood.Batch) inputs.Widths {
	w := inputs.Widths{Says: "those of " + path + " have", Widths: batchparts.Of(&b).Widths()}
	if len(b.Layers) == 0 {
		w.Layerless = true
	}
	return w
}

// openLayerFeatures reads precomputed features, and where they come without
// logits makes them with the last layer, if there is one: that in weights. It
// also returns the number of rows that there are beside those asked for.
func openLayerFeatures(stderr io.Writer, path string, of inputs.Slice, weights string, last *ood.Linear, wants ...inputs.Widths) (ood.Batch, int, error) {
	if err := checkFeatureName(path); err != nil {
		return ood.Batch{}, 0, err
	}
	b, n, err := inputs.OpenFeatureRows(path, of, append(wants, layerWidths(weights, last))...)
	if err != nil {
		return b, n, err
	}
	noteLayer(path, weights, last, b, stderr)
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

// noteLayer compares precomputed rows with the last layer of --weights. Logits
// that it does not make are noted: methods that read weights take them for the
// layer's.
func noteLayer(path, weights string, last *ood.Linear, b ood.Batch, w io.Writer) {
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
		printf(w, "note: %s: its logits differ by %.2g of their norm from what the weights in %s make of its features; methods that read weights take them for the same\n",
			path, share, weights)
	}
}

// featureGroups reads the groups of some of n precomputed rows, where they have a
// name.
func featureGroups(ctx context.Context, x, name string, of inputs.Slice, n int) ([]string, error) {
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

// featureTargets are those of some of n precomputed rows: at y or, where that is
// empty, beside the rows of a regressor, if there are any.
func featureTargets(ctx context.Context, x, y string, base attach.Base, of inputs.Slice, n int) (t inputs.Targets, err error) {
	if y == "" && (base.Task != attach.Regression || !inputs.HoldsAny(x, "y", "targets")) {
		return t, nil
	}
	if t, err = inputs.OpenTargets(ctx, cmp.Or(y, x), n, base.Outputs, base.Classes); err != nil {
		return t, err
	}
	return t.Slice(of)
}

// kindOf is what else is known of features, each by the name of an array that stands
// beside them where it is so.
func kindOf(b *attach.Base) map[string]*bool {
	return map[string]*bool{"standardised": &b.Standardised, "residual": &b.Residual, "sigmoid": &b.Sigmoid}
}

// readKind reads what is known of the features at x.
func readKind(b *attach.Base, x string) {
	for name, so := range kindOf(b) {
		*so = inputs.HoldsAny(x, name)
	}
}
