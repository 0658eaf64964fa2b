package attach_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/ood"
)

// binaryTable returns n rows of a table with three binary columns, and targets that do not
// depend on them.
func binaryTable(seed uint64, n int) (b ood.Batch, targets blas32.General) {
	rng := rand.New(rand.NewPCG(seed, 9))
	b.Features, targets = matrix(n, 3), matrix(n, 1)
	for i := range b.Features.Data {
		b.Features.Data[i] = float32(rng.IntN(2))
	}
	for i := range targets.Data {
		targets.Data[i] = float32(rng.NormFloat64())
	}
	return b, targets
}

// TestFitComparesRows checks that Fit rejects calibration rows that are all fit rows, and
// otherwise counts reused and repeated calibration rows. Rows that may be equal by chance do
// not count.
func TestFitComparesRows(t *testing.T) {
	fit, own := blob(1, 500, 8, 3, 0), blob(2, 500, 8, 3, 0)
	var copies []ood.Batch
	for range 20 {
		copies = append(copies, own.Slice(0, 50))
	}
	table, values := binaryTable(1, 400)
	other, otherValues := binaryTable(2, 400)
	for _, tt := range []struct {
		name                   string
		fit, cal               ood.Batch
		fitTargets, calTargets blas32.General
		wantErr                string
		reused, repeated       int
	}{
		{name: "a copy", fit: fit, cal: fit, wantErr: "all 500 calibration rows are among the rows to fit on"},
		{name: "a copy of some", fit: fit, cal: fit.Slice(100, 200), wantErr: "all 100 calibration rows"},
		{name: "half leaked", fit: fit, cal: joinRows(t, fit.Slice(0, 250), own.Slice(0, 250)), reused: 250},
		{name: "others", fit: fit, cal: own},
		{name: "copies of copies", fit: fit, cal: joinRows(t, copies...), repeated: 950},
		{name: "copies, split off", fit: joinRows(t, fit, fit), reused: 150},
		{name: "few values", fit: table, cal: other},
		{name: "few values, copied", fit: table, cal: table}, // a table with so few values cannot show that it was copied
		{name: "few values, with targets", fit: table, cal: other, fitTargets: values, calTargets: otherValues},
		{name: "few values, copied with targets", fit: table, cal: table, fitTargets: values, calTargets: values, wantErr: "all 400 calibration rows"},
	} {
		in := attach.FitOptions{Base: attach.Base{Task: attach.Classification}, Batch: tt.fit, Cal: tt.cal, Detector: method("certificates"), Seed: 3}
		if tt.fit.Features.Cols == 3 {
			in.Base.Task, in.SkipIntervals, in.Targets, in.CalTargets = attach.Regression, true, tt.fitTargets, tt.calTargets
		}
		b, err := attach.Fit(t.Context(), in)
		if tt.wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("%s: the error is %v, want one with %q", tt.name, err, tt.wantErr)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if c := b.Calibration; c.Reused != tt.reused || c.Repeated != tt.repeated {
			t.Errorf("%s: %d rows are reused and %d repeated, want %d and %d", tt.name, c.Reused, c.Repeated, tt.reused, tt.repeated)
		}
		if reported := strings.Contains(b.Guarantee(), "were fitted on too"); reported != (tt.reused > 0) {
			t.Errorf("%s: %s", tt.name, b.Guarantee())
		}
		written := mustWrite(t, b)
		back, err := read(written)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if !bytes.Equal(mustWrite(t, back), written) {
			t.Errorf("%s: the file is another once it was read", tt.name)
		}
	}
}

// TestSamplesAreChecked checks that a bundle is not saved if its hashes or counts of rows are
// impossible.
func TestSamplesAreChecked(t *testing.T) {
	for name, corrupt := range map[string]func(c *attach.Calibration){
		"of other kinds":        func(c *attach.Calibration) { c.Hashed = "names" },
		"not increasing":        func(c *attach.Calibration) { c.CalHashes[1] = c.CalHashes[0] },
		"of too many rows":      func(c *attach.Calibration) { c.FitTies[0] = c.NFit + 1 },
		"more ties than rows":   func(c *attach.Calibration) { c.CalTies[1] = c.CalTies[0] + 1 },
		"more reused than rows": func(c *attach.Calibration) { c.Reused = c.NCal + 1 },
		"all rows repeated":     func(c *attach.Calibration) { c.Repeated = c.NCal },
	} {
		b := mustFit(t, classifier(30))
		corrupt(&b.Calibration)
		if err := b.Write(io.Discard); err == nil || !strings.Contains(err.Error(), "could not be read again") {
			t.Errorf("hashes %s: the error is %v", name, err)
		}
	}
}
