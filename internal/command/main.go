package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// grace is how long an interrupted command may take to end by itself, unless it says
// otherwise.
const grace = time.Second

// graceKey is what a context has the *atomic.Int64 by that holds it.
type graceKey struct{}

// allow lets the command of a context take that long to end.
func allow(ctx context.Context, grace time.Duration) {
	if g, ok := ctx.Value(graceKey{}).(*atomic.Int64); ok {
		g.Store(int64(grace))
	}
}

// Main ends the process with the status that run returns, or when it is interrupted.
func Main(run func(ctx context.Context) int) {
	var allowed atomic.Int64
	allowed.Store(int64(grace))
	ctx, _ := signal.NotifyContext(context.WithValue(context.Background(), graceKey{}, &allowed), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		// The runtime heeds nobody while it loads a model or is in the middle of
		// an operator, nor does a pipe that nobody writes to.
		time.Sleep(time.Duration(allowed.Load()))
		fmt.Fprintln(os.Stderr, interrupted)
		os.Exit(exitFailed)
	})
	os.Exit(run(ctx))
}
