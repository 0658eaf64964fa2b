package baselines_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/heads"
)

func TestQuantileMethodsAreDescribed(t *testing.T) {
	byName := func(a, b heads.QuantileMethod) int { return strings.Compare(a.Name, b.Name) }
	if !slices.IsSortedFunc(baselines.QuantileMethods, byName) {
		t.Error("the methods are not in alphabetical order")
	}
	for _, m := range baselines.QuantileMethods {
		if !strings.HasSuffix(m.Doc, ".") || m.Ref == "" {
			t.Errorf("%s: doc %q, reference %q", m.Name, m.Doc, m.Ref)
		}
		for name := range m.Default {
			if plain := []string{"n_estimators", "learning_rate", "min_samples_split", "min_samples_leaf"}; slices.Contains(plain, name) {
				continue // scikit-learn's names
			}
			if !strings.Contains(m.Doc, name) {
				t.Errorf("%s: the description is silent about %s", m.Name, name)
			}
		}
	}
}
