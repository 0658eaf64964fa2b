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
func weightsOption(dest *string, what string, conflicts ...conflict) table {
	return table{{name: "weights", dest: dest, file: otherFile, group: groupModel, conflicts: conflicts,
		usage: "FILE: .npz with weight (c×h) and bias (c) of the model's last layer, " + what + "; features without logits get their logits from it"}}
}

// noteFeatures prints a note that the rows of an .npy file are read as features. The user
// may have meant inputs of the model, because an .npy file can hold either.
func noteFeatures(path string, stderr io.Writer) {
	if strings.EqualFold(filepath.Ext(path), ".npy") {
		printf(stderr, "note: %s: rows are read as features; to run a model on them, give MODEL.onnx\n", path)
	}
}

// requiredWidths returns the widths that other precomputed rows must have to match the rows b
// from the file at path.
func requiredWidths(path string, b ood.Batch) inputs.Widths {
	w := inputs.Widths{Says: "those of " + path + " have", Widths: batchparts.Of(&b).Widths()}
	if len(b.Layers) == 0 {
		w.Layerless = true
	}
	return w
}

// featureFacts returns facts about features, by the name of an array. A file of features
// holds the array if the fact is true.
func featureFacts(b *attach.Base) map[string]*bool {
	return map[string]*bool{"standardised": &b.Standardised, "residual": &b.Residual, "sigmoid": &b.Sigmoid}
}

// readFeatureFacts sets the fields of featureFacts from the arrays in the file x.
func readFeatureFacts(b *attach.Base, x string) {
	for name, fact := range featureFacts(b) {
		*fact = inputs.HoldsAny(x, name)
	}
}
