package command

import (
	"runtime"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach/internal/version"
)

func versionCommand() *cli.Command {
	return table{}.command(cli.Command{
		Name:               "version",
		Usage:              "print the version of attach and of Go",
		UsageText:          "attach version",
		Description:        "Prints the version of attach, of the Go release that compiled it, and the platform. `attach runtime` prints the version of ONNX Runtime. Name both in a bug report.",
		CustomHelpTemplate: "attach version",
	}, argument{}, func(c *cli.Context) error {
		_, err := printf(c.App.Writer, "attach version %s\n%s %s/%s\n", version.String(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return err
	})
}
