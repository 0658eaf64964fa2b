package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

func TestTheorem1(t *testing.T) {
	var out bytes.Buffer
	s := settings{stdout: &out, stderr: io.Discard, theorem1: theorem1Settings{out: t.TempDir(), samples: 20_000}}
	if err := runTheorem1(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"theorem1.png", "theorem1.svg"} {
		if info, err := os.Stat(filepath.Join(s.theorem1.out, name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	f, err := os.Open(filepath.Join(s.theorem1.out, "theorem1.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := func(row []string, name string) float64 {
		v, err := strconv.ParseFloat(row[slices.Index(rows[0], name)], 64)
		if err != nil {
			return math.NaN()
		}
		return v
	}
	known := 0
	for _, row := range rows[1:] {
		tail, samples := at(row, "empirical"), at(row, "samples")
		if exact := at(row, "exact"); !math.IsNaN(exact) {
			if math.Abs(tail-exact) > 5*math.Sqrt(exact/samples)+2/samples {
				t.Errorf("%v: the empirical tail is %v, the exact %v", row, tail, exact)
			}
			if violated := row[slices.Index(rows[0], "printed_violated")] == "true"; violated != (at(row, "printed") < exact) {
				t.Errorf("%v: marked violated: %v", row, violated)
			}
			tail = exact
		}
		for _, bound := range []string{"laurent_massart", "chernoff", "norm"} {
			if b := at(row, bound); b < tail-5*math.Sqrt(tail/samples) {
				t.Errorf("%v: %s is below the tail", row, bound)
			}
		}
		if row[0] == "1" && row[1] == "1" && row[2] == "5" {
			known++
			if math.Abs(at(row, "exact")-.0143) > 1e-4 || math.Abs(at(row, "printed")-3.7e-6) > 1e-7 {
				t.Errorf("%v", row)
			}
		}
	}
	if known != 1 || !bytes.Contains(out.Bytes(), []byte("3.73e-06 ✗")) {
		t.Errorf("k=1, Γ=1, t=5 is there %d times in\n%s", known, out.String())
	}
}
