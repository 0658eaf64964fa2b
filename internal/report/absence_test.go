package report

import (
	"reflect"
	"testing"

	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
)

func TestTogether(t *testing.T) {
	got := Together([]compare.Skipped{
		{Name: "odin", Reason: `method "odin" needs logits: the fit rows have none`},
		{Name: "mahalanobis", Reason: `method "mahalanobis": no classes`},
		{Name: "entropy", Reason: `method "entropy" needs logits: the fit rows have none`},
		{Name: "bald", Reason: `method "odin" is another's name`},
	})
	want := []compare.Skipped{
		{Name: "odin, entropy", Reason: "needs logits: the fit rows have none"},
		{Name: "mahalanobis", Reason: "no classes"},
		{Name: "bald", Reason: `method "odin" is another's name`},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("reasons %q, want %q", got, want)
	}
}

func TestFailures(t *testing.T) {
	r := compare.Report{Methods: []compare.MethodReport{
		{Name: "knn", Failed: []compare.Failed{{Params: ood.Params{"k": 500.}, Error: "too few rows"}, {Params: ood.Params{"k": 1000.}, Error: "too few rows"}}},
		{Name: "pca"},
		{Name: "vim", Failed: []compare.Failed{{Params: ood.Params{}, Error: "no weights"}}},
	}}
	want := []compare.Skipped{{Name: "knn k=500, knn k=1000", Reason: "too few rows"}, {Name: "vim", Reason: "no weights"}}
	if got := failures(&r); !reflect.DeepEqual(got, want) {
		t.Errorf("failures %q, want %q", got, want)
	}
}

func TestBest(t *testing.T) {
	m := compare.MethodReport{Configs: []compare.Config{{Metrics: compare.Metrics{AUROC: .5}}, {Metrics: compare.Metrics{AUROC: .7}}, {Metrics: compare.Metrics{AUROC: .7}}}}
	if got := bestConfig(m); got.AUROC != .7 {
		t.Errorf("best %v", got)
	}
}
