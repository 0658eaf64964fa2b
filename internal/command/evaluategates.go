package command

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/internal/report"
)

// gateError names the gates that failed.
type gateError struct{ msg string }

func (e *gateError) Error() string { return e.msg }

// gate is a condition on a figure, such as accuracy. The gate fails if the condition holds.
type gate struct {
	text, figure string
	at           float64 // level or alpha, or NaN for that of the evaluation
	sign         byte
	bound        float64
}

// figures returns the names of the figures that a gate of attach evaluate can test.
func figures() []string {
	return []string{
		"violated", "too_few_rows", "limits", "false_alarm_rate", "detection_rate", "uniformity", "accuracy", "accuracy_unflagged", "nll", "ece", "aurc", "accepted", "selective_error",
		"coverage", "width", "worst_class", "worst_group", "worst_decile", "worst_slab", "rmse", "mae", "r2", "crps", "auroc", "fpr95",
	}
}

// figuresAt returns the figures of an evaluation by name. A figure has several values if
// there are several targets. at is the level or alpha of a gate, or NaN.
func figuresAt(e *evaluate.Evaluation, at float64) map[string][]float64 {
	m := map[string][]float64{"violated": {0}, "too_few_rows": {0}, "limits": {0}}
	for _, p := range e.Guarantees {
		switch p.Verdict {
		case hypothesis.Violated:
			m["violated"][0]++
		case hypothesis.TooFewRows:
			m["too_few_rows"][0]++
		}
	}
	for _, n := range e.Notes {
		if n.Part != "" {
			m["limits"][0]++
		}
	}
	add := func(name string, x *float64) {
		if x != nil {
			m[name] = append(m[name], *x)
		}
	}
	rate := func(name string, r *evaluate.Rate) {
		if r != nil {
			add(name, &r.Fraction)
		}
	}
	meant := func(asked, own float64) bool { return asked == at || math.IsNaN(at) && asked == own }
	flagged := func(name string, rates []evaluate.Rate) {
		for _, r := range rates {
			if meant(r.Nominal, e.Alpha) {
				rate(name, &r)
			}
		}
	}
	if f := e.Flags; f != nil {
		flagged("false_alarm_rate", f.ByAlpha)
		add("uniformity", f.PValues.KSPValue)
	}
	if o := e.OOD; o != nil {
		flagged("detection_rate", o.ByAlpha)
		add("auroc", &o.AUROC)
		add("fpr95", &o.FPR95)
	}
	covered := slices.Clone(e.Joint)
	if c := e.Classifier; c != nil {
		confidence := c.Uncalibrated
		if c.Calibrated != nil {
			confidence = *c.Calibrated
		}
		rate("accuracy", c.Accuracy)
		rate("accuracy_unflagged", c.AccuracyUnflagged)
		add("nll", confidence.NLL)
		add("ece", &confidence.ECE)
		add("aurc", &c.AURC)
		rate("accepted", c.Accepted)
		rate("selective_error", c.SelectiveError)
		covered = append(covered, c.Sets...)
	}
	for _, t := range e.Targets {
		add("rmse", t.RMSE)
		add("mae", t.MAE)
		add("r2", t.R2)
		add("crps", t.CRPS)
		covered = append(covered, t.Coverage...)
	}
	worst := func(name string, parts []evaluate.Rate) {
		if len(parts) > 0 {
			least := slices.MinFunc(parts, func(a, b evaluate.Rate) int { return cmp.Compare(a.Fraction, b.Fraction) })
			rate(name, &least)
		}
	}
	for _, c := range covered {
		if meant(c.Nominal, e.Level) {
			rate("coverage", &c.Rate)
			add("width", c.MeanWidth)
			worst("worst_class", c.ByClass)
			worst("worst_group", c.ByGroup)
			worst("worst_decile", c.ByDecile)
			rate("worst_slab", c.WorstSlab)
		}
	}
	return m
}

// parseGates parses the values of --fail-if.
func parseGates(texts []string) ([]gate, error) {
	var list []gate
	for _, text := range texts {
		one, ok := parseGate(text, figures())
		if !ok {
			return nil, notGate(text, one.figure, figures(), "violated, or a figure, < or >, and a number, such as coverage<0.88")
		}
		if !slices.Contains([]string{"violated", "too_few_rows", "limits", "nll", "width", "rmse", "mae", "r2", "crps"}, one.figure) && (one.bound < 0 || one.bound > 1) {
			return nil, usagef("--fail-if is %q; %s is a fraction, from 0 to 1", text, one.figure)
		}
		list = append(list, one)
	}
	return list, nil
}

// notGate returns the error for a condition that cannot be parsed. be describes a valid
// condition.
func notGate(text, figure string, known []string, be string) error {
	hint := "`attach help gates` lists the figures"
	if !slices.Contains(known, figure) {
		hint = orSimilar(figure, known, hint)
	}
	return usagef("--fail-if is %q; it must be %s; %s", text, be, hint)
}

// parseGate parses one condition. It reports ok if the figure is one of figures.
func parseGate(text string, figures []string) (g gate, ok bool) {
	whole := text
	if text == "violated" {
		whole = "violated>0"
	}
	i := strings.IndexAny(whole, "<>")
	if i < 0 {
		return gate{figure: whole}, false
	}
	name, at, has := strings.Cut(whole[:i], "@")
	g = gate{text: text, figure: strings.TrimSpace(name), at: math.NaN(), sign: whole[i]}
	var err, wrong error
	g.bound, err = strconv.ParseFloat(strings.TrimSpace(whole[i+1:]), 64)
	if has {
		g.at, wrong = strconv.ParseFloat(strings.TrimSpace(at), 64)
	}
	return g, err == nil && wrong == nil && !math.IsNaN(g.bound) && (!has || fraction(g.at) == "") && slices.Contains(figures, g.figure)
}

// checkGates returns a *gateError that names the failed gates.
func checkGates(gates []gate, e *evaluate.Evaluation) error {
	var failed []string
	for _, g := range gates {
		found := figuresAt(e, g.at)[g.figure]
		if len(found) == 0 {
			ask := ""
			switch {
			case !math.IsNaN(g.at):
				ask = fmt.Sprintf(" at %g; it needs --level or --alpha", g.at)
			case slices.Contains([]string{"detection_rate", "auroc", "fpr95"}, g.figure):
				ask = "; it needs --ood"
			case e.Classifier != nil && (g.figure == "accepted" || g.figure == "selective_error"):
				ask = "; it needs --max-error"
			}
			return fmt.Errorf("--fail-if %s: these rows have no such figure%s", g.text, ask)
		}
		for i, x := range found {
			of := ""
			if len(found) > 1 && len(found) == len(e.Targets) {
				of = report.TargetName(e, i) + ": "
			}
			if g.fails(x) {
				failed = append(failed, fmt.Sprintf("%s (%sit is %s)", g.text, of, display.Number(x, 4)))
			}
		}
	}
	return gatesFailed(failed)
}

// fails reports whether the gate fails if its figure is x.
func (g gate) fails(x float64) bool {
	return g.sign == '<' && x < g.bound || g.sign == '>' && x > g.bound
}

func gatesFailed(failed []string) error {
	if failed == nil {
		return nil
	}
	return &gateError{"failed: " + strings.Join(failed, ", ")}
}
