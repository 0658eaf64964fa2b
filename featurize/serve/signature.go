package serve

import (
	"fmt"
	"slices"
)

// signatureChange describes the first difference between two models that clients would
// notice. It returns "" if there is no difference.
func signatureChange(old, new *model) string {
	if was, is := old.bundle.Base.Task, new.bundle.Base.Task; was != is {
		return fmt.Sprintf("the task changed from %s to %s", was, is)
	}
	oldInputs, oldOutputs := old.tensors()
	newInputs, newOutputs := new.tensors()
	if change := tensorChange("input", oldInputs, newInputs); change != "" {
		return change
	}
	if change := tensorChange("output", oldOutputs, newOutputs); change != "" {
		return change
	}
	was, is := old.bundle.Base.Classes, new.bundle.Base.Classes
	if len(was) != len(is) {
		return fmt.Sprintf("the number of class names changed from %d to %d", len(was), len(is))
	}
	for i := range was {
		if was[i] != is[i] {
			return fmt.Sprintf("the name of class %d changed from %.100q to %.100q", i, was[i], is[i])
		}
	}
	return ""
}

// tensorChange describes the first difference between the inputs or outputs of two models.
// Their order does not matter.
func tensorChange(kind string, old, new []tensorMetadata) string {
	for _, was := range old {
		i := slices.IndexFunc(new, func(t tensorMetadata) bool { return t.Name == was.Name })
		if i < 0 {
			return fmt.Sprintf("the %s %q is missing", kind, was.Name)
		}
		if is := new[i]; is.Datatype != was.Datatype || !slices.Equal(is.Shape, was.Shape) {
			return fmt.Sprintf("the %s %q changed from %s %v to %s %v", kind, was.Name, was.Datatype, was.Shape, is.Datatype, is.Shape)
		}
	}
	for _, is := range new {
		if !slices.ContainsFunc(old, func(t tensorMetadata) bool { return t.Name == is.Name }) {
			return fmt.Sprintf("the %s %q is new", kind, is.Name)
		}
	}
	return ""
}
