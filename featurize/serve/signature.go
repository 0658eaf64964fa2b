package serve

import (
	"fmt"
	"slices"

	"github.com/attach-uncertainty/attach/internal/display"
)

// signatureChange describes the first difference between two models that clients would
// notice. It returns "" if there is no difference.
func signatureChange(old, new *model) string {
	if before, after := old.bundle.Base.Task, new.bundle.Base.Task; before != after {
		return fmt.Sprintf("the task changed from %s to %s", before, after)
	}
	oldInputs, oldOutputs := old.describeTensors()
	newInputs, newOutputs := new.describeTensors()
	if change := tensorChange("input", oldInputs, newInputs); change != "" {
		return change
	}
	if old.matcher == nil { // clients do not need to know of an output that is sent only on request
		newOutputs = slices.DeleteFunc(newOutputs, func(t tensorMetadata) bool { return t.Name == reasonsOutput })
	}
	if change := tensorChange("output", oldOutputs, newOutputs); change != "" {
		return change
	}
	before, after := old.bundle.Base.Classes, new.bundle.Base.Classes
	if len(before) != len(after) {
		return fmt.Sprintf("the number of class names changed from %d to %d", len(before), len(after))
	}
	for i := range before {
		if before[i] != after[i] {
			return fmt.Sprintf("the name of class %d changed from %.100q to %.100q", i, before[i], after[i])
		}
	}
	return ""
}

// tensorChange describes the first difference between the inputs or outputs of two models.
// Their order does not matter.
func tensorChange(kind string, old, new []tensorMetadata) string {
	for _, before := range old {
		i := slices.IndexFunc(new, func(t tensorMetadata) bool { return t.Name == before.Name })
		if i < 0 {
			return fmt.Sprintf("the %s %q is missing", kind, before.Name)
		}
		if after := new[i]; after.Datatype != before.Datatype || !slices.Equal(after.Shape, before.Shape) {
			return fmt.Sprintf("the %s %q changed from %s %v to %s %v", kind, before.Name, before.Datatype, before.Shape, after.Datatype, after.Shape)
		} else if before.Parameters != nil && after.Parameters != nil && !slices.Equal(before.Parameters.Columns, after.Parameters.Columns) {
			return fmt.Sprintf("the columns of the %s %q changed from %s to %s", kind, before.Name, display.List(before.Parameters.Columns, 10), display.List(after.Parameters.Columns, 10))
		}
	}
	for _, after := range new {
		if !slices.ContainsFunc(old, func(t tensorMetadata) bool { return t.Name == after.Name }) {
			return fmt.Sprintf("the %s %q is new", kind, after.Name)
		}
	}
	return ""
}
