package theorem1

import (
	"bytes"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/experiment/experimenttest"
)

func TestTheorem1(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	if code := experiment.Main(t.Context(), []experiment.Experiment{Experiment}, []string{"theorem1", "--out", dir, "--samples", "20000"}, &out, io.Discard); code != 0 {
		t.Fatalf("exit %d", code)
	}
	experimenttest.Written(t, dir, 1000, "theorem1.png", "theorem1.svg")
	rows := experimenttest.ReadCSV(t, filepath.Join(dir, "theorem1.csv"))
	column := func(row []string, name string) float64 {
		v, err := strconv.ParseFloat(row[slices.Index(rows[0], name)], 64)
		if err != nil {
			return math.NaN()
		}
		return v
	}
	exampleCount := 0
	for _, row := range rows[1:] {
		tail, samples := column(row, "empirical"), column(row, "samples")
		if exact := column(row, "exact"); !math.IsNaN(exact) {
			if math.Abs(tail-exact) > 5*math.Sqrt(exact/samples)+2/samples {
				t.Errorf("%v: the empirical tail is %v, the exact %v", row, tail, exact)
			}
			if violated := row[slices.Index(rows[0], "printed_violated")] == "true"; violated != (column(row, "printed") < exact) {
				t.Errorf("%v: marked violated: %v", row, violated)
			}
			tail = exact
		}
		for _, bound := range []string{"laurent_massart", "chernoff", "norm"} {
			if b := column(row, bound); b < tail-5*math.Sqrt(tail/samples) {
				t.Errorf("%v: %s is below the tail", row, bound)
			}
		}
		if row[0] == "1" && row[1] == "1" && row[2] == "5" {
			exampleCount++
			if math.Abs(column(row, "exact")-.0143) > 1e-4 || math.Abs(column(row, "printed")-3.7e-6) > 1e-7 {
				t.Errorf("%v", row)
			}
		}
	}
	if exampleCount != 1 || !bytes.Contains(out.Bytes(), []byte("3.73e-06 ✗")) {
		t.Errorf("k=1, Γ=1, t=5 is there %d times in\n%s", exampleCount, out.String())
	}
}
