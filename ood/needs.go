package ood

import (
	"errors"
	"fmt"
)

// Needs is the set of things that a method cannot do without.
type Needs uint

const (
	NeedFeatures Needs = 1 << iota // Batch.Features, to fit and to score
	NeedLogits                     // Batch.Logits, to fit and to score
	NeedLabels                     // Training.Batch.Labels, to fit only
	NeedWeights                    // Training.Last
	NeedTrainer                    // Training.Trainer
	NeedOutliers                   // Training.Outliers: true of oracles only
	NeedInputs                     // Batch.Inputs, to score; a method that fits to them too says where they lack
	NeedNetwork                    // Batch.Network, for gradients
	NeedDropout                    // Batch.Network, for passes with dropout
	NeedLayers                     // Batch.Layers, to fit and to score
	NeedTargets                    // Training.Targets: true of interval methods only
	NeedLevels                     // Training.Levels, which are all that it fits
	NeedEnds                       // Training.Levels, two: the ends of an interval

	needsEnd
)

// NeedError says that something a method needs is absent.
type NeedError struct {
	Method string // its name
	Need   Needs  // one bit
	Where  string // which part of the data lacks it
}

func (e *NeedError) Error() string {
	what, hint := e.Need.describe()
	return fmt.Sprintf("method %q needs %s: %s %s", e.Method, what, e.Where, hint)
}

func (n Needs) describe() (what, hint string) {
	switch n {
	case NeedFeatures:
		return "features", "carry none"
	case NeedLogits:
		return "logits", "carry none"
	case NeedLabels:
		return "labels", "carry none"
	case NeedWeights:
		return "the last layer's weights", "come without them"
	case NeedTrainer:
		return "a trainer", "come without one"
	case NeedOutliers:
		return "out-of-domain rows to fit with", "come without any"
	case NeedInputs:
		return "the network's inputs", "are features alone: give the inputs and the model"
	case NeedNetwork:
		return "the network, to differentiate it", "come without it: give the model"
	case NeedDropout:
		return "the network, to run it with dropout", "come without it: give the model"
	case NeedLayers:
		return "earlier layers", "carry none"
	case NeedTargets:
		return "targets", "carry none"
	case NeedLevels:
		return "the levels of quantiles", "come without them"
	case NeedEnds:
		return "the two levels of an interval", "come without them"
	}
	return "something unknown", "lack it"
}

// String names what is needed, as in "features, labels".
func (n Needs) String() string {
	s := ""
	for bit := NeedFeatures; bit < needsEnd; bit <<= 1 {
		if n&bit == 0 {
			continue
		}
		if s != "" {
			s += ", "
		}
		what, _ := bit.describe()
		s += what
	}
	return s
}

// needsParts are the needs that are parts of a batch.
const needsParts = NeedFeatures | NeedLogits | NeedLayers

// has are the parts of the batch as needs.
func (b Batch) has() Needs {
	var has Needs
	if b.Features.Cols > 0 {
		has |= NeedFeatures
	}
	if b.Logits.Cols > 0 {
		has |= NeedLogits
	}
	if len(b.Layers) > 0 {
		has |= NeedLayers
	}
	return has
}

// checkNeeds returns a *NeedError for the first of the method's needs that t
// lacks, or nil.
func (m Method) checkNeeds(t Training) error {
	has := t.has()
	if len(t.Labels) > 0 {
		has |= NeedLabels
	}
	if t.Last != nil {
		has |= NeedWeights
	}
	if t.Trainer != nil {
		has |= NeedTrainer
	}
	if t.Outliers.Len() > 0 {
		has |= NeedOutliers
	}
	if t.Targets.Cols > 0 {
		has |= NeedTargets
	}
	if len(t.Levels) > 0 {
		has |= NeedLevels | NeedEnds
	}
	if t.Network != nil {
		has |= NeedNetwork | NeedDropout
	}
	err := m.check(has, m.Needs&^NeedInputs, "the rows to fit with")
	if need := (*NeedError)(nil); t.Regression && errors.As(err, &need) && need.Need == NeedLogits {
		need.Where = "the rows of a regressor"
	}
	return err
}

// CheckBatch returns a *NeedError for the first thing that scoring b needs and
// b lacks, or nil. where says which rows b has, as in "the rows to score".
func (m Method) CheckBatch(b Batch, where string) error {
	has := b.has()
	if b.Inputs != nil {
		has |= NeedInputs
	}
	return m.check(has, m.Needs&(needsParts|NeedInputs), where)
}

func (m Method) check(has, needs Needs, where string) error {
	for bit := NeedFeatures; bit < needsEnd; bit <<= 1 {
		if needs&bit != 0 && has&bit == 0 {
			return &NeedError{Method: m.Name, Need: bit, Where: where}
		}
	}
	return nil
}
