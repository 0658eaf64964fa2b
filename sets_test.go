package attach_test

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
)

// TestSetsOfRows checks that prediction sets cover, are the same after a file was saved and
// read, and do not depend on blocks.
func TestSetsOfRows(t *testing.T) {
	in := classifier(400)
	in.Cal = blob(2, 399, 8, 3, 0)
	b := mustFit(t, in)
	restored, err := read(mustWrite(t, b))
	if err != nil {
		t.Fatal(err)
	}
	test := blob(3, 1500, 8, 3, 0)
	for _, o := range []attach.PredictOptions{
		{Sets: "lac"}, {Sets: "aps", SetsByClass: true}, {Sets: "raps"}, {Sets: "saps", SetsByCluster: true, Seed: 3}, {Sets: "aps", Smoothed: true, Seed: 4}, {Sets: "lac", SetsByClass: true, Level: .92},
	} {
		p := mustPredict(t, b, test, o)
		if !samePredictions(p, mustPredict(t, restored, test, o)) {
			t.Errorf("%+v: read again, it predicts other sets", o)
		}
		level, covered := .9, 0
		if o.Level != 0 {
			level = o.Level
		}
		for i, row := range p {
			if row.Set == nil || !slices.IsSorted(row.Set) {
				t.Fatalf("%+v: row %d has the set %#v", o, i, row.Set)
			}
			if slices.Contains(row.Set, test.Labels[i]) {
				covered++
			}
		}
		if got := float64(covered) / 1500; got < level-.05 || got > level+.06 {
			t.Errorf("%+v: sets cover %v of rows", o, got)
		}
		predictor, err := b.Predictor(o)
		if err != nil {
			t.Fatal(err)
		}
		var streamed []attach.Prediction
		for prediction, err := range predictor.Stream(context.Background(), blocksOf(test, blas32.General{}, nil)) {
			if err != nil {
				t.Fatal(err)
			}
			streamed = append(streamed, prediction)
		}
		if !samePredictions(p, streamed) {
			t.Errorf("%+v: sets depend on blocks", o)
		}

		// Without ties, sets cover exactly the ⌈level(n+1)⌉ calibration rows with the smallest
		// scores. For level 0.9 and n = 399 these are 360 rows.
		coveredRows := 0
		for i, row := range mustPredict(t, b, in.Cal, o) {
			if slices.Contains(row.Set, in.Cal.Labels[i]) {
				coveredRows++
			}
		}
		if want := 360; !o.SetsByClass && o.Sets == "lac" && coveredRows != want {
			t.Errorf("%+v: sets cover %d calibration rows, want %d", o, coveredRows, want)
		}
	}
}

// TestSetsAreNotEmpty checks that the most probable class replaces an empty set, unless sets
// are smoothed.
func TestSetsAreNotEmpty(t *testing.T) {
	in := classifier(400)
	in.Cal = blob(2, 399, 8, 3, 0)
	b := mustFit(t, in)
	test := blob(3, 1000, 8, 3, 0)
	for _, o := range []attach.PredictOptions{
		{Sets: "lac", Level: .4}, {Sets: "lac", Level: .4, SetsByClass: true}, {Sets: "lac", Level: .4, Smoothed: true}, {Sets: "aps", Smoothed: true},
	} {
		sets, err := b.Calibration.TrueClasses.Sets(calibrate.SetOptions{Score: o.Sets, ByClass: o.SetsByClass, Smoothed: o.Smoothed}, 1-cmp.Or(o.Level, .9))
		if err != nil {
			t.Fatal(err)
		}
		calibrated, empty := sets.Predict(test.Logits, 0), 0
		for i, row := range mustPredict(t, b, test, o) {
			want := calibrated[i]
			if len(want) == 0 {
				empty++
				if !o.Smoothed {
					want = []int{row.Class}
				}
			}
			if row.Set == nil || !slices.Equal(row.Set, want) {
				t.Fatalf("%+v: row %d has the set %#v, want %v", o, i, row.Set, want)
			}
		}
		if empty == 0 {
			t.Errorf("%+v: calibrate has no empty set", o)
		}
	}
}

// TestSelective checks that accepted rows are not flagged, and that at most a fraction
// MaxError of them is wrong.
func TestSelective(t *testing.T) {
	in := classifier(400)
	in.Cal = softmaxRows(2, 4000)
	b := mustFit(t, in)
	o := attach.PredictOptions{MaxError: .1, Sets: "lac"}
	predictor, err := b.Predictor(o)
	if err != nil {
		t.Fatal(err)
	}
	s := predictor.Selective()
	if s.Rows == 0 || s.Rows >= s.Of || s.Of >= 4000*95/100+1 || s.Errors == 0 {
		t.Errorf("accepted are %+v", s)
	}
	test := softmaxRows(3, 8000)
	accepted, wrong := 0, 0
	for i, row := range mustPredict(t, b, test, o) {
		if row.Accept && row.Flag {
			t.Errorf("row %d is flagged and accepted", i)
		}
		if row.Accept {
			accepted++
			if row.Class != test.Labels[i] {
				wrong++
			}
		}
	}
	if accepted < 800 || float64(wrong) > .1*float64(accepted) {
		t.Errorf("%d rows are accepted, %d of them wrong", accepted, wrong)
	}
	o.MaxError = 1e-6
	if predictor, err = b.Predictor(o); err != nil {
		t.Fatal(err)
	}
	if s := predictor.Selective(); s.Rows != 0 || s.Least != 2995731 {
		t.Errorf("without enough rows accepted are %+v", s)
	}
}

// TestConfidenceBounds checks that the confidence bounds of a row are those of its largest
// probability, even after a file was saved and read. On average, the fraction of right
// predictions must lie between them.
func TestConfidenceBounds(t *testing.T) {
	in := classifier(400)
	in.Cal = softmaxRows(2, 2000)
	b := mustFit(t, in)
	bounds := b.Calibration.TrueClasses.VennAbers()
	test := softmaxRows(3, 8000)
	var low, high, right float64
	restored, err := read(mustWrite(t, b))
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range mustPredict(t, restored, test, attach.PredictOptions{VennAbers: true}) {
		p0, p1 := bounds(softmax.New(test.Logits.Data[3*i:3*i+3], 1).Largest())
		if row.ConfidenceBounds != [2]float64{p0, p1} || !(p0 < p1) {
			t.Fatalf("row %d has the bounds %v, want %v and %v", i, row.ConfidenceBounds, p0, p1)
		}
		low, high = low+p0/8000, high+p1/8000
		if row.Class == test.Labels[i] {
			right += 1. / 8000
		}
	}
	if right < low-.02 || right > high+.02 || high-low > .1 {
		t.Errorf("a fraction %v of rows is right, between %v and %v", right, low, high)
	}
	if row := mustPredict(t, restored, test, attach.PredictOptions{})[0]; row.ConfidenceBounds != [2]float64{} {
		t.Errorf("bounds that nobody asked for are %v", row.ConfidenceBounds)
	}
}

func TestSetsOfOneLogit(t *testing.T) {
	in := classifier(100)
	in.Base.Classes = nil
	in.Batch = blob(1, 100, 8, 1, 0)
	for i := range in.Batch.Labels {
		in.Batch.Labels[i] = i % 2
	}
	b := mustFit(t, in)
	for i, row := range mustPredict(t, b, in.Batch, attach.PredictOptions{Sets: "lac", Level: .99}) {
		if !slices.Equal(row.Set, []int{0, 1}) {
			t.Fatalf("row %d has the set %v of two classes", i, row.Set)
		}
	}
}

func TestSetsRefused(t *testing.T) {
	unlabelled, sigmoid := classifier(60), classifier(60)
	unlabelled.Batch.Labels = nil
	sigmoid.Base.Sigmoid = true
	for message, tt := range map[string]struct {
		in attach.FitOptions
		o  attach.PredictOptions
	}{
		"had no labels": {unlabelled, attach.PredictOptions{Sets: "lac"}},
		"an error rate: the calibration rows had no labels":                                                      {unlabelled, attach.PredictOptions{MaxError: .1}},
		"Venn–Abers bounds: the calibration rows had no labels":                                                  {unlabelled, attach.PredictOptions{VennAbers: true}},
		"prediction sets: the model's outputs are separate sigmoids, so that a row may have no class or several": {sigmoid, attach.PredictOptions{Sets: "lac"}},
		"prediction sets: the model is not a classifier":                                                         {regressor(1, 60, 1), attach.PredictOptions{Sets: "lac"}},
		`unknown set score "lack"`:                                                                               {classifier(60), attach.PredictOptions{Sets: "lack"}},
		"sets are to be calibrated by class or by cluster, but none are requested":                               {classifier(60), attach.PredictOptions{SetsByClass: true}},
		"by class or by cluster: choose one":                                                                     {classifier(60), attach.PredictOptions{Sets: "lac", SetsByClass: true, SetsByCluster: true}},
		"error rate 1 is":                                                                                        {classifier(60), attach.PredictOptions{MaxError: 1}},
	} {
		_, err := mustFit(t, tt.in).Predictor(tt.o)
		if err == nil || !strings.Contains(err.Error(), message) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error is %v, want one line that says %q", err, message)
		}
	}
	if p := mustPredict(t, mustFit(t, unlabelled), unlabelled.Batch, attach.PredictOptions{}); p[0].Set != nil || p[0].Accept {
		t.Errorf("what is not asked for is %+v", p[0])
	}
}

// TestTrueClassesRefused checks that a bundle is not saved if the probabilities of true
// classes cannot come from a softmax.
func TestTrueClassesRefused(t *testing.T) {
	in := classifier(200)
	in.Cal = blob(2, 100, 8, 3, 0)
	for message, corrupt := range map[string]func(b *attach.Bundle, c *calibrate.ClassCalibration){
		"has label 3 of 3":                                   func(_ *attach.Bundle, c *calibrate.ClassCalibration) { c.Labels[7] = 3 },
		"ranks of the calibration rows contain -1":           func(_ *attach.Bundle, c *calibrate.ClassCalibration) { c.Ranks[7] = -1 },
		"calibration row 0 has label":                        func(_ *attach.Bundle, c *calibrate.ClassCalibration) { c.Ranks[0] = 1 - min(c.Ranks[0], 1) },
		"which no softmax gives":                             func(_ *attach.Bundle, c *calibrate.ClassCalibration) { c.True[7] = 1.5 },
		`array "calibration/top"`:                            func(_ *attach.Bundle, c *calibrate.ClassCalibration) { c.Top[7] = math.NaN() },
		"of 100, 100, 100, 100, 100 and 99 calibration rows": func(_ *attach.Bundle, c *calibrate.ClassCalibration) { c.Ranks = c.Ranks[1:] },
		"and the probabilities":                              func(_ *attach.Bundle, c *calibrate.ClassCalibration) { c.Grown[7] = 1 - min(math.Ceil(c.Grown[7]), 1) },
		"it has labels of calibration rows, but the model has no softmax": func(b *attach.Bundle, _ *calibrate.ClassCalibration) {
			b.Base.Sigmoid, b.Calibration.Temperature = true, 0
		},
	} {
		b := mustFit(t, in)
		corrupt(b, &b.Calibration.TrueClasses)
		checkWriteFails(t, b, message)
	}
}

// TestClassPValues checks that the classes with a p-value above 0.1 are those of the
// prediction set at level 0.9, and that p-values need sets.
func TestClassPValues(t *testing.T) {
	in := classifier(200)
	in.Cal = softmaxRows(5, 300)
	b, test := mustFit(t, in), softmaxRows(6, 40)
	o := attach.PredictOptions{Sets: "aps", Smoothed: true, Seed: 3, ClassPValues: true}
	for i, p := range mustPredict(t, b, test, o) {
		var set []int
		for c, v := range p.ClassPValues {
			if v > .1 {
				set = append(set, c)
			}
		}
		if len(p.ClassPValues) != 3 || !slices.Equal(set, p.Set) {
			t.Fatalf("row %d: set %v, p-values %v", i, p.Set, p.ClassPValues)
		}
	}
	if _, err := b.Predictor(attach.PredictOptions{ClassPValues: true}); err == nil {
		t.Error("p-values without sets were accepted")
	}
}
