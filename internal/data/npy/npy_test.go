package npy

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// expected returns the elements, in C order, that testdata/make.py writes for a type.
func expected(name string) any {
	const n = 24
	f := make([]float64, n)
	for i := range f {
		f[i] = float64(i-12) / 2
	}
	signed, unsigned := make([]int64, n), make([]int64, n)
	for i := range signed {
		signed[i], unsigned[i] = int64(i-12), int64(i)
	}
	limits := func(x []int64, lo, hi int64) any {
		x[n-2], x[n-1] = lo, hi
		return x
	}
	float32s := func(greatest float64) any {
		f[n-2], f[n-1] = math.Inf(-1), greatest
		return appendAs([]float32(nil), f)
	}
	switch name {
	case "float16":
		return float32s(65504)
	case "float32":
		return float32s(math.MaxFloat32)
	case "float64":
		f[n-2], f[n-1] = math.Inf(-1), math.MaxFloat64
		return f
	case "int8":
		return limits(signed, math.MinInt8, math.MaxInt8)
	case "int16":
		return limits(signed, math.MinInt16, math.MaxInt16)
	case "int32":
		return limits(signed, math.MinInt32, math.MaxInt32)
	case "int64":
		return limits(signed, math.MinInt64, math.MaxInt64)
	case "uint16":
		return limits(unsigned, 0, math.MaxUint16)
	case "uint32":
		return limits(unsigned, 0, math.MaxUint32)
	case "uint64":
		return limits(unsigned, 0, math.MaxInt64)
	case "uint8":
		return appendAs([]uint8(nil), limits(unsigned, 0, math.MaxUint8).([]int64))
	case "bool":
		b := make([]uint8, n)
		for i := 0; i < n-2; i += 3 {
			b[i] = 1
		}
		b[n-2], b[n-1] = 0, 1
		return b
	}
	return nil
}

func TestDTypes(t *testing.T) {
	z, err := OpenNPZ("testdata/dtypes.npz")
	if err != nil {
		t.Fatal(err)
	}
	if len(z.Names()) != 36 {
		t.Fatalf("%d golden arrays, want 12 types in 3 orders", len(z.Names()))
	}
	for _, name := range z.Names() {
		l, err := z.Entry(name)
		if err != nil {
			t.Fatal(err)
		}
		a, err := l.Read()
		if err != nil {
			t.Fatal(err)
		}
		dtype, _, _ := strings.Cut(name, "_")
		if l.DType.String() != dtype {
			t.Errorf("%s: type %v", name, l.DType)
		}
		if !reflect.DeepEqual(a.Shape, []int{2, 3, 4}) || !reflect.DeepEqual(a.Data, expected(dtype)) {
			t.Errorf("%s: got %v %v, want %v", name, a.Shape, a.Data, expected(dtype))
		}
	}
}

func TestFiles(t *testing.T) {
	six := []float32{0, 1, 2, 3, 4, 5}
	for name, want := range map[string]rows.Array{
		"version1.npy": {Shape: []int{2, 3}, Data: six},
		"version2.npy": {Shape: []int{2, 3}, Data: six},
		"version3.npy": {Shape: []int{2, 3}, Data: six},
		"scalar.npy":   {Shape: []int{}, Data: []float64{2.5}},
		"empty.npy":    {Shape: []int{0, 3}, Data: []float32{}},
		"vector.npy":   {Shape: []int{5}, Data: []int64{0, 1, 2, 3, 4}},
	} {
		got, err := ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Error(err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestRefused(t *testing.T) {
	for name, message := range map[string]string{
		"strings.npy":    "it holds texts",
		"complex.npy":    "not supported",
		"objects.npy":    "Python objects",
		"structured.npy": "save each field as a separate array",
		"uint64.npy":     "9223372036854775808 at element 1",
	} {
		_, err := ReadFile(filepath.Join("testdata", name))
		if err == nil || !strings.Contains(err.Error(), message) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v; want it to name the file and say %q", name, err, message)
		}
	}
}

func TestTexts(t *testing.T) {
	z, err := OpenNPZ("testdata/texts.npz")
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{"north", "", "Zürich 🏔", "north", "a\x00b", "x"}
	many := append(slices.Repeat([]string{"abc", "c"}, 60000), "d")
	for name, want := range map[string][]string{"little": texts, "big": texts, "fortran": texts, "bytes": {"north", "\ufffd"}, "none": {}, "many": many} {
		l, err := z.Entry(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := l.Texts()
		if err != nil || !l.IsText() || !slices.Equal(got, want) {
			t.Errorf("%s: read %d texts, such as %.5q, want %.5q; error %v", name, len(got), got, want, err)
		}
	}
}

func TestMalformed(t *testing.T) {
	good := func(header string) string {
		return magic + "\x01\x00" + string([]byte{byte(len(header)), byte(len(header) >> 8)}) + header
	}
	for name, file := range map[string]string{
		"nothing":          "",
		"magic cut":        magic[:4],
		"no magic":         "PK\x03\x04 not an array at all",
		"version":          magic + "\x09\x00\x01\x00{",
		"header cut":       magic + "\x01\x00\xff\x00{'descr'",
		"header huge":      magic + "\x02\x00\xff\xff\xff\x7f{",
		"no dictionary":    good("[1]"),
		"no shape":         good("{'descr': '<f4', 'fortran_order': False}"),
		"extra key":        good("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}"),
		"key twice":        good("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}"),
		"negative axis":    good("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"),
		"shape no tuple":   good("{'descr': '<f4', 'fortran_order': False, 'shape': (3)}"),
		"shape open":       good("{'descr': '<f4', 'fortran_order': False, 'shape': (3,"),
		"order no bool":    good("{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}"),
		"size overflows":   good("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}"),
		"overflow by zero": good("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296)}"),
		"axis overflows":   good("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}"),
		"claims much":      good("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}"),
		"text after":       good("{'descr': '<f4', 'fortran_order': False, 'shape': (0,)} x"),
		"unclosed string":  good("{'descr"),
		"rank":             good("{'descr': '<f4', 'fortran_order': False, 'shape': (" + strings.Repeat("1, ", 65) + ")}"),
		"elements cut":     good("{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}") + "12345678",
	} {
		_, err := readBytes([]byte(file))
		if !errors.Is(err, ErrFormat) {
			t.Errorf("%s: error %v, want ErrFormat", name, err)
		}
		path := filepath.Join(t.TempDir(), "bad.npy")
		if err := os.WriteFile(path, []byte(file), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err = OpenFile(path); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v of the file, want ErrFormat with the path", name, err)
		}
	}
}

func TestOldPython(t *testing.T) {
	header := "{'shape': (2L, 1L), 'descr': \"=i2\", 'fortran_order': True}"
	file := magic + "\x01\x00" + string([]byte{byte(len(header)), 0}) + header + "\x01\x00\xff\xff"
	a, err := readBytes([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a.Data, []int64{1, -1}) {
		t.Errorf("got %v", a.Data)
	}
}

func TestTrailingBytes(t *testing.T) {
	b, err := os.ReadFile("testdata/vector.npy")
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, "rest"...)
	if _, err := readBytes(b); !errors.Is(err, ErrFormat) {
		t.Errorf("error %v of an array with bytes to spare", err)
	}
	path := filepath.Join(t.TempDir(), "long.npy")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); !errors.Is(err, ErrFormat) {
		t.Errorf("error %v of a file with bytes to spare", err)
	}
}

func TestConvert(t *testing.T) {
	for _, data := range []any{[]float32{3, 250}, []float64{3, 250}, []int64{3, 250}, []uint8{3, 250}} {
		a := rows.Array{Shape: []int{2}, Data: data}
		f := Float32s(a)
		i, err := Ints(a)
		if err != nil || f[1] != 250 || i[1] != 250 {
			t.Errorf("%T: %v %v %v", data, f, i, err)
		}
	}
	if _, err := Ints(rows.Array{Data: []float64{1, 2.5}}); err == nil || !strings.Contains(err.Error(), "element 1") {
		t.Errorf("2.5 as int: error %v", err)
	}
	if _, err := Ints(rows.Array{Data: []float64{math.NaN()}}); err == nil {
		t.Error("NaN as int: no error")
	}
}
