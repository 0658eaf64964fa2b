// Package command implements the command attach. It checks the arguments, calls the library
// that does the work, and prints the results.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach/internal/audit/engine"
	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	"github.com/attach-uncertainty/attach/internal/version"
)

// defaultGrace is the time that an interrupted command has to end by itself. A command can
// extend it with setGrace.
const defaultGrace = time.Second

// graceKey is the key under which a context holds the grace time as an *atomic.Int64.
type graceKey struct{}

// setGrace sets the time that the command of a context has to end by itself after an
// interrupt.
func setGrace(ctx context.Context, grace time.Duration) {
	if g, ok := ctx.Value(graceKey{}).(*atomic.Int64); ok {
		g.Store(int64(grace))
	}
}

// Main ends the process with the status that run returns. An interrupt cancels the context
// of run. If run does not return in time, Main ends the process.
func Main(run func(ctx context.Context) int) {
	var grace atomic.Int64
	grace.Store(int64(defaultGrace))
	ctx, _ := signal.NotifyContext(context.WithValue(context.Background(), graceKey{}, &grace), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		// Some work cannot be cancelled: loading a model, running an operator, and reading
		// from an idle pipe. Therefore the process ends after some time.
		time.Sleep(time.Duration(grace.Load()))
		fmt.Fprintln(os.Stderr, interrupted)
		os.Exit(exitFailed)
	})
	os.Exit(run(ctx))
}

// Exit statuses of the command.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitGate   = 3
)

const interrupted = "attach: interrupted; nothing unfinished was left behind"

// Run executes the command and returns its exit status. args exclude the program's name.
// The status is 0 for success, 1 for a failure, 2 for wrong usage and 3 for a failed gate.
// Results go to stdout. Notes, progress and the error go to stderr.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	stdout, stderr = escapeOnTerminal(stdout), escapeOnTerminal(stderr)
	defer closeTerminals(stdout, stderr)
	return status(ctx, run(ctx, newApp(stdin, stdout, stderr), args), stderr)
}

// status prints an error and returns its exit status.
func status(ctx context.Context, err error, stderr io.Writer) int {
	if err == nil {
		return exitDone
	}
	if ctx.Err() != nil && isInterrupt(err) {
		if errors.As(err, &engine.ResumableError{}) {
			fmt.Fprintln(stderr, "attach: interrupted; "+engine.ResumeAdvice)
		} else {
			fmt.Fprintln(stderr, interrupted)
		}
		return exitFailed
	}
	fmt.Fprintf(stderr, "attach: %s\n", errorText(err))
	var usage *usageError
	var gate *gateError
	switch {
	case errors.As(err, &usage):
		for i, line := range strings.Split(usage.usage, "\n") {
			if usage.usage != "" {
				fmt.Fprintln(stderr, []string{"Usage: ", "       "}[min(i, 1)]+line)
			}
		}
		return exitUsage
	case errors.As(err, &gate):
		return exitGate
	}
	return exitFailed
}

// isInterrupt reports whether an error may be due to an interrupt. An interrupt also closes
// files that are being written.
func isInterrupt(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, atomicfile.ErrAborted) || errors.Is(err, fs.ErrClosed)
}

func run(ctx context.Context, app *cli.App, args []string) error {
	if n := len(args) - 1; n >= 0 && args[n] == completionFlag {
		args = slices.Clone(args)
		if n > 0 && args[n-1] == "--" {
			args[n-1] = "-" // treat -- as the beginning of a flag
		}
		if slices.Contains(args, "--") {
			return nil // shells complete the file names after --; the library would run the command
		}
		return app.RunContext(ctx, append([]string{app.Name}, args...))
	}
	if len(args) == 0 || asksForHelp(args) {
		return printHelp(app, args)
	}
	if _, c, _ := findCommand(app, args); c == nil && args[0] != "--version" {
		return unknownCommand(app, args[0])
	}
	return app.RunContext(ctx, append([]string{app.Name}, args...))
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *cli.App {
	app := &cli.App{
		Name:      "attach",
		Usage:     "calibrated uncertainty for trained ONNX models",
		UsageText: "attach COMMAND [arguments]",
		Version:   version.String(),
		Reader:    stdin,
		Writer:    stdout,
		ErrWriter: stderr,
		// The library's default handler would call os.Exit.
		ExitErrHandler: func(*cli.Context, error) {},
		HideHelp:       true,

		EnableBashCompletion: true,
		Commands: []*cli.Command{
			inspectCommand(),
			fitCommand(),
			predictCommand(),
			evaluateCommand(),
			exportCommand(),
			verifyCommand(),
			auditCommand(nil),
			mergeCommand(),
			serveCommand(),
			compareCommand(),
			featuresCommand(),
			gradientCommand(),
			methodsCommand(),
			runtimeCommand(),
			demoCommand(),
			completionCommand(),
			versionCommand(),
		},
	}
	app.BashComplete = completeWords(app.Commands, nil, append([]string{"help"}, namesOfTopics()...))
	return app
}
