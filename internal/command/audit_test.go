package command

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/audit"
)

// TestAuditPage: docs/audit.md has every key of audit.json and every figure.
func TestAuditPage(t *testing.T) {
	content, err := os.ReadFile("../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	jsonKeys(reflect.TypeFor[audit.Audit](), keys)
	if len(keys) < 50 {
		t.Errorf("%d keys were found", len(keys))
	}
	for _, name := range auditFigures() {
		keys[name] = true
	}
	for _, name := range audit.Kinds() {
		keys[name] = true
	}
	for key := range keys {
		if !strings.Contains(string(content), "`"+key+"`") {
			t.Errorf("docs/audit.md lacks `%s`", key)
		}
	}
}
