package calibrate

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"
)

// intervalReference is the content of testdata/intervals.json, which testdata/intervals.py
// wrote.
type intervalReference struct {
	Predicted, Y, Scale, New, At []float64
	NewScale                     []float64 `json:"new_scale"`
	Groups                       []int
	NewGroups                    []int                    `json:"new_groups"`
	Mondrian                     map[string][][2]*float64 // the keys are α
	Tau, CDF                     []float64
	CDFPlain                     []float64 `json:"cdf_plain"`
	CDFUpper                     []float64 `json:"cdf_upper"`
	HigherLevels                 []float64 `json:"higher_levels"`
	LowerLevels                  []float64 `json:"lower_levels"`
	Higher, Lower                [][]*float64
	UpperBounds                  []float64 `json:"upper_bounds"`
	LowerBounds                  []float64 `json:"lower_bounds"`
	Joint                        struct {
		Targets   int
		Lo, Hi, Y []float64
		Margin    float64
		Box       [][2]float64
	}
}

func readIntervals(t *testing.T) intervalReference {
	t.Helper()
	raw, err := os.ReadFile("testdata/intervals.json")
	if err != nil {
		t.Fatal(err)
	}
	var r intervalReference
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// checkReference compares got with a reference value. A nil reference stands for an infinite
// value with the given sign.
func checkReference(t *testing.T, what string, got float64, want *float64, sign int) {
	t.Helper()
	if want == nil {
		if !math.IsInf(got, sign) {
			t.Errorf("%s is %v, want an infinite one", what, got)
		}
		return
	}
	checkNear(t, what, got, *want, 1e-5) // the reference has float32 numbers
}

func TestByGroupReference(t *testing.T) {
	r := readIntervals(t)
	all := QuantileCalibration{Levels: []float64{0.5}}
	var groups []string
	for i, p := range r.Predicted {
		all.Grid, all.Y = append(all.Grid, float32(p)), append(all.Y, float32(r.Y[i]))
		groups = append(groups, strconv.Itoa(r.Groups[i]))
	}
	parts := all.ByGroup(groups)
	for a, want := range r.Mondrian {
		alpha, err := strconv.ParseFloat(a, 64)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range r.New {
			lo, hi := predictInterval(t, parts[strconv.Itoa(r.NewGroups[i])], IntervalOptions{}, []float32{float32(p)}, alpha)
			checkReference(t, "lower end", lo, want[i][0], -1)
			checkReference(t, "upper end", hi, want[i][1], 1)
		}
	}
	if lo, hi := predictInterval(t, parts["2"], IntervalOptions{}, []float32{0}, .1); !math.IsInf(lo, -1) || !math.IsInf(hi, 1) {
		t.Errorf("a group of five rows has [%v, %v] at a level that needs nine", lo, hi)
	}
}

// pointQuantiles returns quantiles for which a target y has the score 0.5 + (y−predicted)/scale.
func pointQuantiles(predicted, scale float64) []float32 {
	return []float32{float32(predicted - scale/4), float32(predicted + scale/4)}
}

// calibratePoints calibrates a predictive system on rows with the quantiles of
// pointQuantiles. A nil scale stands for 1.
func calibratePoints(t *testing.T, predicted, scale, y []float64) (QuantileCalibration, func([]float32) Distribution) {
	t.Helper()
	q := QuantileCalibration{Levels: []float64{0.25, 0.75}}
	for i, p := range predicted {
		s := 1.
		if scale != nil {
			s = scale[i]
		}
		q.Grid, q.Y = append(q.Grid, pointQuantiles(p, s)...), append(q.Y, float32(y[i]))
	}
	s, err := q.PredictiveSystem()
	if err != nil {
		t.Fatal(err)
	}
	return q, s
}

func TestOneSidedReference(t *testing.T) {
	r := readIntervals(t)
	for side, want := range map[string][]float64{"lower": r.LowerBounds, "upper": r.UpperBounds} {
		o, err := newOneSided(side, r.Predicted, r.Y, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range r.New {
			checkNear(t, string(side)+" bound", o.bound(p, 0.1, 0, 0), want[i], 1e-12)
		}
	}
}

func TestPredictiveSystemReference(t *testing.T) {
	r := readIntervals(t)
	_, scaled := calibratePoints(t, r.Predicted, r.Scale, r.Y)
	_, plain := calibratePoints(t, r.Predicted, nil, r.Y)
	for i, p := range r.New {
		d := scaled(pointQuantiles(p, r.NewScale[i]))
		checkNear(t, "CDF", d.CDF(r.At[i], r.Tau[i]), r.CDF[i], 1e-12)
		for l, level := range r.HigherLevels {
			checkReference(t, "upper quantile", d.Quantile(level, 0), r.Higher[i][l], 1)
		}
		for l, level := range r.LowerLevels {
			checkReference(t, "lower quantile", d.Quantile(level, 1), r.Lower[i][l], -1)
		}
		d = plain(pointQuantiles(p, 1))
		checkNear(t, "CDF without scales", d.CDF(r.At[i], r.Tau[i]), r.CDFPlain[i], 1e-12)
		checkNear(t, "upper CDF", d.CDF(r.At[i], 1), r.CDFUpper[i], 1e-12)
	}
}

func TestJointReference(t *testing.T) {
	j := readIntervals(t).Joint
	n := len(j.Y)
	c, err := newJointBox(intervalsByWidth(j.Lo[:n], j.Hi[:n]), j.Y, j.Targets, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkNear(t, "margin", (Conformal{c.Scores}).Threshold(0.1), j.Margin, 1e-12)
	for at := n; at < len(j.Lo); at += j.Targets {
		lo, hi := boxEnds(c, intervalsByWidth(j.Lo[at:at+j.Targets], j.Hi[at:at+j.Targets]), 0.1, 0)
		for k := range lo {
			checkNear(t, "lower end", lo[k], j.Box[at-n+k][0], 1e-12)
			checkNear(t, "upper end", hi[k], j.Box[at-n+k][1], 1e-12)
		}
	}
}

func checkNear(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}
