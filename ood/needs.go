package ood

import (
	"fmt"
	"strings"
)

// Needs lists what a method requires.
type Needs struct {
	Features bool // Batch.Features, to fit and to score
	Logits   bool // Batch.Logits, to fit and to score
	Labels   bool // Training.Batch.Labels, to fit only
	Weights  bool // Training.Last
	Trainer  bool // Training.Trainer
	Outliers bool // Training.Outliers: only for oracles
	Inputs   bool // Batch.Inputs, to score; a method that also fits to them returns an error if they are missing
	Network  bool // Batch.Network, for gradients
	Dropout  bool // Batch.Network, for passes with dropout
	Layers   bool // Batch.Layers, to fit and to score
	Targets  bool // Training.Targets: for all interval methods and no detector
	Levels   bool // Training.Levels, because it fits only these
	Ends     bool // Training.Levels, two of them: the ends of an interval
}

// NeedError reports that something that a method needs is missing.
type NeedError struct {
	Method string // name of the method
	Need   Needs  // only what is missing
	Where  string // the part of the data that lacks it
}

func (e *NeedError) Error() string {
	what, hint := "something unknown", "lack it"
	for _, need := range e.Need.list() {
		if *need.needed {
			what, hint = need.what, need.hint
		}
	}
	return fmt.Sprintf("method %q needs %s: %s %s", e.Method, what, e.Where, hint)
}

type need struct {
	needed     *bool
	what, hint string
}

// list returns the needs in the order in which they are checked.
func (n *Needs) list() [13]need { // an array avoids an allocation, because services check every request
	return [...]need{
		{&n.Features, "features", "have none"},
		{&n.Logits, "logits", "have none"},
		{&n.Labels, "labels", "have none"},
		{&n.Weights, "the last layer's weights", "lack them"},
		{&n.Trainer, "a trainer", "lack one"},
		{&n.Outliers, "out-of-distribution rows to fit with", "lack them"},
		{&n.Inputs, "the network's inputs", "are only features; pass the inputs and the model"},
		{&n.Network, "the network, to differentiate it", "lack it; pass the model"},
		{&n.Dropout, "the network, to run it with dropout", "lack it; pass the model"},
		{&n.Layers, "earlier layers", "have none"},
		{&n.Targets, "targets", "have none"},
		{&n.Levels, "the levels of quantiles", "lack them"},
		{&n.Ends, "the two levels of an interval", "lack them"},
	}
}

// String lists the needs, for example "features, labels".
func (n Needs) String() string {
	var what []string
	for _, need := range n.list() {
		if *need.needed {
			what = append(what, need.what)
		}
	}
	return strings.Join(what, ", ")
}
