package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/ood"
)

// intervalNames are the quantile methods that can be attached.
func intervalNames() []string {
	var names []string
	for _, m := range intervalMethods() {
		names = append(names, m.Name)
	}
	return names
}

// intervals is what the options of fit say of the quantile head.
type intervals struct {
	method  string
	params  []string
	hidden  []int
	epochs  int
	rate    float64
	decay   float64
	dropout float64
}

// headOptions are those of the quantile head.
func (v *intervals) headOptions() table {
	v.method, v.hidden, v.rate = baselines.SQR.Name, []int{64}, 1e-3
	trained := table{
		{name: "hidden", to: &v.hidden, must: widths, usage: "A,B,…: widths of the quantile head's hidden layers"},
		{name: "epochs", to: &v.epochs, must: atLeast(0), usage: "N: passes of the quantile head over the rows; without it, as many as the number of rows asks for"},
		{name: "lr", to: &v.rate, must: positive, usage: "RATE: learning rate of the quantile head"},
		{name: "weight-decay", to: &v.decay, must: notNegative, usage: "FACTOR: weight decay of the quantile head"},
		{name: "dropout", to: &v.dropout, must: belowOne, usage: "SHARE: share of the quantile head's hidden units that are dropped in training; the rate of the detector bald is --param dropout=SHARE"},
	}
	for _, m := range baselines.QuantileMethods {
		if !m.NeedsTrainer {
			trained.unless(idle("with --interval "+m.Name, func() bool { return v.method == m.Name }))
		}
	}
	return join(table{
		{name: "interval", to: v.setMethod, usage: "NAME: how the quantile head predicts, as `attach methods --intervals` describes: " + strings.Join(intervalNames(), ", ") + " (default: " + v.method + ")"},
		{name: "interval-param", to: &v.params, usage: "NAME=VALUE: parameter of --interval in place of its default, such as n_estimators=500 of quantile-forest; repeat for more"},
	}, trained)
}

func (v *intervals) setMethod(name string) error {
	if !slices.Contains(intervalNames(), name) {
		return fmt.Errorf("--interval %q is not known; it must be one of %s", name, strings.Join(intervalNames(), ", "))
	}
	v.method = name
	return nil
}

// choose reads which quantile method is attached. Simultaneous quantile
// regression without parameters of its own is what the options say it is.
func (v *intervals) choose(t table, in *attach.Inputs) error {
	in.SQR = heads.SQROptions{Hidden: v.hidden, Epochs: v.epochs, LearningRate: v.rate, WeightDecay: v.decay, Dropout: v.dropout}
	m, _ := baselines.QuantileByName(v.method)
	params, err := ood.ParseParams(strings.Join(v.params, " "))
	if err != nil {
		return usagef("--interval-param: %v", err)
	}
	if err := checkIntervalParams(m, params); err != nil {
		return err
	}
	if v.method == baselines.SQR.Name && len(params) == 0 {
		return nil
	}
	if slices.Min(v.hidden) != slices.Max(v.hidden) {
		return usagef("--hidden is %q; with --interval %s all hidden layers have one width", t.find("hidden"), v.method)
	}
	for _, f := range []struct {
		flag, param string
		value       float64
	}{
		{"hidden", "hidden", float64(v.hidden[0])}, {"hidden", "layers", float64(len(v.hidden))}, {"lr", "learning_rate", v.rate},
		{"weight-decay", "weight_decay", v.decay}, {"dropout", "dropout", v.dropout},
	} {
		if !t.find(f.flag).given {
			continue
		}
		if _, twice := params[f.param]; twice {
			return usagef("--%s and --interval-param %s say the same; leave one out", f.flag, f.param)
		}
		params[f.param] = f.value
	}
	in.Quantiles, in.QuantileParams, in.Epochs = m, params, v.epochs
	return nil
}

// checkIntervalParams refuses parameters that the method does not have, or of
// another kind.
func checkIntervalParams(m heads.QuantileMethod, params ood.Params) error {
	for name, value := range params {
		want, ok := m.Default[name]
		switch {
		case !ok:
			known := slices.Sorted(maps.Keys(m.Default))
			return usagef("--interval-param: %s has no parameter %q; it has %s", m.Name, name, strings.Join(known, ", "))
		case fmt.Sprintf("%T", want) != fmt.Sprintf("%T", value):
			return usagef("--interval-param %s is %q; it must be a number", name, fmt.Sprint(value))
		}
	}
	return nil
}
