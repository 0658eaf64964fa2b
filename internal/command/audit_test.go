package command

import (
	"context"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/audit/engine"
)

// TestAuditPage checks that docs/reference/json.md describes every key of audit.json, every
// figure and every kind of group. The page must say when an optional key is absent.
func TestAuditPage(t *testing.T) {
	content, err := os.ReadFile("../../docs/reference/json.md")
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
	absentWhen := map[string]string{} // when each optional key is absent, by key
	for line := range strings.Lines(string(content)) {
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			for i, name := range strings.Split(cells[1], "`") {
				if i%2 == 1 {
					absentWhen[name] = strings.TrimSpace(cells[3])
				}
			}
		}
	}
	optional := 0
	for _, structField := range reflect.VisibleFields(reflect.TypeFor[audit.Audit]()) {
		key, option, _ := strings.Cut(structField.Tag.Get("json"), ",")
		if option != "omitempty" {
			continue
		}
		if optional++; absentWhen[key] == "" {
			t.Errorf("docs/reference/json.md does not say when `%s` is left out", key)
		}
	}
	if optional < 10 {
		t.Errorf("%d keys may be left out", optional)
	}
	for key := range keys {
		if !strings.Contains(string(content), "`"+key+"`") {
			t.Errorf("docs/reference/json.md lacks `%s`", key)
		}
	}
}

// TestAuditOptions checks that a worker on another machine gets all flags except the gates.
func TestAuditOptions(t *testing.T) {
	f := &auditFlags{}
	f.flags()
	encoded := func() string {
		content, err := json.Marshal(f.auditOptions())
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	for _, o := range f.table {
		text := "cpu"
		switch o.dest.(type) {
		case *string:
			if o.choices != nil {
				text = o.choices[len(o.choices)-1]
			}
		case *bool:
			text = "true"
		case *int, *[]int:
			text = "7"
		case *float64:
			text = ".7"
		}
		switch o.name {
		case "report":
			text = "page.html"
		case "list":
			text = "clean"
		}
		before := encoded()
		if err := o.set(text); err != nil {
			t.Fatal(err)
		}
		if encoded() == before && !slices.Contains([]string{"fail-if", "report", "list", "only", "top"}, o.name) {
			t.Errorf("a worker does not have what --%s says", o.name)
		}
	}
	var received engine.Options
	if err := json.Unmarshal([]byte(encoded()), &received); err != nil {
		t.Fatal(err)
	}
	if sent := f.auditOptions(); !reflect.DeepEqual(received, sent) {
		t.Errorf("%+v, want %+v", received, sent)
	}
}

// TestInterrupted checks that an interrupted audit tells the user that the scored rows are
// kept.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stderr strings.Builder
	if code := status(ctx, engine.ResumableError{Err: ctx.Err()}, &stderr); code != exitFailed || stderr.String() != "attach: interrupted; scored rows are kept; run the same command to continue\n" {
		t.Errorf("%d: %s", code, &stderr)
	}
}

// TestNamesWithLineBreaks checks that a list with a name per line refuses a name with two lines.
func TestNamesWithLineBreaks(t *testing.T) {
	var list strings.Builder
	names := newTableWriter("clean.txt", &list)
	if err := names.write([]field{{"key", "a.png"}}); err != nil || list.String() != "a.png\n" {
		t.Errorf("%q, %v", list.String(), err)
	}
	for _, name := range []string{"b\nc.png", "d\r.png"} {
		if err := names.write([]field{{"key", name}}); err == nil {
			t.Errorf("%q is written", name)
		}
	}
}
