package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/attach-uncertainty/attach/featurize/serve"
	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	"github.com/attach-uncertainty/attach/internal/data/regularfile"
)

// monitors keeps what a server has seen of drift in a folder, a file for each model,
// over restarts.
type monitors struct {
	dir    string // empty is nowhere
	server *serve.Server
	log    *slog.Logger
	saved  map[string][]byte // by model
	unlock func()
}

// eachSave is how often monitors are saved, so that few rows are forgotten if the
// machine fails.
const eachSave = 10 * time.Second

func openMonitors(dir string, s *serve.Server, log *slog.Logger) (*monitors, error) {
	k := &monitors{dir: dir, server: s, log: log, saved: map[string][]byte{}, unlock: func() {}}
	if dir == "" {
		return k, nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("--monitor-state: %w", err)
	}
	var err error
	if k.unlock, err = atomicfile.Lock(dir); err != nil {
		return nil, fmt.Errorf("%s: %w; each server has its own --monitor-state", dir, err)
	}
	return k, nil
}

// file is that of a model called NAME/VERSION.
func (k *monitors) file(model string) string {
	return filepath.Join(k.dir, url.QueryEscape(model)+".monitor")
}

// restore has the monitor of a model go on where one was saved.
func (k *monitors) restore(model string) error {
	name, version, _ := strings.Cut(model, "/")
	m, err := k.server.Monitor(name, version)
	if k.dir == "" || err != nil {
		return nil // without a calibrated detector there is nothing to keep
	}
	k.saved[model] = nil
	state, err := regularfile.ReadFile(k.file(model))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := m.UnmarshalBinary(state); err != nil {
		k.log.Warn("the monitor begins anew: what was kept is not of the model", "model", model, "file", k.file(model), "error", err.Error())
	}
	return nil
}

// save writes the monitors that saw rows since it was called before.
func (k *monitors) save(ctx context.Context) error {
	var errs []error
	for model, before := range k.saved {
		name, version, _ := strings.Cut(model, "/")
		m, err := k.server.Monitor(name, version)
		if err != nil {
			continue // a file without a calibrated detector took its place
		}
		state, err := m.MarshalBinary()
		if err == nil && !bytes.Equal(state, before) {
			err = atomicfile.WriteFile(ctx, k.file(model), func(w io.Writer) error {
				_, err := w.Write(state)
				return err
			})
		}
		if err == nil {
			k.saved[model] = state
		}
		if err != nil {
			err = fmt.Errorf("--monitor-state: %w", err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
