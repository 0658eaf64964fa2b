// Command attach adds calibrated uncertainty to a trained model in ONNX format. Run it
// without arguments for help.
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
