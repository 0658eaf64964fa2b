package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"

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

// positional returns the positional arguments, which are called names, and a
// usage error where there are more or fewer.
func positional(c *cli.Context, names ...string) ([]string, error) {
	if got := c.NArg(); got < len(names) {
		return nil, usagef("%s needs %s; see `%[1]s --help`", path(c), names[got])
	} else if got > len(names) {
		return nil, usagef("%s does not know what to do with %q; see `%[1]s --help`", path(c), c.Args().Get(len(names)))
	}
	return c.Args().Slice(), nil
}

// optional returns the one positional argument that may be there, or "".
func optional(c *cli.Context) (string, error) {
	if c.NArg() > 1 {
		return "", usagef("%s does not know what to do with %q; see `%[1]s --help`", path(c), c.Args().Get(1))
	}
	return c.Args().First(), nil
}

// required returns a usage error that names the flags that are absent or empty.
func required(c *cli.Context, names ...string) error {
	var absent []string
	for _, name := range names {
		given := c.String(name) != ""
		if _, list := c.Value(name).(cli.StringSlice); list {
			given = len(c.StringSlice(name)) > 0
		}
		if !given {
			absent = append(absent, dashed(name))
		}
	}
	if n := len(absent); n > 0 {
		list := absent[n-1]
		if n > 1 {
			list = strings.Join(absent[:n-1], ", ") + " and " + list
		}
		return usagef("%s needs %s; see `%[1]s --help`", path(c), list)
	}
	return nil
}

// distinct returns a usage error if -o names a file that one of the positional
// arguments or flags names too, which writing would destroy.
func distinct(c *cli.Context, flags ...string) error {
	var reads []source
	for _, path := range c.Args().Slice() {
		reads = append(reads, source{path, c.Command.Name})
	}
	for _, name := range flags {
		reads = append(reads, source{c.String(name), dashed(name)})
	}
	return keeps("o", c.String("o"), reads)
}

// source is a file that is read, and what reads it; the path may be empty.
type source struct{ path, by string }

// keeps returns a usage error if writing what the flag says to path would
// replace one of the files read.
func keeps(flag, path string, reads []source) error {
	for _, r := range reads {
		if sameFile(r.path, path) {
			return usagef("%s %s would replace what %s reads; write to another file", dashed(flag), path, r.by)
		}
	}
	return nil
}

// sameFile reports whether both paths lead to one file or folder that exists.
func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// refuse returns a usage error if one of the flags is there, which would
// otherwise be passed over in silence. why says when it means nothing.
func refuse(c *cli.Context, why string, names ...string) error {
	for _, name := range names {
		if c.IsSet(name) {
			return usagef("%s means nothing %s; leave it out", dashed(name), why)
		}
	}
	return nil
}

// Messages of the flag parser, by what they are about.
var (
	unknownFlag  = regexp.MustCompile(`^flag provided but not defined: -+(.*)$`)
	absentValue  = regexp.MustCompile(`^flag needs an argument: -+(.*)$`)
	invalidValue = regexp.MustCompile(`^invalid (?:boolean )?value (".*") for (?:flag )?-+([^:]*): `)
)

// onUsageError says in one sentence what the flag parser did not like.
func onUsageError(c *cli.Context, err error, _ bool) error {
	see := fmt.Sprintf("see `%s --help`", path(c))
	text := err.Error()
	if m := unknownFlag.FindStringSubmatch(text); m != nil {
		return usagef("%s has no flag %s; %s", path(c), dashed(m[1]), see)
	}
	if m := absentValue.FindStringSubmatch(text); m != nil {
		return usagef("%s needs a value; %s", dashed(m[1]), see)
	}
	if m := invalidValue.FindStringSubmatch(text); m != nil {
		return usagef("%s is %s; it must be %s", dashed(m[2]), m[1], valueKind(c, m[2]))
	}
	return usagef("%s; %s", text, see)
}

// valueKind says what a flag's value must be.
func valueKind(c *cli.Context, name string) string {
	if c.Command != nil {
		for _, f := range c.Command.Flags {
			for _, n := range f.Names() {
				if n != name {
					continue
				}
				switch f.(type) {
				case *cli.BoolFlag:
					return "true or false, or stand alone"
				case *cli.IntFlag:
					return "a whole number"
				case *cli.Uint64Flag:
					return "a whole number that is not negative"
				case *cli.Float64Flag:
					return "a number"
				}
			}
		}
	}
	return "of another kind"
}
