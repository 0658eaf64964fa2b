package command

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// helpWidth is the column at which help is wrapped.
const helpWidth = 100

// firstSteps are calls to begin with.
const firstSteps = `attach demo
attach fit model.onnx --x train.npz --preprocess prep.json -o model.attach
attach predict model.attach --x new.npz -o predictions.csv
`

// asksForHelp says whether args ask for help on the command they name: by
// -h, by --help or by `attach help COMMAND`.
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

// help prints the help of the command that args name, or of the program.
func help(app *cli.App, args []string) error {
	if len(args) > 0 && args[0] == "help" {
		args = args[1:]
	}
	var b strings.Builder
	names, command, args := named(app, args)
	if command == nil {
		if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
			return unknown(app, args[0])
		}
		programHelp(&b, app)
	} else {
		commandHelp(&b, strings.Join(append([]string{app.Name}, names...), " "), command)
	}
	_, err := io.WriteString(app.Writer, b.String())
	return err
}

// named is the command that args begin with, by its names, and what follows it.
func named(app *cli.App, args []string) (names []string, command *cli.Command, rest []string) {
	for commands := app.Commands; len(args) > 0; commands, args = command.Subcommands, args[1:] {
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(args[0]) })
		if i < 0 {
			break
		}
		names, command = append(names, args[0]), commands[i]
	}
	return names, command, args
}

func unknown(app *cli.App, arg string) error {
	if strings.HasPrefix(arg, "-") {
		return usagef("%s has no flag %s; see `%[1]s --help`", app.Name, arg)
	}
	if name := meant(arg, namesOfCommands(app.Commands)); name != "" {
		return usagef("there is no command %q; did you mean %s? `attach --help` lists them", arg, name)
	}
	return usagef("there is no command %q; `attach --help` lists them", arg)
}

func programHelp(b *strings.Builder, app *cli.App) {
	fmt.Fprintf(b, "%s: %s\n\nUsage:\n  %s\n\nCommands:\n", app.Name, app.Usage, app.UsageText)
	commandList(b, app.Commands)
	b.WriteString("\nTo begin with:\n")
	for line := range strings.Lines(firstSteps) {
		b.WriteString("  " + line)
	}
	fmt.Fprintf(b, "\n`%[1]s COMMAND --help` says more about one; `%[1]s --version` prints the version.\n", app.Name)
}

func commandHelp(b *strings.Builder, name string, c *cli.Command) {
	fmt.Fprintf(b, "%s: %s\n\nUsage:\n", name, c.Usage)
	for line := range strings.Lines(c.UsageText) {
		fmt.Fprintf(b, "  %s\n", strings.TrimSpace(line))
	}
	if c.Description != "" {
		for paragraph := range strings.SplitSeq(c.Description, "\n\n") {
			b.WriteString("\n")
			writeWrapped(b, paragraph, "", "")
		}
	}
	if len(c.Subcommands) > 0 {
		b.WriteString("\nCommands:\n")
		commandList(b, c.Subcommands)
	}
	flagList(b, c.Flags)
}

// flagList prints flags, those that commands share after the command's own and
// each kind of them under its own head.
func flagList(b *strings.Builder, flags []cli.Flag) {
	for _, under := range []string{"", underRows, underModel, underRuntime} {
		var heads, texts []string
		for _, f := range flags {
			if o := f.(*option); o.head == under {
				head, text := o.describe()
				heads, texts = append(heads, head), append(texts, text)
			}
		}
		if len(heads) > 0 {
			fmt.Fprintf(b, "\n%s:\n", cmp.Or(under, "Flags"))
			definitions(b, heads, texts)
		}
	}
}

func commandList(b *strings.Builder, commands []*cli.Command) {
	var heads, texts []string
	for _, c := range commands {
		heads, texts = append(heads, c.Name), append(texts, c.Usage)
	}
	definitions(b, heads, texts)
}

// describe returns a flag as it is typed, and what it does. Its usage begins
// with what stands for its value.
func (o *option) describe() (head, text string) {
	head, text = dashed(o.name), o.usage
	if o.name == "verbose" {
		head = "-v, " + head
	}
	if o.stands() {
		return head, text
	}
	value, text, _ := strings.Cut(o.usage, ": ")
	if standard := o.String(); standard != "" && standard != "0" {
		text += fmt.Sprintf(" (default: %s)", standard)
	}
	return head + " " + value, text
}

// definitions prints each head with its text beside it.
func definitions(b *strings.Builder, heads, texts []string) {
	const most = 22
	width := 0
	for _, h := range heads {
		if n := len([]rune(h)); n <= most {
			width = max(width, n)
		}
	}
	hang := strings.Repeat(" ", width+4)
	for i, h := range heads {
		n := len([]rune(h))
		if n > width {
			fmt.Fprintf(b, "  %s\n", h)
			writeWrapped(b, texts[i], hang, hang)
			continue
		}
		writeWrapped(b, texts[i], "  "+h+strings.Repeat(" ", width-n+2), hang)
	}
}

// writeWrapped prints words in lines of at most helpWidth columns.
func writeWrapped(b *strings.Builder, text, first, hang string) {
	line, empty := first, true
	for _, word := range strings.Fields(text) {
		if !empty && len([]rune(line))+1+len([]rune(word)) > helpWidth {
			b.WriteString(line + "\n")
			line, empty = hang, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	b.WriteString(line + "\n")
}
