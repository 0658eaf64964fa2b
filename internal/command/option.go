package command

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/xrash/smetrics"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
)

// table lists the flags of a command.
type table []*option

// option is a flag: where its value goes, what that must be and when it means
// nothing. It implements cli.Flag.
type option struct {
	name  string // and -v for verbose
	usage string // of one that takes a value, what stands for it, a colon and what it does
	head  string // of the help that it stands under
	// to points to what holds the default and takes the value, or is a
	// func(string) error that reads it.
	to   any
	must rule
	// choices are the values that a shell completes; of a text they are all that it may be.
	choices []string
	needed  bool
	file    fileKind
	never   []never
	given   bool
	unfit   bool // means nothing for the bundle that is open
}

// never is when an option means nothing, and what is then said of it: when, by the other
// options and the model, or of, by the bundle.
type never struct {
	when func() bool
	of   func(*attach.Bundle) bool
	says string
}

// idle is never with the usual words.
func idle(why string, when func() bool) never {
	return never{when: when, says: "means nothing " + why + "; leave it out"}
}

// unfit is never of a bundle, with the usual words.
func unfit(why string, of func(*attach.Bundle) bool) never {
	return never{of: of, says: "means nothing " + why + "; leave it out"}
}

// fileList takes the values of an option that may be given more than once, each of
// which names a file.
type fileList interface {
	add(value string) error
	paths() []string
}

// fileKind is what a value that names a file is named for.
type fileKind int

const (
	noFile fileKind = iota
	rowFile
	otherFile
	resultFile
)

func (o *option) Names() []string               { return []string{o.name} }
func (o *option) IsSet() bool                   { return o.given }
func (o *option) Apply(set *flag.FlagSet) error { return nil } // table.parse reads values

// stands says that the option takes no value.
func (o *option) stands() bool {
	_, is := o.to.(*bool)
	return is
}

// isList says whether the option may be given more than once.
func (o *option) isList() bool {
	switch o.to.(type) {
	case *[]string, fileList:
		return true
	}
	return false
}

// isEmpty says that the option holds an empty text where it is not given.
func (o *option) isEmpty() bool {
	switch to := o.to.(type) {
	case *string:
		return *to == ""
	case func(string) error:
		return true
	}
	return o.isList()
}

// String is the value as it could be typed.
func (o *option) String() string {
	v := reflect.Indirect(reflect.ValueOf(o.to))
	if v.Kind() == reflect.Func {
		return ""
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ","), "[]")
}

// parse gives the options their values and returns what is none, which may stand
// before them.
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
			return nil, t.unknown(path(c), name)
		case given:
		case o.stands():
			value = "true"
		case i+1 == len(args) || t.names(args[i+1]):
			return nil, usagef("%s needs a value; see `%s --help`", dashed(name), path(c))
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

// unknown is the error of a flag that a command does not have.
func (t table) unknown(command, name string) error {
	var names []string
	for _, o := range t {
		names = append(names, o.name)
	}
	if other := meant(name, names); other != "" {
		return usagef("%s has no flag %s; did you mean %s? See `%[1]s --help`", command, dashed(name), dashed(other))
	}
	return usagef("%s has no flag %s; see `%[1]s --help`", command, dashed(name))
}

// leastLikeness is how much a name resembles one that is suggested in its place, from 0 to 1.
const leastLikeness = .88

// meant returns the name that was probably meant by one that is not known, or "". It
// compares as the library does, which suggests a name however little it resembles.
func meant(given string, names []string) (name string) {
	likeness := leastLikeness
	for _, n := range names {
		if l := smetrics.JaroWinkler(n, given, .7, 4); l > likeness {
			name, likeness = n, l
		}
	}
	return name
}

// names says whether an argument is an option of the table, with a value or not.
func (t table) names(arg string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return strings.HasPrefix(arg, "-") && t.find(name) != nil
}

// path is the command as it is typed: "attach runtime install".
func path(c *cli.Context) string { return c.Command.HelpName }

// dashed is a flag's name as the documentation writes it.
func dashed(name string) string {
	if name == "o" || name == "v" {
		return "-" + name
	}
	return "--" + name
}

// set reads a value that was typed. Its errors are whole sentences.
func (o *option) set(text string) error {
	if o.given && !o.isList() && !o.stands() {
		return fmt.Errorf("%s is given twice; it takes one value", dashed(o.name))
	}
	if text == "" && o.isEmpty() {
		return nil
	}
	o.given = true
	var kind string
	var value any
	var err error
	check := o.must
	switch to := o.to.(type) {
	case func(string) error:
		return to(text)
	case fileList:
		return to.add(text)
	case *[]string:
		*to, value = append(*to, text), text
	case *string:
		*to, value = text, text
		if o.choices != nil {
			check = oneOf(o.choices...)
		}
	case *bool:
		kind = "true or false, or stand alone"
		*to, err = strconv.ParseBool(text)
	case *int:
		kind = "a whole number"
		*to, err = strconv.Atoi(text)
		value = *to
	case *uint64:
		kind = "a whole number that is not negative"
		*to, err = strconv.ParseUint(text, 10, 64)
	case *float64:
		kind = "a number"
		*to, err = strconv.ParseFloat(text, 64)
		value = *to
	case *time.Duration:
		kind = "a duration such as 500us, 30s or 2m"
		*to, err = time.ParseDuration(text)
		value = *to
	case *[]int:
		kind = "whole numbers with commas between"
		*to, err = parseInts(text)
		value = *to
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s is %q; it must be %s", dashed(o.name), text, kind)
	case check == nil || check(value) == "":
		return nil
	case text == "":
		return fmt.Errorf("%s is empty; %s", dashed(o.name), check(value))
	case kind == "a number", kind == "a whole number", strings.HasPrefix(kind, "a duration"):
		return fmt.Errorf("%s is %v; %s", dashed(o.name), value, check(value))
	}
	return fmt.Errorf("%s is %q; %s", dashed(o.name), text, check(value))
}

// parseInts reads a list such as "4,1,7".
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

// join is all of the tables, one below the other.
func join(tables ...table) table { return slices.Concat(tables...) }

// unless adds to every option when it means nothing, before what it has of that.
func (t table) unless(ns ...never) table {
	for _, o := range t {
		o.never = slices.Concat(ns, o.never)
	}
	return t
}

// under puts all options under one head of the help.
func (t table) under(head string) table {
	for _, o := range t {
		o.head = head
	}
	return t
}

// check returns a usage error where an option was given that would otherwise
// be passed over in silence. It is asked again when the model is known.
func (t table) check() error {
	for _, o := range t {
		for _, n := range o.never {
			if o.given && n.when != nil && n.when() {
				return usagef("%s %s", dashed(o.name), n.says)
			}
		}
	}
	return nil
}

// checkFor is check of what the bundle tells.
func (t table) checkFor(b *attach.Bundle) (err error) {
	for _, o := range t {
		for _, n := range o.never {
			if n.of == nil || !n.of(b) {
				continue
			}
			if o.unfit = true; o.given && err == nil {
				err = usagef("%s %s", dashed(o.name), n.says)
			}
		}
	}
	return err
}

// of are the options with these names.
func (t table) of(names ...string) table {
	var some table
	for _, o := range t {
		if slices.Contains(names, o.name) {
			some = append(some, o)
		}
	}
	return some
}

// find is the option with a name, or nil.
func (t table) find(name string) *option {
	switch name {
	case "v":
		name = "verbose"
	case "output":
		name = "o"
	}
	if some := t.of(name); len(some) > 0 {
		return some[0]
	}
	return nil
}

// useful says whether an option that was not given could be.
func (t table) useful(name string) bool {
	return slices.ContainsFunc(t.of(name), func(o *option) bool {
		return !o.given && !o.unfit && !slices.ContainsFunc(o.never, func(n never) bool { return n.when != nil && n.when() })
	})
}

// required returns a usage error that names the options that are absent or
// empty.
func (t table) required(c *cli.Context) error {
	var absent []string
	for _, o := range t {
		if o.needed && len(o.values()) == 0 {
			absent = append(absent, dashed(o.name))
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

// values are the texts that the option holds and that are not empty.
func (o *option) values() []string {
	switch to := o.to.(type) {
	case fileList:
		return to.paths()
	case *string:
		if *to != "" {
			return []string{*to}
		}
	}
	return nil
}

// files are what the options of a kind name, and by which option.
func (t table) files(kind fileKind) []source {
	var list []source
	for _, o := range t {
		for _, path := range o.values() {
			if o.file == kind {
				list = append(list, source{path, dashed(o.name)})
			}
		}
	}
	return list
}

// source is a file, and what reads or writes it; the path may be empty.
type source struct{ path, by string }

// keeps returns a usage error if a result would be written to one of reads or
// to what an option reads.
func (t table) keeps(reads ...source) error {
	reads = slices.Concat(reads, t.files(rowFile), t.files(otherFile))
	for _, out := range t.files(resultFile) {
		for _, r := range reads {
			if sameFile(r.path, out.path) {
				return usagef("%s %s would replace what %s reads; write to another file", out.by, out.path, r.by)
			}
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

// writable fails before the work is done where a result could not be written
// after it.
func (t table) writable(c *cli.Context) error {
	for _, out := range t.files(resultFile) {
		f, err := atomicfile.Create(c.Context, out.path)
		if err != nil {
			return err
		}
		f.Abort()
	}
	return nil
}

// argument is what a command takes beside its options; its zero value is none.
type argument struct {
	name     string
	to       *string
	list     *[]string // of one that may be many, in place of to
	optional bool
}

func (a argument) take(c *cli.Context, rest []string) error {
	most := 0
	switch {
	case a.list != nil:
		*a.list, most = rest, len(rest)
		if most == 0 {
			return usagef("%s needs %s; see `%[1]s --help`", path(c), a.name)
		}
		return nil
	case a.name != "":
		most = 1
	}
	switch {
	case len(rest) > most && c.Command.Command(rest[0]) != nil:
		return usagef("%s comes before its flags; write `%s %[1]s` first", rest[0], path(c))
	case len(rest) > most && len(c.Command.Subcommands) > 0:
		return usagef("%s has no subcommand %q; it has %s", path(c), rest[0], c.Command.Subcommands[0].Name)
	case len(rest) > most:
		return usagef("%s does not know what to do with %q; see `%[1]s --help`", path(c), rest[most])
	case len(rest) < most && !a.optional:
		return usagef("%s needs %s; see `%[1]s --help`", path(c), a.name)
	case len(rest) > 0:
		*a.to = rest[0]
	}
	return nil
}

// command is a subcommand with these options, whose steps are taken once they
// are found to be right, as far as they tell by themselves.
func (t table) command(c cli.Command, a argument, steps ...func(*cli.Context) error) *cli.Command {
	for _, o := range t {
		c.Flags = append(c.Flags, o)
	}
	// The flag parser passes over flags that follow an argument in silence.
	c.SkipFlagParsing, c.HideHelp = true, true
	c.BashComplete = complete(c.Subcommands, t)
	c.Action = func(c *cli.Context) error {
		rest, err := t.parse(c)
		if err != nil {
			return err
		}
		if err := cmp.Or(a.take(c, rest), t.required(c)); err != nil {
			return err
		}
		var reads source
		if len(rest) > 0 {
			reads = source{rest[0], c.Command.Name}
		}
		if err := cmp.Or(t.keeps(reads), t.check()); err != nil {
			return err
		}
		for _, step := range steps {
			if err := step(c); err != nil {
				return hinted(err, t.useful)
			}
		}
		return nil
	}
	return &c
}

// completing is the last argument of a call that a shell makes to complete the argument
// before it.
const completing = "--generate-bash-completion"

// complete returns a function that prints the words that may stand in place of the last
// argument, one a line. It prints nothing where a file may stand, as shells know files.
func complete(commands []*cli.Command, flags table) cli.BashCompleteFunc {
	return func(c *cli.Context) {
		args := append([]string{"", ""}, c.Args().Slice()...)
		before, word := args[len(args)-2], args[len(args)-1]
		words := []string{"--help"}
		o := flags.find(strings.TrimLeft(before, "-"))
		switch {
		case strings.HasPrefix(before, "-") && o != nil && !o.stands():
			words = o.choices
		case strings.HasPrefix(word, "-"):
			for _, o := range flags {
				words = append(words, dashed(o.name))
			}
		default:
			words = namesOfCommands(commands)
		}
		for _, w := range words {
			if strings.HasPrefix(w, word) {
				fmt.Fprintln(c.App.Writer, w)
			}
		}
	}
}

func namesOfCommands(commands []*cli.Command) []string {
	var names []string
	for _, c := range commands {
		names = append(names, c.Name)
	}
	return names
}

// usageError is a mistake in how the command was called, as opposed to a
// failure of what it was asked to do.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}
