// Package experiment provides what all experiments share. It has the command line, jobs
// with progress reports, and a store of results that survives an interrupted run. It also
// has row splits and figures.
package experiment

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/heads/fit"
	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
)

// Experiment describes a table or a figure that the command can reproduce.
type Experiment struct {
	Name, Doc string
	// Shared lists the shared flags that this experiment accepts.
	Shared []string
	// OptionalData reports whether parts of the experiment run without --data. Such an
	// experiment must itself report which part needs the folder.
	OptionalData bool
	// Resumes reports whether the experiment saves each result in --out as soon as it is
	// measured, and does not measure saved results again.
	Resumes bool
	// New defines the experiment's own flags. It returns the function that runs the
	// experiment after the flags are parsed.
	New func(flags *flag.FlagSet, shared *Settings) func(ctx context.Context) error
}

// Settings holds the values of the shared flags, and resources that Main opens for them.
type Settings struct {
	Data, Models string
	Sets         []string // nil means all
	MethodNames  []string // nil means all
	Seeds        int
	Epochs       int // 0 means that the experiment chooses the number
	Parallel     int
	Out, Library string
	Trainer      train.Trainer // only set for experiments with --ort-lib
	Stdout       io.Writer
	Stderr       io.Writer
}

func (e Experiment) accepts(flag string) bool { return slices.Contains(e.Shared, flag) }

// define defines the shared flags that e accepts.
func (e Experiment) define(flags *flag.FlagSet, s *Settings) {
	for _, name := range e.Shared {
		switch name {
		case "data":
			flags.StringVar(&s.Data, name, os.Getenv("ATTACH_DATA"), "`folder` of the data sets (default $ATTACH_DATA)")
		case "models":
			flags.StringVar(&s.Models, name, "", "`folder` of the trained networks (default: models beside the data)")
		case "sets":
			listFlag(flags, &s.Sets, name, "only these data sets, `a,b`")
		case "methods":
			listFlag(flags, &s.MethodNames, name, "only these methods, `a,b`")
		case "seeds":
			flags.IntVar(&s.Seeds, name, 20, "number of random splits")
		case "epochs":
			flags.IntVar(&s.Epochs, name, 0, "passes over the rows (0: by their number)")
		case "parallel":
			flags.IntVar(&s.Parallel, name, 1, "`jobs` at once")
		case "out":
			usage := "`folder` for results, tables and pictures"
			if e.Resumes {
				usage += "; results in it are not measured again"
			}
			flags.StringVar(&s.Out, name, "out/"+e.Name, usage)
		case "ort-lib":
			flags.StringVar(&s.Library, name, "", "use this libonnxruntime `file`")
		default:
			panic("experiment: no flag " + name + " is shared")
		}
	}
}

func listFlag(flags *flag.FlagSet, dst *[]string, name, usage string) {
	flags.Func(name, usage, func(text string) error {
		*dst = strings.Split(text, ",")
		return nil
	})
}

// Redefine changes the default and the usage text of a flag.
func Redefine(flags *flag.FlagSet, name, value, usage string) {
	f := flags.Lookup(name)
	if err := f.Value.Set(value); err != nil {
		panic(err)
	}
	f.DefValue, f.Usage = value, usage
}

// usageError reports a mistake in the command line.
type usageError struct{ error }

// Usagef returns an error that ends the command with exit status 2.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Main runs the experiment that args[0] names. It returns the exit status: 0 for success, 1
// for a failure and 2 for wrong usage.
func Main(ctx context.Context, experiments []Experiment, args []string, stdout, stderr io.Writer) int {
	err := run(ctx, experiments, args, &Settings{Stdout: stdout, Stderr: stderr})
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintln(stderr, "reproduce:", err)
	if errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}

func run(ctx context.Context, experiments []Experiment, args []string, s *Settings) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		fmt.Fprintln(s.Stderr, "usage: reproduce NAME [flags]")
		for _, e := range experiments {
			fmt.Fprintf(s.Stderr, "  %-12s %s\n", e.Name, e.Doc)
		}
		if len(args) > 0 && slices.Contains([]string{"-h", "-help", "--help"}, args[0]) {
			return flag.ErrHelp
		}
		return Usagef("name an experiment")
	}
	chosen, err := Choose("", "experiment", args[:1], experiments, func(e Experiment) string { return e.Name })
	if err != nil {
		return err
	}
	e := chosen[0]
	flags := flag.NewFlagSet("reproduce "+e.Name, flag.ContinueOnError)
	var usage strings.Builder
	flags.SetOutput(&usage)
	e.define(flags, s)
	measure := e.New(flags, s)
	if err := flags.Parse(args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			io.WriteString(s.Stderr, usage.String())
			return err
		}
		if name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); unknown {
			return Usagef("%s has no flag --%s: `reproduce %[1]s --help` lists those it has", e.Name, name)
		}
		return Usagef("%w", err)
	}
	switch {
	case flags.NArg() > 0:
		return Usagef("what is %q? flags begin with a dash", flags.Arg(0))
	case e.accepts("data") && s.Data == "" && !e.OptionalData:
		return Usagef("say where the data sets are with --data")
	case e.accepts("seeds") && s.Seeds < 1 || s.Epochs < 0:
		return Usagef("--seeds must be at least 1 and --epochs not negative")
	case e.accepts("parallel") && s.Parallel < 1:
		return Usagef("--parallel is at least 1, not %d", s.Parallel)
	}
	if err := Distinct("--sets", s.Sets); err != nil {
		return err
	}
	if s.Models == "" {
		s.Models = filepath.Join(s.Data, "..", "models")
	}
	if e.accepts("ort-lib") {
		options := fit.Options{Library: s.Library}
		if s.Parallel > 1 {
			options.Threads = 1
		}
		engine, err := fit.New(ctx, options)
		if err != nil {
			return err
		}
		defer engine.Close()
		s.Trainer = engine
	}
	if e.accepts("models") {
		// These networks have many features, so ONNX Runtime computes large matrix
		// products.
		runtime, err := ort.Open(ctx, ort.Options{Library: s.Library})
		if err != nil {
			return err
		}
		defer runtime.UseBLAS()()
	}
	err = measure(ctx)
	if e.Resumes && errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted: results so far are in %s; run the same command again to continue", s.Out)
	}
	return err
}

// Numbers parses a flag's comma-separated numbers.
func Numbers(flag, text string) ([]float64, error) {
	var list []float64
	for field := range strings.SplitSeq(text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		if err != nil {
			return nil, Usagef("%s wants numbers separated by commas: %q is not a number", flag, field)
		}
		list = append(list, v)
	}
	return list, nil
}

// Distinct returns an error if a flag contains a value twice, because the experiment would
// measure and count it twice.
func Distinct[T comparable](flag string, named []T) error {
	for i, v := range named {
		if slices.Contains(named[:i], v) {
			return Usagef("%s names %v twice", flag, v)
		}
	}
	return nil
}

// Choose selects elements of the slice all by their names, and returns them in the order of
// names. If names is nil, it returns the whole slice. The first function in nameOf gives an
// element's name, and the others give its aliases. flag is the name of the flag in error
// messages.
func Choose[T any](flag, kind string, names []string, all []T, nameOf ...func(T) string) ([]T, error) {
	if names == nil {
		return all, nil
	}
	var chosen []T
	for _, name := range names {
		i := slices.IndexFunc(all, func(v T) bool {
			return slices.ContainsFunc(nameOf, func(alias func(T) string) bool { return alias(v) == name })
		})
		if i < 0 {
			known := make([]string, len(all))
			for i, v := range all {
				known[i] = nameOf[0](v)
			}
			return nil, Usagef("there is no %s %q: choose among %s", kind, name, strings.Join(known, ", "))
		}
		chosen = append(chosen, all[i])
	}
	named := make([]string, len(chosen))
	for i, v := range chosen {
		named[i] = nameOf[0](v)
	}
	return chosen, Distinct(flag, named)
}
