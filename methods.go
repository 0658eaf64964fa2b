package attach

import (
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// Methods are all methods of this module, detectors and interval methods, in
// alphabetical order.
func Methods() []ood.Method {
	return slices.SortedFunc(slices.Values(slices.Concat(heads.All(), baselines.All())), func(a, b ood.Method) int { return strings.Compare(a.Name, b.Name) })
}

// MethodByName finds a method of Methods, or one of a program's own.
func MethodByName(name string, own ...ood.Method) (ood.Method, bool) {
	all := slices.Concat(own, heads.All(), baselines.All())
	if i := slices.IndexFunc(all, func(m ood.Method) bool { return m.Name == name }); i >= 0 {
		return all[i], true
	}
	return ood.Method{}, false
}
