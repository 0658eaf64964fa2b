// Command attach adds calibrated uncertainty to a network that is already
// trained and exported to ONNX. Run it without arguments for help.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// grace is how long an interrupted command may take to end by itself.
const grace = time.Second

func main() {
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		// The runtime heeds nobody while it loads a model or is in the middle of
		// an operator, nor does a pipe that nobody writes to.
		time.Sleep(grace)
		fmt.Fprintln(os.Stderr, interrupted)
		os.Exit(exitFailed)
	})
	code := Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	os.Exit(code)
}
