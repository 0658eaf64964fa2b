package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/apache/beam/sdks/v2/go/container/tools"
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"
)

// runWorker runs this process as a worker if a runner started it as one. It reports whether
// this is the case. runWorker replaces Beam's boot program, but does not fetch the worker
// program, because this process is that program. A runner's PROCESS environment can
// therefore start it directly.
func runWorker() bool {
	boot := flag.NewFlagSet("worker", flag.ContinueOnError)
	boot.SetOutput(io.Discard)
	id := boot.String("id", "", "")
	logging := boot.String("logging_endpoint", "", "")
	control := boot.String("control_endpoint", "", "")
	provision := boot.String("provision_endpoint", "", "")
	boot.String("artifact_endpoint", "", "")
	if err := boot.Parse(os.Args[1:]); err != nil || *id == "" || *provision == "" {
		return false
	}
	endWithParent()
	ctx := grpcx.WriteWorkerID(context.Background(), *id)
	info, err := tools.ProvisionInfo(ctx, *provision)
	if err != nil {
		fmt.Fprintf(os.Stderr, "attach: the runner at %s sends no provision info: %v\n", *provision, err)
		os.Exit(1)
	}
	if url := info.GetLoggingEndpoint().GetUrl(); url != "" {
		*logging = url
	}
	if url := info.GetControlEndpoint().GetUrl(); url != "" {
		*control = url
	}
	options, err := tools.ProtoToJSON(info.GetPipelineOptions())
	if err == nil {
		err = os.Setenv("RUNNER_CAPABILITIES", strings.Join(info.GetRunnerCapabilities(), " "))
	}
	if err == nil {
		err = flag.CommandLine.Parse([]string{"--worker", "--id=" + *id, "--logging_endpoint=" + *logging, "--control_endpoint=" + *control, "--options=" + options})
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "attach: %v\n", err)
		os.Exit(1)
	}
	beam.Init() // runs the worker and exits
	return true
}

// endWithParent ends this process on a signal or when its parent process ends. Otherwise, a
// killed runner would leave its workers behind.
func endWithParent() {
	parent := os.Getppid()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		for os.Getppid() == parent {
			select {
			case <-signals:
				removeCopies()
				os.Exit(0)
			case <-time.After(time.Second):
			}
		}
		removeCopies()
		os.Exit(1)
	}()
}
