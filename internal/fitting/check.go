package fitting

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

// ErrMemory is wrapped by the error for a fit that would need more than 8 GB of memory in
// addition to its rows. That error names the method and the sizes of the data.
var ErrMemory = errors.New("takes more than 8 GB of memory")

// Check returns an error if one configuration of a method cannot be fitted. The error is an
// *ood.NeedError for the first need of the method that t does not meet, wraps ErrMemory, or
// describes an invalid parameter.
func Check(m ood.Method, t ood.Training, p ood.Params) error {
	if err := checkNeeds(m, t); err != nil {
		return err
	}
	if _, err := resolve(m, p); err != nil || Memory(m, t, p) <= rows.MostMemory {
		return err
	}
	what := fmt.Sprintf("%d rows of %d features", t.Len(), t.Features.Cols)
	if t.Logits.Cols > 0 {
		what += fmt.Sprintf(", %d logits", t.Logits.Cols)
	}
	if m.Needs.Layers {
		for _, l := range t.Layers {
			what += fmt.Sprintf(", %d in a layer", l.Cols)
		}
	}
	if Memory(m, t, nil) <= rows.MostMemory {
		what += ", with " + p.String()
	}
	return fmt.Errorf("method %q %w for %s", m.Name, ErrMemory, what)
}

// Memory estimates the memory in bytes that a fit of one configuration needs. It returns 0
// if the parameters are invalid, or if the method does not declare Memory.
func Memory(m ood.Method, t ood.Training, p ood.Params) float64 {
	own, err := resolve(m, p)
	if err != nil || m.Memory == nil {
		return 0
	}
	return m.Memory(t, own)
}

// CheckBatch returns an *ood.NeedError if b lacks something that the method needs for
// scoring. The argument where describes the rows in b, for example "the rows to score".
func CheckBatch(m ood.Method, b ood.Batch, where string) error {
	has, needs := availableNeeds(b), batchNeeds(m.Needs)
	has.Inputs, needs.Inputs = b.Inputs != nil, m.Needs.Inputs
	return missingNeed(m, has, needs, where)
}

// Union returns the needs that are set in a, in b, or in both.
func Union(a, b ood.Needs) ood.Needs {
	either, other := reflect.ValueOf(&a).Elem(), reflect.ValueOf(b)
	for i := range either.NumField() {
		either.Field(i).SetBool(either.Field(i).Bool() || other.Field(i).Bool())
	}
	return a
}

// batchNeeds returns the needs in n that concern the matrices of a batch: features, logits
// and earlier layers.
func batchNeeds(n ood.Needs) ood.Needs {
	return ood.Needs{Features: n.Features, Logits: n.Logits, Layers: n.Layers}
}

// availableNeeds returns the needs that the matrices of a batch meet.
func availableNeeds(b ood.Batch) ood.Needs {
	return ood.Needs{Features: b.Features.Cols > 0, Logits: b.Logits.Cols > 0, Layers: len(b.Layers) > 0}
}

// neededParts returns the parts of a batch that the given needs ask for.
func neededParts(b *ood.Batch, needs ood.Needs) batchparts.Parts {
	return slices.DeleteFunc(batchparts.Of(b), func(p batchparts.Part) bool {
		switch p.Name {
		case "features":
			return !needs.Features
		case "logits":
			return !needs.Logits
		case "gaps":
			return true
		}
		return !needs.Layers
	})
}

// missingNeed returns an *ood.NeedError for the first field that is set in needs but not in
// has. It returns nil if has meets all needs.
func missingNeed(m ood.Method, has, needs ood.Needs, where string) error {
	if Union(has, needs) == has { // fast path for a server
		return nil
	}
	var first ood.Needs
	available, required, missing := reflect.ValueOf(has), reflect.ValueOf(needs), reflect.ValueOf(&first).Elem()
	for i := range required.NumField() {
		if required.Field(i).Bool() && !available.Field(i).Bool() {
			missing.Field(i).SetBool(true)
			break
		}
	}
	return &ood.NeedError{Method: m.Name, Need: first, Where: where}
}

// checkNeeds returns an *ood.NeedError for the first need of the method that t does not
// meet, or nil if t meets all needs. It does not check Inputs, which most methods need only
// to score rows.
func checkNeeds(m ood.Method, t ood.Training) error {
	has := availableNeeds(t.Batch)
	has.Labels = len(t.Labels) > 0
	has.Weights = t.Last != nil
	has.Trainer = t.Trainer != nil
	has.Outliers = t.Outliers.Len() > 0
	has.Targets = t.Targets.Cols > 0
	has.Levels, has.Ends = len(t.Levels) > 0, len(t.Levels) > 0
	has.Network, has.Dropout = t.Network != nil, t.Network != nil
	needs := m.Needs
	needs.Inputs = false
	err := missingNeed(m, has, needs, "the fit rows")
	if need, ok := errors.AsType[*ood.NeedError](err); ok && t.Regression && need.Need.Logits {
		need.Where = "the rows of a regressor"
	}
	return err
}

// checkTraining returns an error if the method cannot be fitted to the rows.
func checkTraining(m ood.Method, t ood.Training) error {
	if err := checkNeeds(m, t); err != nil {
		return err
	}
	if err := batchparts.Validate(t.Batch); err != nil {
		return err
	}
	if t.Len() == 0 {
		return &rows.TooFewRowsError{What: m.Name, Need: 1}
	}
	if err := batchparts.Of(&t.Batch).CheckFinite(""); err != nil {
		return err
	}
	if m.Needs.Targets {
		if err := checkTargets(m, t); err != nil {
			return err
		}
	}
	if m.Needs.Logits && t.Logits.Cols < 2 && !(t.Regression && m.Needs.Dropout) {
		// The softmax of a single logit is always 1, so methods that use it cannot work.
		// For regressors, methods with dropout are exempt, because they compare outputs
		// directly.
		return fmt.Errorf("it scores the logits of a classifier, one per class, but there is only %d per row", t.Logits.Cols)
	}
	if m.Needs.Weights {
		return CheckLast(t.Last, t.Features.Cols, t.Logits.Cols)
	}
	return nil
}

// checkTargets returns an error if the targets or the levels are invalid for the method.
func checkTargets(m ood.Method, t ood.Training) error {
	v := t.Validation
	switch {
	case t.Targets.Rows != t.Len():
		return fmt.Errorf("%d rows but %d rows of targets", t.Len(), t.Targets.Rows)
	case m.Needs.Ends && len(t.Levels) != 2:
		return fmt.Errorf("an interval needs two levels, not %d", len(t.Levels))
	case v.Rows > 0 && (v.Cols != t.Features.Cols || t.ValidationTargets.Cols != t.Targets.Cols || t.ValidationTargets.Rows != v.Rows):
		return fmt.Errorf("validation rows are %d×%d with targets of %d×%d, but the training data has %d columns and %d targets",
			v.Rows, v.Cols, t.ValidationTargets.Rows, t.ValidationTargets.Cols, t.Features.Cols, t.Targets.Cols)
	}
	for i, l := range t.Levels {
		if !(l > 0 && l < 1) || i > 0 && l == t.Levels[i-1] {
			return fmt.Errorf("quantile level %v is not between 0 and 1, or occurs twice", l)
		}
	}
	return cmp.Or(
		rows.CheckFinite("targets", t.Targets),
		rows.CheckFinite("validation rows", v), rows.CheckFinite("validation targets", t.ValidationTargets))
}

// CheckLast returns an error if the shape of a last layer does not match h features and c
// logits, or if a number is not finite. If c is 0, the number of logits is not checked.
func CheckLast(l *ood.Linear, h, c int) error {
	switch w := l.Weight; {
	case w.Cols != h:
		return fmt.Errorf("the last layer's weights are for %d features, and the rows have %d", w.Cols, h)
	case c > 0 && w.Rows != c:
		return fmt.Errorf("the last layer has %d outputs, and the rows have %d logits", w.Rows, c)
	case len(l.Bias) > 0 && len(l.Bias) != w.Rows:
		return fmt.Errorf("the last layer has %d biases for %d outputs", len(l.Bias), w.Rows)
	}
	for i, b := range l.Bias {
		if !rows.Finite(b) {
			return fmt.Errorf("bias %d of the last layer is %v", i, b)
		}
	}
	return rows.CheckFinite("the last layer's weights", l.Weight)
}
