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
	return []string{"discoveries", "fdp_upper_bound", "outliers_lower_bound", "flagged", "shift", "new_gaps", "new_categories", "out_of_range", "changed_columns"}
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
		setCount := func(n int) {
			if x = float64(n); g.bound > 0 && g.bound < 1 {
				x /= float64(a.Inputs)
			}
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
