package command

import (
	"testing"

	"github.com/attach-uncertainty/attach/ood"
)

func TestMethodTable(t *testing.T) {
	got := methodTable("method | score", "sweep", methodEntries([]ood.Method{
		{
			Name: "norm", Doc: "The norm |φ|, a length. More of it.", Ref: "A & B 2020, eq. 1|2", Needs: ood.Needs{Features: true, Labels: true},
			Sweep: []ood.Params{{"p": 1., "where": "top"}, {"p": 2.5, "where": "top"}, {"logits": true}},
		},
		{Name: "coin", Doc: "Tossed.", Control: true},
	}), sweepOf)
	want := "| method | score | when to use it | reference | needs | sweep |\n|---|---|---|---|---|---|\n" +
		"| `norm` | The norm \\|φ\\|, a length. | More of it. | A & B 2020, eq. 1\\|2 | features, labels | `logits` true; `p` 1, 2.5; `where` top |\n" +
		"| `coin` (control) | Tossed. |  |  | – | – |\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestParameterTable(t *testing.T) {
	got := parameterTable(methodEntries([]ood.Method{
		{Name: "norm", Doc: "The norm. Use it. It is |φ| to the power p.", Params: []ood.Param{{Name: "p", Default: 2.}}},
		{Name: "short", Doc: "A score. Use it.", Params: []ood.Param{{Name: "k", Default: 1}}},
		{Name: "coin", Doc: "Tossed. Never. Without parameters."},
	}))
	want := "| method | defaults | details |\n|---|---|---|\n| `norm` | `p=2` | It is \\|φ\\| to the power p. |\n| `short` | `k=1` | – |\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
