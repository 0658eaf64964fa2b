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

// monitorStore saves the evidence of drift, so that it survives restarts. It writes one file
// per model to a folder.
type monitorStore struct {
	dir    string // folder, or "" to save nothing
	server *serve.Server
	log    *slog.Logger
	saved  map[string][]byte // last saved state by model
	unlock func()
}

// saveInterval is the time between two saves of the monitors. It is short, so that few rows
// are lost if the machine fails.
const saveInterval = 10 * time.Second

func openMonitors(dir string, s *serve.Server, log *slog.Logger) (*monitorStore, error) {
	k := &monitorStore{dir: dir, server: s, log: log, saved: map[string][]byte{}, unlock: func() {}}
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

// file returns the path of the state of a model. model is NAME/VERSION.
func (k *monitorStore) file(model string) string {
	return filepath.Join(k.dir, url.QueryEscape(model)+".monitor")
}

// restore loads the state of a model's monitor if it was saved.
func (k *monitorStore) restore(model string) error {
	name, version, _ := strings.Cut(model, "/")
	m, err := k.server.Monitor(name, version)
	if k.dir == "" || err != nil {
		return nil // a model without a calibrated detector has no monitor
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
		k.log.Warn("the monitor starts again, because its saved state cannot be used", "model", model, "file", k.file(model), "error", err.Error())
	}
	return nil
}

// save writes the state of each monitor that has changed since it was last saved.
func (k *monitorStore) save(ctx context.Context) error {
	var errs []error
	for model, before := range k.saved {
		name, version, _ := strings.Cut(model, "/")
		m, err := k.server.Monitor(name, version)
		if err != nil {
			continue // the model was replaced by one without a calibrated detector
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
