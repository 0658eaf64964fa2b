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

// Methods returns all methods of this module, detectors and interval methods, sorted by name.
func Methods() []ood.Method {
	return slices.SortedFunc(slices.Values(slices.Concat(heads.All(), baselines.All())), func(a, b ood.Method) int { return strings.Compare(a.Name, b.Name) })
}

// MethodByName finds a method of Methods or of own, custom methods.
func MethodByName(name string, own ...ood.Method) (ood.Method, bool) {
	all := slices.Concat(heads.All(), baselines.All(), own)
	if i := slices.IndexFunc(all, func(m ood.Method) bool { return m.Name == name }); i >= 0 {
		return all[i], true
	}
	return ood.Method{}, false
}

func named(names ...string) (all []ood.Method) {
	for _, name := range names {
		m, _ := MethodByName(name)
		all = append(all, m)
	}
	return all
}

// savable returns an error for a fit of a custom method that a file could not restore.
func savable(m ood.Method, s *fitting.Scorer) error {
	if _, ours := MethodByName(m.Name); ours {
		return nil
	}
	return s.CheckState()
}

// checkMethod returns an error for a method that could not be fitted, saved or opened again:
// one that is incomplete, or a custom one with the name of one of Methods.
func checkMethod(m ood.Method) error {
	if m.Name == "" || m.Fit == nil || m.New == nil {
		return fmt.Errorf("method %q is incomplete; it needs a Name, a Fit and a New", m.Name)
	}
	if ours, ok := MethodByName(m.Name); ok && reflect.TypeOf(ours.New()) != reflect.TypeOf(m.New()) {
		return fmt.Errorf("method %q has the name of a method of this module, which a file would be opened with; choose another name", m.Name)
	}
	return nil
}
