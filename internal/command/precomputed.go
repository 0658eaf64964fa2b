package command

import (
	"io"
	"path/filepath"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

// weightsOption returns --weights, the last layer of precomputed features.
func weightsOption(to *string, what string, unused ...conflict) table {
	return table{{name: "weights", to: to, file: otherFile, group: groupModel, conflicts: unused,
		usage: "FILE: .npz with weight (c×h) and bias (c) of the model's last layer, " + what + "; features without logits get their logits from it"}}
}

// noteFeatures says how the rows of an .npy file are taken, which may as well be
// a model's inputs.
func noteFeatures(path string, stderr io.Writer) {
	if strings.EqualFold(filepath.Ext(path), ".npy") {
		printf(stderr, "note: %s: its rows are taken to be features; to run a model on inputs, name MODEL.onnx\n", path)
	}
}

// widthsOf are what precomputed rows must be like to go with those of path.
func widthsOf(path string, b ood.Batch) inputs.Widths {
	w := inputs.Widths{Says: "those of " + path + " have", Widths: batchparts.Of(&b).Widths()}
	if len(b.Layers) == 0 {
		w.Layerless = true
	}
	return w
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
