package attach_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/ood"
)

// shapedTrainer replaces training. It returns linear networks of the requested shape.
type shapedTrainer struct{}

func (shapedTrainer) Train(_ context.Context, p train.Problem) ([]train.Network, error) {
	networks := make([]train.Network, len(p.Models))
	for m := range networks {
		in := p.X.Cols
		if p.Conditional {
			in++
		}
		w := matrix(in, p.Outputs)
		for i := range w.Data {
			w.Data[i] = float32(i%3) / 4
		}
		networks[m].Layers = []train.Layer{{W: w, B: make([]float32, p.Outputs)}}
	}
	return networks, nil
}

// TestEveryQuantileMethod checks that every interval method can be fitted, saved and read, and
// predicts the same afterwards.
func TestEveryQuantileMethod(t *testing.T) {
	for _, m := range attach.Methods() {
		if !m.Needs.Targets {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			in := regressor(1, 80, 2)
			in.SkipDetector, in.Trainer = true, shapedTrainer{}
			in.IntervalModel = m
			if !m.Needs.Trainer {
				in.Trainer = nil
				in.IntervalParams = ood.Params{"n_estimators": 5.}
			}
			b := mustFit(t, in)
			content := mustWrite(t, b)
			got, err := read(content)
			if err != nil {
				t.Fatal(err)
			}
			if got.IntervalModel.Method != m.Name || !reflect.DeepEqual(got.IntervalModel.Params, b.IntervalModel.Params) {
				t.Errorf("read %s %v, want %s %v", got.IntervalModel.Method, got.IntervalModel.Params, m.Name, b.IntervalModel.Params)
			}
			if !bytes.Equal(content, mustWrite(t, got)) {
				t.Error("what was read does not write the same bytes")
			}
			o := attach.PredictOptions{Levels: []float64{0.2}, Level: 0.8}
			comparePredictions(t, mustPredict(t, got, in.Batch, o), mustPredict(t, b, in.Batch, o))
		})
	}
}

// TestForestIntervals checks that intervals of a quantile forest are wide for rows whose
// targets have much noise, and that they have the nominal coverage.
func TestForestIntervals(t *testing.T) {
	in := regressor(1, 2000, 1)
	in.IntervalModel, in.Trainer = method("quantile-forest"), nil
	in.IntervalParams = ood.Params{"min_samples_leaf": 20.}
	b := mustFit(t, in)
	test := regressor(2, 2000, 1)
	p := targetsOf(mustPredict(t, b, test.Batch, attach.PredictOptions{}))
	covered, narrow, wide := 0.0, 0.0, 0.0
	for i, y := range test.Targets.Data {
		if p[i].Lower <= float64(y) && float64(y) <= p[i].Upper {
			covered++
		}
		if x := test.Batch.Features.Data[4*i]; x < -1 {
			narrow = max(narrow, p[i].Upper-p[i].Lower)
		} else if x > 1.5 {
			wide = max(wide, p[i].Upper-p[i].Lower)
		}
	}
	if got := covered / 2000; math.Abs(got-0.9) > 0.04 { // with 400 calibration rows, the standard error is 0.015
		t.Errorf("coverage %v, want .9", got)
	}
	if wide < 2*narrow {
		t.Errorf("intervals are up to %v wide where targets vary and %v where they do not", wide, narrow)
	}
}

// checkMeanCoverage checks that the mean coverage over 60 calibrations is want. Each call of
// trial returns the coverage of new rows after one calibration.
func checkMeanCoverage(t *testing.T, what string, want float64, trial func(seed uint64) float64) {
	t.Helper()
	var coverages []float64
	for seed := range uint64(60) {
		coverages = append(coverages, trial(seed))
	}
	mean, sd := moments(coverages)
	if tolerance := 4 * sd / math.Sqrt(60); math.Abs(mean-want) > tolerance {
		t.Errorf("%s: coverage %.4f, want %.4f ± %.4f", what, mean, want, tolerance)
	}
}

// TestGroupsCover checks that intervals by group cover each of two groups at its level. The
// groups have different noise, so that intervals without groups cover the noisier one too
// rarely.
func TestGroupsCover(t *testing.T) {
	const n, level = 60, 0.8
	trial := func(group string, grouped bool) func(seed uint64) float64 {
		return func(seed uint64) float64 {
			in := regressor(seed, 2*n, 1)
			cal := regressor(seed+5000, 2*n, 1)
			// Make n calibration rows of each group.
			for i := range 2 * n {
				x := float32(math.Abs(float64(cal.Batch.Features.Data[4*i])))
				if i%2 == 0 {
					x = -x
				}
				noise := cal.Targets.Data[i] - cal.Batch.Logits.Data[i]
				cal.Batch.Features.Data[4*i], cal.Targets.Data[i] = x, x+noise*float32(math.Exp(float64(x)))
			}
			in.Cal, in.CalTargets, in.SkipDetector = cal.Batch, cal.Targets, true
			test := attach.Rows{Batch: regressor(seed+9000, 400, 1).Batch}
			if grouped {
				in.CalGroups, test.Groups = groupsOf(cal.Batch), groupsOf(test.Batch)
			}
			p := targetsOf(predictRows(t, mustFit(t, in), test, attach.PredictOptions{Level: level}))
			rng := rand.New(rand.NewPCG(seed, 77))
			inside, total := 0.0, 0.0
			for i, g := range groupsOf(test.Batch) {
				if g != group {
					continue
				}
				x := float64(test.Features.Data[4*i])
				// The noise of a calibration row was scaled by its feature before the sign
				// of the feature was changed. The scale here is therefore that of a random
				// feature.
				z := math.Exp(rng.NormFloat64()/2) * rng.NormFloat64()
				if y := x + z*math.Exp(x); p[i].Lower <= y && y <= p[i].Upper {
					inside++
				}
				total++
			}
			return inside / total
		}
	}
	want := math.Ceil(level*(n+1)-1e-9) / (n + 1)
	checkMeanCoverage(t, "calm group", want, trial("minus", true))
	checkMeanCoverage(t, "wild group", want, trial("plus", true))
	var marginal []float64
	for seed := range uint64(20) {
		marginal = append(marginal, trial("plus", false)(seed))
	}
	if mean, _ := moments(marginal); mean > want-0.05 {
		t.Errorf("without groups the wild one is covered %v: the test says nothing", mean)
	}
}

func TestUnseenGroup(t *testing.T) {
	in := regressor(1, 100, 2)
	in.Groups = groupsOf(in.Batch)
	b := mustFit(t, in)
	r := attach.Rows{Batch: in.Batch.Slice(0, 2), Groups: []string{"plus", "never"}}
	for _, o := range []attach.PredictOptions{{Level: 0.5, Samples: 2}, {Level: 0.5, Joint: true}, {Level: 0.5, Region: "ellipsoid"}, {Level: 0.5, Side: "upper"}} {
		p := targetsOf(predictRows(t, b, r, o))
		if math.IsInf(p[0].Upper, 1) || !math.IsInf(p[2].Upper, 1) || !math.IsInf(p[3].Lower, -1) {
			t.Errorf("%+v: %+v", o, p)
		}
		if o.Samples > 0 && (math.IsInf(p[0].Samples[0], 0) || !math.IsInf(p[2].Samples[0], 0)) {
			t.Errorf("samples %v", p)
		}
	}
}

func TestSidesAndBoxesCover(t *testing.T) {
	const rows, level = 80, 0.8
	n := rows / 2.
	want := math.Ceil(level*(n+1)-1e-9) / (n + 1)
	fitted := map[uint64]*attach.Bundle{}
	trial := func(o attach.PredictOptions) func(seed uint64) float64 {
		o.Level = level
		return func(seed uint64) float64 {
			in := regressor(seed, rows, 2)
			in.CalFraction, in.SkipDetector = 0.5, true
			if fitted[seed] == nil {
				fitted[seed] = mustFit(t, in)
			}
			test := regressor(seed+1000, 80, 2)
			p := mustPredict(t, fitted[seed], test.Batch, o)
			for _, c := range targetsOf(p) {
				if o.Side == "lower" && !math.IsInf(c.Upper, 1) || o.Side == "upper" && !math.IsInf(c.Lower, -1) {
					t.Fatalf("side %s: [%v, %v]", o.Side, c.Lower, c.Upper)
				}
			}
			return covered(p, test, o.Joint)
		}
	}
	checkMeanCoverage(t, "lower", want, trial(attach.PredictOptions{Side: "lower"}))
	checkMeanCoverage(t, "upper", want, trial(attach.PredictOptions{Side: "upper"}))
	checkMeanCoverage(t, "joint", want, trial(attach.PredictOptions{Joint: true}))
	half := hypothesis.Halved(rows / 2) // the others give the shape
	checkMeanCoverage(t, "ellipsoid", hypothesis.ExpectedCoverage(half, 1-level), func(seed uint64) float64 {
		test, inside := regressor(seed+1000, 80, 2), 0.
		for i, p := range mustPredict(t, fitted[seed], test.Batch, attach.PredictOptions{Level: level, Region: "ellipsoid", Seed: seed}) {
			y := []float64{float64(test.Targets.Data[2*i]), float64(test.Targets.Data[2*i+1])}
			if !p.Ellipsoid.Contains(y) {
				continue
			}
			inside++
			for k, c := range p.Targets {
				if !(c.Lower <= y[k] && y[k] <= c.Upper) {
					t.Fatalf("target %v in the ellipsoid is outside [%v, %v]", y[k], c.Lower, c.Upper)
				}
			}
		}
		return inside / 80
	})
	for _, score := range []string{"cqr-r", "cqr-m", "cir", "ridge"} {
		checkMeanCoverage(t, score, want, trial(attach.PredictOptions{IntervalScore: score}))
	}
}

// TestSmoothedCovers checks that smoothed intervals cover at their level if targets and
// interval ends are integers. Plain intervals cover too often then.
func TestSmoothedCovers(t *testing.T) {
	const rows, level, seeds = 80, 0.8, 60
	n := rows / 2.
	want := math.Ceil(level*(n+1)-1e-9) / (n + 1)
	draw := func(seed uint64, rows int) attach.FitOptions {
		in := regressor(seed, rows, 2)
		for i, y := range in.Targets.Data {
			in.Targets.Data[i] = float32(math.Round(float64(y)))
		}
		return in
	}
	kinds := map[string]attach.PredictOptions{
		"interval": {}, "lower": {Side: "lower"}, "upper": {Side: "upper"}, "joint": {Joint: true},
	}
	plain, smoothed := map[string][]float64{}, map[string][]float64{}
	for seed := range uint64(seeds) {
		in := draw(seed, rows)
		in.CalFraction, in.SkipDetector = 0.5, true
		in.IntervalModel, in.IntervalParams, in.Trainer = method("quantile-forest"), ood.Params{"n_estimators": 1., "max_depth": 1.}, nil
		b, test := mustFit(t, in), draw(seed+1000, 80)
		for name, o := range kinds {
			o.Level, o.Seed = level, seed
			plain[name] = append(plain[name], covered(mustPredict(t, b, test.Batch, o), test, o.Joint))
			o.Smoothed = true
			p := mustPredict(t, b, test.Batch, o)
			smoothed[name] = append(smoothed[name], covered(p, test, o.Joint))
			for _, c := range targetsOf(p) {
				if c.Lower != float64(float32(c.Lower)) || c.Upper != float64(float32(c.Upper)) {
					t.Fatalf("[%v, %v]: not float32 numbers", c.Lower, c.Upper)
				}
			}
		}
	}
	for name := range kinds {
		if mean, sd := moments(plain[name]); mean < want+4*sd/math.Sqrt(seeds) {
			t.Errorf("%s: plain intervals cover %v, want more than the guaranteed %v: the test says nothing", name, mean, want)
		}
		mean, sd := moments(smoothed[name])
		if tolerance := 4 * sd / math.Sqrt(seeds); math.Abs(mean-want) > tolerance {
			t.Errorf("%s: smoothed coverage %.4f, want %.4f ± %.4f", name, mean, want, tolerance)
		}
	}
}

// covered returns the fraction of rows whose first target is inside its interval or, for a
// box, whose two targets are both inside.
func covered(p []attach.Prediction, test attach.FitOptions, box bool) float64 {
	inside := 0.0
	for i, row := range p {
		in := true
		for t, c := range row.Targets {
			y := float64(test.Targets.Data[2*i+t])
			if box || t == 0 {
				in = in && c.Lower <= y && y <= c.Upper
			}
		}
		if in {
			inside++
		}
	}
	return inside / float64(len(p))
}

// stream predicts rows in blocks of the given number of rows.
func stream(t *testing.T, b *attach.Bundle, r attach.Rows, o attach.PredictOptions, rows int) (all []attach.Prediction) {
	t.Helper()
	predictor, err := b.Predictor(o)
	if err != nil {
		t.Fatal(err)
	}
	blocks := func(yield func(attach.Rows, error) bool) {
		for first := 0; first < r.Len(); first += rows {
			end := min(first+rows, r.Len())
			block := attach.Rows{Batch: r.Slice(first, end)}
			if r.Groups != nil {
				block.Groups = r.Groups[first:end]
			}
			if !yield(block, nil) {
				return
			}
		}
	}
	for p, err := range predictor.Stream(context.Background(), blocks) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// TestSmoothedDraws checks that the random numbers for smoothed intervals depend on the seed
// and the number of the row, and not on blocks. It also checks that a group without
// calibration rows has infinite intervals.
func TestSmoothedDraws(t *testing.T) {
	in := regressor(1, 100, 2)
	in.Groups = groupsOf(in.Batch)
	b := mustFit(t, in)
	r := attach.Rows{Batch: in.Batch, Groups: slices.Clone(in.Groups)}
	r.Groups[99] = "never"
	o := attach.PredictOptions{Level: .5, Smoothed: true}
	atOnce := predictRows(t, b, r, o)
	if first, last := atOnce[0].Targets[0].Upper, atOnce[99].Targets[0].Upper; !math.IsInf(last, 1) || math.IsInf(first, 1) {
		t.Errorf("of a group without calibration rows up to %v, of others up to %v", last, first)
	}
	if !samePredictions(stream(t, b, r, o, 40), atOnce) {
		t.Error("blocks of rows have other intervals")
	}
	later := attach.Rows{Batch: in.Batch.Slice(40, 90), Groups: r.Groups[40:90], First: 40}
	if !samePredictions(predictRows(t, b, later, o), atOnce[40:90]) {
		t.Error("rows that are numbered have other intervals")
	}
	o.Seed = 1
	if samePredictions(predictRows(t, b, r, o), atOnce) {
		t.Error("another seed has the same intervals")
	}
}

// TestSamples checks that samples depend on the seed and the number of the row, and not on
// blocks. It also checks that targets rank among the samples like further samples.
func TestSamples(t *testing.T) {
	in := regressor(1, 1000, 2)
	in.SkipDetector = true
	b := mustFit(t, in)
	test := regressor(2, 1000, 2)
	o := attach.PredictOptions{Samples: 19, Seed: 5}
	atOnce := predictRows(t, b, attach.Rows{Batch: test.Batch}, o)
	targets := targetsOf(atOnce)
	for i, c := range targetsOf(stream(t, b, attach.Rows{Batch: test.Batch}, o, 300)) {
		if len(c.Samples) != 19 || !isClose(c.Samples[18], targets[i].Samples[18], 1e-5) {
			t.Fatalf("samples %v of blocks, and %v at once", c.Samples, targets[i].Samples)
		}
	}
	o.Seed = 6
	if other := predictRows(t, b, attach.Rows{Batch: test.Batch}, o); samePredictions(other, atOnce) {
		t.Error("another seed draws the same")
	}
	ranks := make([]float64, 20)
	for i, y := range test.Targets.Data {
		rank := 0
		for _, s := range targets[i].Samples {
			if s < float64(y) {
				rank++
			}
		}
		ranks[rank] += 1. / 2000
	}
	for rank, fraction := range ranks { // with 200 calibration rows, the standard error is at most 0.02
		if math.Abs(fraction-0.05) > 0.04 {
			t.Errorf("a fraction %v of targets has rank %d among 19 samples, want .05", fraction, rank)
		}
	}
}

func TestIntervalErrors(t *testing.T) {
	in := regressor(1, 60, 1)
	classes := classifier(60)
	names := make([]string, 60)
	fits := map[string]struct {
		change func(*attach.FitOptions)
		want   string
	}{
		"parameter": {func(in *attach.FitOptions) {
			in.IntervalModel, in.IntervalParams = method("sqr"), ood.Params{"lambda": 1.}
		}, `unknown parameter "lambda"`},
		"parameter of SQR": {func(in *attach.FitOptions) { in.IntervalParams = ood.Params{"hidden": 0.} }, `"hidden" must be`},
		"type": {func(in *attach.FitOptions) {
			in.IntervalModel, in.IntervalParams = method("quantile-forest"), ood.Params{"bins": "x"}
		}, "bins"},
		"detector":          {func(in *attach.FitOptions) { in.IntervalModel = method("distance") }, "distance is a detector"},
		"no trainer":        {func(in *attach.FitOptions) { in.IntervalModel, in.Trainer = method("conditional-gaussian"), nil }, "trainer"},
		"groups":            {func(in *attach.FitOptions) { in.Groups = names[:7] }, "7 groups for 60 fit rows"},
		"groups of cal":     {func(in *attach.FitOptions) { in.Cal, in.CalTargets, in.CalGroups = in.Batch, in.Targets, names[:7] }, "7 groups for 60 calibration"},
		"groups not of cal": {func(in *attach.FitOptions) { in.Cal, in.CalTargets, in.Groups = in.Batch, in.Targets, names }, "the fit rows have groups, but the calibration rows have none; intervals are calibrated by the"},
		"groups of no head": {func(in *attach.FitOptions) { in.Groups, in.SkipIntervals = names, true }, "groups are for intervals, but no interval model is fitted"},
		"overflow": {func(in *attach.FitOptions) {
			in.Cal, in.CalTargets = in.Batch.Select([]int{0, 1, 2}), matrix(3, 1)
			in.Cal.Features.Data[4+3] = math.MaxFloat32
		}, "calibration row 1 has no finite quantiles"},
		"groups not in UTF8":  {func(in *attach.FitOptions) { in.Groups = slices.Repeat([]string{"\xff"}, 60) }, "UTF-8"},
		"columns not in UTF8": {func(in *attach.FitOptions) { in.Base.Columns = []string{"a", "\xff"} }, "the name of a class or a column, \"\\xff\", is not UTF-8"},
	}
	for name, tt := range fits {
		in := in
		tt.change(&in)
		if _, err := attach.Fit(context.Background(), in); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error is %v, want it to say %q", name, err, tt.want)
		}
	}
	plain, withoutIntervals := mustFit(t, in), in
	withoutIntervals.SkipIntervals = true
	in.Groups = groupsOf(in.Batch)
	grouped, several := mustFit(t, in), mustFit(t, regressor(1, 60, 2))
	predictions := map[string]struct {
		b    *attach.Bundle
		o    attach.PredictOptions
		r    attach.Rows
		want string
	}{
		"side":                {plain, attach.PredictOptions{Side: "left"}, attach.Rows{}, `side "left"`},
		"joint side":          {plain, attach.PredictOptions{Side: "lower", Joint: true}, attach.Rows{}, "a joint box has two ends"},
		"unknown region":      {plain, attach.PredictOptions{Region: "ball"}, attach.Rows{}, `unknown region "ball"; it must be one of box, ellipsoid`},
		"region side":         {plain, attach.PredictOptions{Region: "ellipsoid", Side: "lower"}, attach.Rows{}, "choose a region or a side"},
		"one target":          {plain, attach.PredictOptions{Region: "ellipsoid"}, attach.Rows{}, "an ellipsoid needs two targets or more"},
		"region, no head":     {mustFit(t, withoutIntervals), attach.PredictOptions{Region: "ellipsoid"}, attach.Rows{}, "there is no calibrated interval model"},
		"ellipsoid, score":    {several, attach.PredictOptions{Region: "ellipsoid", IntervalScore: "cir"}, attach.Rows{}, "choose an interval score or an ellipsoid"},
		"ellipsoid, smoothed": {several, attach.PredictOptions{Region: "ellipsoid", Smoothed: true}, attach.Rows{}, "ellipsoids cannot be smoothed"},
		"score":               {plain, attach.PredictOptions{IntervalScore: "cqr-x"}, attach.Rows{}, `score "cqr-x"`},
		"ridge, joint":        {several, attach.PredictOptions{Joint: true, IntervalScore: "ridge"}, attach.Rows{}, "choose another score"},
		"score side":          {plain, attach.PredictOptions{Side: "lower", IntervalScore: "cir"}, attach.Rows{}, "choose a side or a score"},
		"score, no head":      {mustFit(t, withoutIntervals), attach.PredictOptions{IntervalScore: "cir"}, attach.Rows{}, "there is no calibrated interval model; intervals and samples need one, fitted for regression"},
		"samples":             {plain, attach.PredictOptions{Samples: -1}, attach.Rows{}, "the number of samples is -1, and must not be negative"},
		"samples, classes":    {mustFit(t, classes), attach.PredictOptions{Samples: 1}, attach.Rows{}, "there is no calibrated interval model; intervals and samples need one, fitted for regression"},
		"side, no head":       {mustFit(t, withoutIntervals), attach.PredictOptions{Side: "upper"}, attach.Rows{}, "there is no calibrated interval model; intervals and samples need one, fitted for regression"},
		"smoothed, no head":   {mustFit(t, withoutIntervals), attach.PredictOptions{Smoothed: true}, attach.Rows{}, "there is no calibrated interval model; intervals and samples need one, fitted for regression"},
		"groups of none":      {plain, attach.PredictOptions{}, attach.Rows{Batch: in.Batch, Groups: in.Groups}, "not calibrated by group"},
		"no groups":           {grouped, attach.PredictOptions{}, attach.Rows{Batch: in.Batch}, "0 groups for 60 rows"},
		"groups by the dozen": {grouped, attach.PredictOptions{}, attach.Rows{Batch: in.Batch, Groups: names[:12]}, "12 groups for 60 rows"},
	}
	for name, tt := range predictions {
		_, err := predict(tt.b, tt.r, tt.o)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error is %v, want it to say %q", name, err, tt.want)
		}
	}
}

// TestRefusalsOfQuantiles checks that Read rejects a file whose interval model or groups were
// edited, even with corrected checksums.
func TestRefusalsOfQuantiles(t *testing.T) {
	in := regressor(1, 60, 1)
	in.Groups = groupsOf(in.Batch)
	in.IntervalModel, in.IntervalParams = method("quantile-forest"), ood.Params{"n_estimators": 2.}
	good := mustWrite(t, mustFit(t, in))
	for name, tt := range map[string]struct {
		content []byte
		want    error
	}{
		"unknown":       {edit(t, good, true, `"method": "quantile-forest"`, `"method": "tea-leaves"`), attach.ErrUnknownMethod},
		"other method":  {edit(t, good, true, `"method": "quantile-forest"`, `"method": "gradient-boosting"`), attach.ErrDamaged},
		"fewer groups":  {edit(t, good, true, `"minus",`, ``), attach.ErrDamaged},
		"no groups":     {edit(t, good, true, `"groups": [`, `"were": [`), attach.ErrDamaged},
		"columns":       {edit(t, good, true, `"columns": 4`, `"columns": 5`), attach.ErrDamaged},
		"fewer columns": {edit(t, good, true, `"columns": 4`, `"columns": 0`), attach.ErrDamaged},
		"targets":       {edit(t, good, true, `"targets": 1`, `"targets": 2`), attach.ErrDamaged},
	} {
		if _, err := read(tt.content); !errors.Is(err, tt.want) {
			t.Errorf("%s: error is %v, want %v", name, err, tt.want)
		}
	}
}
