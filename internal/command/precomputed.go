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

// weightsOption returns --weights, which names the weights of the model's last layer for
// precomputed features.
func weightsOption(to *string, what string, unused ...conflict) table {
	return table{{name: "weights", to: to, file: otherFile, group: groupModel, conflicts: unused,
		usage: "FILE: .npz with weight (c×h) and bias (c) of the model's last layer, " + what + "; features without logits get their logits from it"}}
}

// noteFeatures prints a note that the rows of an .npy file are read as features. The user
// may have meant inputs of the model, because an .npy file can hold either.
func noteFeatures(path string, stderr io.Writer) {
	if strings.EqualFold(filepath.Ext(path), ".npy") {
		printf(stderr, "note: %s: rows are read as features; to run a model on them, give MODEL.onnx\n", path)
	}
}

// widthsOf returns the widths that other precomputed rows must have to match the rows b
// from the file at path.
func widthsOf(path string, b ood.Batch) inputs.Widths {
	w := inputs.Widths{Says: "those of " + path + " have", Widths: batchparts.Of(&b).Widths()}
	if len(b.Layers) == 0 {
		w.Layerless = true
	}
	return w
}

// kindOf returns facts about features, by the name of an array. A file of features holds
// the array if the fact is true.
func kindOf(b *attach.Base) map[string]*bool {
	return map[string]*bool{"standardised": &b.Standardised, "residual": &b.Residual, "sigmoid": &b.Sigmoid}
}

// readKind sets the facts of kindOf for the features in the file x.
func readKind(b *attach.Base, x string) {
	for name, so := range kindOf(b) {
		*so = inputs.HoldsAny(x, name)
	}
}
