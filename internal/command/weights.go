package command

import (
	"fmt"
	"io"
	"math"

	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

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
