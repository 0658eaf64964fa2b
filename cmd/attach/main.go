// Command attach adds calibrated uncertainty to a network that is already
// trained and exported to ONNX. Run it without arguments for help.
package main

import (
	"context"
	"os"

	"github.com/attach-uncertainty/attach/internal/command"
)

func main() {
	command.Main(func(ctx context.Context) int {
		return command.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	})
}
