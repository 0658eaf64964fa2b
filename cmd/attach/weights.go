package main

import (
	"fmt"
	"io"
	"math"

	"github.com/attach-uncertainty/attach/ood"
)

const (
	layerRows = 256 // that the logits are compared on
	// layerTolerance is the share of their norm by which logits may differ from
	// what the layer makes: beyond half precision, and below another layer.
	layerTolerance = .05
)

// checkLayer compares precomputed rows with the last layer of --weights. Widths
// must be its own. Logits that it does not make are noted: methods that read
// weights take them for the layer's.
func checkLayer(path, weights string, last *ood.Linear, b ood.Batch, w io.Writer) error {
	if last == nil || !b.HasFeatures() {
		return nil
	}
	if b.Features.Cols != last.Weight.Cols {
		return fmt.Errorf("%s: rows of %d features, and the weights in %s take %d", path, b.Features.Cols, weights, last.Weight.Cols)
	}
	if !b.HasLogits() {
		return nil
	}
	if b.Logits.Cols != last.Weight.Rows {
		return fmt.Errorf("%s: rows of %d logits, and the weights in %s make %d", path, b.Logits.Cols, weights, last.Weight.Rows)
	}
	some := b.Features
	some.Rows = min(some.Rows, layerRows)
	made := last.Logits(some)
	var off, norm float64
	for i := range made.Rows {
		for j := range made.Cols {
			z := float64(b.Logits.Data[i*b.Logits.Stride+j])
			d := z - float64(made.Data[i*made.Stride+j])
			off, norm = off+d*d, norm+z*z
		}
	}
	if share := math.Sqrt(off / norm); off > 0 && !(share <= layerTolerance) {
		fmt.Fprintf(w, "note: %s: its logits differ by %.2g of their norm from what the weights in %s make of its features; methods that read weights take them for the same\n",
			path, share, weights)
	}
	return nil
}
