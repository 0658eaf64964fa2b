package evaluate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/ood"
	"gonum.org/v1/gonum/blas/blas32"
)

// TestComparesRows checks that the first note is about reused rows, and that it explains
// violated guarantees. Reused rows are evaluated rows that are also fit rows or calibration
// rows, and calibration rows that are also fit rows.
func TestComparesRows(t *testing.T) {
	in := classifier(1000)
	in.DetectorParams, in.Cal = ood.Params{"unit_norm": false}, blob(2, 1000, 8, 3, 0)
	good := mustFit(t, in)
	unhashed := mustFit(t, in)
	unhashed.Calibration.Hashed = "" // rows cannot be compared without hashes
	in.Cal = joinRows(t, in.Batch.Slice(0, 400), in.Cal.Slice(0, 600))
	leaked := mustFit(t, in)
	for _, tt := range []struct {
		name, first, exclude string
		b                    *attach.Bundle
		batch                ood.Batch
		cause                string
		tells                bool // whether guarantees can be met
	}{
		{"rows fitted on", "600 of 600 rows were fitted on", "were calibrated on", good, in.Batch.Slice(0, 600), "", false},
		{"rows calibrated on", "600 of 600 rows were calibrated on", "were fitted on", good, blob(2, 1000, 8, 3, 0).Slice(0, 600), "", false},
		{"a tenth of them", "60 of 600 rows were calibrated on", "were fitted on", good, joinRows(t, blob(2, 1000, 8, 3, 0).Slice(0, 60), blob(9, 540, 8, 3, 0)), "", true},
		{"rows calibrated on, without hashes", "598 of 600 rows have the scores of calibration rows", "were calibrated on", unhashed, blob(2, 1000, 8, 3, 0).Slice(0, 600), "", false},
		{"leaked", "400 of 1,000 calibration rows were fitted on too", "almost no row", leaked, blob(9, 600, 8, 3, 20), "false_alarm_rate: first fit again, with calibration rows that were not used to fit", true},
		{"other rows", "", "ed on", good, blob(9, 600, 8, 3, 0), "", true},
	} {
		e := mustEvaluate(t, tt.b, blocksOf(tt.batch, blas32.General{}, nil), attach.PredictOptions{}, evaluate.Options{})
		notes := fmt.Sprint(e.Notes)
		checkCause(t, tt.name, e, tt.cause)
		met := slices.ContainsFunc(e.Guarantees, func(p evaluate.Guarantee) bool { return p.Verdict == "met" })
		if met && !tt.tells {
			t.Errorf("%s: guarantees are met on rows that were used before: %+v", tt.name, e.Guarantees)
		} else if !met && tt.name == "other rows" {
			t.Errorf("%s: no guarantee is met", tt.name)
		}
		switch {
		case tt.first == "" && !strings.Contains(notes, tt.exclude):
		case tt.first == "" || e.Notes == nil || !strings.HasPrefix(e.Notes[0].Message, tt.first) || strings.Contains(notes, tt.exclude):
			t.Errorf("%s: %s", tt.name, notes)
		}
	}
}

// TestSampleOfManyRows checks that a sample of 4,096 hashes of 20,000 fit rows suffices to
// estimate how many evaluated rows are also fit rows.
func TestSampleOfManyRows(t *testing.T) {
	in := attach.FitOptions{Base: attach.Base{Task: attach.Classification}, Batch: blob(1, 20_000, 2, 2, 0), Cal: blob(2, 100, 2, 2, 0), Detector: method("certificates")}
	b := mustFit(t, in)
	if n := len(b.Calibration.FitHashes); n != 4096 {
		t.Errorf("%d hashes of rows fitted on are kept", n)
	}
	x := joinRows(t, in.Batch.Slice(0, 3000), blob(3, 3000, 2, 2, 0))
	e := mustEvaluate(t, b, blocksOf(x, blas32.General{}, nil), attach.PredictOptions{}, evaluate.Options{})
	var n, of int
	if _, err := fmt.Sscanf(strings.ReplaceAll(fmt.Sprint(e.Notes), ",", ""), "[{about %d of %d rows were fitted on", &n, &of); err != nil || n < 2700 || n > 3300 || of != 6000 {
		t.Errorf("of 6000 rows, half of which were fitted on: %v", e.Notes)
	}
}
