package featurize

import (
	"encoding/json"
	"strings"

	"github.com/attach-uncertainty/attach"
)

// Info says what a model is and what was found in it.
type Info struct {
	Opset     int64   `json:"opset"`
	IRVersion int64   `json:"ir_version"`
	Inputs    []Value `json:"inputs"`
	Outputs   []Value `json:"outputs"`
	// Task is "classification" where the output is normalised by a Softmax,
	// LogSoftmax or Sigmoid, or has three columns or more; "regression" where
	// it has one column and no Sigmoid; "embedding" where the outputs answer nothing,
	// and a mean of the last layer over positions is the feature; else "unknown": two
	// bare columns can be two classes or two targets. Trees and their like tell by
	// their operators.
	Task attach.Task `json:"task"`
	// Feature is nil where no linear layer was found and none was named.
	Feature      *Feature `json:"feature"`
	OutputsWidth int      `json:"outputs_width"` // c, or 0 where unknown
	// Layers are the earlier layers that are read beside the feature, from the
	// input on.
	Layers    []attach.Layer `json:"layers,omitempty"`
	Providers []string       `json:"providers"`

	// Exact says that logits = Wφ + b holds: by the structure of the graph,
	// and in a run on random inputs. ExactReason says why not, and ExactError
	// is the relative error ‖Wφ+b − logits‖/‖logits‖ of that run.
	Exact       bool     `json:"exact"`
	ExactReason string   `json:"exact_reason,omitempty"`
	ExactError  *float64 `json:"exact_error,omitempty"`

	Output     string `json:"output"`               // the model's output that was used
	Logits     string `json:"logits"`               // the tensor that logits are read from
	Normaliser string `json:"normaliser,omitempty"` // the operator between the two, if any
	FixedBatch int    `json:"fixed_batch,omitempty"`
	Layout     string `json:"layout,omitempty"` // of inputs that are images: "nchw" or "nhwc"

	// Folder is where an exporter wrote the model, or empty, and what was found there
	// follows: names of the classes, which the model itself may give too and which are
	// nil where classes are numbered from 0, whether several may be right at once, how
	// images are prepared, with Hugging Face's keys, and how texts become the inputs.
	// Unused says what there cannot be used, and why.
	Folder     string          `json:"folder,omitempty"`
	Classes    []string        `json:"classes,omitempty"`
	MultiLabel bool            `json:"multi_label,omitempty"`
	Preprocess json.RawMessage `json:"preprocess,omitempty"`
	Text       *attach.Text    `json:"text,omitempty"`
	Unused     []string        `json:"unused,omitempty"`
	// ClassNumbers are what the graph itself calls the classes where it has other
	// numbers for them than 0, 1, …: labels of rows are then these.
	ClassNumbers []int `json:"class_numbers,omitempty"`

	// Candidates are tensors that could serve as φ, nearest the output first.
	// Only where no linear layer was found.
	Candidates []Candidate `json:"candidates,omitempty"`
}

// Value is an input or output. A dimension of −1 varies; a nil Shape is
// unknown.
type Value struct {
	Name  string  `json:"name"`
	Shape []int64 `json:"shape"`
	DType string  `json:"dtype"`
	// Optional says that an input has a default, which it keeps where rows do not
	// bring it.
	Optional bool `json:"optional,omitempty"`
	// NaN says that an input's NaN are gaps, which the model fills or knows a way for.
	NaN bool `json:"nan,omitempty"`
}

// Feature is where φ is read.
type Feature struct {
	Tensor string `json:"tensor"`
	Width  int    `json:"width"` // h, or 0 where unknown
	Node   string `json:"node"`  // the linear layer, or "" where the tensor was named by the caller
	Op     string `json:"op"`
	// Of are the tensors that stand side by side where the model has no linear
	// layer: what its trees or their like read, else its inputs, and its answers.
	Of []string `json:"of,omitempty"`
	// Standardised says that they are of different units: see attach.Base.Standardised.
	Standardised bool `json:"standardised,omitempty"`
}

// Candidate is a tensor that could serve as φ.
type Candidate struct {
	Tensor string  `json:"tensor"`
	Shape  []int64 `json:"shape"` // a dimension of −1 varies; nil is unknown
	Node   string  `json:"node"`
	Op     string  `json:"op"`
}

// task guesses what the network was trained for from its last layer.
func task(normaliser string, width int) attach.Task {
	switch {
	case normaliser != "" || width >= 3:
		return attach.Classification
	case width == 1:
		return attach.Regression
	}
	return "unknown"
}

// NoLinearLayerError says that no linear layer was found. Info holds all else
// that is known, and the tensors that could serve as features.
type NoLinearLayerError struct {
	Info   Info
	Reason string
}

func (e *NoLinearLayerError) Error() string {
	return "no linear layer was found: " + e.Reason + "; name a tensor as the feature" + some(", such as", e.Info.Candidates)
}

// some names the first candidates.
func some(lead string, list []Candidate) string {
	if len(list) == 0 {
		return ""
	}
	names := make([]string, 0, 3)
	for _, c := range list[:min(3, len(list))] {
		names = append(names, c.Tensor)
	}
	return lead + " " + strings.Join(names, ", ")
}
