package ort

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// client is a package manager, pip or npm, on the user's machine.
type client struct {
	source       string
	find         func(ctx context.Context, dir string) []string // returns the client's command, or nil if it is missing; may try the command in dir
	args         func(p pin, dir string) []string
	ext          string // file extension of the packages it downloads
	visitMembers func(ctx context.Context, path string, visit func(name string, r io.Reader) error) error
}

// clients returns the supported clients in the order of preference.
func clients() []client {
	return []client{
		{source: sourcePip, find: findPip, args: pipArgs, ext: ".whl", visitMembers: wheelMembers},
		{source: sourceNpm, find: findNpm, args: npmArgs, ext: ".tgz", visitMembers: tarMembers},
	}
}

// findPip returns a command that runs pip, or nil.
func findPip(ctx context.Context, dir string) []string {
	for _, argv := range [][]string{{"python3", "-m", "pip"}, {"python", "-m", "pip"}, {"pip3"}, {"pip"}} {
		path, err := exec.LookPath(argv[0])
		if err != nil {
			continue
		}
		argv[0] = path
		// A python may lack pip, or may be a stub that only offers to install Python.
		if command(ctx, append(argv, "--version"), dir).Run() == nil {
			return argv
		}
	}
	return nil
}

// pipArgs returns the arguments that download a wheel. They name a Python version and
// platform, so that the version of the user's Python does not matter.
func pipArgs(p pin, dir string) []string {
	return []string{"download", "--no-deps", "--only-binary=:all:", "--implementation", "cp", "--python-version", "3.12", "--abi", "cp312",
		"--platform", p.wheel, "--disable-pip-version-check", "--no-input", "--quiet", "--dest", dir, p.spec}
}

// findNpm returns the command of npm, or nil.
func findNpm(context.Context, string) []string {
	path, err := exec.LookPath("npm")
	if err != nil {
		return nil
	}
	return []string{path}
}

// npmArgs returns the arguments that download an npm package. --global stops npm from
// searching the parent folders of dir for a project and its configuration.
func npmArgs(p pin, dir string) []string {
	return []string{"pack", p.spec, "--global", "--ignore-scripts", "--no-update-notifier", "--loglevel=error", "--pack-destination", dir}
}

// fetch downloads the package of a pin to the empty folder dir. argv is the client's
// command.
func (c client) fetch(ctx context.Context, argv []string, p pin, dir string) error {
	cmd := command(ctx, append(argv[:len(argv):len(argv)], c.args(p, dir)...), dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if message := lastLine(stderr.String()); message != "" {
		return fmt.Errorf("%s failed: %s (%w)", c.source, message, err)
	}
	return fmt.Errorf("%s failed: %w", c.source, err)
}

// command returns a client's command that will run in dir, never in the working directory.
// A client may load code or configuration from the directory in which it runs. For example,
// python imports modules from it, npm reads files, and relative entries of PATH refer to
// it.
func command(ctx context.Context, argv []string, dir string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.WaitDelay = 2 * time.Second // after a cancellation, a grandchild may keep the pipes open
	return cmd
}

// lastLine returns the last line of a client's output, without hints about the client
// itself, such as offers to upgrade.
func lastLine(stderr string) string {
	last := ""
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "[notice]") || strings.Contains(line, "complete log of this run") {
			continue
		}
		last = line
	}
	return last
}

// onlyFile returns the only file in dir with the extension ext. It is an error if there are
// several or none.
func onlyFile(dir, ext string) (string, error) {
	found, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*"+ext))
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("the client downloaded %d %s files, want 1", len(found), ext)
	}
	return found[0], nil
}
