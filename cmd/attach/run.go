package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/urfave/cli/v2"
)

// Exit codes of the command.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

const interrupted = "attach: interrupted; nothing unfinished was left behind"

// Run executes the command with args, which exclude the program's name, and
// returns the exit code: 0 done, 1 failed, 2 wrong usage. Results go to
// stdout; one line that says what went wrong, notes and progress go to stderr.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := run(ctx, args, stdin, stdout, stderr)
	if err == nil {
		return exitDone
	}
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, interrupted)
		return exitFailed
	}
	fmt.Fprintf(stderr, "attach: %s\n", sentence(err))
	var usage *usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	app := newApp(stdin, stdout, stderr)
	if len(args) == 0 || asksForHelp(args) {
		return help(stdout, app, args)
	}
	return app.RunContext(ctx, append([]string{app.Name}, flagsFirst(app, args)...))
}

// longest is how many bytes of an error are printed, whose names and lists may
// be as long as a model wants.
const longest = 4000

// sentence is the text of an error on one line, without the system call that
// failed.
func sentence(err error) string {
	text := err.Error()
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		text = strings.Replace(text, pathErr.Error(), pathErr.Path+": "+pathErr.Err.Error(), 1)
	}
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	text = strings.Join(lines, "; ")
	// What to do about it stands at the end.
	if len(text) > longest {
		text = text[:longest/2] + " … " + text[len(text)-longest/2:]
	}
	return printable(text)
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *cli.App {
	return &cli.App{
		Name:      "attach",
		Usage:     "calibrated uncertainty for networks that are already trained",
		UsageText: "attach COMMAND [arguments]",
		Version:   version(),
		Reader:    stdin,
		Writer:    stdout,
		ErrWriter: stderr,
		// The default handler calls os.Exit.
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   onUsageError,
		HideHelp:       true,
		Commands: []*cli.Command{
			inspectCommand(),
			fitCommand(),
			predictCommand(),
			compareCommand(),
			featuresCommand(),
			gradientCommand(),
			methodsCommand(),
			runtimeCommand(),
			demoCommand(),
		},
		Action: func(c *cli.Context) error { return unknownCommand(c.Args().First()) },
	}
}

// flagsFirst moves flags that follow positional arguments in front of them: the
// flag parser stops at the first positional argument and would pass over the
// rest in silence.
func flagsFirst(app *cli.App, args []string) []string {
	var head []string
	commands, flags := app.Commands, []cli.Flag(nil)
	for len(args) > 0 {
		c := findCommand(commands, args[0])
		if c == nil {
			break
		}
		head = append(head, args[0])
		args, commands, flags = args[1:], c.Subcommands, c.Flags
	}
	if len(head) == 0 {
		return args
	}
	takesValue := map[string]bool{}
	for _, f := range flags {
		for _, name := range f.Names() {
			takesValue[name] = !f.(*option).IsBoolFlag()
		}
	}
	isFlag := func(arg string) bool {
		name := strings.TrimLeft(arg, "-")
		_, known := takesValue[name]
		return known && name != arg
	}
	var positional []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			positional = append(positional, args[i+1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			positional = append(positional, arg)
			continue
		}
		head = append(head, arg)
		name, _, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !takesValue[name] || hasValue {
			continue
		}
		if i++; i == len(args) || isFlag(args[i]) {
			// The parser sees the end and says that the value is missing.
			return head
		}
		head = append(head, args[i])
	}
	if len(positional) > 0 {
		head = append(append(head, "--"), positional...)
	}
	return head
}

func findCommand(commands []*cli.Command, name string) *cli.Command {
	for _, c := range commands {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}
