package main

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach"
)

// TestEvaluatePage: docs/evaluate.md has every key of the JSON form and every
// figure.
func TestEvaluatePage(t *testing.T) {
	content, err := os.ReadFile("../../docs/evaluate.md")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	jsonKeys(reflect.TypeFor[attach.Evaluation](), keys)
	if len(keys) < 60 {
		t.Errorf("%d keys were found", len(keys))
	}
	for _, f := range figures() {
		keys[f.name] = true
	}
	for key := range keys {
		if !strings.Contains(string(content), "`"+key+"`") {
			t.Errorf("docs/evaluate.md lacks `%s`", key)
		}
	}
}

// jsonKeys finds the keys of a type and of what it holds.
func jsonKeys(t reflect.Type, keys map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		jsonKeys(t.Elem(), keys)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "" {
				keys[key] = true
			}
			jsonKeys(f.Type, keys)
		}
	}
}
