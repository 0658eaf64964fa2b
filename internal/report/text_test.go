package report

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
)

// TestPrintManyGroups: of many groups those that are flagged the most are shown.
func TestPrintManyGroups(t *testing.T) {
	e := &evaluate.Evaluation{Alpha: .05, Flags: &evaluate.Flags{}}
	for i := range 50 {
		e.Flags.ByGroup = append(e.Flags.ByGroup, evaluate.Rate{Name: fmt.Sprintf("group%d", i), Share: float64(i) / 100})
	}
	if s := EvaluationText(e); !strings.Contains(s, "group49 ") || !strings.Contains(s, "group30 ") || strings.Contains(s, "group29 ") || !strings.Contains(s, "most 20 of 50") {
		t.Error(s)
	}
}

// TestPromisesOfManyClasses: the first of each verdict are sentences, the others
// are counted.
func TestPromisesOfManyClasses(t *testing.T) {
	e := &evaluate.Evaluation{Task: attach.Classification}
	for k := range 1000 {
		p := evaluate.Promise{Kind: "sets", Part: "class", Rate: evaluate.Rate{Name: strconv.Itoa(k), Asked: .9}, Verdict: "too few rows", Says: "little", Do: "calibrate with more"}
		if k%100 == 50 {
			p.Verdict = "kept"
		}
		if k >= 995 {
			p.Verdict = "broken"
		}
		e.Promises = append(e.Promises, p)
	}
	var out strings.Builder
	writeText(&out, []block{promises(e)})
	for _, says := range []string{
		"too few rows  sets of class 9: little; calibrate with more\n", "too few rows  sets at 0.9, in 975 more of 1,000 classes\n", "kept          sets at 0.9, in 10 of 1,000 classes\n", "broken        sets of class 999: little\n",
	} {
		if !strings.Contains(out.String(), says) {
			t.Errorf("%q is not in\n%s", says, &out)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 10+5+2+1 {
		t.Errorf("%d lines:\n%s", n, &out)
	}
}
