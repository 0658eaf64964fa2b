package command

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/ood"
)

// intervalFlags holds the flags of fit that concern the interval model.
type intervalFlags struct {
	method ood.Method
	params []string
	rows   string
	oof    string // path of out-of-fold predictions, or ""
	score  string
}

// intervalOptions returns the flags of the interval model. groups and targetRows hold the values
// of --groups and --target-rows.
func (v *intervalFlags) intervalOptions(groups, targetRows *string) table {
	cross := func(flag string, value *string) conflict {
		return conflict{when: func() bool { return v.rows == "cross" && *value != "" }, reason: "cross cannot be combined with " + flag + "; leave one of the two out"}
	}
	v.method, _ = attach.MethodByName("sqr")
	return table{
		{name: "interval", dest: v.setMethod, choices: methodNames(intervalMethods()), usage: "NAME: interval model; `attach methods --intervals` explains them: " + strings.Join(methodNames(intervalMethods()), ", ") + " (default: " + v.method.Name + "; for trees and tables, the best of gradient-boosting, symmetric-boosting and quantile-forest)"},
		{name: "interval-param", dest: &v.params, usage: "NAME=VALUE: parameter of the interval model, such as hidden=64,64 or n_estimators=500; may be repeated"},
		{name: "interval-rows", dest: &v.rows, choices: []string{"x", "surrogate", "cal", "cross"}, usage: "ROWS: what teaches the interval model: x, the model's errors on --x; surrogate, errors of a surrogate model on rows of --x held out from it; cal, errors on half of the calibration rows; or cross, on all of them, if they are few (default: x, or surrogate for trees and tables with clearly larger errors on --cal than on --x)",
			conflicts: []conflict{{when: func() bool { return v.oof != "" && v.rows != "x" }, reason: "cannot be combined with --oof, whose errors teach the interval model"}, cross("--groups", groups), cross("--target-rows", targetRows)}},
		{name: "oof", dest: &v.oof, file: otherFile, usage: "FILE: out-of-fold predictions of the rows of --x, in their order, from cross-validation; the interval model then learns honest errors, even if the model has memorised --x"},
		{name: "interval-score", dest: &v.score, choices: conformal.IntervalScores(), usage: "SCORE: how intervals are widened to cover, unless predict names another: see `attach predict --help` (default: cqr, or for trees and tables the best of cqr, cqr-r, cqr-m and cir)"},
	}.inGroup(groupIntervals)
}

func (v *intervalFlags) setMethod(name string) error {
	m, _ := attach.MethodByName(name)
	if !m.Needs.Targets {
		known := methodNames(intervalMethods())
		return fmt.Errorf("--interval %q is not known; %s", name, suggest(name, known, "it must be one of "+strings.Join(known, ", ")))
	}
	v.method = m
	return nil
}

// apply sets the interval method and its parameters in the options of the fit.
func (v *intervalFlags) apply(t table, in *attach.FitOptions) error {
	in.IntervalFit = map[string]string{"x": "fit", "surrogate": "surrogate", "cal": "calibration", "cross": "cross"}[v.rows]
	in.IntervalScore = v.score
	params, err := parseParams(strings.Join(v.params, " "))
	if err != nil {
		return usagef("--interval-param: %v", err)
	}
	if _, err := fitting.With(v.method, params); err != nil {
		return usagef("--interval-param: %v", err)
	}
	if !t.find("interval").given && len(params) == 0 {
		return nil // attach.Fit chooses a method that suits the model
	}
	in.IntervalModel, in.IntervalParams = v.method, params
	return nil
}

// widthList matches a parameter that lists the widths of layers, such as hidden=64,64. The
// methods write such a list as 64x64.
var widthList = regexp.MustCompile(`=\d+(,\d+)+\b`)

// parseParams parses name=value pairs with spaces or commas between them, the format of
// Params.String. A finite number becomes a float64, and true and false become a bool. Any
// other value stays a string.
func parseParams(s string) (ood.Params, error) {
	p := ood.Params{}
	s = widthList.ReplaceAllStringFunc(s, func(list string) string {
		return strings.ReplaceAll(list, ",", "x")
	})
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' }) {
		name, value, ok := strings.Cut(f, "=")
		if !ok || name == "" || value == "" {
			return nil, fmt.Errorf("parameter %q is not of the form name=value", f)
		}
		if _, duplicate := p[name]; duplicate {
			return nil, fmt.Errorf("parameter %q is given twice", name)
		}
		if x, err := strconv.ParseFloat(value, 64); err == nil && !math.IsNaN(x) && !math.IsInf(x, 0) {
			p[name] = x
		} else if value == "true" || value == "false" {
			p[name] = value == "true"
		} else {
			p[name] = value
		}
	}
	return p, nil
}
