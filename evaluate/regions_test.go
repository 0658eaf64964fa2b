package evaluate_test

import (
	"math"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
)

// TestRegions compares the coverage and the ratio of volumes with the predictions of both kinds
// of regions, and checks that both kinds give the same comparison.
func TestRegions(t *testing.T) {
	b := mustFit(t, regressor(1, 1000, 2))
	test := regressor(2, 500, 2)
	boxes := mustPredict(t, b, test.Batch, attach.PredictOptions{Joint: true})
	inBox, inEllipsoid, logs := 0, 0, 0.
	for i, p := range mustPredict(t, b, test.Batch, attach.PredictOptions{Region: "ellipsoid"}) {
		y := []float64{float64(test.Targets.Data[2*i]), float64(test.Targets.Data[2*i+1])}
		c := boxes[i].Targets
		if c[0].Lower <= y[0] && y[0] <= c[0].Upper && c[1].Lower <= y[1] && y[1] <= c[1].Upper {
			inBox++
		}
		if p.Ellipsoid.Contains(y) {
			inEllipsoid++
		}
		factor := p.Ellipsoid.Factor()
		logs += math.Log(math.Pi * factor[0][0] * factor[1][1] / (c[0].Upper - c[0].Lower) / (c[1].Upper - c[1].Lower))
	}
	for _, region := range []string{"box", "ellipsoid"} {
		e := mustEvaluate(t, b, blocksOf(test.Batch, test.Targets, nil), attach.PredictOptions{Region: region}, evaluate.Options{})
		r := e.Regions
		if r == nil || e.Region != region || r.Box.Count != inBox || r.Ellipsoid.Count != inEllipsoid || r.ComparedRows != 500 || math.Abs(math.Log(*r.VolumeRatio)-logs/500) > 1e-9 || r.Smaller != "ellipsoid" != (logs >= 0) {
			t.Errorf("%s: %+v; want %d and %d rows covered, and the ratio %v", region, r, inBox, inEllipsoid, math.Exp(logs/500))
		}
		count, noun := inBox, "boxes"
		if region == "ellipsoid" {
			count, noun = inEllipsoid, "ellipsoids"
		}
		found := false
		for _, g := range e.Guarantees {
			if g.Kind == "joint_coverage" {
				found = g.Count == count && strings.Contains(g.Message, "within their "+noun)
			}
		}
		if !found || e.Joint[0].Count != count {
			t.Errorf("%s: coverage %+v, guarantees %+v; want %d covered rows", region, e.Joint, e.Guarantees, count)
		}
	}
	// 35 calibration rows are enough for a box at level 0.97, but half of them are too few for an
	// ellipsoid.
	in := regressor(1, 1000, 2)
	in.CalFraction = .035
	e := mustEvaluate(t, mustFit(t, in), blocksOf(test.Batch, test.Targets, nil), attach.PredictOptions{Region: "ellipsoid", Level: .97}, evaluate.Options{})
	if r := e.Regions; r.VolumeRatio != nil || r.ComparedRows != 0 || r.Smaller != "" || r.Ellipsoid.Count != 500 || r.Box.Count == 500 {
		t.Errorf("with unbounded ellipsoids: %+v", r)
	}
	if g := e.Guarantees[len(e.Guarantees)-1]; g.Verdict != "too_few_rows" || !strings.Contains(g.Advice, "(half of them give the shape)") {
		t.Errorf("with unbounded ellipsoids: %+v", g)
	}
	if e := mustEvaluate(t, mustFit(t, regressor(1, 300, 1)), blocksOf(regressor(2, 100, 1).Batch, regressor(2, 100, 1).Targets, nil), attach.PredictOptions{Joint: true}, evaluate.Options{}); e.Regions != nil || len(e.Joint) != 1 {
		t.Errorf("with one target: %+v", e.Regions)
	}
}
