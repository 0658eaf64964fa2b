package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/audit"
	"github.com/attach-uncertainty/attach/audit/result"
	"github.com/attach-uncertainty/attach/internal/attachtest"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// files writes two .attach files to a new folder, and features of two days. The fit of
// model.attach had a model, and the fit of m.attach had features. 40 of the 300 rows of Tuesday do not belong.
func files() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "audit-")
	if err != nil {
		panic(err)
	}
	o := attachtest.Classifier(600)
	o.Cal, o.Detector = attachtest.Blob(2, 1000, 8, 3, 0), attachtest.Method("mahalanobis")
	for name, model := range map[string]string{"m.attach": "", "model.attach": o.Base.SHA256} {
		o.Base.SHA256 = model
		var b *attach.Bundle
		if b, err = attach.Fit(context.Background(), o); err == nil {
			err = b.Save(context.Background(), filepath.Join(dir, name))
		}
		if err != nil {
			panic(err)
		}
	}
	write := func(name string, batches ...ood.Batch) {
		if err != nil {
			return
		}
		var features, logits []float32
		for _, b := range batches {
			features, logits = append(features, b.Features.Data...), append(logits, b.Logits.Data...)
		}
		var buf bytes.Buffer
		if err = npy.WriteNPZ(&buf, map[string]rows.Array{
			"features": {Shape: []int{len(features) / 8, 8}, Data: features}, "logits": {Shape: []int{len(logits) / 3, 3}, Data: logits},
		}, false); err == nil {
			err = os.WriteFile(filepath.Join(dir, name), buf.Bytes(), 0o600)
		}
	}
	write("monday.npz", attachtest.Blob(3, 300, 8, 3, 0))
	write("tuesday.npz", attachtest.Blob(4, 260, 8, 3, 0), attachtest.Blob(5, 40, 8, 3, 3))
	if err != nil {
		panic(err)
	}
	return dir, func() { os.RemoveAll(dir) }
}

// TestEvery checks that every third row of a file of features is audited, with its own score.
func TestEvery(t *testing.T) {
	dir, remove := files()
	defer remove()
	keys := func(every int) (list []string) {
		a, err := audit.Run(t.Context(), audit.Options{Bundle: filepath.Join(dir, "m.attach"), Inputs: []string{filepath.Join(dir, "tuesday.npz")}, Dir: filepath.Join(dir, "every", strconv.Itoa(every)), Every: every})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range a.HighestScoring {
			if row.At%3 == 0 {
				list = append(list, fmt.Sprintf("%s in row %d: %v", row.Key, row.At, row.Score))
			}
		}
		if every > 1 && (a.Inputs != 100 || len(list) != 100) {
			t.Errorf("%d of %d rows are of each third row", len(list), a.Inputs)
		}
		return list
	}
	all, some := keys(0), keys(3)
	if len(all) < 30 || !slices.Equal(some[:len(all)], all) {
		t.Errorf("the rows with the highest scores are %v, want %v", some[:len(all)], all)
	}
}

// TestRun checks that results are those of audit.json, that progress ends at 1, and that
// finished audits of the two files give the same results as one audit.
func TestRun(t *testing.T) {
	ctx := context.Background()
	dir, remove := files()
	defer remove()
	in := func(name string) string { return filepath.Join(dir, name) }
	last := 0.0
	run := func(out string, inputs ...string) *result.Audit {
		t.Helper()
		a, err := audit.Run(ctx, audit.Options{Bundle: in("m.attach"), Inputs: inputs, Dir: in(out), Progress: func(f float64) { last = f }})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	both := run("both", in("monday.npz"), in("tuesday.npz"))
	if last != 1 {
		t.Errorf("progress ends at %g", last)
	}
	if both.Inputs != 600 || both.FDR != .1 || both.Delta != .05 || both.Discoveries < 35 || both.Outliers < 35 {
		t.Errorf("%d inputs, %d discoveries at %g, %d outliers", both.Inputs, both.Discoveries, both.FDR, both.Outliers)
	}
	read, err := result.Read(in("both"))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := encode(t, both), encode(t, read); a != b {
		t.Errorf("audit.json holds other results:\n%s\n%s", a, b)
	}
	run("monday", in("monday.npz"))
	run("tuesday", in("tuesday.npz"))
	days, err := audit.Open([]string{in("monday"), in("tuesday")}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := days.Write(ctx, in("merged"))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := encode(t, both), encode(t, merged); a != b {
		t.Errorf("the merged audits have other results:\n%s\n%s", a, b)
	}
	for row, err := range days.Rows(ctx, result.Selection{Top: 1}) {
		if err != nil || len(row) != len(days.Columns()) {
			t.Errorf("%v has %d values for %d columns: %v", row, len(row), len(days.Columns()), err)
		}
		break
	}
	for _, err := range days.Rows(ctx, result.Selection{Within: "sunday"}) {
		if err == nil || !strings.Contains(err.Error(), "sunday") {
			t.Errorf("an unknown file gives %v", err)
		}
	}
}

func encode(t *testing.T, a *result.Audit) string {
	t.Helper()
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRefuses(t *testing.T) {
	ok := audit.Options{Bundle: "m.attach", Inputs: []string{"x.npz"}, Dir: t.TempDir()}
	for _, c := range []struct {
		want   string
		change func(*audit.Options)
	}{
		{"Options.Bundle is missing", func(o *audit.Options) { o.Bundle = "" }},
		{"Options.Inputs is missing", func(o *audit.Options) { o.Inputs = nil }},
		{"Options.Dir is missing", func(o *audit.Options) { o.Dir = "" }},
		{"Options.FDR is 7", func(o *audit.Options) { o.FDR = 7 }},
		{"Options.Level is -1", func(o *audit.Options) { o.Level = -1 }},
		{`Options.LabelErrors is "classes"`, func(o *audit.Options) { o.LabelErrors = "classes" }},
		{"Options.LabelNoise has no effect", func(o *audit.Options) { o.LabelNoise = .1 }},
		{"Options.Every is -2", func(o *audit.Options) { o.Every = -2 }},
		{"m.attach: no such file", func(*audit.Options) {}},
	} {
		o := ok
		c.change(&o)
		if _, err := audit.Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v does not say %q", err, c.want)
		}
	}
	dir, remove := files()
	defer remove()
	for _, c := range []struct {
		bundle, want string
		change       func(*audit.Options)
	}{
		{"m.attach", "Options.Level has no effect because", func(o *audit.Options) { o.Level = .9 }},
		{"m.attach", "Options.Target has no effect because", func(o *audit.Options) { o.Target = []string{"y"} }},
		{"model.attach", "Options.Weights has no effect because the model runs", func(o *audit.Options) { o.Weights = "w.npz" }},
		{"model.attach", "Options.Model has no effect with Options.FromFeatures", func(o *audit.Options) { o.Model, o.FromFeatures = "m.onnx", true }},
	} {
		o := ok
		o.Bundle = filepath.Join(dir, c.bundle)
		c.change(&o)
		if _, err := audit.Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v does not say %q", err, c.want)
		}
	}
	out := filepath.Join(dir, "out")
	if _, err := audit.Run(context.Background(), audit.Options{Bundle: filepath.Join(dir, "m.attach"), Inputs: []string{filepath.Join(dir, "monday.npz")}, Dir: out}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want   string
		change func(*result.Settings)
	}{
		{"Settings.FDR is 2", func(s *result.Settings) { s.FDR = 2 }},
		{"Settings.FDR is NaN", func(s *result.Settings) { s.FDR = math.NaN() }},
		{"Settings.Delta is 0", func(s *result.Settings) { s.Delta = 0 }},
		{"Settings.Alpha is 0", func(s *result.Settings) { s.Alpha = 0 }},
		{"Settings.LabelNoise has no effect", func(s *result.Settings) { s.LabelNoise = .1 }},
	} {
		if _, err := audit.Open([]string{out}, c.change, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v does not say %q", err, c.want)
		}
	}
	if _, err := audit.Open(nil, nil, nil); err == nil || !strings.Contains(err.Error(), "needs the folder") {
		t.Errorf("no folder gives %v", err)
	}
	finished, err := audit.Open([]string{out}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range finished.Rows(context.Background(), result.Selection{Top: -3}) {
		if err == nil || !strings.Contains(err.Error(), "Selection.Top is -3") {
			t.Errorf("a negative number of rows gives %v, %v", row, err)
		}
	}
}
