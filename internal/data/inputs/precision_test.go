package inputs

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// TestLossyNumbers checks that 64-bit identifiers, which lose their last digits, get a note
// and other large numbers get none.
func TestLossyNumbers(t *testing.T) {
	for cell, noted := range map[string]bool{"1152921504606846977": true, "-9007199254740993": true, "9007199254740991": false, "1e30": false, "0.5": false} {
		for name, text := range map[string]string{
			"ids.csv":   "id,y\n1," + "2\n" + cell + ",3\n",
			"ids.jsonl": fmt.Sprintf("{\"id\": 1, \"y\": 2}\n{\"id\": %s, \"y\": 3}\n", cell),
		} {
			path := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), path, Options{Takes: []Takes{{Name: "id", DType: "float32", Shape: []int{-1, 1}}}, Targets: []string{"y"}})
			if err != nil {
				t.Fatal(err)
			}
			notes := strings.Join(s.Notes, "; ")
			if got := strings.Contains(notes, `"id": 1 of the first 2 rows hold whole numbers beyond 2^53`); got != noted {
				t.Errorf("%s of %s: notes %q", name, cell, notes)
			}
		}
	}
}

// TestLossyArrays checks the note for 64-bit arrays. It also checks that Open decides on
// the note without reading much of an array with long rows or of real numbers.
func TestLossyArrays(t *testing.T) {
	const long = 1 << 19
	var before, after runtime.MemStats
	for name, c := range map[string]struct {
		array rows.Array
		noted bool
	}{
		"identifiers":   {rows.Array{Shape: []int{2, 1}, Data: []int64{1, 1<<60 + 1}}, true},
		"small numbers": {rows.Array{Shape: []int{2, 1}, Data: []int64{1, 1 << 52}}, false},
		"long rows":     {rows.Array{Shape: []int{1, long}, Data: make([]int64, long)}, false},
		"real numbers":  {rows.Array{Shape: []int{4, long / 4}, Data: make([]float64, long)}, false},
	} {
		path := writeNPZ(t, false, map[string]rows.Array{"id": c.array})
		runtime.ReadMemStats(&before)
		s, err := Open(t.Context(), path, Options{Takes: []Takes{{Name: "id", DType: "int64", Shape: []int{-1, 1}}}})
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		if notes := strings.Join(s.Notes, "; "); strings.Contains(notes, "whole numbers beyond 2^53") != c.noted {
			t.Errorf("%s: notes %q", name, notes)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%s: %d bytes were allocated", name, n)
		}
	}
}

func TestCoarseTargets(t *testing.T) {
	for _, c := range []struct {
		targets []float32
		want    string
	}{
		{[]float32{1e9, 1e9 + 128, float32(math.NaN())}, "lie between 1,000,000,000 and 1,000,000,128 as float32 numbers, which are 64 apart there"},
		{[]float32{1 << 60, 1 << 60}, "are all 1.1529215e18"},
		{[]float32{1e9, 2e9}, ""},
		{[]float32{100, 100.001}, "lie between 100 and 100.001 as float32 numbers, which are 7.63e-6 apart"},
		{[]float32{7, 7}, ""},
		{[]float32{0, 0}, ""},
		{[]float32{1e-30, 2e-30}, ""},
	} {
		s := &Set{Targets: blas32.General{Rows: len(c.targets), Cols: 1, Stride: 1, Data: c.targets}}
		notes := strings.Join(s.CoarseTargets(), "; ")
		if (c.want == "") != (notes == "") || !strings.Contains(notes, c.want) {
			t.Errorf("%v: %q, want %q", c.targets, notes, c.want)
		}
	}
	s := &Set{Targets: blas32.General{Rows: 2, Cols: 1, Stride: 1, Data: []float32{3, 3}}, Labels: []int{3, 3}}
	if notes := s.CoarseTargets(); notes != nil {
		t.Errorf("labels are said to be coarse: %q", notes)
	}
}
