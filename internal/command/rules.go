package command

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// rule checks a value. It returns a description of valid values, or "" if the value is
// valid.
type rule func(value any) string

// requirement returns text, or "" if the requirement is met.
func requirement(met bool, text string) string {
	if met {
		return ""
	}
	return text
}

// fraction is the rule for fractions and probabilities.
func fraction(value any) string {
	v := value.(float64)
	return requirement(v > 0 && v < 1, "it must be between 0 and 1")
}

// zeroOrFraction is the rule for fractions that may be 0.
func zeroOrFraction(value any) string {
	v := value.(float64)
	return requirement(v >= 0 && v < 1, "it must be at least 0 and less than 1")
}

func positive(value any) string {
	v := value.(float64)
	return requirement(v > 0 && !math.IsInf(v, 0), "it must be positive")
}

// duration returns the rule for durations from least to most.
func duration(min, max time.Duration) rule {
	return func(value any) string {
		d := value.(time.Duration)
		return requirement(min <= d && d <= max, fmt.Sprintf("it must be at least %v and at most %v", min, max))
	}
}

func atLeast(min int) rule {
	requirementText := fmt.Sprintf("it must be at least %d", min)
	if min == 0 {
		requirementText = "it must not be negative"
	}
	return func(value any) string { return requirement(value.(int) >= min, requirementText) }
}

func between(min, max int) rule {
	return func(value any) string {
		v := value.(int)
		return requirement(min <= v && v <= max, fmt.Sprintf("it must be at least %d and at most %d", min, max))
	}
}

// oneOf returns the rule for a name from a list.
func oneOf(names ...string) rule {
	list := "one of " + strings.Join(names, ", ")
	if n := len(names); n < 4 {
		list = strings.Join(names[:n-1], ", ") + " or " + names[n-1]
	}
	return func(value any) string {
		if name := value.(string); !slices.Contains(names, name) {
			return suggest(name, names, "it must be "+list)
		}
		return ""
	}
}

// hasExtension returns the rule for a file name with the given extension.
func hasExtension(extension string) rule {
	return func(value any) string {
		return requirement(strings.EqualFold(filepath.Ext(value.(string)), extension), "it must end in "+extension)
	}
}

// notStdout is the rule for a file that cannot go to standard output.
func notStdout(value any) string {
	return requirement(value != "-", "it must be a file; only tables can go to standard output")
}
