package bundle_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/attach-uncertainty/attach/heads/bundle"
)

// update writes the golden files of the current format. Files of a format
// that has been released are never rewritten: that they stay readable is what
// they are for.
var update = flag.Bool("update", false, "write the golden files of the current format")

// goldens are bundles of each task, small enough to be committed.
func goldens() map[string]bundle.Inputs {
	c := classifier(60)
	c.Base.Path, c.Base.Feature, c.Base.Output = "net.onnx", "/avgpool", "logits"
	c.Preprocess = json.RawMessage(`{"do_rescale": true, "rescale_factor": 0.00392156862745098}`)
	c.Layout = "nchw"
	r := regressor(1, 100, 2)
	r.Base = bundle.Base{Task: bundle.Regression, Path: "models/net.onnx", SHA256: "00ff", Feature: "relu", Output: "y"}
	return map[string]bundle.Inputs{"classification": c, "regression": r}
}

// TestGolden reads the files of every format and compares predictions with
// those that were written beside them.
func TestGolden(t *testing.T) {
	if *update {
		writeGoldens(t)
	}
	files, err := filepath.Glob("testdata/v*.attach")
	if err != nil || len(files) < 2*bundle.Format {
		t.Fatalf("there are %d golden files (%v), want two of each format", len(files), err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			b, err := bundle.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(path + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var want bundle.Prediction
			if err := json.Unmarshal(content, &want); err != nil {
				t.Fatal(err)
			}
			comparePredictions(t, goldenPrediction(t, b), &want)
			if err := b.Write(&bytes.Buffer{}); err != nil {
				t.Errorf("it cannot be written again: %v", err)
			}
		})
	}
}

func goldenPrediction(t *testing.T, b *bundle.Bundle) *bundle.Prediction {
	in := goldens()[string(b.Base.Task)]
	var o bundle.PredictOptions
	if b.SQR != nil {
		o = bundle.PredictOptions{Levels: []float64{0.1, 0.5}, Level: 0.8}
	}
	return mustPredict(t, b, in.Batch.Slice(0, 5), o)
}

// comparePredictions allows for the rounding of other machines.
func comparePredictions(t *testing.T, got, want *bundle.Prediction) {
	t.Helper()
	g, w := reflect.ValueOf(*got), reflect.ValueOf(*want)
	for i := range g.NumField() {
		name := g.Type().Field(i).Name
		have, ok := g.Field(i).Interface().([]float64)
		if !ok {
			if !reflect.DeepEqual(g.Field(i).Interface(), w.Field(i).Interface()) {
				t.Errorf("%s is %v, want %v", name, g.Field(i), w.Field(i))
			}
			continue
		}
		should := w.Field(i).Interface().([]float64)
		if len(have) != len(should) {
			t.Errorf("%s has %d values, want %d", name, len(have), len(should))
			continue
		}
		for j := range have {
			if !near(have[j], should[j], 1e-5) {
				t.Errorf("%s[%d] is %v, want %v", name, j, have[j], should[j])
			}
		}
	}
}

func writeGoldens(t *testing.T) {
	for task, in := range goldens() {
		b, err := bundle.Fit(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		b.Library = "golden"
		path := fmt.Sprintf("testdata/v%d_%s.attach", bundle.Format, task)
		if err := os.WriteFile(path, mustWrite(t, b), 0o666); err != nil {
			t.Fatal(err)
		}
		content, err := json.Marshal(goldenPrediction(t, b))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+".json", append(content, '\n'), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
