package serve

import (
	"fmt"
	"slices"
)

// signatureChange says how a model differs from another in what its clients send and
// get, or returns "" if it does not.
func signatureChange(old, new *model) string {
	if was, is := old.bundle.Base.Task, new.bundle.Base.Task; was != is {
		return fmt.Sprintf("its task is %s, and was %s", is, was)
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
		return fmt.Sprintf("it names %d classes, and named %d", len(is), len(was))
	}
	for i := range was {
		if was[i] != is[i] {
			return fmt.Sprintf("its class %d is %.100q, and was %.100q", i, is[i], was[i])
		}
	}
	return ""
}

// tensorChange says how inputs or outputs differ, in any order.
func tensorChange(kind string, old, new []tensorMetadata) string {
	for _, was := range old {
		i := slices.IndexFunc(new, func(t tensorMetadata) bool { return t.Name == was.Name })
		if i < 0 {
			return fmt.Sprintf("it has no %s %q, which there was", kind, was.Name)
		}
		if is := new[i]; is.Datatype != was.Datatype || !slices.Equal(is.Shape, was.Shape) {
			return fmt.Sprintf("its %s %q is %s %v, and was %s %v", kind, was.Name, is.Datatype, is.Shape, was.Datatype, was.Shape)
		}
	}
	for _, is := range new {
		if !slices.ContainsFunc(old, func(t tensorMetadata) bool { return t.Name == is.Name }) {
			return fmt.Sprintf("it has %s %q, which there was not", kind, is.Name)
		}
	}
	return ""
}
