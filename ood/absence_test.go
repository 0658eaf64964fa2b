package ood_test

import (
	"reflect"
	"testing"

	"github.com/attach-uncertainty/attach/ood"
)

func TestTogether(t *testing.T) {
	got := ood.Together([]ood.Skipped{
		{"odin", `method "odin" needs logits: the rows to fit with carry none`},
		{"mahalanobis", `method "mahalanobis": no classes`},
		{"entropy", `method "entropy" needs logits: the rows to fit with carry none`},
		{"bald", `method "odin" is another's name`},
	})
	want := []ood.Absence{
		{"needs logits: the rows to fit with carry none", []string{"odin", "entropy"}},
		{"no classes", []string{"mahalanobis"}},
		{`method "odin" is another's name`, []string{"bald"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("reasons %q, want %q", got, want)
	}
}

func TestFailures(t *testing.T) {
	r := ood.Report{Methods: []ood.MethodReport{
		{Name: "knn", Failed: []ood.Failed{{ood.Params{"k": 500.}, "too few rows"}, {ood.Params{"k": 1000.}, "too few rows"}}},
		{Name: "pca"},
		{Name: "vim", Failed: []ood.Failed{{ood.Params{}, "no weights"}}},
	}}
	want := []ood.Absence{{"too few rows", []string{"knn k=500", "knn k=1000"}}, {"no weights", []string{"vim"}}}
	if got := r.Failures(); !reflect.DeepEqual(got, want) {
		t.Errorf("failures %q, want %q", got, want)
	}
}
