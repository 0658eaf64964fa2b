package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/audit"
)

// auditFigures returns the figures of an audit that a gate can test. They are keys of
// audit.json.
func auditFigures() []string {
	return []string{"discoveries", "fdp_upper_bound", "outliers_lower_bound", "flagged", "shift", "label_discoveries", "label_errors_lower_bound", "new_gaps", "new_categories", "out_of_range", "changed_columns"}
}

// parseAuditGates parses the values of --fail-if.
func parseAuditGates(texts []string) ([]gate, error) {
	var list []gate
	for _, text := range texts {
		parsed, ok := parseGate(text, auditFigures())
		if !ok || strings.Contains(text, "@") {
			return nil, invalidGate(text, parsed.figure, auditFigures(), "a figure, < or >, and a number, such as discoveries>0")
		}
		if parsed.bound < 0 || parsed.bound > 1 && slices.Contains([]string{"fdp_upper_bound", "shift"}, parsed.figure) {
			return nil, usagef("--fail-if is %q; %s must be from 0 to 1, and a number of inputs must not be negative", text, parsed.figure)
		}
		list = append(list, parsed)
	}
	return list, nil
}

// isLabelFigure reports whether a figure counts wrong labels.
func isLabelFigure(figure string) bool { return strings.HasPrefix(figure, "label_") }

// checkLabelGates returns an error if a gate needs label errors and there are none.
func checkLabelGates(gates []gate, checked bool) error {
	for _, g := range gates {
		if isLabelFigure(g.figure) && !checked {
			return usagef("--fail-if %s: the audit has no such figure; pass --label-errors too", g.text)
		}
	}
	return nil
}

// checkColumnGates returns an error if a gate needs the profile of the inputs and there is none.
func checkColumnGates(gates []gate, profiled bool) error {
	for _, g := range gates {
		if isColumnFigure(g.figure) && !profiled {
			return fmt.Errorf("--fail-if %s: the audit has no such figure; %s", g.text, noProfile)
		}
	}
	return nil
}

// checkAuditGates returns a *gateError that names the failed gates, or nil if none failed. A
// bound between 0 and 1 is a fraction: a number of inputs is then divided by the number of
// all inputs. A number of cells or columns is never divided. It relies on checkColumnGates.
func checkAuditGates(gates []gate, a *audit.Audit) error {
	var failed []string
	for _, g := range gates {
		var x float64
		setFraction := func(n, of int) {
			if x = float64(n); g.bound > 0 && g.bound < 1 {
				x /= float64(of)
			}
		}
		setCount := func(n int) { setFraction(n, a.Inputs) }
		labelled, wrong, found := 0, 0, 0
		for _, l := range a.LabelErrors {
			labelled, wrong, found = labelled+l.Labelled, wrong+l.Errors, found+l.Discoveries
		}
		if isLabelFigure(g.figure) && labelled == 0 {
			return fmt.Errorf("--fail-if %s: no input has a label or target", g.text)
		}
		switch g.figure {
		case "discoveries":
			setCount(a.Discoveries)
		case "outliers_lower_bound":
			setCount(a.Outliers)
		case "flagged":
			setCount(a.Flagged)
		case "fdp_upper_bound":
			x = a.FDP
		case "label_discoveries":
			setFraction(found, labelled)
		case "label_errors_lower_bound":
			setFraction(wrong, labelled)
		case "shift":
			x = a.Shift.Higher
		default:
			x = float64(columnFigures(*a.Schema)[g.figure])
		}
		if g.fails(x) {
			failed = append(failed, fmt.Sprintf("%s (it is %.4g)", g.text, x))
		}
	}
	return gatesFailed(failed)
}
