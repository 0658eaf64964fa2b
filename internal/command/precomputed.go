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

// noteFeatures says that the rows of an .npy file are read as features, because they may be a
// model's inputs.
func noteFeatures(path string, stderr io.Writer) {
	if strings.EqualFold(filepath.Ext(path), ".npy") {
		printf(stderr, "note: %s: rows are read as features; to run a model on them, give MODEL.onnx\n", path)
	}
}

// widthsOf returns the widths that precomputed rows need to go with those of path.
func widthsOf(path string, b ood.Batch) inputs.Widths {
	w := inputs.Widths{Says: "those of " + path + " have", Widths: batchparts.Of(&b).Widths()}
	if len(b.Layers) == 0 {
		w.Layerless = true
	}
	return w
}

// kindOf returns what else is known of features. Each fact has the name of an array that a
// file holds if it is true.
func kindOf(b *attach.Base) map[string]*bool {
	return map[string]*bool{"standardised": &b.Standardised, "residual": &b.Residual, "sigmoid": &b.Sigmoid}
}

// readKind reads what else is known of the features at x.
func readKind(b *attach.Base, x string) {
	for name, so := range kindOf(b) {
		*so = inputs.HoldsAny(x, name)
	}
}
