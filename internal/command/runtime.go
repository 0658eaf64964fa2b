package command

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach/internal/onnx/ort"
)

// runtimeFlags holds the flags of attach runtime.
type runtimeFlags struct {
	table
	modelFlags
	json bool
}

func runtimeCommand() *cli.Command {
	v := &runtimeFlags{}
	v.table = join(table{{name: "json", dest: &v.json, usage: "print JSON", group: groupOutput}}, v.runtimeOptions())
	return v.command(cli.Command{
		Name:        "runtime",
		Usage:       "show or install the ONNX Runtime library",
		UsageText:   "attach runtime [--json]\nattach runtime install [--gpu]",
		Description: "Shows which ONNX Runtime library is used, its version and where it was found, and why others were not used. attach looks at --ort-lib, $ORT_LIB, the user cache and the system's library folders. If none has a library, the first command that needs one installs a pinned version into the user cache with npm or pip, and checks its sha256.",
		CustomHelpTemplate: `attach runtime
# before the machine goes offline
attach runtime install`,
		Subcommands: []*cli.Command{installCommand()},
	}, argument{}, v.log, v.run)
}

func installCommand() *cli.Command {
	var gpu, verbose bool
	return table{
		{name: "gpu", dest: &gpu, usage: "install the library with the CUDA provider", group: groupRuntime},
		verboseOption(&verbose),
	}.inGroup(groupRuntime).command(cli.Command{
		Name:               "install",
		Usage:              "install the pinned ONNX Runtime library into the user cache",
		UsageText:          "attach runtime install [--gpu]",
		CustomHelpTemplate: "attach runtime install",
	}, argument{}, func(c *cli.Context) error {
		lib, err := ort.Install(c.Context, ort.InstallOptions{GPU: gpu, Log: logger(c.App.ErrWriter, verbose)})
		if err != nil {
			return err
		}
		_, err = printf(c.App.Writer, "%s (version %s, %s)\n", lib.Path, lib.Version, lib.Source)
		return err
	})
}

func (v *runtimeFlags) run(c *cli.Context) error {
	o := ort.Options(v.Runtime)
	o.NoInstall = true
	_, candidates, err := ort.Find(c.Context, o)
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
	}{Providers: []string{}, Candidates: append([]ort.Candidate{}, candidates...)}
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
			view.CUDA = addHint(err, always, always).Error()
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
		fmt.Fprintln(w, "library    none found; `attach runtime install` installs one, and so does the first command that needs it")
	} else {
		printf(w, "library    %s\nversion    %s\nfrom       %s\nproviders  %s (used: %s)\n", view.Library, view.Version, view.Source, strings.Join(view.Providers, ", "), view.Provider)
		printf(w, "cuda       %s\n", view.CUDA)
	}
	for _, s := range view.Candidates {
		if !s.Used {
			printf(w, "not used   %s (%s): %s\n", s.Path, s.Source, s.Reason)
		}
	}
	_, err = io.WriteString(c.App.Writer, w.String())
	return err
}
