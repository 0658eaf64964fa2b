package command

import (
	"errors"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/schema"
)

// TestEvaluatePage checks that docs/reference/json.md describes every key of evaluate
// --json and every figure.
func TestEvaluatePage(t *testing.T) {
	content, err := os.ReadFile("../../docs/reference/json.md")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	jsonKeys(reflect.TypeFor[evaluate.Evaluation](), keys)
	if len(keys) < 60 {
		t.Errorf("%d keys were found", len(keys))
	}
	for _, name := range gateFigures() {
		keys[name] = true
	}
	for key := range keys {
		if !strings.Contains(string(content), "`"+key+"`") {
			t.Errorf("docs/reference/json.md lacks `%s`", key)
		}
	}
}

// jsonKeys adds the JSON keys of a type, and of the types inside it, to keys.
func jsonKeys(t reflect.Type, keys map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		jsonKeys(t.Elem(), keys)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.IsExported() || key == "-" {
				continue
			}
			if key != "" {
				keys[key] = true
			}
			jsonKeys(f.Type, keys)
		}
	}
}

// TestFigures checks that each figure is found at the level or alpha that the gate names. It
// also checks which gates fail, and that invalid gates are rejected.
func TestFigures(t *testing.T) {
	pointer := func(v float64) *float64 { return &v }
	rate := func(v float64) *evaluate.Rate { return &evaluate.Rate{Fraction: v} }
	newRate := func(nominal, v float64) evaluate.Rate { return evaluate.Rate{Nominal: nominal, Fraction: v} }
	parts := func(v float64) []evaluate.Rate {
		return []evaluate.Rate{{Fraction: v + 1}, {Fraction: v}, {Fraction: v + 2}}
	}
	coverage := func(nominal, v float64) evaluate.Coverage {
		c := evaluate.Coverage{Rate: newRate(nominal, v), ByClass: parts(v + 1), ByGroup: parts(v + 2), ByDecile: parts(v + 3), WorstSlab: rate(v + 4), ByPredictedClass: parts(v + 6), ByWidth: parts(v + 7), BySize: parts(v + 8)}
		c.MeanWidth = pointer(v + 5)
		return c
	}
	e := &evaluate.Evaluation{
		Alpha: .05, Level: .9, Rows: 50,
		Schema: &schema.Summary{NewGaps: 31, NewCategories: 32, OutOfRange: 33, Changed: 34},
		Notes:  []evaluate.Note{{Message: "a note"}, {Message: "a limit", Part: "class"}},
		Conditional: []evaluate.ConditionalTest{
			{Part: "class", Failing: 2}, {Part: "columns", Worst: newRate(.9, 35)}, {Part: "columns", Worst: newRate(.9, 36), Failing: 1}, {Part: "predicted_misses", ERT: &evaluate.ERT{Deviation: 37}},
		},
		Guarantees: []evaluate.Guarantee{{Verdict: "violated"}, {Verdict: "met"}, {Verdict: "too_few_rows"}, {Verdict: "violated"}},
		Flags:      &evaluate.Flags{ByAlpha: []evaluate.Rate{newRate(.01, 10), newRate(.05, 11)}, PValues: evaluate.Histogram{KSPValue: pointer(12)}},
		OOD:        &evaluate.OOD{ByAlpha: []evaluate.Rate{newRate(.01, 13), newRate(.05, 14)}, AUROC: 15, FPR95: 16},
		Classifier: &evaluate.Classifier{
			Accuracy: rate(17), AccuracyUnflagged: rate(18), Uncalibrated: evaluate.Reliability{NLL: pointer(19), ECE: 20}, Calibrated: &evaluate.Reliability{NLL: pointer(21), ECE: 22},
			AURC: 23, Accepted: rate(24), SelectiveError: rate(25), Sets: []evaluate.Coverage{coverage(.8, 100), coverage(.9, 200)},
		},
		ErrorEstimate: &evaluate.ErrorEstimate{Error: pointer(41), AllHigh: pointer(42)},
		Targets: []evaluate.Target{
			{RMSE: pointer(26), MAE: pointer(27), R2: pointer(28), CRPS: pointer(29), Coverage: []evaluate.Coverage{coverage(.9, 300)}},
			{RMSE: pointer(30), Coverage: []evaluate.Coverage{coverage(.9, 400)}},
		},
		Series: []evaluate.Series{
			{Level: .9, Methods: []evaluate.SeriesMethod{{Worst: &evaluate.SeriesWindow{Coverage: 35}}, {Worst: &evaluate.SeriesWindow{Coverage: 36}}}},
			{Level: .9, Methods: []evaluate.SeriesMethod{{}}},
		},
	}
	want := map[string][]float64{
		"violated": {2}, "too_few_rows": {1}, "limits": {1}, "rows": {50}, "false_alarm_rate": {11}, "uniformity": {12}, "detection_rate": {14}, "auroc": {15}, "fpr95": {16}, "accuracy": {17}, "accuracy_unflagged": {18},
		"new_gaps": {31}, "new_categories": {32}, "out_of_range": {33}, "changed_columns": {34},
		"nll": {21}, "ece": {22}, "aurc": {23}, "accepted": {24}, "selective_error": {25}, "rmse": {26, 30}, "mae": {27}, "r2": {28}, "crps": {29}, "worst_window": {35},
		"coverage": {200, 300, 400}, "worst_class": {201, 301, 401}, "worst_group": {202, 302, 402}, "worst_decile": {203, 303, 403}, "worst_slab": {204, 304, 404}, "width": {205, 305, 405},
		"worst_predicted_class": {206, 306, 406}, "worst_width": {207, 307, 407}, "worst_size": {208, 308, 408}, "worst_columns": {35, 36}, "conditional_failures": {2}, "ert": {37},
	}
	want["estimated_error"], want["estimated_error_high"] = []float64{41}, []float64{42}
	got := figuresAt(e, math.NaN())
	if !reflect.DeepEqual(got, want) {
		t.Errorf("figures are %v, want %v", got, want)
	}
	e.FewLabels = &evaluate.FewLabels{Figures: []evaluate.PoweredFigure{{Name: "error_rate", Value: 43, High: 44}, {Name: "mae", Value: 45}, {Name: "rmse", Value: 46}}}
	want["estimated_error"], want["estimated_error_high"], want["estimated_mae"], want["estimated_rmse"] = []float64{43}, []float64{44}, []float64{45}, []float64{46}
	if got := figuresAt(e, math.NaN()); !reflect.DeepEqual(got, want) {
		t.Errorf("with few labels, figures are %v, want %v", got, want)
	}
	if names := slices.Sorted(slices.Values(gateFigures())); !slices.Equal(names, slices.Sorted(maps.Keys(want))) {
		t.Errorf("figures are %v", names)
	}
	if figures := figuresAt(e, .8); !slices.Equal(figures["coverage"], []float64{100}) || figures["false_alarm_rate"] != nil {
		t.Errorf("at .8: %v", figures)
	}
	if figures := figuresAt(e, .01); !slices.Equal(figures["false_alarm_rate"], []float64{10}) || !slices.Equal(figures["detection_rate"], []float64{13}) {
		t.Errorf("at .01: %v", figures)
	}
	for text, applies := range map[string]bool{
		"violated": false, "violated>2": true, "violated>1": false, "coverage@.8>99": false, "coverage@.8<99": true, "coverage > 399": false, "rmse<27": false, "rmse<20": true, "rows<50": true, "rows<51": false,
	} {
		g, ok := parseGate(text, gateFigures())
		if err := checkGates([]gate{g}, e, ""); !ok || (err == nil) != applies {
			t.Errorf("%s: %v, %v", text, ok, err)
		}
	}
	violated, _ := parseGate("violated", gateFigures())
	if err := checkGates([]gate{violated}, &evaluate.Evaluation{}, "no targets"); err == nil || errors.As(err, new(*gateError)) || !strings.Contains(err.Error(), "no targets") {
		t.Errorf("without a test of the intervals, the gate violated returns %v", err)
	}
	if err := checkGates([]gate{violated}, e, "no targets"); !errors.As(err, new(*gateError)) {
		t.Errorf("with violated guarantees, the gate violated returns %v", err)
	}
	for _, text := range []string{"", "coverage", "coverage<", "<1", "coverage<nan", "coverage@<1", "coverage@1<1", "coverage@x<1", "frob<1", "coverage=1"} {
		if g, ok := parseGate(text, gateFigures()); ok {
			t.Errorf("%q is read as %+v", text, g)
		}
	}
}
