package filekind

import (
	"os"
	"testing"
)

func TestOf(t *testing.T) {
	files := map[string]Kind{
		"../../../testmodels/digits_resnet.onnx":     ONNX,
		"../../../testmodels/tables/forest.onnx":     ONNX,
		"../../../testmodels/tables/lightgbm.onnx":   ONNX,
		"../../../testmodels/odd/opset9.onnx":        ONNX,
		"../../../testmodels/toy_fit.npz":            NPZ,
		"../../../testmodels/tables/hours_fit.csv":   Text,
		"../../../testmodels/digits.preprocess.json": JSON,
		"../parquet/testdata/snappy.parquet":         Parquet,
		"../../../preprocess/testdata/rgb.png":       Image,
		"../inputs/testdata/shard-000.tar":           "",
	}
	for path, want := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := Of(b); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
		if got := Of(b[:min(len(b), 512)]); got != want {
			t.Errorf("the head of %s is %q, want %q", path, got, want)
		}
	}
	for text, want := range map[string]Kind{"": Empty, "PK\x03\x04": Zip, "\x00\x01": "", "temp,é\n1,2": Text, "\x93NUMPY\x01": NPY} {
		if got := Of([]byte(text)); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
