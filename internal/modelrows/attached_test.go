package modelrows

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/schema"
)

// TestExplainFailure checks that only an error of the model gets the new category.
func TestExplainFailure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.csv")
	if err := os.WriteFile(path, []byte("a\n1\n2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := inputs.Open(t.Context(), path, inputs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kinds := func(list ...string) ood.InputBlock {
		return ood.InputBlock{Tensors: []ood.Tensor{{Name: "kind", Shape: []int{len(list), 1}, Strings: list}}}
	}
	l := schema.NewLearner(schema.LearnOptions{})
	l.Add(kinds("glass", "glass", "steel", "steel"))
	failure := errors.New("broken")
	for _, c := range []struct {
		err, readErr error
		want         string
	}{
		{failure, nil, "broken; line 3 of " + path + `: kind = "wood" (new category)`},
		{failure, failure, "broken"},
		{context.Canceled, nil, "context canceled"},
		{context.DeadlineExceeded, nil, "context deadline exceeded"},
	} {
		checker := l.Profile().NewChecker(false)
		var failed atomic.Bool
		blocks := reportError(checker.Observe(func(yield func(ood.InputBlock, error) bool) {
			if yield(kinds("glass", "wood"), nil) && c.readErr != nil {
				yield(ood.InputBlock{}, c.readErr)
			}
		}), &failed)
		for range blocks { // the model reads all blocks, and then fails
		}
		for _, err := range explainFailure(func(yield func(attach.Rows, error) bool) { yield(attach.Rows{}, c.err) }, set, checker.NewCategory, &failed) {
			if err.Error() != c.want {
				t.Errorf("%v: %v, want %s", c.readErr, err, c.want)
			}
		}
	}
}
