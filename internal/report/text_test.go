package report

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
)

// TestPrintManyGroups checks that a text shows the groups with the highest rate of flags if
// there are many groups.
func TestPrintManyGroups(t *testing.T) {
	e := &evaluate.Evaluation{Alpha: .05, Flags: &evaluate.Flags{}}
	for i := range 50 {
		e.Flags.ByGroup = append(e.Flags.ByGroup, evaluate.Rate{Name: fmt.Sprintf("group%d", i), Fraction: float64(i) / 100})
	}
	if s := EvaluationText(e); !strings.Contains(s, "group49 ") || !strings.Contains(s, "group30 ") || strings.Contains(s, "group29 ") || !strings.Contains(s, "most 20 of 50") {
		t.Error(s)
	}
}

// TestGuaranteesOfManyClasses checks that the first guarantees that are violated or have
// too few rows have a sentence, and that the others are counted.
func TestGuaranteesOfManyClasses(t *testing.T) {
	e := &evaluate.Evaluation{Task: attach.Classification}
	for k := range 1000 {
		p := evaluate.Guarantee{Kind: "set_coverage", Part: "class", Rate: evaluate.Rate{Name: strconv.Itoa(k), Nominal: .9}, Verdict: "too_few_rows", Message: "little", Advice: "calibrate with more"}
		if k%100 == 50 {
			p.Verdict = "met"
		}
		if k >= 995 {
			p.Verdict = "violated"
		}
		e.Guarantees = append(e.Guarantees, p)
	}
	b := guaranteesBlock(e)
	b.removeRepeatedAdvice()
	var out strings.Builder
	writeText(&out, []block{b})
	for _, want := range []string{
		"too few rows  set coverage of class 0: little\n              what to do: calibrate with more (attach fit --cal)\ntoo few rows  set coverage of class 1: little\n", "too few rows  set coverage at 0.9, in 975 more of 1,000 classes\n", "met           set coverage at 0.9, in 10 of 1,000 classes\n", "violated      set coverage of class 999: little\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 10+5+2+1 {
		t.Errorf("%d lines:\n%s", n, &out)
	}
}
