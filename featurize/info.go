package featurize

import (
	"encoding/json"
	"strings"

	"github.com/attach-uncertainty/attach"
)

// Info describes a model and what was found in it.
type Info struct {
	Opset     int64   `json:"opset"`
	IRVersion int64   `json:"ir_version"`
	Inputs    []Value `json:"inputs"`
	Outputs   []Value `json:"outputs"`
	// Task is "classification" if the output is normalized by a Softmax, LogSoftmax or
	// Sigmoid, or has three columns or more. It is "regression" if the output has one column
	// and no Sigmoid. It is "embedding" if the outputs are no predictions, and the feature is
	// the mean of the last layer over positions. Otherwise it is "unknown": two columns can be
	// two classes or two targets. For trees and similar models, the operators determine the
	// task.
	Task attach.Task `json:"task"`
	// Feature is nil if no linear layer was found and no tensor was named.
	Feature      *Feature `json:"feature"`
	OutputsWidth int      `json:"outputs_width"` // c, or 0 if unknown
	// Layers are the earlier layers that are read too, from the input on.
	Layers    []attach.Layer `json:"layers,omitempty"`
	Providers []string       `json:"providers"`

	// Exact reports that logits = Wφ + b holds by the structure of the graph and in a run on
	// random inputs. Otherwise ExactReason says why not. ExactError is the relative error
	// ‖Wφ+b − logits‖/‖logits‖ of that run.
	Exact       bool     `json:"exact"`
	ExactReason string   `json:"exact_reason,omitempty"`
	ExactError  *float64 `json:"exact_error,omitempty"`

	Output     string `json:"output"`               // the model's output that was used
	Logits     string `json:"logits"`               // the tensor that logits are read from
	Normaliser string `json:"normaliser,omitempty"` // the operator between the two, if any
	FixedBatch int    `json:"fixed_batch,omitempty"`
	Layout     string `json:"layout,omitempty"` // of inputs that are images: "nchw" or "nhwc"

	// Folder is the folder that an exporter wrote the model to, or empty. The fields below
	// come from it: names of classes, whether several classes may be right at once, how images
	// are prepared (with Hugging Face's keys), and how texts become inputs. Classes may also
	// come from the model itself, and are nil if classes are numbered from 0. Unused lists
	// what cannot be used, and why.
	Folder     string          `json:"folder,omitempty"`
	Classes    []string        `json:"classes,omitempty"`
	MultiLabel bool            `json:"multi_label,omitempty"`
	Preprocess json.RawMessage `json:"preprocess,omitempty"`
	Text       *attach.Text    `json:"text,omitempty"`
	Unused     []string        `json:"unused,omitempty"`
	// ClassNumbers are the graph's own numbers of the classes if these are not 0, 1, …. Labels
	// of rows then use them.
	ClassNumbers []int `json:"class_numbers,omitempty"`

	// Candidates are tensors that could serve as φ, nearest the output first. They are set
	// only if no linear layer was found.
	Candidates []Candidate `json:"candidates,omitempty"`
}

// Value is an input or output. A dimension of −1 varies; a nil Shape is
// unknown.
type Value struct {
	Name  string  `json:"name"`
	Shape []int64 `json:"shape"`
	DType string  `json:"dtype"`
	// Optional reports that an input has a default, which is used if rows do not contain the
	// input.
	Optional bool `json:"optional,omitempty"`
	// NaN reports that NaN in an input is an empty cell, which the model handles.
	NaN bool `json:"nan,omitempty"`
}

// Feature describes where φ is read.
type Feature struct {
	Tensor string `json:"tensor"`
	Width  int    `json:"width"` // h, or 0 if unknown
	Node   string `json:"node"`  // the linear layer, or "" if the caller named the tensor
	Op     string `json:"op"`
	// Of are the tensors that are concatenated if the model has no linear layer: what its
	// trees or similar operators read, else its inputs, and its predictions.
	Of []string `json:"of,omitempty"`
	// Standardised reports that they have different units: see attach.Base.Standardised.
	Standardised bool `json:"standardised,omitempty"`
}

// Candidate is a tensor that could serve as φ.
type Candidate struct {
	Tensor string  `json:"tensor"`
	Shape  []int64 `json:"shape"` // a dimension of −1 varies; nil is unknown
	Node   string  `json:"node"`
	Op     string  `json:"op"`
}

// task guesses the task from the normaliser and the number of outputs.
func task(normaliser string, width int) attach.Task {
	switch {
	case normaliser != "" || width >= 3:
		return attach.Classification
	case width == 1:
		return attach.Regression
	}
	return "unknown"
}

// NoLinearLayerError reports that no linear layer was found. Info contains all else that is
// known, and the tensors that could serve as features.
type NoLinearLayerError struct {
	Info   Info
	Reason string
}

func (e *NoLinearLayerError) Error() string {
	return "no linear layer was found: " + e.Reason + "; name a tensor as the feature" + some(", such as", e.Info.Candidates)
}

// some formats lead and the names of the first candidates.
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
