package compare_test

import (
	"reflect"
	"testing"

	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
)

func TestTogether(t *testing.T) {
	got := compare.Together([]compare.Skipped{
		{"odin", `method "odin" needs logits: the rows to fit with carry none`},
		{"mahalanobis", `method "mahalanobis": no classes`},
		{"entropy", `method "entropy" needs logits: the rows to fit with carry none`},
		{"bald", `method "odin" is another's name`},
	})
	want := []compare.Skipped{
		{"odin, entropy", "needs logits: the rows to fit with carry none"},
		{"mahalanobis", "no classes"},
		{"bald", `method "odin" is another's name`},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("reasons %q, want %q", got, want)
	}
}

func TestFailures(t *testing.T) {
	r := compare.Report{Methods: []compare.MethodReport{
		{Name: "knn", Failed: []compare.Failed{{ood.Params{"k": 500.}, "too few rows"}, {ood.Params{"k": 1000.}, "too few rows"}}},
		{Name: "pca"},
		{Name: "vim", Failed: []compare.Failed{{ood.Params{}, "no weights"}}},
	}}
	want := []compare.Skipped{{"knn k=500, knn k=1000", "too few rows"}, {"vim", "no weights"}}
	if got := r.Failures(); !reflect.DeepEqual(got, want) {
		t.Errorf("failures %q, want %q", got, want)
	}
}
