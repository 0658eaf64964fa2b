package command

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

// Main ends the process with the status that run returns, or when it is interrupted.
func Main(run func(ctx context.Context) int) {
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		// The runtime heeds nobody while it loads a model or is in the middle of
		// an operator, nor does a pipe that nobody writes to.
		time.Sleep(grace)
		fmt.Fprintln(os.Stderr, interrupted)
		os.Exit(exitFailed)
	})
	os.Exit(run(ctx))
}
