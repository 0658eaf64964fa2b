package ood

import (
	"fmt"
	"strings"
)

// Needs are the things that a method cannot do without.
type Needs struct {
	Features bool // Batch.Features, to fit and to score
	Logits   bool // Batch.Logits, to fit and to score
	Labels   bool // Training.Batch.Labels, to fit only
	Weights  bool // Training.Last
	Trainer  bool // Training.Trainer
	Outliers bool // Training.Outliers: true of oracles only
	Inputs   bool // Batch.Inputs, to score; a method that fits to them too says where they lack
	Network  bool // Batch.Network, for gradients
	Dropout  bool // Batch.Network, for passes with dropout
	Layers   bool // Batch.Layers, to fit and to score
	Targets  bool // Training.Targets: true of interval methods, which predict their quantiles, and of no detector
	Levels   bool // Training.Levels, which are all that it fits
	Ends     bool // Training.Levels, two: the ends of an interval
}

// NeedError says that something a method needs is absent.
type NeedError struct {
	Method string // its name
	Need   Needs  // what is absent, and nothing else
	Where  string // which part of the data lacks it
}

func (e *NeedError) Error() string {
	what, hint := "something unknown", "lack it"
	for _, need := range e.Need.each() {
		if *need.is {
			what, hint = need.what, need.hint
		}
	}
	return fmt.Sprintf("method %q needs %s: %s %s", e.Method, what, e.Where, hint)
}

type need struct {
	is         *bool
	what, hint string
}

// each are the needs one by one, in the order that they are checked in.
func (n *Needs) each() [13]need { // an array takes no memory, for services that check every request
	return [...]need{
		{&n.Features, "features", "carry none"},
		{&n.Logits, "logits", "carry none"},
		{&n.Labels, "labels", "carry none"},
		{&n.Weights, "the last layer's weights", "come without them"},
		{&n.Trainer, "a trainer", "come without one"},
		{&n.Outliers, "out-of-domain rows to fit with", "come without any"},
		{&n.Inputs, "the network's inputs", "are features alone: give the inputs and the model"},
		{&n.Network, "the network, to differentiate it", "come without it: give the model"},
		{&n.Dropout, "the network, to run it with dropout", "come without it: give the model"},
		{&n.Layers, "earlier layers", "carry none"},
		{&n.Targets, "targets", "carry none"},
		{&n.Levels, "the levels of quantiles", "come without them"},
		{&n.Ends, "the two levels of an interval", "come without them"},
	}
}

// String names what is needed, as in "features, labels".
func (n Needs) String() string {
	var what []string
	for _, need := range n.each() {
		if *need.is {
			what = append(what, need.what)
		}
	}
	return strings.Join(what, ", ")
}
