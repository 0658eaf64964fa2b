package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach"
)

// gateError says which gates do not hold.
type gateError struct{ msg string }

func (e *gateError) Error() string { return e.msg }

// gate is a bound that a figure must not pass.
type gate struct {
	text  string
	of    figure
	at    float64 // level or alpha, or NaN
	sign  string
	bound float64
}

// figure is a number of an evaluation, or one of each target. at is NaN where
// the evaluation's own level or alpha is meant.
type figure struct {
	name string
	of   func(e *attach.Evaluation, at float64) []float64
}

// figures are what gates are of.
func figures() []figure {
	whole := func(of func(e *attach.Evaluation) *float64) func(*attach.Evaluation, float64) []float64 {
		return func(e *attach.Evaluation, _ float64) []float64 { return values(of(e)) }
	}
	classes := func(of func(c *attach.ClassEvaluation) *float64) func(*attach.Evaluation, float64) []float64 {
		return whole(func(e *attach.Evaluation) *float64 {
			if e.Classes == nil {
				return nil
			}
			return of(e.Classes)
		})
	}
	targets := func(of func(t attach.TargetEvaluation) *float64) func(*attach.Evaluation, float64) []float64 {
		return func(e *attach.Evaluation, _ float64) (list []float64) {
			for _, t := range e.Targets {
				list = append(list, values(of(t))...)
			}
			return list
		}
	}
	covered := func(of func(c attach.Coverage) *float64) func(*attach.Evaluation, float64) []float64 {
		return func(e *attach.Evaluation, at float64) (list []float64) {
			all := e.Joint
			if e.Classes != nil {
				all = append(all, e.Classes.Sets...)
			}
			for _, t := range e.Targets {
				all = append(all, t.Coverage...)
			}
			for _, c := range all {
				if same(c.Asked, at, e.Level) {
					list = append(list, values(of(c))...)
				}
			}
			return list
		}
	}
	worst := func(parts []attach.Rate) *float64 {
		var least *float64
		for _, p := range parts {
			if least == nil || p.Share < *least {
				least = &p.Share
			}
		}
		return least
	}
	return []figure{
		{"false_alarms", func(e *attach.Evaluation, at float64) []float64 {
			if e.Flags == nil {
				return nil
			}
			return shareAt(e.Flags.At, at, e.Alpha)
		}},
		{"uniformity", whole(func(e *attach.Evaluation) *float64 {
			if e.Flags == nil {
				return nil
			}
			return e.Flags.PValues.Probability
		})},
		{"accuracy", classes(func(c *attach.ClassEvaluation) *float64 { return shareOf(c.Accuracy) })},
		{"accuracy_unflagged", classes(func(c *attach.ClassEvaluation) *float64 { return shareOf(c.Unflagged) })},
		{"nll", classes(func(c *attach.ClassEvaluation) *float64 { return confident(c).NLL })},
		{"ece", classes(func(c *attach.ClassEvaluation) *float64 { return &confident(c).ECE })},
		{"aurc", classes(func(c *attach.ClassEvaluation) *float64 { return &c.AURC })},
		{"accepted", classes(func(c *attach.ClassEvaluation) *float64 { return shareOf(c.Accepted) })},
		{"error", classes(func(c *attach.ClassEvaluation) *float64 { return shareOf(c.Errors) })},
		{"coverage", covered(func(c attach.Coverage) *float64 { return &c.Share })},
		{"width", covered(func(c attach.Coverage) *float64 { return c.Width })},
		{"worst_class", covered(func(c attach.Coverage) *float64 { return worst(c.ByClass) })},
		{"worst_group", covered(func(c attach.Coverage) *float64 { return worst(c.ByGroup) })},
		{"worst_tenth", covered(func(c attach.Coverage) *float64 { return worst(c.ByTenth) })},
		{"worst_slab", covered(func(c attach.Coverage) *float64 { return shareOf(c.Slab) })},
		{"rmse", targets(func(t attach.TargetEvaluation) *float64 { return t.RMSE })},
		{"mae", targets(func(t attach.TargetEvaluation) *float64 { return t.MAE })},
		{"r2", targets(func(t attach.TargetEvaluation) *float64 { return t.R2 })},
		{"crps", targets(func(t attach.TargetEvaluation) *float64 { return t.CRPS })},
		{"auroc", whole(func(e *attach.Evaluation) *float64 {
			if e.Others == nil {
				return nil
			}
			return &e.Others.AUROC
		})},
		{"fpr95", whole(func(e *attach.Evaluation) *float64 {
			if e.Others == nil {
				return nil
			}
			return &e.Others.FPR95
		})},
		{"found", func(e *attach.Evaluation, at float64) []float64 {
			if e.Others == nil {
				return nil
			}
			return shareAt(e.Others.At, at, e.Alpha)
		}},
		{"broken", func(e *attach.Evaluation, _ float64) []float64 {
			n := 0.
			for _, p := range e.Promises {
				if p.Verdict == attach.Broken {
					n++
				}
			}
			return []float64{n}
		}},
	}
}

// confident is what confidence as predicted is worth.
func confident(c *attach.ClassEvaluation) *attach.Reliability {
	if c.After != nil {
		return c.After
	}
	return &c.Before
}

func figureNames() string {
	var list []string
	for _, f := range figures() {
		list = append(list, f.name)
	}
	return strings.Join(list, ", ")
}

func values(x *float64) []float64 {
	if x == nil {
		return nil
	}
	return []float64{*x}
}

func shareOf(r *attach.Rate) *float64 {
	if r == nil {
		return nil
	}
	return &r.Share
}

func shareAt(rates []attach.Rate, at, own float64) (list []float64) {
	for _, r := range rates {
		if same(r.Asked, at, own) {
			list = append(list, r.Share)
		}
	}
	return list
}

// same says that a level is the one asked for, or the evaluation's own where
// none is.
func same(level, at, own float64) bool { return level == at || math.IsNaN(at) && level == own }

// parseGates reads --fail-if.
func parseGates(texts []string) ([]gate, error) {
	var list []gate
	for _, text := range texts {
		one, ok := parseGate(text)
		if !ok {
			return nil, usagef("--fail-if is %q; it must be broken, or a figure, < or > and a number, such as coverage<.88; the figures are %s", text, figureNames())
		}
		list = append(list, one)
	}
	return list, nil
}

func parseGate(text string) (one gate, ok bool) {
	one = gate{text: text, at: math.NaN(), sign: ">"}
	name, bound := text, "0"
	if i := strings.IndexAny(text, "<>"); i >= 0 {
		name, one.sign, bound = text[:i], text[i:i+1], text[i+1:]
	} else if text != "broken" {
		return one, false
	}
	name, at, has := strings.Cut(strings.TrimSpace(name), "@")
	var err error
	if one.bound, err = strconv.ParseFloat(strings.TrimSpace(bound), 64); err != nil || math.IsNaN(one.bound) {
		return one, false
	}
	if has {
		if one.at, err = strconv.ParseFloat(at, 64); err != nil || share(one.at) != "" {
			return one, false
		}
	}
	for _, f := range figures() {
		if f.name == name {
			one.of = f
			return one, true
		}
	}
	return one, false
}

// checkGates returns a *gateError that names the gates that do not hold.
func checkGates(gates []gate, e *attach.Evaluation) error {
	var failed []string
	for _, one := range gates {
		found := one.of.of(e, one.at)
		if len(found) == 0 {
			return fmt.Errorf("--fail-if %s: there is no such figure of these rows", one.text)
		}
		for _, x := range found {
			if one.sign == "<" && x < one.bound || one.sign == ">" && x > one.bound {
				failed = append(failed, fmt.Sprintf("%s (it is %.4g)", one.text, x))
			}
		}
	}
	if failed == nil {
		return nil
	}
	return &gateError{"a gate does not hold: " + strings.Join(failed, ", ")}
}
