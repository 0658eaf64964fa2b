package ood

import (
	"fmt"
	"strings"
)

// Needs lists the data that a method requires.
type Needs struct {
	Features bool // Batch.Features, to fit and to score
	Logits   bool // Batch.Logits, to fit and to score
	Labels   bool // Training.Batch.Labels, to fit only
	Weights  bool // Training.Last, to fit only
	Trainer  bool // Training.Trainer, to fit only
	Outliers bool // Training.Outliers; only for oracles
	Inputs   bool // Batch.Inputs, to score; if a method also needs them to fit, its Fit returns an error without them
	Network  bool // Batch.Network, for gradients
	Dropout  bool // Batch.Network, for passes with dropout
	Layers   bool // Batch.Layers, to fit and to score
	Targets  bool // Training.Targets; set for all interval methods and no detector
	Levels   bool // Training.Levels, for a method that fits only these levels
	Ends     bool // Training.Levels with exactly two levels, for the ends of an interval
}

// NeedError reports that a method needs data that are missing.
type NeedError struct {
	Method string // name of the method
	Need   Needs  // only the missing data
	Where  string // which rows or data lack them, for example "the rows to score"
}

func (e *NeedError) Error() string {
	name, hint := "something unknown", "lack it"
	for _, need := range e.Need.list() {
		if *need.needed {
			name, hint = need.name, need.hint
		}
	}
	return fmt.Sprintf("method %q needs %s: %s %s", e.Method, name, e.Where, hint)
}

type need struct {
	needed     *bool
	name, hint string
}

// list returns all needs in the order in which they are checked.
func (n *Needs) list() [13]need { // an array needs no allocation, which matters because services check every request
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

// String returns the needs as a list, for example "features, labels".
func (n Needs) String() string {
	var names []string
	for _, need := range n.list() {
		if *need.needed {
			names = append(names, need.name)
		}
	}
	return strings.Join(names, ", ")
}
