package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

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

// intervalChoices reads which quantile method is attached. Simultaneous quantile
// regression without parameters of its own is what the flags of fit say it is.
func intervalChoices(c *cli.Context, in *attach.Inputs) error {
	if in.SkipQuantiles {
		return refuse(c, "with --no-quantiles", quantileFlags()...)
	}
	name := c.String("interval")
	if !slices.Contains(intervalNames(), name) {
		return usagef("--interval %q is not known; it must be one of %s", name, strings.Join(intervalNames(), ", "))
	}
	m, _ := baselines.QuantileByName(name)
	params, err := ood.ParseParams(strings.Join(c.StringSlice("interval-param"), " "))
	if err != nil {
		return usagef("--interval-param: %v", err)
	}
	if err := checkIntervalParams(m, params); err != nil {
		return err
	}
	if name == baselines.SQR.Name && len(params) == 0 {
		return nil
	}
	networks := []string{"hidden", "lr", "weight-decay", "dropout"}
	if !m.NeedsTrainer {
		if err := refuse(c, "with --interval "+name, append(networks, "epochs")...); err != nil {
			return err
		}
	}
	set := func(flag, param string, value float64) error {
		if !c.IsSet(flag) {
			return nil
		}
		if _, twice := params[param]; twice {
			return usagef("--%s and --interval-param %s say the same; leave one out", flag, param)
		}
		params[param] = value
		return nil
	}
	hidden := in.SQR.Hidden
	if slices.Min(hidden) != slices.Max(hidden) {
		return usagef("--hidden is %q; with --interval %s all hidden layers have one width", c.String("hidden"), name)
	}
	for _, f := range []struct {
		flag, param string
		value       float64
	}{
		{"hidden", "hidden", float64(hidden[0])}, {"hidden", "layers", float64(len(hidden))}, {"lr", "learning_rate", in.SQR.LearningRate},
		{"weight-decay", "weight_decay", in.SQR.WeightDecay}, {"dropout", "dropout", in.SQR.Dropout},
	} {
		if err := set(f.flag, f.param, f.value); err != nil {
			return err
		}
	}
	in.Quantiles, in.QuantileParams, in.Epochs = m, params, in.SQR.Epochs
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
