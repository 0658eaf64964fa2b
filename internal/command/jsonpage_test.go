package command

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/ood/compare"
)

// TestComparePage checks that docs/reference/json.md describes every key of compare --json.
func TestComparePage(t *testing.T) {
	content, err := os.ReadFile("../../docs/reference/json.md")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	jsonKeys(reflect.TypeFor[compare.Report](), keys)
	if len(keys) < 35 {
		t.Errorf("%d keys were found", len(keys))
	}
	for key := range keys {
		if !strings.Contains(string(content), "`"+key+"`") {
			t.Errorf("docs/reference/json.md lacks `%s`", key)
		}
	}
}
