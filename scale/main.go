// Command scale runs attach audit as an Apache Beam pipeline. It accepts the flags of
// attach audit and of Beam. By default it scores in this process, on Beam's Prism runner.
// Beam's flags can select another runner, for example:
//
//	scale model.attach --x 's3://bucket/day-*.parquet' -o audit --runner=flink --endpoint=localhost:8099
//
// The results have the same bytes as the results of attach audit. The inputs and -o may be
// URLs of object storage.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"

	"github.com/attach-uncertainty/attach/internal/command"
)

func main() {
	registerTypes()
	if runWorker() {
		return
	}
	command.Main(func(ctx context.Context) int {
		code, err := run(ctx, os.Args[1:])
		if err != nil {
			fmt.Fprintf(os.Stderr, "attach: %v\n", err)
			return 1
		}
		return code
	})
}

// run runs the audit in a process that is not a worker.
func run(ctx context.Context, args []string) (code int, err error) {
	args, beamArgs := splitArgs(args)
	if err := flag.CommandLine.Parse(beamArgs); err != nil {
		return 0, err
	}
	if err := setWorkerDefaults(); err != nil {
		return 0, err
	}
	beam.Init()
	level, verbose := "error", slices.Contains(args, "--verbose")
	if verbose {
		level = "info"
	}
	log.SetupLogging(level, "text")
	if *jobopts.Async {
		return 0, errors.New("--async has no meaning: the audit is merged after the job; leave it out")
	}
	if err := checkJobServer(ctx, *jobopts.Endpoint, jobServerWait); err != nil {
		return 0, err
	}
	defer removeCopies()
	e, err := newPipeline(ctx, newStorage(), args)
	if err != nil {
		return 0, err
	}
	var stdout bytes.Buffer
	var stderr io.Writer = os.Stderr
	if e.cloud != "" {
		stderr = urlWriter{e}
	}
	if verbose {
		e.log = stderr
	}
	code = command.RunAudit(ctx, e.args, &stdout, stderr, e)
	if err := e.finish(ctx); err != nil {
		return 0, err
	}
	_, err = io.WriteString(os.Stdout, e.withURL(stdout.String()))
	return code, err
}

// jobServerWait is how long a job server may take to answer. Beam itself waits two minutes, and
// only after the program has read the model.
const jobServerWait = 5 * time.Second

// checkJobServer returns an error if no job server answers at the endpoint in time. An empty
// endpoint needs no job server.
func checkJobServer(ctx context.Context, endpoint string, wait time.Duration) error {
	if endpoint == "" {
		return nil
	}
	connection, err := grpcx.Dial(ctx, endpoint, wait)
	if err != nil {
		return cmp.Or(ctx.Err(), fmt.Errorf("no job server answered at %s within %v; start Beam's job server there, or correct --endpoint", endpoint, wait))
	}
	return connection.Close()
}

// splitArgs separates the flags of Beam from all other arguments.
func splitArgs(args []string) (attachArgs, beamArgs []string) {
	for i := 0; i < len(args); i++ {
		name, _, hasValue := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		f := flag.Lookup(name)
		if !strings.HasPrefix(args[i], "--") || f == nil {
			attachArgs = append(attachArgs, args[i])
			continue
		}
		b, ok := f.Value.(interface{ IsBoolFlag() bool })
		if hasValue || ok && b.IsBoolFlag() || i+1 == len(args) {
			beamArgs = append(beamArgs, args[i])
			continue
		}
		beamArgs = append(beamArgs, args[i]+"="+args[i+1])
		i++
	}
	return attachArgs, beamArgs
}

// inThisProcess reports whether the flags of Beam select the runner Prism in this process.
func inThisProcess() bool {
	return slices.Contains([]string{"", "prism", "PrismRunner"}, *runners.Runner) && *jobopts.Endpoint == ""
}

// setWorkerDefaults makes a remote runner start this program for each of its workers. Beam's
// own flags take precedence.
func setWorkerDefaults() error {
	if inThisProcess() {
		return nil
	}
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	if *jobopts.WorkerBinary == "" {
		*jobopts.WorkerBinary = executable
	}
	if *jobopts.EnvironmentType == "" {
		*jobopts.EnvironmentType = "PROCESS"
	}
	if strings.EqualFold(*jobopts.EnvironmentType, "process") && *jobopts.EnvironmentConfig == "" {
		*jobopts.EnvironmentConfig = fmt.Sprintf(`{"command": %q}`, executable)
	}
	return nil
}
