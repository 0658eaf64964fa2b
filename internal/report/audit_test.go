package report

import (
	"image"
	"math"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/audit"
)

func audited(t *testing.T, name string) *audit.Audit {
	t.Helper()
	picture, err := Encode(image.NewGray(image.Rect(0, 0, 24, 24)))
	if err != nil {
		t.Fatal(err)
	}
	class, confidence := 1, audit.JSONFloat(.5)
	a := &audit.Audit{
		Inputs: 9, Discoveries: 2, Outliers: 1, FDP: .25, PValues: make([]int, 20), Notes: []string{name},
		Thresholds: []audit.Threshold{{PValue: .01, Inputs: 2, FDP: .25}},
		Groups:     []audit.Group{{Kind: "shard", Name: name, Inputs: 9, Discoveries: 2, Outliers: 1}, {Kind: "class", Name: name, Inputs: 9}},
		Classes:    []audit.Class{{Class: 1, Name: name, Audited: .75, PValue: .01}},
		Worst: []audit.Row{
			{Key: name, Score: audit.JSONFloat(math.Inf(1)), Class: &class, ClassName: name, Confidence: &confidence, Folder: name, Shown: &audit.Shown{Picture: picture}},
			{Key: "b", Class: &class, Confidence: &confidence, Shown: &audit.Shown{Text: name}},
		},
		Duplicates: [][]string{{name, "b"}},
	}
	a.Task, a.FDR, a.Delta, a.Calibration, a.Bundle = attach.Classification, .1, .05, 100, "0123456789abcdef"
	return a
}

func TestAudit(t *testing.T) {
	page := written(t, Audit(audited(t, "photos/7.jpg")))
	sound(t, page)
	for _, want := range []string{"<h1>What does not belong</h1>", "9 inputs of 0 files, compared with 100 calibration rows.", `src="data:image/png;base64,`, "By file", "How often classes are predicted", "Nearly the same", "--fdr 0.1 --delta 0.05", "75.0 %"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	harmless(t, written(t, Audit(audited(t, hostile))))
}
