package table3

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/experiment/experimenttest"
)

// writePairs writes a set of pairs with n rows each, in which y = x² + noise. It adds one
// binary and one multivariate pair.
func writePairs(t *testing.T, set string, pairs, n int) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	arrays := map[string]rows.Array{}
	var meta strings.Builder
	add := func(columns int, columnSpec string, value func() []float64) {
		name := fmt.Sprintf("%04d", len(arrays)+1)
		var data []float64
		for range n {
			data = append(data, value()...)
		}
		arrays["pair"+name] = rows.Array{Shape: []int{n, columns}, Data: data}
		fmt.Fprintf(&meta, "%s %s\n", name, columnSpec)
	}
	for range pairs {
		add(2, "1 1 2 2 1", func() []float64 {
			x := rng.NormFloat64()
			return []float64{x, x*x + .2*rng.NormFloat64()}
		})
	}
	add(2, "1 1 2 2 1", func() []float64 { return []float64{float64(rng.IntN(2)), rng.Float64()} })
	add(3, "1 2 3 3 1", func() []float64 { return []float64{rng.Float64(), rng.Float64(), rng.Float64()} })
	dir := experimenttest.WriteFile(t, filepath.Join("causal", set+".meta.txt"), meta.String())
	err := experiment.WriteFile(filepath.Join(dir, "causal", set+".npz"), func(w io.Writer) error { return npy.WriteNPZ(w, arrays, false) })
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTable3(t *testing.T) {
	data, out := writePairs(t, "an", 6, 300), t.TempDir()
	args := []string{"--data", data, "--sets", "an", "--methods", "sqr,igci-g,constant", "--seeds", "1", "--steps", "512", "--out", out}
	code, stdout, stderr := experimenttest.Run(t, Experiment, args...)
	if code != 0 {
		t.Fatal(stderr)
	}
	if !strings.Contains(stdout, "an: 6 pairs; 1 with a variable of at most two values and 1 of more than two variables are left out.") {
		t.Errorf("prints\n%s", stdout)
	}
	experimenttest.Written(t, out, 100, "table3.csv", "table3-pairs.csv", "table3.md", "table3.png", "table3.svg", "table3.jsonl")
	table := experimenttest.ReadCSV(t, filepath.Join(out, "table3.csv"))
	if len(table) != 6 || !slices.Equal(table[0][:3], []string{"method", "set", "accuracy"}) {
		t.Fatal(table)
	}
	for _, row := range table[1:] {
		accuracy, _ := strconv.ParseFloat(row[2], 64)
		if want := map[string]float64{"constant": .5, "igci-g": 1, "sqr-m1": 1, "sqr-m3": 1, "sqr-m5": 1}[row[0]]; accuracy != want {
			t.Errorf("%s is right about %v of the pairs, want %v", row[0], accuracy, want)
		}
	}
	if code, _, stderr = experimenttest.Run(t, Experiment, args...); code != 0 || stderr != "" {
		t.Errorf("a second run: exit %d, measures %q", code, stderr)
	}
}

func TestTable3Usage(t *testing.T) {
	experimenttest.Refused(t, Experiment, map[string][]string{
		`there is no set "x"`:              {"--data", "d", "--sets", "x"},
		`there is no method "x": choose`:   {"--data", "d", "--methods", "x"},
		"--methods names sqr-m1 twice":     {"--data", "d", "--methods", "sqr,sqr-m1"},
		"--level lies between 0 and 1":     {"--data", "d", "--level", "1"},
		"--steps is at least 1, not 0":     {"--data", "d", "--steps", "0"},
		"say where the data sets are with": {"--data", ""},
	})
}

func TestTurn(t *testing.T) {
	pairs := make([]pair, 99)
	rng := rand.New(rand.NewPCG(2, 2))
	for i := range pairs {
		pairs[i] = pair{number: strconv.Itoa(i), weight: rng.Float64(), forward: true, x: []float64{1}, y: []float64{2}}
	}
	swapHalf(pairs, 3)
	var forward, total float64
	for _, p := range pairs {
		total += p.weight
		if p.forward {
			forward += p.weight
		}
		if p.forward != (p.x[0] == 1) {
			t.Fatal("x and y were not swapped where the direction was")
		}
	}
	if fraction := forward / total; math.Abs(fraction-.5) > .01 {
		t.Errorf("%v of the weight is of pairs that x causes", fraction)
	}
}

func TestSummary(t *testing.T) {
	decided := func(weight, score, p float64, forward bool) decision {
		return decision{pair{weight: weight, forward: forward}, score, p, 1}
	}
	s := summarise([]decision{decided(1, 3, .01, true), decided(2, -2, .02, true), decided(1, 1, .5, true), decided(0, 9, .5, false)}, .05)
	// Accuracy is 1 after the first pair, 1/3 after a weight of 3, and 1/2 at the end.
	want := summary{accuracy: .5, area: .25*1 + .5*1/3. + .25*.5, stderr: math.Sqrt(1.5) / 4, seconds: 4, decided: .75, decidedAccuracy: 1 / 3., decidedPairs: 2}
	if diff := fmt.Sprintf("%.9v", s); diff != fmt.Sprintf("%.9v", want) {
		t.Errorf("%+v, want %+v", s, want)
	}
	if equalConfidence := summarise([]decision{decided(1, 1, 0, true), decided(1, -1, 0, true)}, .05); equalConfidence.area != .5 {
		t.Errorf("the area is %v where all are equally sure", equalConfidence.area)
	}
}

// TestAntisymmetric checks that no method prefers the variable that comes first. It leaves
// out the two baselines and all variants of SQR.
func TestAntisymmetric(t *testing.T) {
	data := writePairs(t, "an", 1, 150)
	set, err := readSet(data, "an", 0)
	if err != nil {
		t.Fatal(err)
	}
	p := set.pairs[0]
	for _, m := range methods() {
		if m.score == nil || m.onRequest || m.name == "constant" || m.name == "coin" {
			continue
		}
		var scores [2]float64
		for i, v := range [][2][]float64{{p.x, p.y}, {p.y, p.x}} {
			if scores[i], err = m.score(v[0], v[1], rand.New(rand.NewPCG(1, 1))); err != nil {
				t.Fatal(m.name, err)
			}
		}
		if sum := scores[0] + scores[1]; scores[0] == 0 || math.Abs(sum) > .3*math.Abs(scores[0]) {
			t.Errorf("%s: %v, and %v the other way round", m.name, scores[0], scores[1])
		}
	}
}
