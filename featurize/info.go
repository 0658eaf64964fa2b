package featurize

import (
	"encoding/json"
	"strings"

	"github.com/attach-uncertainty/attach"
)

// Info describes a model and the tensors that are read from it.
type Info struct {
	Opset     int64   `json:"opset"`
	IRVersion int64   `json:"ir_version"`
	Inputs    []Value `json:"inputs"`
	Outputs   []Value `json:"outputs"`
	// Task comes from the config.json in Folder if it implies a task. Otherwise Task is
	// "classification" if a Softmax, LogSoftmax or sigmoid normalizes the output, or if
	// the output has at least three columns. It is "regression" if the output has one
	// column and no sigmoid. It is "embedding" if the model makes no predictions. Then the
	// feature is the output of embeddings, averaged over positions. For trees and similar
	// models, the operators determine the task. In all other cases Task is "unknown",
	// because two columns may be two classes or two targets.
	Task attach.Task `json:"task"`
	// Feature is nil if Open returns a NoLinearLayerError.
	Feature      *Feature `json:"feature"`
	OutputsWidth int      `json:"outputs_width"` // number of outputs c; 0 if unknown
	// Layers lists the earlier layers that are read, starting with the one nearest to the
	// input.
	Layers    []attach.Layer `json:"layers,omitempty"`
	Providers []string       `json:"providers"`

	// Exact reports whether logits = Wφ + b holds, because of the structure of the graph
	// and in a run on random inputs. If it does not, ExactReason gives the reason.
	// ExactError is the relative error ‖Wφ+b − logits‖/‖logits‖ in that run.
	Exact       bool     `json:"exact"`
	ExactReason string   `json:"exact_reason,omitempty"`
	ExactError  *float64 `json:"exact_error,omitempty"`

	Output     string `json:"output"`               // output of the model that is read
	Logits     string `json:"logits"`               // tensor that the logits are read from
	Normaliser string `json:"normaliser,omitempty"` // operator between Logits and Output, if any
	FixedBatch int    `json:"fixed_batch,omitempty"`
	Layout     string `json:"layout,omitempty"` // axis order of image inputs: "nchw" or "nhwc"

	// Folder is the folder that an exporter wrote the model to, or empty. The following
	// fields come from files in this folder. Classes holds the names of the classes. It may
	// also come from the model itself, and is nil if classes are numbered from 0.
	// MultiLabel reports whether a row may belong to several classes. Preprocess describes
	// how images are prepared, with the keys of Hugging Face. Text describes how texts
	// become inputs. Unused lists files that cannot be used, with reasons.
	Folder     string          `json:"folder,omitempty"`
	Classes    []string        `json:"classes,omitempty"`
	MultiLabel bool            `json:"multi_label,omitempty"`
	Preprocess json.RawMessage `json:"preprocess,omitempty"`
	Text       *attach.Text    `json:"text,omitempty"`
	Unused     []string        `json:"unused,omitempty"`
	// ClassNumbers holds the graph's own numbers of the classes, if they are not 0, 1, ….
	// The labels of rows must then use these numbers.
	ClassNumbers []int `json:"class_numbers,omitempty"`

	// Candidates lists tensors that could serve as features φ, starting with the one
	// nearest to the output. It is set only if no linear layer was found.
	Candidates []Candidate `json:"candidates,omitempty"`
}

// Value describes an input or output of the model. A dimension of −1 may vary. A nil Shape
// means that the shape is unknown.
type Value struct {
	Name  string  `json:"name"`
	Shape []int64 `json:"shape"`
	DType string  `json:"dtype"`
	// Optional reports whether an input has a default value. The default is used if rows do
	// not contain the input.
	Optional bool `json:"optional,omitempty"`
	// NaN reports whether the model handles NaN in an input as an empty cell.
	NaN bool `json:"nan,omitempty"`
}

// Feature describes where the features φ are read.
type Feature struct {
	Tensor string `json:"tensor"`
	Width  int    `json:"width"` // number of features h; 0 if unknown
	// Node is the linear layer. If the caller named the tensor, Node is the node that
	// computes it. If there is none, Node is empty.
	Node string `json:"node"`
	Op   string `json:"op"`
	// Of lists the tensors that are concatenated to form φ if the model has no linear
	// layer, or if it is a regressor that reads a table. They are the inputs of its trees or
	// similar operators, followed by its predictions. If there are no such operators, the
	// model's own inputs take their place.
	Of []string `json:"of,omitempty"`
	// LastLayer is the tensor that the last linear layer reads, if the model has such a layer
	// and the features are its inputs and predictions instead. Options.Feature can name it.
	LastLayer string `json:"last_layer,omitempty"`
	// Standardised reports whether the columns of φ have different units. See
	// attach.Base.Standardised.
	Standardised bool `json:"standardised,omitempty"`
}

// Candidate describes a tensor that could serve as features φ.
type Candidate struct {
	Tensor string  `json:"tensor"`
	Shape  []int64 `json:"shape"` // a dimension of −1 may vary; nil means unknown
	Node   string  `json:"node"`
	Op     string  `json:"op"`
}

// guessTask guesses the task from the normaliser and the number of outputs.
func guessTask(normaliser string, width int) attach.Task {
	switch {
	case normaliser != "" || width >= 3:
		return attach.Classification
	case width == 1:
		return attach.Regression
	}
	return "unknown"
}

// NoLinearLayerError reports that no linear layer was found. Info contains everything else
// that is known about the model, and lists tensors that could serve as features.
type NoLinearLayerError struct {
	Info   Info
	Reason string
}

func (e *NoLinearLayerError) Error() string {
	return "no linear layer was found: " + e.Reason + "; name a tensor as the feature" + candidateHint(", such as", e.Info.Candidates)
}

// candidateHint returns the string lead followed by the names of the first three candidates, or ""
// if there are none.
func candidateHint(lead string, list []Candidate) string {
	if len(list) == 0 {
		return ""
	}
	names := make([]string, 0, 3)
	for _, c := range list[:min(3, len(list))] {
		names = append(names, c.Tensor)
	}
	return lead + " " + strings.Join(names, ", ")
}
