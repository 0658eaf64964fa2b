// Command scale is attach audit as an Apache Beam pipeline: it takes the same flags,
// and scores on Prism, in this process, or where Beam's own flags say, such as
//
//	scale model.attach --x 's3://bucket/day-*.parquet' -o audit --runner=flink --endpoint=localhost:8099
//
// What it writes is what attach audit writes, to the byte. Paths and -o may be URLs of
// object storage.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners"

	"github.com/attach-uncertainty/attach/internal/command"
)

func main() {
	registered()
	if work() {
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

// run is the program where it is no worker.
func run(ctx context.Context, args []string) (code int, err error) {
	args, ofBeam := divide(args)
	if err := flag.CommandLine.Parse(ofBeam); err != nil {
		return 0, err
	}
	if err := standard(); err != nil {
		return 0, err
	}
	beam.Init()
	level := "error"
	if slices.Contains(args, "--verbose") {
		level = "info"
	}
	log.SetupLogging(level, "text")
	defer removeCopies()
	e, err := newPipeline(ctx, newStorage(), args)
	if err != nil {
		return 0, err
	}
	var says bytes.Buffer
	var stderr io.Writer = os.Stderr
	if e.cloud != "" {
		stderr = naming{e}
	}
	code = command.RunAudit(ctx, e.args, &says, stderr, e)
	if err := e.finish(ctx); err != nil {
		return 0, err
	}
	_, err = io.WriteString(os.Stdout, e.named(says.String()))
	return code, err
}

// divide separates the flags that Beam defines from others.
func divide(args []string) (ours, ofBeam []string) {
	for i := 0; i < len(args); i++ {
		name, _, given := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		f := flag.Lookup(name)
		if !strings.HasPrefix(args[i], "--") || f == nil {
			ours = append(ours, args[i])
			continue
		}
		stands, is := f.Value.(interface{ IsBoolFlag() bool })
		if given || is && stands.IsBoolFlag() || i+1 == len(args) {
			ofBeam = append(ofBeam, args[i])
			continue
		}
		ofBeam = append(ofBeam, args[i]+"="+args[i+1])
		i++
	}
	return ours, ofBeam
}

// standard has workers be processes of this very program, wherever the runner has them
// started, where Beam's flags do not say otherwise.
func standard() error {
	if slices.Contains([]string{"", "prism", "PrismRunner"}, *runners.Runner) && *jobopts.Endpoint == "" {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if *jobopts.WorkerBinary == "" {
		*jobopts.WorkerBinary = self
	}
	if *jobopts.EnvironmentType == "" {
		*jobopts.EnvironmentType = "PROCESS"
	}
	if strings.EqualFold(*jobopts.EnvironmentType, "process") && *jobopts.EnvironmentConfig == "" {
		*jobopts.EnvironmentConfig = fmt.Sprintf(`{"command": %q}`, self)
	}
	return nil
}
