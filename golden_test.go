package attach_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/ood"
)

// update makes TestGolden write missing golden files and those of the current format. Files of
// earlier formats are never rewritten, because the test must prove that they can still be read.
var update = flag.Bool("update", false, "write the golden files of the current format, and those that are missing")

// goldenOptions returns fit options by the name of their golden file. The bundles are small,
// because the files are committed.
func goldenOptions() map[string]attach.FitOptions {
	c := classifier(60)
	c.Base.Path, c.Base.Feature, c.Base.Output = "net.onnx", "/avgpool", "logits"
	c.Preprocess = json.RawMessage(`{"do_rescale": true, "rescale_factor": 0.00392156862745098}`)
	c.Layout = "nchw"
	r := regressor(1, 100, 2)
	r.Base = attach.Base{Task: attach.Regression, Path: "models/net.onnx", SHA256: "00ff", Feature: "relu", Output: "y"}
	forest := regressor(2, 100, 2)
	forest.IntervalModel, forest.IntervalParams = method("quantile-forest"), ood.Params{"n_estimators": 2.0, "max_depth": 3.0}
	forest.Base.Path = "net.onnx"
	groups := regressor(3, 100, 1)
	groups.Base.Path = "net.onnx"
	groups.Groups = groupsOf(groups.Batch)
	layers := classifier(60)
	layers.Detector, layers.Batch.Layers = method("fused-layers"), layersOf(layers.Batch)
	layers.Base.Layers = []attach.Layer{{Tensor: "relu1"}, {Tensor: "relu2"}}
	return map[string]attach.FitOptions{
		"v1_classification": c, "v1_layers": layers, "v1_regression": r, "v1_forest": forest, "v1_groups": groups,
	}
}

// groupsOf returns a group for each row: the sign of its first feature.
func groupsOf(b ood.Batch) []string {
	groups := make([]string, b.Len())
	for i := range groups {
		groups[i] = "minus"
		if b.Features.Data[i*b.Features.Stride] > 0 {
			groups[i] = "plus"
		}
	}
	return groups
}

// format is the newest format version.
const format = 1

// TestGolden reads the golden files of every format, and compares their predictions with those
// that were stored with the files.
func TestGolden(t *testing.T) {
	if *update {
		writeGoldenFiles(t)
	}
	files, err := filepath.Glob("testdata/v*.attach")
	if err != nil || len(files) < 2*format {
		t.Fatalf("there are %d golden files (%v), want two of each format", len(files), err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			b, err := attach.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(path + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var want []attach.Prediction
			if err := json.Unmarshal(content, &want); err != nil {
				t.Fatal(err)
			}
			name := strings.TrimSuffix(filepath.Base(path), ".attach")
			comparePredictions(t, goldenPrediction(t, name, b), want)
			if err := b.Write(&bytes.Buffer{}); err != nil {
				t.Errorf("it cannot be written again: %v", err)
			}
			golden, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if b, err = read(golden); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(mustWrite(t, b), golden) {
				t.Error("it is written otherwise than it was: older versions could not read it")
			}
		})
	}
}

func goldenPrediction(t *testing.T, name string, b *attach.Bundle) []attach.Prediction {
	r := attach.Rows{Batch: goldenOptions()[name].Batch.Slice(0, 5)}
	o := attach.PredictOptions{Sets: "lac", MaxError: .5, Level: .6}
	if b.IntervalModel != nil {
		o = attach.PredictOptions{Levels: []float64{0.1, 0.5}, Level: 0.8}
	}
	if b.Calibration.Groups != nil {
		r.Groups = groupsOf(r.Batch)
	}
	return predictRows(t, b, r, o)
}

// comparePredictions compares predictions with a tolerance, because other machines round
// differently.
func comparePredictions(t *testing.T, got, want []attach.Prediction) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d predictions, want %d", len(got), len(want))
	}
	for i, g := range got {
		w := want[i]
		gotNumbers, wantNumbers := numbers(g), numbers(w)
		ok := g.Class == w.Class && g.Name == w.Name && g.Flag == w.Flag && g.Accept == w.Accept && fmt.Sprint(g.Set) == fmt.Sprint(w.Set) && len(gotNumbers) == len(wantNumbers)
		for j := 0; ok && j < len(gotNumbers); j++ {
			ok = isClose(gotNumbers[j], wantNumbers[j], 1e-5) || math.IsNaN(gotNumbers[j]) && math.IsNaN(wantNumbers[j])
		}
		if !ok {
			t.Errorf("row %d is %+v, want %+v", i, g, w)
		}
	}
}

func numbers(p attach.Prediction) []float64 {
	all := []float64{p.Confidence, p.Score, p.PValue}
	for _, t := range p.Targets {
		all = append(append(append(all, t.Value, t.Median, t.Lower, t.Upper), t.Quantiles...), t.Samples...)
	}
	return all
}

func writeGoldenFiles(t *testing.T) {
	for name, in := range goldenOptions() {
		path := "testdata/" + name + ".attach"
		if _, err := os.Stat(path); err == nil && !strings.HasPrefix(name, fmt.Sprintf("v%d_", format)) {
			continue
		}
		b, err := attach.Fit(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		b.Library = "golden"
		if err := os.WriteFile(path, mustWrite(t, b), 0o666); err != nil {
			t.Fatal(err)
		}
		type allFields attach.Prediction // a type without MarshalJSON, so that all fields are written
		var predictions []allFields
		for _, p := range goldenPrediction(t, name, b) {
			predictions = append(predictions, allFields(p))
		}
		content, err := json.Marshal(predictions)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+".json", append(content, '\n'), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
