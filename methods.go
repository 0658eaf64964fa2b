package attach

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
)

// Methods returns all detectors and interval methods of this module, sorted by name.
func Methods() []ood.Method {
	return slices.SortedFunc(slices.Values(slices.Concat(heads.All(), baselines.All())), func(a, b ood.Method) int { return strings.Compare(a.Name, b.Name) })
}

// MethodByName returns the method with the given name, from Methods or from the custom
// methods. It reports whether there is one.
func MethodByName(name string, custom ...ood.Method) (ood.Method, bool) {
	all := slices.Concat(heads.All(), baselines.All(), custom)
	if i := slices.IndexFunc(all, func(m ood.Method) bool { return m.Name == name }); i >= 0 {
		return all[i], true
	}
	return ood.Method{}, false
}

func methodsByName(names ...string) (all []ood.Method) {
	for _, name := range names {
		m, _ := MethodByName(name)
		all = append(all, m)
	}
	return all
}

// checkSavable returns an error if m is a custom method and a file could not restore its
// fitted state.
func checkSavable(m ood.Method, s *fitting.Scorer) error {
	if _, builtIn := MethodByName(m.Name); builtIn {
		return nil
	}
	return s.CheckState()
}

// checkMethod returns an error for a method that is incomplete, and for a custom method
// that has the name of one of Methods but a different type of fit. A file with such a method
// could not be opened again.
func checkMethod(m ood.Method) error {
	if m.Name == "" || m.Fit == nil || m.New == nil {
		return fmt.Errorf("method %q is incomplete; it needs a Name, a Fit and a New", m.Name)
	}
	if builtIn, ok := MethodByName(m.Name); ok && reflect.TypeOf(builtIn.New()) != reflect.TypeOf(m.New()) {
		return fmt.Errorf("method %q has the name of a method of this module, which a file would be opened with; choose another name", m.Name)
	}
	return nil
}
