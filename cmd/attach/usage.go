package main

import (
	"fmt"
	"regexp"

	"github.com/urfave/cli/v2"
)

// usageError is a mistake in how the command was called, as opposed to a
// failure of what it was asked to do.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

func unknownCommand(name string) error {
	return usagef("there is no command %q; `attach --help` lists them", name)
}

// path is the command as it is typed: "attach runtime install".
func path(c *cli.Context) string {
	if c.Command == nil || c.Command.HelpName == "" {
		return c.App.Name
	}
	return c.Command.HelpName
}

// Messages of the flag parser, by what they are about. What an option says of
// its value is a sentence of its own.
var (
	unknownFlag  = regexp.MustCompile(`^flag provided but not defined: -+(.*)$`)
	absentValue  = regexp.MustCompile(`^flag needs an argument: -+(.*)$`)
	invalidValue = regexp.MustCompile(`(?s)^invalid (?:boolean )?value "(?:[^"\\]|\\.)*" for (?:flag )?-+[^:]*: (.*)$`)
)

// onUsageError says in one sentence what the flag parser did not like.
func onUsageError(c *cli.Context, err error, _ bool) error {
	text := err.Error()
	if m := invalidValue.FindStringSubmatch(text); m != nil {
		return usagef("%s", m[1])
	}
	if m := unknownFlag.FindStringSubmatch(text); m != nil {
		text = fmt.Sprintf("%s has no flag %s", path(c), dashed(m[1]))
	} else if m := absentValue.FindStringSubmatch(text); m != nil {
		text = dashed(m[1]) + " needs a value"
	}
	return usagef("%s; see `%s --help`", text, path(c))
}
