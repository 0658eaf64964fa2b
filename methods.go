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

// Methods are all methods of this module, detectors and interval methods, in
// alphabetical order.
func Methods() []ood.Method {
	return slices.SortedFunc(slices.Values(slices.Concat(heads.All(), baselines.All())), func(a, b ood.Method) int { return strings.Compare(a.Name, b.Name) })
}

// MethodByName finds a method of Methods, or else one of a program's own.
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

// savable refuses what a method of a program's own fitted where a file could not
// give it back.
func savable(m ood.Method, s *fitting.Scorer) error {
	if _, ours := MethodByName(m.Name); ours {
		return nil
	}
	return s.CheckState()
}

// whole refuses a method that could not be fitted, saved or opened again, as a
// program's own could not under the name of one of Methods.
func whole(m ood.Method) error {
	if m.Name == "" || m.Fit == nil || m.New == nil {
		return fmt.Errorf("method %q is not whole: it needs a Name, a Fit and a New", m.Name)
	}
	if ours, ok := MethodByName(m.Name); ok && reflect.TypeOf(ours.New()) != reflect.TypeOf(m.New()) {
		return fmt.Errorf("method %q is not this module's of that name: files would be opened as that; give it another name", m.Name)
	}
	return nil
}
