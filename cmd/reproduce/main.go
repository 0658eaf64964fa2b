// Command reproduce runs experiments on real data sets, and on toys, and prints
// their tables.
//
//	go run ./cmd/reproduce NAME --data DIR
//
// Run it without arguments for the names. The data sets are fetched from their
// publishers by the user; see each experiment for the files it reads.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/heads/fit"
)

// experiment is one table or figure.
type experiment struct {
	name string
	doc  string
	// uses names the flags that it has of those that experiments share.
	uses []string
	// flags, if not nil, defines flags of its own.
	flags func(flags *flag.FlagSet, s *settings)
	// optionalData says that some of it runs without --data, and that it says
	// itself what for it wants the folder.
	optionalData bool
	run          func(ctx context.Context, s settings) error
}

// has says whether it has one of the flags that experiments share.
func (e experiment) has(flag string) bool { return slices.Contains(e.uses, flag) }

// shared defines those of the flags that experiments share which e uses; sets
// is written to when they are parsed.
func (e experiment) shared(flags *flag.FlagSet, s *settings, sets *string) {
	for _, name := range e.uses {
		switch name {
		case "data":
			flags.StringVar(&s.data, name, os.Getenv("ATTACH_DATA"), "`folder` of the data sets (default $ATTACH_DATA)")
		case "models":
			flags.StringVar(&s.models, name, "", "`folder` of the trained networks (default: models beside the data)")
		case "sets":
			flags.StringVar(sets, name, "", "only these data sets, `a,b`")
		case "seeds":
			flags.IntVar(&s.seeds, name, 20, "number of random splits")
		case "epochs":
			flags.IntVar(&s.epochs, name, 0, "passes over the rows (0: by their number)")
		case "ort-lib":
			flags.StringVar(&s.library, name, "", "use this libonnxruntime `file`")
		default:
			panic("reproduce: experiments share no flag " + name)
		}
	}
}

var experiments = []experiment{
	coverageExperiment, californiaExperiment, table1Experiment, table2Experiment, sweepExperiment, starExperiment, abaloneExperiment,
	selectionExperiment, figure1Experiment, figure2Experiment, theorem1Experiment,
}

// settings are the flags, and what experiments share.
type settings struct {
	data, models string
	sets         []string // nil: all
	seeds        int
	epochs       int // 0: by the number of rows
	trainer      heads.Trainer
	library      string
	stdout       io.Writer
	stderr       io.Writer

	intervals intervalSettings
	sweep     sweepSettings
	star      starSettings
	abalone   abaloneSettings
	figure    figureSettings
	theorem1  theorem1Settings
	detection detectionSettings
	selection selectionSettings
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// errUsage is wrapped by mistakes in how the command was called.
var errUsage = errors.New("usage")

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := reproduce(ctx, args, stdout, stderr)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintln(stderr, "reproduce:", strings.TrimPrefix(err.Error(), errUsage.Error()+": "))
		return 2
	default:
		fmt.Fprintln(stderr, "reproduce:", err)
		return 1
	}
}

// numbers reads the numbers of a flag, separated by commas.
func numbers(flag, text string) ([]float64, error) {
	var list []float64
	for field := range strings.SplitSeq(text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %s wants numbers separated by commas, and %q is none", errUsage, flag, field)
		}
		list = append(list, v)
	}
	return list, nil
}

func reproduce(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		fmt.Fprintln(stderr, "usage: reproduce NAME [flags]")
		for _, e := range experiments {
			fmt.Fprintf(stderr, "  %-12s %s\n", e.name, e.doc)
		}
		if len(args) > 0 && slices.Contains([]string{"-h", "-help", "--help"}, args[0]) {
			return flag.ErrHelp
		}
		return fmt.Errorf("%w: name an experiment", errUsage)
	}
	i := slices.IndexFunc(experiments, func(e experiment) bool { return e.name == args[0] })
	if i < 0 {
		var known []string
		for _, e := range experiments {
			known = append(known, e.name)
		}
		return fmt.Errorf("%w: there is no experiment %q: choose among %s", errUsage, args[0], strings.Join(known, ", "))
	}
	e := experiments[i]
	s := settings{stdout: stdout, stderr: stderr}
	flags := flag.NewFlagSet("reproduce "+e.name, flag.ContinueOnError)
	var usage strings.Builder
	flags.SetOutput(&usage)
	var sets string
	e.shared(flags, &s, &sets)
	if e.flags != nil {
		e.flags(flags, &s)
	}
	if err := flags.Parse(args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			io.WriteString(stderr, usage.String())
			return err
		}
		if name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); unknown {
			return fmt.Errorf("%w: %s has no flag --%s: `reproduce %[2]s --help` lists those it has", errUsage, e.name, name)
		}
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("%w: what is %q? flags begin with a dash", errUsage, flags.Arg(0))
	case e.has("data") && s.data == "" && !e.optionalData:
		return fmt.Errorf("%w: say where the data sets are with --data", errUsage)
	case e.has("seeds") && s.seeds < 1 || s.epochs < 0:
		return fmt.Errorf("%w: --seeds must be at least 1 and --epochs not negative", errUsage)
	}
	if sets != "" {
		s.sets = strings.Split(sets, ",")
	}
	if err := distinct("--sets", s.sets); err != nil {
		return err
	}
	if !e.has("ort-lib") {
		return e.run(ctx, s)
	}
	options := fit.Options{Library: s.library}
	if s.intervals.parallel > 1 {
		options.Threads = 1
	}
	engine, err := fit.New(ctx, options)
	if err != nil {
		return err
	}
	defer engine.Close()
	s.trainer = engine
	return e.run(ctx, s)
}

// distinct returns an error where a flag names one thing twice, which would be
// measured twice and counted twice.
func distinct[T comparable](flag string, named []T) error {
	for i, v := range named {
		if slices.Contains(named[:i], v) {
			return fmt.Errorf("%w: %s names %v twice", errUsage, flag, v)
		}
	}
	return nil
}
