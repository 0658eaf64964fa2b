package command

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// rule says what a value must be, or "" where it is that.
type rule func(value any) string

// must is what a rule says of a value that it holds for or not.
func must(holds bool, be string) string {
	if holds {
		return ""
	}
	return be
}

func share(value any) string {
	v := value.(float64)
	return must(v > 0 && v < 1, "it must be between 0 and 1")
}

func positive(value any) string {
	v := value.(float64)
	return must(v > 0 && !math.IsInf(v, 0), "it must be positive")
}

// duration is the rule of durations from least to most.
func duration(least, most time.Duration) rule {
	return func(value any) string {
		d := value.(time.Duration)
		return must(least <= d && d <= most, fmt.Sprintf("it must be at least %v and at most %v", least, most))
	}
}

func atLeast(least int) rule {
	be := fmt.Sprintf("it must be at least %d", least)
	if least == 0 {
		be = "it must not be negative"
	}
	return func(value any) string { return must(value.(int) >= least, be) }
}

func between(least, most int) rule {
	return func(value any) string {
		v := value.(int)
		return must(least <= v && v <= most, fmt.Sprintf("it must be at least %d and at most %d", least, most))
	}
}

func oneOf(names ...string) rule {
	list := "one of " + strings.Join(names, ", ")
	if n := len(names); n < 4 {
		list = strings.Join(names[:n-1], ", ") + " or " + names[n-1]
	}
	return func(value any) string { return must(slices.Contains(names, value.(string)), "it must be "+list) }
}

// ends is the rule of a file's name, whose extension says what it is.
func ends(extension string) rule {
	return func(value any) string {
		return must(strings.EqualFold(filepath.Ext(value.(string)), extension), "it must end in "+extension)
	}
}

// noStream is the rule of a file that is not written to standard output.
func noStream(value any) string {
	return must(value != "-", "it must name a file: standard output takes tables alone")
}
