package command

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/internal/report"
	"github.com/attach-uncertainty/attach/schema"
)

// gateError says which gates failed, or how an exported model differs from its .attach
// file. It sets the exit status to exitGate.
type gateError struct{ msg string }

func (e *gateError) Error() string { return e.msg }

// gate is a condition on a figure, such as accuracy. The gate fails if the condition holds.
type gate struct {
	text, figure string
	levelOrAlpha float64 // level or alpha of the figure; NaN means the level or alpha of the evaluation
	sign         byte
	bound        float64
}

// gateFigures returns the names of the figures that a gate of attach evaluate can test.
func gateFigures() []string {
	return []string{
		"violated", "too_few_rows", "limits", "rows", "false_alarm_rate", "detection_rate", "uniformity", "accuracy", "accuracy_unflagged", "nll", "ece", "aurc", "accepted", "selective_error",
		"coverage", "width", "worst_class", "worst_predicted_class", "worst_group", "worst_decile", "worst_width", "worst_size", "worst_columns", "worst_slab", "worst_window", "conditional_failures", "ert", "rmse", "mae", "r2", "crps", "auroc", "fpr95",
		"estimated_error", "estimated_error_high", "estimated_rmse", "estimated_mae",
		"new_gaps", "new_categories", "out_of_range", "changed_columns",
	}
}

// columnFigures returns the figures of a schema by name.
func columnFigures(s schema.Summary) map[string]int {
	return map[string]int{"new_gaps": s.NewGaps, "new_categories": s.NewCategories, "out_of_range": s.OutOfRange, "changed_columns": s.Changed}
}

// isColumnFigure reports whether a figure is one of columnFigures.
func isColumnFigure(name string) bool {
	_, ok := columnFigures(schema.Summary{})[name]
	return ok
}

// noProfile is the advice if a figure of columnFigures is missing.
const noProfile = "the .attach file has no profile of the inputs, so fit it again with the model"

// figuresAt returns the figures of an evaluation by name. A figure has several values if
// there are several targets. levelOrAlpha is the level or the alpha of a gate, or NaN.
func figuresAt(e *evaluate.Evaluation, levelOrAlpha float64) map[string][]float64 {
	m := map[string][]float64{"violated": {0}, "too_few_rows": {0}, "limits": {0}, "rows": {float64(e.Rows)}}
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
	matches := func(nominal, standard float64) bool {
		return nominal == levelOrAlpha || math.IsNaN(levelOrAlpha) && nominal == standard
	}
	flagged := func(name string, rates []evaluate.Rate) {
		for _, r := range rates {
			if matches(r.Nominal, e.Alpha) {
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
	if f := e.FewLabels; f != nil {
		for _, p := range f.Figures {
			switch p.Name {
			case "error_rate":
				add("estimated_error", &p.Value)
				add("estimated_error_high", &p.High)
			default:
				add("estimated_"+p.Name, &p.Value)
			}
		}
	} else if u := e.ErrorEstimate; u != nil {
		add("estimated_error", u.Error)
		add("estimated_error_high", u.AllHigh)
	}
	if s := e.Schema; s != nil {
		for name, n := range columnFigures(*s) {
			m[name] = []float64{float64(n)}
		}
	}
	coverages := slices.Clone(e.Joint)
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
		coverages = append(coverages, c.Sets...)
	}
	for _, t := range e.Targets {
		add("rmse", t.RMSE)
		add("mae", t.MAE)
		add("r2", t.R2)
		add("crps", t.CRPS)
		coverages = append(coverages, t.Coverage...)
	}
	for _, series := range e.Series {
		if fixed := series.Methods[0]; fixed.Worst != nil && matches(series.Level, e.Level) {
			add("worst_window", &fixed.Worst.Coverage)
		}
	}
	addWorst := func(name string, parts []evaluate.Rate) {
		if len(parts) > 0 {
			lowest := slices.MinFunc(parts, func(a, b evaluate.Rate) int { return cmp.Compare(a.Fraction, b.Fraction) })
			rate(name, &lowest)
		}
	}
	for _, c := range coverages {
		if matches(c.Nominal, e.Level) {
			rate("coverage", &c.Rate)
			add("width", c.MeanWidth)
			addWorst("worst_class", c.ByClass)
			addWorst("worst_predicted_class", c.ByPredictedClass)
			addWorst("worst_group", c.ByGroup)
			addWorst("worst_decile", c.ByDecile)
			addWorst("worst_width", c.ByWidth)
			addWorst("worst_size", c.BySize)
			rate("worst_slab", c.WorstSlab)
		}
	}
	if math.IsNaN(levelOrAlpha) || levelOrAlpha == e.Level {
		addConditional(m, e.Conditional)
	}
	return m
}

// addConditional adds the figures of tests of conditional coverage, if there are any.
func addConditional(m map[string][]float64, tests []evaluate.ConditionalTest) {
	for _, t := range tests {
		if m["conditional_failures"] == nil {
			m["conditional_failures"] = []float64{0}
		}
		if t.Failing > 0 {
			m["conditional_failures"][0]++
		}
		if t.Part == "columns" {
			m["worst_columns"] = append(m["worst_columns"], t.Worst.Fraction)
		}
		if t.ERT != nil {
			m["ert"] = append(m["ert"], t.ERT.Deviation)
		}
	}
}

// parseGates parses the values of --fail-if.
func parseGates(texts []string) ([]gate, error) {
	var list []gate
	for _, text := range texts {
		parsed, ok := parseGate(text, gateFigures())
		if !ok {
			return nil, invalidGate(text, parsed.figure, gateFigures(), "violated, or a figure, < or >, and a number, such as coverage<0.88")
		}
		if !slices.Contains([]string{"violated", "too_few_rows", "limits", "rows", "conditional_failures", "nll", "width", "rmse", "mae", "r2", "crps", "estimated_rmse", "estimated_mae"}, parsed.figure) && !isColumnFigure(parsed.figure) && (parsed.bound < 0 || parsed.bound > 1) {
			return nil, usagef("--fail-if is %q; %s is a fraction, from 0 to 1", text, parsed.figure)
		}
		list = append(list, parsed)
	}
	return list, nil
}

// invalidGate returns the error for a condition that cannot be parsed. wanted describes a
// valid condition.
func invalidGate(text, figure string, figures []string, wanted string) error {
	hint := "`attach help gates` lists the figures"
	switch {
	case strings.ContainsAny(text, "<>") && strings.Contains(text, "="):
		hint = "leave out the =; the condition says what fails, not what must hold"
	case !slices.Contains(figures, figure):
		hint = suggest(figure, figures, hint)
	}
	return usagef("--fail-if is %q; it must be %s; %s", text, wanted, hint)
}

// parseGate parses one condition. ok reports whether the condition is valid and its figure
// is one of figures.
func parseGate(text string, figures []string) (g gate, ok bool) {
	condition := text
	if text == "violated" {
		condition = "violated>0"
	}
	i := strings.IndexAny(condition, "<>")
	if i < 0 {
		return gate{figure: condition}, false
	}
	name, levelText, hasLevel := strings.Cut(condition[:i], "@")
	g = gate{text: text, figure: strings.TrimSpace(name), levelOrAlpha: math.NaN(), sign: condition[i]}
	var err, levelErr error
	g.bound, err = strconv.ParseFloat(strings.TrimSpace(condition[i+1:]), 64)
	if hasLevel {
		g.levelOrAlpha, levelErr = strconv.ParseFloat(strings.TrimSpace(levelText), 64)
	}
	return g, err == nil && levelErr == nil && !math.IsNaN(g.bound) && (!hasLevel || fraction(g.levelOrAlpha) == "") && slices.Contains(figures, g.figure)
}

// untestedGuarantee returns why a guarantee of the .attach file was not tested, or "" if all
// were tested.
func untestedGuarantee(b *attach.Bundle, e *evaluate.Evaluation) string {
	interval := func(g evaluate.Guarantee) bool {
		return g.Kind == hypothesis.IntervalCoverage || g.Kind == hypothesis.JointCoverage
	}
	switch {
	case b.IntervalModel != nil && !slices.ContainsFunc(e.Guarantees, interval):
		return "the intervals were not tested, because the rows have no targets; name their column with --target, or pass --y"
	case len(b.Calibration.TrueClasses.Labels) > 0 && e.Classifier == nil:
		return "the prediction sets were not tested, because the rows have no labels or no logits; pass labels with --y or --target"
	}
	return ""
}

// checkGates returns a *gateError that names the failed gates, or nil if none failed. It
// returns a different error if the evaluation lacks a figure, and also if untested is not
// empty and a gate on the figure "violated" would pass. Otherwise a job could pass only
// because its targets were lost.
func checkGates(gates []gate, e *evaluate.Evaluation, untested string) error {
	var failed []string
	for _, g := range gates {
		found := figuresAt(e, g.levelOrAlpha)[g.figure]
		if g.figure == "violated" && untested != "" && !slices.ContainsFunc(found, g.fails) {
			return fmt.Errorf("--fail-if %s: %s", g.text, untested)
		}
		if len(found) == 0 {
			advice := ""
			switch {
			case g.figure == "worst_window":
				advice = "; it needs --time, at least as many rows as a window has, and the first of --level"
			case !math.IsNaN(g.levelOrAlpha):
				advice = fmt.Sprintf(" at %g; it needs --level or --alpha", g.levelOrAlpha)
			case slices.Contains([]string{"detection_rate", "auroc", "fpr95"}, g.figure):
				advice = "; it needs --ood"
			case strings.HasPrefix(g.figure, "estimated_") && e.ErrorEstimate != nil && e.ErrorEstimate.Reason != "":
				advice = "; " + e.ErrorEstimate.Reason
			case strings.HasPrefix(g.figure, "estimated_"):
				advice = "; errors are estimated for a classifier if the rows have no labels, and for any model with --labelled"
			case isColumnFigure(g.figure):
				advice = "; " + noProfile
			case slices.Contains([]string{"conditional_failures", "ert"}, g.figure):
				advice = "; conditional coverage is tested only with at least 50 rows, if some are missed, the guarantee is not violated and calibration rows have no weights"
			case g.figure == "worst_columns":
				advice = "; it needs rows with named columns, a file with a profile of the inputs, and at least 50 rows"
			case e.Classifier != nil && (g.figure == "accepted" || g.figure == "selective_error"):
				advice = "; it needs --max-error"
			}
			return fmt.Errorf("--fail-if %s: these rows have no such figure%s", g.text, advice)
		}
		for i, x := range found {
			prefix := ""
			if len(found) > 1 && len(found) == len(e.Targets) {
				prefix = report.TargetName(e, i) + ": "
			}
			if g.fails(x) {
				failed = append(failed, fmt.Sprintf("%s (%sit is %s)", g.text, prefix, display.Number(x, 4)))
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
