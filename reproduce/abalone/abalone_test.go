package abalone

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/ood"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/experiment/experimenttest"
)

func TestReadAbalone(t *testing.T) {
	readText := func(text string) (abaloneData, error) {
		return readAbalone(filepath.Join(experimenttest.WriteFile(t, "abalone.csv", text), "abalone.csv"))
	}
	rows := strings.Repeat("M,.5,.4,.1,1,.5,.2,.3,10\nI,.5,.4,.1,1,.5,.2,.3,11\n", 10)
	d, err := readText(rows + "F,.5,.4,0,1,.5,.2,.3,11\nF,.5,.4,?,1,.5,.2,.3,11\nF,.5,.4,.1,1,.5,.2,.3,\n")
	if err != nil {
		t.Fatal(err)
	}
	if d.x.Rows != 20 || d.dropped != 3 || d.old[0] || !d.old[1] || d.rings[1] != 11 {
		t.Errorf("read %d rows, %d dropped, old %v", d.x.Rows, d.dropped, d.old[:2])
	}
	if got, want := d.x.Data[10:20], []float32{0, 0, 1, .5, .4, .1, 1, .5, .2, .3}; !slices.Equal(got, want) {
		t.Errorf("the second row is %v, want %v", got, want)
	}
	for want, text := range map[string]string{
		"0 complete rows":      "",
		"sex is M, F or I":     rows + "X,.5,.4,.1,1,.5,.2,.3,10\n",
		"line 21, column 3":    rows + "M,.5,wide,.1,1,.5,.2,.3,10\n",
		"seven measurements":   "M,1,2\n",
		"of both classes":      strings.ReplaceAll(rows, ",11\n", ",10\n"),
		"at least 20 are need": rows[:len(rows)/10],
	} {
		if _, err := readText(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one that says %q", text, err, want)
		}
	}
}

// TestMeasureClasses compares the measures with direct counts over pairs and rows.
func TestMeasureClasses(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var predictions []prediction
	var old []bool
	for range 60 {
		p := float64(rng.IntN(8)) / 8 // multiples of 1/8 produce ties
		predictions = append(predictions, prediction{
			score: p, mean: p * p, predictedOld: p > .5, uncertainty: min(p, 1-p), mayBeYoung: p < .8, mayBeOld: p > .2,
		})
		old = append(old, rng.Float64() < p)
	}
	got, err := measureClasses(predictions, old)
	if err != nil {
		t.Fatal(err)
	}
	area := func(positive func(i int) bool, value func(i int) float64) float64 {
		var wins, pairs float64
		for i := range predictions {
			for j := range predictions {
				if !positive(i) || positive(j) {
					continue
				}
				pairs++
				wins += experiment.Indicator(value(i) > value(j)) + experiment.Indicator(value(i) == value(j))/2
			}
		}
		return wins / pairs
	}
	isOld, wrong := func(i int) bool { return old[i] }, func(i int) bool { return predictions[i].predictedOld != old[i] }
	rowFraction := func(holds func(i int) bool) (s float64) {
		for i := range predictions {
			s += experiment.Indicator(holds(i)) / float64(len(predictions))
		}
		return s
	}
	undecided := func(i int) bool { return predictions[i].mayBeOld && predictions[i].mayBeYoung }
	for _, tt := range []struct {
		label     string
		got, want float64
	}{
		{"accuracy", got.accuracy, 1 - rowFraction(wrong)},
		{"AUC", got.auc, area(isOld, func(i int) float64 { return predictions[i].score })},
		{"AUC of the mean", got.meanAUC, area(isOld, func(i int) float64 { return predictions[i].mean })},
		{"AUC for errors", got.errorAUC, area(wrong, func(i int) float64 { return predictions[i].uncertainty })},
		{"accuracy of the mean", got.meanAccuracy, rowFraction(func(i int) bool { return predictions[i].mean > .5 == old[i] })},
		{"undecided", got.undecided, rowFraction(undecided)},
		{"covered", got.covered, rowFraction(func(i int) bool { return undecided(i) || predictions[i].mayBeOld == old[i] })},
		{"wrong where decided", got.decidedWrong, rowFraction(func(i int) bool { return wrong(i) && !undecided(i) }) / (1 - rowFraction(undecided))},
		{"errors of all tenths", (got.decileErrors[0] + got.decileErrors[4] + got.decileErrors[9]) / 3, func() float64 {
			order := make([]int, len(predictions))
			for i := range order {
				order[i] = i
			}
			slices.SortStableFunc(order, func(a, b int) int { return int(16*predictions[a].uncertainty) - int(16*predictions[b].uncertainty) })
			n := 0.
			for _, i := range slices.Concat(order[:6], order[24:30], order[54:]) {
				n += experiment.Indicator(wrong(i))
			}
			return n / 18
		}()},
	} {
		if math.Abs(tt.got-tt.want) > 1e-9 {
			t.Errorf("%s is %v, want %v", tt.label, tt.got, tt.want)
		}
	}
	if _, err := measureClasses(predictions[:1], []bool{true}); err == nil {
		t.Error("one class has an area under the curve")
	}
}

func TestPredictions(t *testing.T) {
	levels := []float64{.05, .25, .5, .75, .95}
	predict := func(row []float32, form classForm) prediction {
		return predictionsFromQuantiles(ood.Quantiles{Rows: 1, Targets: 1, Levels: levels, Data: row}, form, .9)[0]
	}
	checkNear := func(label string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("%s is %v, want %v", label, got, want)
		}
	}
	j := predict([]float32{-.1, 0, .6, 1, 1}, classForm{loss: "pinball"})
	checkNear("median", j.score, .6)
	checkNear("mean", j.mean, .5)
	checkNear("width", j.uncertainty, 1.1)
	if !j.predictedOld || !j.mayBeYoung || !j.mayBeOld {
		t.Errorf("label: %+v", j)
	}
	j = predict([]float32{float32(math.Log(3)), 2, 2, 2, float32(math.Log(9))}, classForm{loss: "sigmoid-pinball"})
	checkNear("lower end of a sigmoid", j.lower, .75)
	checkNear("upper end of a sigmoid", j.upper, .9)
	if !j.predictedOld || j.mayBeYoung || !j.mayBeOld {
		t.Errorf("logit: %+v", j)
	}
	j = predict([]float32{5, 7, 9, 11, 12}, classForm{loss: "pinball", rings: true})
	checkNear("probability above 10.5", j.mean, 1-(.5+.75*.25))
	if j.predictedOld || !j.mayBeYoung || !j.mayBeOld || j.upper != 12 {
		t.Errorf("rings: %+v", j)
	}
	checkNear("probability above all", predict([]float32{5, 7, 8, 9, 10}, classForm{rings: true}).mean, .025)
	checkNear("probability below all", predict([]float32{11, 12, 13, 14, 15}, classForm{rings: true}).mean, .975)
	z := blas32.General{Rows: 3, Cols: 1, Stride: 1, Data: []float32{-4, 0, 2}}
	logits := predictionsFromLogits(z, .9)
	checkNear("smaller probability", logits[2].uncertainty, 1/(1+math.Exp(2)))
	if l := logits[0]; l.predictedOld || !l.mayBeYoung || l.mayBeOld || l.upper != 0 {
		t.Errorf("a logit of -4: %+v", l)
	}
	if l := logits[2]; !l.predictedOld || !l.mayBeYoung || !l.mayBeOld {
		t.Errorf("a logit of 2: %+v", l)
	}
}

// TestPairedDifference compares the p-value with a closed form. Student's t with two degrees
// of freedom exceeds u with probability ½ − u/(2√(2+u²)).
func TestPairedDifference(t *testing.T) {
	d := pairedDifference([]float64{2, 4, 6}, []float64{1, 2, 3}, 40, 10)
	stdErr := math.Sqrt(1./3 + .25)
	u := 2 / stdErr
	if math.Abs(d.mean-2) > 1e-12 || math.Abs(d.std-1) > 1e-12 || math.Abs(d.stderr-stdErr) > 1e-12 ||
		math.Abs(d.p-(1-u/math.Sqrt(2+u*u))) > 1e-9 {
		t.Errorf("got %+v", d)
	}
	if d := pairedDifference([]float64{1, 1}, []float64{1, 1}, 9, 1); d.p != 1 {
		t.Errorf("equal results: %+v", d)
	}
}

// TestAbalone classifies random rows in which the number of rings grows with the length.
func TestAbalone(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var text strings.Builder
	for i := range 1000 {
		u := rng.Float64()
		fmt.Fprintf(&text, "%c,%.4f,%.4f,.1,.2,.3,.4,.5,%d\n", "MFI"[i%3], .1+u, .1+rng.Float64(), int(math.Round(5.5+10*u+rng.NormFloat64())))
	}
	data, out := experimenttest.WriteFile(t, "abalone.csv", text.String()), t.TempDir()
	code, stdout, stderr := experimenttest.Run(t, Experiment, "--data", data, "--out", out, "--seeds", "2", "--epochs", "15")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, want := range []string{"1000 abalone (0 with a missing value", "2 splits into 900 and 100 rows", "0.78 ± 0.02  0.84 ± 0.03"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the table lacks %q:\n%s", want, stdout)
		}
	}
	if !strings.Contains(stderr, "4 of 4") {
		t.Errorf("progress: %s", stderr)
	}
	records := experimenttest.ReadCSV(t, filepath.Join(out, "abalone.csv"))
	if len(records) != 1+4*2 {
		t.Fatalf("abalone.csv has %d lines", len(records))
	}
	// The best possible classifier is right for about 92 of 100 rows.
	for _, r := range records[1:] {
		for column, minimum := range map[int]float64{2: .8, 3: .9, 4: .8, 5: .9, 8: .6, 9: .9} {
			if v, _ := strconv.ParseFloat(r[column], 64); !(v >= minimum) {
				t.Errorf("%s, split %s: %s is %v, want %v or more", r[0], r[1], records[0][column], v, minimum)
			}
		}
	}
	experimenttest.Written(t, out, 1000, "abalone.png", "abalone.svg")
}

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("ATTACH_DATA", dir)
	experimenttest.Refused(t, Experiment, map[string][]string{
		"between 0 and .975":         {"--coverage", "90"},
		"at least 2 splits":          {"--seeds", "1"},
		"abalone has no flag --sets": {"--sets", "a"},
	})
	if code, _, stderr := experimenttest.Run(t, Experiment, "--out", dir); code != 1 || !strings.Contains(stderr, "UCI Abalone data") {
		t.Errorf("without data: exit %d, %q", code, stderr)
	}
}
