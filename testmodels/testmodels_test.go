package testmodels_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"testing"

	"github.com/attach-uncertainty/attach/testmodels"
)

// TestFS checks that FS contains exactly the expected files, that none is empty or large,
// and that all together are small.
func TestFS(t *testing.T) {
	want := []string{
		"digits.preprocess.json", "digits_cal.npz", "digits_fit.npz", "digits_resnet.onnx", "digits_test.npz", "digits_vgg.onnx",
		"letters.npz", "toy_cal.npz", "toy_fit.npz", "toy_regressor.onnx", "toy_test.npz",
	}
	entries, err := fs.ReadDir(testmodels.FS, ".")
	if err != nil {
		t.Fatal(err)
	}
	var total int64
	for i, e := range entries {
		if i >= len(want) || e.Name() != want[i] {
			t.Errorf("entry %d is %s, want the names %v", i, e.Name(), want)
		}
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() == 0 || info.Size() >= 1e6 {
			t.Errorf("%s has %d bytes, want 1 to 999,999", e.Name(), info.Size())
		}
		total += info.Size()
	}
	if len(entries) != len(want) {
		t.Errorf("%d entries, want %d", len(entries), len(want))
	}
	if total >= 3e6 {
		t.Errorf("%d bytes in all, want less than 3,000,000", total)
	}
}

// TestOdd checks that each model in odd/expected.json has both of its files, and that these
// are small but not empty.
func TestOdd(t *testing.T) {
	data, err := os.ReadFile("odd/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var models []struct{ Name string }
	if err := json.Unmarshal(data, &models); err != nil {
		t.Fatal(err)
	}
	if len(models) == 0 {
		t.Fatal("odd/expected.json lists no model")
	}
	for _, m := range models {
		for _, ext := range []string{".onnx", ".npz"} {
			info, err := os.Stat("odd/" + m.Name + ext)
			if err != nil {
				t.Error(err)
			} else if info.Size() == 0 || info.Size() > 10_000 {
				t.Errorf("%s has %d bytes, want 1 to 10,000", info.Name(), info.Size())
			}
		}
	}
}
