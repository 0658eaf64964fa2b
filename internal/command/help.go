package command

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// helpWidth is the maximum number of columns of a line of help.
const helpWidth = 88

// The flags of a command appear in the help under these headings, in this order.
const (
	groupData      = "Data"
	groupColumns   = "Columns and files"
	groupMethods   = "Methods"
	groupDetector  = "Detector"
	groupGuarantee = "Guarantees"
	groupIntervals = "Intervals"
	groupSets      = "Prediction sets"
	groupTime      = "Time series"
	groupScalar    = "Gradient"
	groupNetwork   = "Network"
	groupLoad      = "Load"
	groupTargets   = "Late targets"
	groupOutput    = "Output"
	groupModel     = "Model"
	groupRuntime   = "Runtime"
)

var flagGroups = []string{
	"", groupData, groupColumns, groupMethods, groupDetector, groupGuarantee, groupIntervals, groupSets, groupTime, groupScalar, groupNetwork,
	groupLoad, groupTargets, groupOutput, groupModel, groupRuntime,
}

// commandGroups lists the headings of the program's help, and the commands under each
// heading.
var commandGroups = []struct {
	name     string
	commands []string
}{
	{"First steps", []string{"demo", "inspect"}},
	{"Calibrate and predict", []string{"fit", "predict", "evaluate"}},
	{"Data sets and services", []string{"audit", "merge", "serve"}},
	{"Without attach at run time", []string{"export", "verify"}},
	{"Methods and research", []string{"methods", "compare", "features", "gradient"}},
	{"This program", []string{"runtime", "completion", "version"}},
}

// firstSteps shows the first commands for a new user. They work in the folder that `attach
// demo` writes.
const firstSteps = `attach demo && cd attach-demo
attach fit digits_resnet.onnx --x digits_fit.npz --cal digits_cal.npz \
    --preprocess digits.preprocess.json -o digits.attach
attach predict digits.attach --x letters.npz -o predictions.csv
`

// asksForHelp reports whether args ask for help, with -h, with --help or as `attach help
// COMMAND`.
func asksForHelp(args []string) bool {
	for i, arg := range args {
		switch arg {
		case "--":
			return false
		case "-h", "-help", "--h", "--help":
			return true
		case "help":
			if i == 0 {
				return true
			}
		}
	}
	return false
}

// printHelp prints the help of the command or topic that args name. Without a name, it prints
// the help of the program. `attach help --markdown` prints the reference of all commands, and
// `attach help --man` the manual page.
func printHelp(app *cli.App, args []string) error {
	isHelp := len(args) > 0 && args[0] == "help"
	if isHelp {
		args = args[1:]
	}
	var b strings.Builder
	names, command, rest := findCommand(app, args)
	switch {
	case command != nil:
		commandHelp(&b, strings.Join(append([]string{app.Name}, names...), " "), command)
	case len(rest) > 0 && isHelp && findTopic(rest[0]) != nil:
		t := findTopic(rest[0])
		fmt.Fprintf(&b, "%s\n\n%s", t.title, t.text())
	case len(rest) > 0 && isHelp && rest[0] == "--markdown":
		markdownReference(&b, app)
	case len(rest) > 0 && isHelp && rest[0] == "--man":
		manPage(&b, app)
	case len(rest) > 0 && !strings.HasPrefix(rest[0], "-"):
		return unknownCommand(app, rest[0])
	default:
		programHelp(&b, app)
	}
	_, err := io.WriteString(app.Writer, b.String())
	return err
}

// findCommand returns the command at the beginning of args, the names that lead to it, and
// the remaining arguments.
func findCommand(app *cli.App, args []string) (names []string, command *cli.Command, rest []string) {
	for commands := app.Commands; len(args) > 0; commands, args = command.Subcommands, args[1:] {
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(args[0]) })
		if i < 0 {
			break
		}
		names, command = append(names, args[0]), commands[i]
	}
	return names, command, args
}

// unknownCommand returns the error for a first argument that is not a command.
func unknownCommand(app *cli.App, arg string) error {
	if strings.HasPrefix(arg, "-") {
		return usagef("%s has no flag %s; `%[1]s --help` lists the commands", app.Name, arg)
	}
	return usagef("unknown command %q; %s", arg, suggest(arg, append(namesOfCommands(app.Commands), namesOfTopics()...), "`attach --help` lists the commands"))
}

func programHelp(b *strings.Builder, app *cli.App) {
	fmt.Fprintf(b, "%s: %s\n\nUsage:\n  %s\n", app.Name, app.Usage, app.UsageText)
	for _, g := range commandGroups {
		var commands []*cli.Command
		for _, c := range app.Commands {
			if slices.Contains(g.commands, c.Name) {
				commands = append(commands, c)
			}
		}
		slices.SortStableFunc(commands, func(x, y *cli.Command) int {
			return cmp.Compare(slices.Index(g.commands, x.Name), slices.Index(g.commands, y.Name))
		})
		if len(commands) > 0 {
			fmt.Fprintf(b, "\n%s:\n", g.name)
			commandList(b, commands)
		}
	}
	b.WriteString("\nTopics (`attach help TOPIC`):\n")
	var heads, texts []string
	for _, t := range topics() {
		heads, texts = append(heads, t.name), append(texts, t.summary)
	}
	writeDefinitions(b, heads, texts)
	b.WriteString("\nTo begin with:\n")
	for line := range strings.Lines(firstSteps) {
		b.WriteString("  " + line)
	}
	fmt.Fprintf(b, "\n`%[1]s COMMAND --help` explains one command, with examples.\n", app.Name)
}

// commandHelp prints the help of a command. CustomHelpTemplate holds the examples. The
// library does not use this field, because this package prints help itself.
func commandHelp(b *strings.Builder, name string, c *cli.Command) {
	fmt.Fprintf(b, "%s: %s\n\nUsage:\n", name, c.Usage)
	for line := range strings.Lines(c.UsageText) {
		fmt.Fprintf(b, "  %s\n", strings.TrimSpace(line))
	}
	for _, paragraph := range paragraphs(c.Description) {
		b.WriteString("\n")
		writeWrapped(b, paragraph, "", "")
	}
	if c.CustomHelpTemplate != "" {
		b.WriteString("\nExamples:\n")
		for line := range strings.Lines(c.CustomHelpTemplate) {
			b.WriteString("  " + line)
		}
		b.WriteString("\n")
	}
	if len(c.Subcommands) > 0 {
		b.WriteString("\nCommands:\n")
		commandList(b, c.Subcommands)
	}
	for _, g := range groupFlags(c.Flags) {
		var heads, texts []string
		for _, o := range g.flags {
			head, text := o.describe()
			heads, texts = append(heads, head), append(texts, text)
		}
		fmt.Fprintf(b, "\n%s:\n", g.name)
		writeDefinitions(b, heads, texts)
	}
}

func paragraphs(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n\n")
}

// flagGroup holds the flags of a command that share one heading.
type flagGroup struct {
	name  string
	flags table
}

// groupFlags sorts flags by their headings.
func groupFlags(flags []cli.Flag) []flagGroup {
	var list []flagGroup
	for _, name := range flagGroups {
		g := flagGroup{name: cmp.Or(name, "Flags")}
		for _, f := range flags {
			if o := f.(*option); o.group == name {
				g.flags = append(g.flags, o)
			}
		}
		if len(g.flags) > 0 {
			list = append(list, g)
		}
	}
	return list
}

func commandList(b *strings.Builder, commands []*cli.Command) {
	var heads, texts []string
	for _, c := range commands {
		heads, texts = append(heads, c.Name), append(texts, c.Usage)
	}
	writeDefinitions(b, heads, texts)
}

// describe returns a flag as a user types it, and its help text.
func (o *option) describe() (head, text string) {
	head, text = dashedName(o.name), o.usage
	switch o.name {
	case "verbose":
		head = "-v, " + head
	case "o":
		head += ", --output"
	}
	if o.isSwitch() {
		return head, text
	}
	value, text, _ := strings.Cut(o.usage, ": ")
	if defaultValue := o.String(); defaultValue != "" && defaultValue != "0" && defaultValue != "0s" && defaultValue != "-" {
		text += fmt.Sprintf(" (default: %s)", defaultValue)
	}
	if o.required && o.unless == nil && o.isEmpty() {
		text += " (required)"
	}
	return head + " " + value, text
}

// writeDefinitions prints each head with its text to the right of it, or below it if the
// head is long.
func writeDefinitions(b *strings.Builder, heads, texts []string) {
	const maxHead = 24
	width := 0
	for _, h := range heads {
		if n := len([]rune(h)); n <= maxHead {
			width = max(width, n)
		}
	}
	indent := strings.Repeat(" ", width+4)
	for i, h := range heads {
		n := len([]rune(h))
		if n > width {
			fmt.Fprintf(b, "  %s\n", h)
			writeWrapped(b, texts[i], indent, indent)
			continue
		}
		writeWrapped(b, texts[i], "  "+h+strings.Repeat(" ", width-n+2), indent)
	}
}

// writeWrapped prints text in lines of at most helpWidth columns. first is the indent of the
// first line, and indent that of the other lines.
func writeWrapped(b *strings.Builder, text, first, indent string) {
	line, empty := first, true
	for _, word := range strings.Fields(text) {
		if !empty && len([]rune(line))+1+len([]rune(word)) > helpWidth {
			b.WriteString(line + "\n")
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	b.WriteString(line + "\n")
}
