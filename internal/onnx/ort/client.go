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

// client is a package client that the user has.
type client struct {
	source  string
	find    func(ctx context.Context, dir string) []string // the command that runs it, tried in dir; nil if it is not there
	args    func(p pin, dir string) []string
	ext     string // of its packages
	members func(ctx context.Context, path string, visit func(name string, r io.Reader) error) error
}

func clients() []client {
	return []client{
		{source: sourcePip, find: findPip, args: pipArgs, ext: ".whl", members: wheelMembers},
		{source: sourceNpm, find: findNpm, args: npmArgs, ext: ".tgz", members: tarMembers},
	}
}

func findPip(ctx context.Context, dir string) []string {
	for _, argv := range [][]string{{"python3", "-m", "pip"}, {"python", "-m", "pip"}, {"pip3"}, {"pip"}} {
		path, err := exec.LookPath(argv[0])
		if err != nil {
			continue
		}
		argv[0] = path
		// A python may be there without pip, or only as a stub that offers to install itself.
		if command(ctx, append(argv, "--version"), dir).Run() == nil {
			return argv
		}
	}
	return nil
}

// pipArgs ask for the wheel of one Python on one platform, so that the user's own Python does not matter.
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

// npmArgs say that no project is meant: npm would else look for one in the folders above dir, and read its configuration.
func npmArgs(p pin, dir string) []string {
	return []string{"pack", p.spec, "--global", "--ignore-scripts", "--no-update-notifier", "--loglevel=error", "--pack-destination", dir}
}

// fetch downloads a package into dir, which is empty.
func (c client) fetch(ctx context.Context, argv []string, p pin, dir string) error {
	cmd := command(ctx, append(argv[:len(argv):len(argv)], c.args(p, dir)...), dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if said := lastLine(stderr.String()); said != "" {
		return fmt.Errorf("%s failed: %s (%w)", c.source, said, err)
	}
	return fmt.Errorf("%s failed: %w", c.source, err)
}

// command runs in a folder of ours, never where the user stands: python imports modules from there, npm and the shims of version
// managers read files there, and a PATH or PYTHONPATH may have entries that are relative or empty.
func command(ctx context.Context, argv []string, dir string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.WaitDelay = 2 * time.Second // a grandchild may hold the pipes open after a cancel
	return cmd
}

// lastLine returns what a client said last, hints about itself apart.
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

// onlyFile returns the one file in dir that has the extension.
func onlyFile(dir, ext string) (string, error) {
	found, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*"+ext))
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("the client left %d %s files, and not one", len(found), ext)
	}
	return found[0], nil
}
