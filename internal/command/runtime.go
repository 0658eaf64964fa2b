package command

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach/internal/onnx/ort"
)

// showing is a call of attach runtime.
type showing struct {
	table
	place
	json bool
}

func runtimeCommand() *cli.Command {
	v := &showing{}
	v.table = join(table{{name: "json", to: &v.json, usage: "print JSON"}}, v.runtimeOptions())
	return v.command(cli.Command{
		Name:      "runtime",
		Usage:     "show or install the ONNX Runtime library",
		UsageText: "attach runtime [--json]\nattach runtime install [--gpu]",
		Description: "Shows which libonnxruntime is used, its version, where it came from and what was passed over. It is " +
			"looked for at --ort-lib, $ORT_LIB, in the user cache and in the system's library folders; else the " +
			"pinned version is installed into the user cache with npm or pip and checked against its sha256.",
		Subcommands: []*cli.Command{installCommand()},
	}, argument{}, v.log, v.run)
}

func installCommand() *cli.Command {
	var gpu, verbose bool
	return table{
		{name: "gpu", to: &gpu, usage: "install the library that has the CUDA provider"},
		verboseOption(&verbose),
	}.command(cli.Command{
		Name:      "install",
		Usage:     "install the pinned library into the user cache",
		UsageText: "attach runtime install [--gpu]",
	}, argument{}, func(c *cli.Context) error {
		lib, err := ort.Install(c.Context, ort.InstallOptions{GPU: gpu, Log: logger(c.App.ErrWriter, verbose)})
		if err != nil {
			return err
		}
		_, err = printf(c.App.Writer, "%s (version %s, %s)\n", lib.Path, lib.Version, lib.Source)
		return err
	})
}

func (v *showing) run(c *cli.Context) error {
	o := ort.Options(v.Runtime)
	o.NoInstall = true
	_, seen, err := ort.Find(c.Context, o)
	if err != nil && !errors.Is(err, ort.ErrNotFound) {
		return err
	}
	view := struct {
		Library    string          `json:"library"`
		Version    string          `json:"version"`
		Source     string          `json:"source"`
		Providers  []string        `json:"providers"`
		Provider   string          `json:"provider"`
		CUDA       string          `json:"cuda"`
		Candidates []ort.Candidate `json:"candidates"`
	}{Providers: []string{}, Candidates: append([]ort.Candidate{}, seen...)}
	if err == nil {
		r, err := ort.Open(c.Context, o)
		if err != nil {
			return err
		}
		defer r.Close()
		lib := r.Library()
		view.Library, view.Version, view.Source = lib.Path, lib.Version, lib.Source
		view.Providers, view.Provider, view.CUDA = r.Providers(), r.Provider(), "usable"
		if err := r.CUDA(); err != nil {
			view.CUDA = hinted(err, func(string) bool { return true }).Error()
		}
	}
	option := strings.NewReplacer(ort.Named, "--ort-lib")
	view.Source = option.Replace(view.Source)
	for i, s := range view.Candidates {
		view.Candidates[i].Source = option.Replace(s.Source)
	}
	if v.json {
		return writeJSON(c.App.Writer, view)
	}
	w := &strings.Builder{}
	if view.Library == "" {
		fmt.Fprintln(w, "library    none found; the first command that needs one installs it, as does `attach runtime install`")
	} else {
		printf(w, "library    %s\nversion    %s\nfrom       %s\nproviders  %s (used: %s)\n", view.Library, view.Version, view.Source, strings.Join(view.Providers, ", "), view.Provider)
		printf(w, "cuda       %s\n", view.CUDA)
	}
	for _, s := range view.Candidates {
		if !s.Used {
			printf(w, "passed over  %s (%s): %s\n", s.Path, s.Source, s.Reason)
		}
	}
	_, err = io.WriteString(c.App.Writer, w.String())
	return err
}
