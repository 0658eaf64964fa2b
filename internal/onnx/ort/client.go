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

// client is a package client on the user's machine.
type client struct {
	source       string
	find         func(ctx context.Context, dir string) []string // returns the command, tried in dir, or nil if it is missing
	args         func(p pin, dir string) []string
	ext          string // file extension of its packages
	visitMembers func(ctx context.Context, path string, visit func(name string, r io.Reader) error) error
}

func clients() []client {
	return []client{
		{source: sourcePip, find: findPip, args: pipArgs, ext: ".whl", visitMembers: wheelMembers},
		{source: sourceNpm, find: findNpm, args: npmArgs, ext: ".tgz", visitMembers: tarMembers},
	}
}

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

// pipArgs selects the wheel for one Python version and platform, so that the version of the
// user's Python does not matter.
func pipArgs(p pin, dir string) []string {
	return []string{"download", "--no-deps", "--only-binary=:all:", "--implementation", "cp", "--python-version", "3.12", "--abi", "cp312",
		"--platform", p.wheel, "--disable-pip-version-check", "--no-input", "--quiet", "--dest", dir, p.spec}
}

func findNpm(context.Context, string) []string {
	path, err := exec.LookPath("npm")
	if err != nil {
		return nil
	}
	return []string{path}
}

// npmArgs runs npm without a project. Otherwise npm would search the parent folders of dir for
// one and read its configuration.
func npmArgs(p pin, dir string) []string {
	return []string{"pack", p.spec, "--global", "--ignore-scripts", "--no-update-notifier", "--loglevel=error", "--pack-destination", dir}
}

// fetch downloads a package to the empty folder dir.
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

// command runs a client in dir, never in the working directory. There python would import
// modules, npm and version-manager shims would read files, and relative or empty entries of
// PATH or PYTHONPATH would apply.
func command(ctx context.Context, argv []string, dir string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.WaitDelay = 2 * time.Second // a grandchild may keep the pipes open after a cancel
	return cmd
}

// lastLine returns the last line of a client's output that is not a hint about the client
// itself.
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

// onlyFile returns the only file in dir with the extension.
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
