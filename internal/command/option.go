package command

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	"github.com/attach-uncertainty/attach/internal/data/filekind"
)

// table lists the flags of a command.
type table []*option

// option is a flag: where its value goes, what the value must be, and what the flag
// conflicts with. It implements cli.Flag.
type option struct {
	name string // without dashes; -o and -v also have the long names output and verbose
	// usage is the help text. If the flag takes a value, the text begins with a placeholder
	// and a colon: "FILE: .npz file to write".
	usage string
	group string // heading of the flag in the help
	// dest receives the value. It points to a variable that holds the default, or it is a
	// func(string) error that parses the value.
	dest any
	rule rule
	// choices are the values that a shell offers. If dest points to a string, no other value
	// is valid.
	choices             []string
	list                bool // whether the value is a list of choices with commas between them
	required            bool
	unless              func() bool // whether a required flag may be absent, or nil
	file                fileKind
	conflicts           []conflict
	given               bool
	conflictsWithBundle bool // whether the flag conflicts with the open .attach file
}

// conflict is a condition under which a flag has no effect or is not allowed, with the
// reason for the error message. when depends on other flags and the model. withBundle
// depends on the .attach file. In the reason, M.attach stands for the path of this file.
type conflict struct {
	when       func() bool
	withBundle func(*attach.Bundle) bool
	reason     string
}

// noEffect returns a conflict with other flags or with the model.
func noEffect(reason string, when func() bool) conflict {
	return conflict{when: when, reason: "has no effect " + reason + "; leave it out"}
}

// bundleConflict returns a conflict with the .attach file.
func bundleConflict(reason string, with func(*attach.Bundle) bool) conflict {
	return conflict{withBundle: with, reason: reason}
}

// fileList receives the values of a flag that may be repeated and whose values name files.
type fileList interface {
	add(value string) error
	paths() []string
}

// fileKind is the purpose of the file that a flag names.
type fileKind int

const (
	noFile fileKind = iota
	rowFile
	otherFile
	resultFile
)

func (o *option) Names() []string               { return []string{o.name} }
func (o *option) IsSet() bool                   { return o.given }
func (o *option) Apply(set *flag.FlagSet) error { return nil } // table.parse reads the values

// isSwitch reports whether the flag takes no value.
func (o *option) isSwitch() bool {
	_, ok := o.dest.(*bool)
	return ok
}

// repeats reports whether the flag may be given more than once.
func (o *option) repeats() bool {
	switch o.dest.(type) {
	case *[]string, fileList:
		return true
	}
	return false
}

// isEmpty reports whether the default of the flag is empty.
func (o *option) isEmpty() bool {
	switch dest := o.dest.(type) {
	case *string:
		return *dest == ""
	case func(string) error:
		return true
	}
	return o.repeats()
}

// String returns the value of the flag as a user would type it.
func (o *option) String() string {
	v := reflect.Indirect(reflect.ValueOf(o.dest))
	if v.Kind() == reflect.Func {
		return ""
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ","), "[]")
}

// placeholder returns the name of the flag's value in the help, such as FILE.
func (o *option) placeholder() string {
	if o.isSwitch() {
		return ""
	}
	value, _, _ := strings.Cut(o.usage, ": ")
	return value
}

// parse sets the flags to their values and returns the remaining arguments. These may stand
// before, between and after flags.
func (t table) parse(c *cli.Context) (rest []string, err error) {
	args := c.Args().Slice()
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(rest, args[i+1:]...), nil
		}
		if len(args[i]) < 2 || args[i][0] != '-' {
			rest = append(rest, args[i])
			continue
		}
		name, value, given := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		o := t.find(name)
		switch {
		case o == nil:
			return nil, t.unknownFlag(c, name)
		case given:
		case o.isSwitch():
			value = "true"
		case i+1 == len(args) || t.hasFlag(args[i+1]):
			return nil, usagef("%s of `%s` needs a value: %[1]s %[3]s", dashedName(name), commandPath(c), o.placeholder())
		default:
			i++
			value = args[i]
		}
		if err := o.set(value); err != nil {
			return nil, usagef("%v", err)
		}
	}
	return rest, nil
}

// unknownFlag returns the error for a flag that the command does not have.
func (t table) unknownFlag(c *cli.Context, name string) error {
	var names []string
	for _, o := range t {
		if names = append(names, o.name); o.name == "o" {
			names = append(names, "output")
		}
	}
	if other := mostSimilar(name, names); other != "" {
		return usagef("`%s` has no flag %s; did you mean %s?", commandPath(c), dashedName(name), dashedName(other))
	}
	return usagef("`%s` has no flag %s; `%[1]s --help` lists its flags", commandPath(c), dashedName(name))
}

// hasFlag reports whether an argument is a flag of the table, with or without a value.
func (t table) hasFlag(arg string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return strings.HasPrefix(arg, "-") && t.find(name) != nil
}

// commandPath returns the command as a user types it, such as "attach runtime install".
func commandPath(c *cli.Context) string { return c.Command.HelpName }

// dashedName returns the name of a flag with its dashes.
func dashedName(name string) string {
	if name == "o" || name == "v" {
		return "-" + name
	}
	return "--" + name
}

// set parses a value that the user typed. Its errors name the flag.
func (o *option) set(text string) error {
	if o.given && !o.repeats() && !o.isSwitch() {
		return fmt.Errorf("%s is given twice; it takes one value", dashedName(o.name))
	}
	if text == "" && o.isEmpty() {
		return nil
	}
	o.given = true
	var kind string
	var value any
	var err error
	check := o.rule
	switch dest := o.dest.(type) {
	case func(string) error:
		return dest(text)
	case fileList:
		return dest.add(text)
	case *[]string:
		*dest, value = append(*dest, text), text
	case *string:
		*dest, value = text, text
		if o.choices != nil {
			check = oneOf(o.choices...)
		}
	case *bool:
		kind = "true or false, or have no value"
		*dest, err = strconv.ParseBool(text)
	case *int:
		kind = "a whole number"
		if o.placeholder() == "BYTES" {
			kind += " of bytes, such as 67108864 for 64 MiB"
		}
		*dest, err = strconv.Atoi(text)
		value = *dest
	case *uint64:
		kind = "a whole number that is not negative"
		*dest, err = strconv.ParseUint(text, 10, 64)
	case *float64:
		kind = "a number"
		*dest, err = strconv.ParseFloat(text, 64)
		value = *dest
	case *time.Duration:
		kind = "a duration such as 500us, 30s or 2m"
		*dest, err = time.ParseDuration(text)
		value = *dest
	case *[]int:
		kind = "whole numbers with commas between"
		*dest, err = parseInts(text)
		value = *dest
	}
	displayed := fmt.Sprintf("%q", text)
	switch value.(type) {
	case int, float64, time.Duration:
		displayed = fmt.Sprint(value)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s is %q; it must be %s", dashedName(o.name), text, kind)
	case check == nil || check(value) == "":
		return nil
	case text == "":
		return fmt.Errorf("%s is empty; %s", dashedName(o.name), check(value))
	}
	return fmt.Errorf("%s is %s; %s", dashedName(o.name), displayed, check(value))
}

// parseInts parses a list such as "4,1,7".
func parseInts(text string) ([]int, error) {
	var list []int
	for field := range strings.SplitSeq(text, ",") {
		v, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil && text != "" {
			return nil, err
		} else if err == nil {
			list = append(list, v)
		}
	}
	return list, nil
}

// join concatenates tables.
func join(tables ...table) table { return slices.Concat(tables...) }

// withConflicts adds conflicts to every flag of the table. They come before the existing
// ones.
func (t table) withConflicts(added ...conflict) table {
	for _, o := range t {
		o.conflicts = slices.Concat(added, o.conflicts)
	}
	return t
}

// inGroup puts every flag of the table under a heading of the help.
func (t table) inGroup(group string) table {
	for _, o := range t {
		o.group = group
	}
	return t
}

// checkConflicts returns a usage error for the first given flag that conflicts with other
// flags or with the model. Commands call it again after they have opened the model.
func (t table) checkConflicts() error {
	for _, o := range t {
		for _, n := range o.conflicts {
			if o.given && n.when != nil && n.when() {
				return usagef("%s %s", dashedName(o.name), n.reason)
			}
		}
	}
	return nil
}

// checkBundleConflicts returns a usage error for the first given flag that conflicts with
// the .attach file at path. It also marks all flags that conflict, given or not.
func (t table) checkBundleConflicts(b *attach.Bundle, path string) (err error) {
	for _, o := range t {
		for _, n := range o.conflicts {
			if n.withBundle == nil || !n.withBundle(b) {
				continue
			}
			if o.conflictsWithBundle = true; o.given && err == nil {
				err = usagef("%s %s", dashedName(o.name), strings.ReplaceAll(n.reason, "M.attach", path))
			}
		}
	}
	return err
}

// pick returns the flags with these names.
func (t table) pick(names ...string) table {
	var picked table
	for _, o := range t {
		if slices.Contains(names, o.name) {
			picked = append(picked, o)
		}
	}
	return picked
}

// find returns the flag with this name, or nil.
func (t table) find(name string) *option {
	switch name {
	case "v":
		name = "verbose"
	case "output":
		name = "o"
	}
	if found := t.pick(name); len(found) > 0 {
		return found[0]
	}
	return nil
}

// has reports whether the command has a flag.
func (t table) has(name string) bool { return t.find(name) != nil }

// usable reports whether a flag was not given but would have an effect.
func (t table) usable(name string) bool {
	return slices.ContainsFunc(t.pick(name), func(o *option) bool {
		return !o.given && !o.conflictsWithBundle && !slices.ContainsFunc(o.conflicts, func(n conflict) bool { return n.when != nil && n.when() })
	})
}

// checkRequired returns a usage error that names the required flags that are absent or
// empty.
func (t table) checkRequired(c *cli.Context) error {
	var absent []string
	for _, o := range t {
		if o.required && len(o.values()) == 0 && (o.unless == nil || !o.unless()) {
			absent = append(absent, dashedName(o.name))
		}
	}
	n := len(absent)
	if n == 0 {
		return nil
	}
	list := absent[n-1]
	if n > 1 {
		list = strings.Join(absent[:n-1], ", ") + " and " + list
	}
	return missingArgument(c, list)
}

// missingArgument returns the usage error for arguments that the command needs. The error
// includes the usage of the command.
func missingArgument(c *cli.Context, what string) error {
	return &usageError{msg: fmt.Sprintf("`%s` needs %s", commandPath(c), what), usage: c.Command.UsageText}
}

// values returns the paths that the flag holds, or its text if this is not empty. A flag of
// another kind, such as a number, has no values.
func (o *option) values() []string {
	switch dest := o.dest.(type) {
	case fileList:
		return dest.paths()
	case *string:
		if *dest != "" {
			return []string{*dest}
		}
	}
	return nil
}

// files returns the files of one kind that the flags name, each with its flag.
func (t table) files(kind fileKind) []usedFile {
	var list []usedFile
	for _, o := range t {
		for _, path := range o.values() {
			if o.file == kind {
				list = append(list, usedFile{path, dashedName(o.name)})
			}
		}
	}
	return list
}

// usedFile is the path of a file, with the flag, command or .attach file that uses it. The
// path may be empty.
type usedFile struct{ path, user string }

// checkOverwrite returns a usage error if a result would overwrite an input file. Input
// files are those in reads, and those that flags name.
func (t table) checkOverwrite(reads ...usedFile) error {
	reads = slices.Concat(reads, t.files(rowFile), t.files(otherFile))
	for _, out := range t.files(resultFile) {
		for _, r := range reads {
			if sameFile(r.path, out.path) {
				return usagef("%s %s would overwrite the file that %s reads; write to another file", out.user, out.path, r.user)
			}
		}
	}
	return nil
}

// sameFile reports whether both paths lead to the same existing file or folder.
func sameFile(a, b string) bool {
	infoA, err := os.Stat(a)
	if err != nil {
		return false
	}
	infoB, err := os.Stat(b)
	return err == nil && os.SameFile(infoA, infoB)
}

// checkWritable returns an error if a result file cannot be created. A command calls it
// before the work, so that the work is not lost.
func (t table) checkWritable(c *cli.Context) error {
	for _, out := range t.files(resultFile) {
		f, err := atomicfile.Create(c.Context, out.path)
		if err != nil {
			return err
		}
		f.Abort()
	}
	return nil
}

// argument describes what a command takes in addition to its flags. The zero value means
// that it takes nothing.
type argument struct {
	name     string
	dest     *string
	list     *[]string // receives all arguments, instead of dest
	optional bool
	choices  []string // values that a shell offers
}

func (a argument) set(c *cli.Context, rest []string) error {
	maxArgs := 0
	switch {
	case a.list != nil:
		*a.list, maxArgs = rest, len(rest)
		if maxArgs == 0 && !a.optional {
			return missingArgument(c, a.name)
		}
		return nil
	case a.name != "":
		maxArgs = 1
	}
	switch {
	case len(rest) > maxArgs && c.Command.Command(rest[0]) != nil:
		return usagef("flags follow the subcommand %s; write `%s %[1]s` first", rest[0], commandPath(c))
	case len(rest) > maxArgs && len(c.Command.Subcommands) > 0:
		return usagef("`%s` has no subcommand %q; it has %s", commandPath(c), rest[0], c.Command.Subcommands[0].Name)
	case len(rest) > maxArgs:
		return usagef("unexpected argument %q; usage: %s", rest[maxArgs], firstLine(c.Command.UsageText))
	case len(rest) < maxArgs && !a.optional:
		return missingArgument(c, a.name)
	case len(rest) > 0:
		*a.dest = rest[0]
	}
	return nil
}

// checkBundle returns a usage error if the argument must be a .attach file, and is a file of
// another kind.
func (a argument) checkBundle(c *cli.Context, t table) error {
	if a.dest == nil || !strings.HasPrefix(a.name, "M.attach") {
		return nil
	}
	_, err := attach.Open(*a.dest)
	if kind := filekind.Kind(""); !errors.As(err, &kind) {
		return nil
	}
	return &usageError{msg: addHint(err, t.has, t.usable).Error(), usage: c.Command.UsageText}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// command returns a subcommand with these flags. Before it runs the steps, it checks the
// arguments as far as possible without reading a file.
func (t table) command(c cli.Command, a argument, steps ...func(*cli.Context) error) *cli.Command {
	for _, o := range t {
		c.Flags = append(c.Flags, o)
	}
	// The library's own parser silently ignores flags that follow an argument.
	c.SkipFlagParsing, c.HideHelp = true, true
	c.BashComplete = completeWords(c.Subcommands, t, a.choices)
	c.Action = func(c *cli.Context) error {
		rest, err := t.parse(c)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(t.pick("from-features"), func(o *option) bool { return o.given }) && a.list == nil && len(rest) > 1 {
			return usagef("unexpected argument %q; --from-features takes no value: name the file of features with --x", rest[1])
		}
		if x := t.find("x"); x != nil && x.given && a.list == nil && len(rest) > 1 {
			_, several := x.dest.(*inputList)
			if _, err := os.Stat(rest[1]); several && err == nil {
				return usagef("unexpected argument %q; --x takes one value: if a shell expanded a pattern, put the pattern in quotes, such as 'day-*.parquet'", rest[1])
			}
		}
		if err := a.set(c, rest); err != nil {
			return err
		}
		if err := t.checkRequired(c); err != nil {
			return cmp.Or(a.checkBundle(c, t), err)
		}
		var reader usedFile
		if len(rest) > 0 {
			reader = usedFile{rest[0], c.Command.Name}
		}
		if err := cmp.Or(t.checkOverwrite(reader), t.checkConflicts()); err != nil {
			return err
		}
		for _, step := range steps {
			if err := step(c); err != nil {
				return addHint(err, t.has, t.usable)
			}
		}
		return nil
	}
	return &c
}

// usageError reports that the command was called wrongly, not that its work failed.
type usageError struct {
	msg   string
	usage string // lines to print below the message, or ""
}

func (e *usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error {
	return &usageError{msg: fmt.Sprintf(format, args...)}
}
