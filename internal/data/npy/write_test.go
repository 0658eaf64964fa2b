package npy

import (
	"archive/zip"
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/pythontest"
)

var testArrays = map[string]rows.Array{
	"f32":    {Shape: []int{2, 3}, Data: []float32{0, 1.5, -2, math.MaxFloat32, float32(math.Inf(1)), 5}},
	"f64":    {Shape: []int{3}, Data: []float64{math.Pi, math.Copysign(0, -1), math.SmallestNonzeroFloat64}},
	"i64":    {Shape: []int{2, 1, 2}, Data: []int64{math.MinInt64, -1, 0, math.MaxInt64}},
	"u8":     {Shape: []int{4}, Data: []uint8{0, 1, 128, 255}},
	"scalar": {Shape: []int{}, Data: []float64{7}},
	"empty":  {Shape: []int{0, 3}, Data: []float32{}},
}

func TestWriteRead(t *testing.T) {
	for name, a := range testArrays {
		var b bytes.Buffer
		if err := Write(&b, a); err != nil {
			t.Fatal(err)
		}
		if at := bytes.IndexByte(b.Bytes(), '\n') + 1; at%64 != 0 {
			t.Errorf("%s: elements start at %d, want a multiple of 64", name, at)
		}
		got, err := readBytes(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, a) {
			t.Errorf("%s: got %v, want %v", name, got, a)
		}
	}
}

// TestAsNumPy checks that files from NumPy do not change when they are read and written
// again.
func TestAsNumPy(t *testing.T) {
	for _, name := range []string{"version1.npy", "scalar.npy", "empty.npy", "vector.npy"} {
		path := filepath.Join("testdata", name)
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		a, err := ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := Write(&b, a); err != nil || !bytes.Equal(b.Bytes(), want) {
			t.Errorf("%s: wrote %q, %v, want %q", name, &b, err, want)
		}
	}
}

// TestNumPy checks that NumPy can load a written archive.
func TestNumPy(t *testing.T) {
	python := pythontest.Find(t, "numpy")
	for _, deflate := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "a.npz")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := WriteNPZ(f, testArrays, deflate); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(python, "-c", `
import sys, numpy as np
z = np.load(sys.argv[1])
for k in sorted(z):
    print(k, z[k].dtype, z[k].shape, z[k].ravel()[-1:].tolist())
`, path).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		const want = `empty float32 (0, 3) []
f32 float32 (2, 3) [5.0]
f64 float64 (3,) [5e-324]
i64 int64 (2, 1, 2) [9223372036854775807]
scalar float64 () [7.0]
u8 uint8 (4,) [255]
`
		if string(out) != want {
			t.Errorf("NumPy sees %s, want %s", out, want)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	for name, a := range map[string]rows.Array{
		"length":   {Shape: []int{3}, Data: []float32{1}},
		"negative": {Shape: []int{-1, -1}, Data: []float32{1}},
		"type":     {Shape: []int{1}, Data: []string{"a"}},
		"nil":      {Shape: []int{1}},
	} {
		var b bytes.Buffer
		if err := Write(&b, a); err == nil || b.Len() > 0 {
			t.Errorf("%s: error %v after %d bytes", name, err, b.Len())
		}
	}
}

func TestNPZDeterministic(t *testing.T) {
	var first bytes.Buffer
	for range 5 {
		var b bytes.Buffer
		if err := WriteNPZ(&b, testArrays, true); err != nil {
			t.Fatal(err)
		}
		if first.Len() == 0 {
			first = b
		} else if !bytes.Equal(first.Bytes(), b.Bytes()) {
			t.Fatal("the same arrays gave other bytes")
		}
	}
	got, err := ReadNPZ(bytes.NewReader(first.Bytes()), int64(first.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, testArrays) {
		t.Errorf("got %v", got)
	}
	z, err := zip.NewReader(bytes.NewReader(first.Bytes()), int64(first.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range z.File {
		names = append(names, f.Name)
	}
	if got := strings.Join(names, " "); got != "empty.npy f32.npy f64.npy i64.npy scalar.npy u8.npy" {
		t.Errorf("order of entries: %s", got)
	}
}

// TestNPZWriterParts checks that an entry written in parts has the same bytes as one
// written at once. It also checks that more elements than the shape has are an error.
func TestNPZWriterParts(t *testing.T) {
	a := rows.Array{Shape: []int{3, 2}, Data: []float32{1, 2, 3, 4, 5, 6}}
	var want, got bytes.Buffer
	if err := WriteNPZ(&want, map[string]rows.Array{"a": a}, false); err != nil {
		t.Fatal(err)
	}
	z := NewNPZWriter(&got)
	write, err := z.Float32s("a", a.Shape)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][]float32{{1, 2, 3, 4}, nil, {5, 6}} {
		if err := write(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := write([]float32{7}); err == nil {
		t.Error("a seventh element of six is accepted")
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Error("the file differs from that written at once")
	}
}
