package command

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
)

// intervals is what the options of fit say of the quantile head.
type intervals struct {
	method  ood.Method
	params  []string
	hidden  []int
	epochs  int
	rate    float64
	decay   float64
	dropout float64
}

// headOptions are those of the quantile head.
func (v *intervals) headOptions() table {
	v.method, _ = attach.MethodByName("sqr")
	v.hidden, v.rate = []int{64}, 1e-3
	trained := table{
		{name: "hidden", to: &v.hidden, must: widths, usage: "A,B,…: widths of the quantile head's hidden layers"},
		{name: "epochs", to: &v.epochs, must: atLeast(0), usage: "N: passes of the quantile head over the rows; without it, as many as the number of rows asks for"},
		{name: "lr", to: &v.rate, must: positive, usage: "RATE: learning rate of the quantile head"},
		{name: "weight-decay", to: &v.decay, must: notNegative, usage: "FACTOR: weight decay of the quantile head"},
		{name: "dropout", to: &v.dropout, must: belowOne, usage: "SHARE: share of the quantile head's hidden units that are dropped in training; the rate of the detector bald is --param dropout=SHARE"},
	}
	for _, m := range intervalMethods() {
		if !m.Needs.Trainer {
			trained.unless(idle("with --interval "+m.Name, func() bool { return v.method.Name == m.Name }))
		}
	}
	return join(table{
		{name: "interval", to: v.setMethod, choices: names(intervalMethods()), usage: "NAME: how the quantile head predicts, as `attach methods --intervals` describes: " + strings.Join(names(intervalMethods()), ", ") + " (default: " + v.method.Name + ", or quantile-forest for a model without a linear layer, such as trees)"},
		{name: "interval-param", to: &v.params, usage: "NAME=VALUE: parameter of --interval in place of its default, such as n_estimators=500 of quantile-forest; repeat for more"},
	}, trained)
}

func (v *intervals) setMethod(name string) error {
	m, _ := attach.MethodByName(name)
	if !m.Needs.Targets {
		return fmt.Errorf("--interval %q is not known; it must be one of %s", name, strings.Join(names(intervalMethods()), ", "))
	}
	v.method = m
	return nil
}

// choose reads which quantile method is attached, and its parameters, for some
// of which there are options.
func (v *intervals) choose(t table, in *attach.FitOptions) error {
	params, err := parseParams(strings.Join(v.params, " "))
	if err != nil {
		return usagef("--interval-param: %v", err)
	}
	if _, err := fitting.With(v.method, params); err != nil {
		return usagef("--interval-param: %v", err)
	}
	for _, f := range []struct {
		flag, param string
		value       any
	}{
		{"hidden", "hidden", strings.ReplaceAll(strings.Trim(fmt.Sprint(v.hidden), "[]"), " ", "x")}, {"epochs", "epochs", v.epochs},
		{"lr", "learning_rate", v.rate}, {"weight-decay", "weight_decay", v.decay}, {"dropout", "dropout", v.dropout},
	} {
		if !t.find(f.flag).given {
			continue
		}
		if _, twice := params[f.param]; twice {
			return usagef("--%s and --interval-param %s say the same; leave one out", f.flag, f.param)
		}
		params[f.param] = f.value
		if _, err := fitting.With(v.method, params); err != nil {
			return usagef("--%s: %v", f.flag, err)
		}
	}
	if !t.find("interval").given && len(params) == 0 {
		return nil // the library's default, which depends on the model
	}
	in.Quantiles, in.QuantileParams = v.method, params
	return nil
}

// parseParams reads what the String of parameters writes: name=value pairs separated by spaces
// or commas. A value that reads as a finite number is one, true and false are
// bools, and anything else is a string.
func parseParams(s string) (ood.Params, error) {
	p := ood.Params{}
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' }) {
		name, value, ok := strings.Cut(f, "=")
		if !ok || name == "" || value == "" {
			return nil, fmt.Errorf("parameter %q is not of the form name=value", f)
		}
		if _, twice := p[name]; twice {
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
