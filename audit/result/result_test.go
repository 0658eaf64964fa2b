package result

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFloat(t *testing.T) {
	var got []Float
	if err := json.Unmarshal([]byte("[0.25, null, -3e-300]"), &got); err != nil {
		t.Fatal(err)
	}
	if got[0] != .25 || !math.IsNaN(float64(got[1])) || got[2] != -3e-300 {
		t.Errorf("read %v", got)
	}
	text, err := json.Marshal(append(got, Float(math.Inf(1))))
	if err != nil || string(text) != "[0.25,null,-3e-300,null]" {
		t.Errorf("wrote %s, %v", text, err)
	}
}

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(dir); !os.IsNotExist(err) {
		t.Errorf("an empty folder gives %v", err)
	}
	path := filepath.Join(dir, File)
	if err := os.WriteFile(path, []byte(`{"inputs": "many"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); err == nil || !strings.HasPrefix(err.Error(), path) {
		t.Errorf("another file gives %v", err)
	}
}
