package attach_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/ood"
)

// TestDefaultReadsLayers checks that the default detector reads earlier layers if there are
// any, and that the bundle names them. Without earlier layers, the default reads only the last
// layer.
func TestDefaultReadsLayers(t *testing.T) {
	in := classifier(80)
	in.Detector, in.Last = ood.Method{}, sumLayer(3, 8)
	b := mustFit(t, in)
	if b.Detector.Method != "fused" || b.Base.Layers != nil {
		t.Errorf("without layers: %s, which reads %v", b.Detector.Method, b.Base.Layers)
	}
	in.Batch.Layers = layersOf(in.Batch)
	in.Base.Layers = []attach.Layer{{Tensor: "relu1"}, {Tensor: "relu2"}}
	b, err := read(mustWrite(t, mustFit(t, in)))
	if err != nil {
		t.Fatal(err)
	}
	want := []attach.Layer{{Tensor: "relu1", Width: 3}, {Tensor: "relu2", Width: 5}}
	if b.Detector.Method != "fused-layers" || len(b.Base.Layers) != 2 || b.Base.Layers[0] != want[0] || b.Base.Layers[1] != want[1] {
		t.Errorf("%s reads %v, want fused-layers and %v", b.Detector.Method, b.Base.Layers, want)
	}
	in.Detector = method("knn")
	if b := mustFit(t, in); b.Base.Layers != nil {
		t.Errorf("a detector of the last layer reads %v", b.Base.Layers)
	}
}

func TestLayersThatDoNotFit(t *testing.T) {
	in := classifier(80)
	in.Batch.Layers, in.Detector = layersOf(in.Batch), method("mahalanobis-layers")
	b := mustFit(t, in)
	rows := blob(2, 10, 8, 3, 0)
	all := layersOf(rows)
	infinite := layersOf(rows)
	infinite[1].Data[7] /= 0
	for name, c := range map[string]struct {
		layers []blas32.General
		want   string
	}{
		"none":         {nil, `method "mahalanobis-layers" needs earlier layers: the rows to score have none`},
		"one":          {all[:1], "the rows have 1 earlier layers, but the fit used 2"},
		"other widths": {[]blas32.General{all[1], all[0]}, "the rows have 5 columns of layer_0, but the fit used 3"},
		"other rows":   {[]blas32.General{all[0], matrix(9, 5)}, "10 rows but layer_1 of 9×5"},
		"infinite":     {infinite, "layer_1 has +Inf in row 1, column 2"},
	} {
		rows.Layers = c.layers
		_, err := predict(b, attach.Rows{Batch: rows}, attach.PredictOptions{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	in.Cal = blob(3, 20, 8, 3, 0)
	in.Cal.Layers = layersOf(in.Cal)[:1]
	if _, err := attach.Fit(t.Context(), in); err == nil || !strings.Contains(err.Error(), "calibration rows have 1 earlier layers, but fit rows have 2") {
		t.Errorf("calibration rows of one layer: %v", err)
	}
	in.Cal.Layers, in.Base.Layers = layersOf(in.Cal), []attach.Layer{{Tensor: "relu1"}}
	if _, err := attach.Fit(t.Context(), in); err == nil || !strings.Contains(err.Error(), "1 earlier layers are named, but the fit rows have 2") {
		t.Errorf("one name for two layers: %v", err)
	}
	in.Cal.Layers, in.Batch.Layers, in.Base.Layers = nil, nil, nil
	var need *ood.NeedError
	if _, err := attach.Fit(t.Context(), in); !errors.As(err, &need) || !need.Need.Layers {
		t.Errorf("no layers: %v", err)
	}
}

// TestUnreadLayers checks that a detector of the last layer ignores earlier layers,
// and that it is the default if the calibration rows have no earlier layers.
func TestUnreadLayers(t *testing.T) {
	in := classifier(80)
	in.Last, in.Cal = sumLayer(3, 8), blob(3, 20, 8, 3, 0)
	in.Batch.Layers, in.Cal.Layers = layersOf(in.Batch), layersOf(in.Cal)[:1]
	in.Cal.Layers[0].Data[4] = float32(math.Inf(1))
	if b := mustFit(t, in); b.Base.Layers != nil {
		t.Errorf("reads %v", b.Base.Layers)
	}
	in.Detector, in.Cal.Layers = ood.Method{}, nil
	if b := mustFit(t, in); b.Detector.Method != "fused" {
		t.Errorf("the default for calibration rows without layers is %s", b.Detector.Method)
	}
}

// TestDamagedLayers checks that a bundle is not saved if its layers do not match the detector
// or have too many columns.
func TestDamagedLayers(t *testing.T) {
	in := classifier(80)
	in.Batch.Layers, in.Detector = layersOf(in.Batch), method("mahalanobis-layers")
	b := mustFit(t, in)
	wide := make([]attach.Layer, 5000)
	for i := range wide {
		wide[i].Width = 1 << 24
	}
	for name, layers := range map[string][]attach.Layer{
		"none": nil, "one": b.Base.Layers[:1], "another width": {{Width: 3}, {Width: 4}}, "no width": {{Width: 3}, {Width: 0}}, "wide": wide,
	} {
		damaged := *b
		damaged.Base.Layers = layers
		var buf bytes.Buffer
		if err := damaged.Write(&buf); err == nil || !strings.Contains(err.Error(), "layers") && !strings.Contains(err.Error(), "layer_1") || errors.Is(err, attach.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
