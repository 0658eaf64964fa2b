package command

import (
	"context"
	"crypto/sha256"
	"encoding"
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

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/featurize/serve"
	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	"github.com/attach-uncertainty/attach/internal/data/regularfile"
)

// stateStore saves what a server learns from requests, so that it survives restarts. It writes
// one file for each model to a folder.
type stateStore struct {
	flag, extension string // name of the flag without dashes, and end of the names of files
	dir             string // folder, or "" to save nothing
	// find returns the state of a served model. It returns an error if the model has none. of
	// returns the state of a model that is not served yet, or nil.
	find func(name, version string) (savedState, error)
	of   func(*calibrate.Monitor, *serve.Adaptation) savedState
	// unusable decides what happens if a saved state cannot be used.
	unusable func(model, file string, err error) error
	saved    map[string][sha256.Size]byte // hash of the last saved state by model
	unlock   func()
}

// savedState is a state that a server saves.
type savedState interface {
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

// saveInterval is the time between two saves. It is short, so that few rows are lost if the
// machine fails.
const saveInterval = 10 * time.Second

// openMonitors opens the store of the evidence of drift.
func openMonitors(dir string, s *serve.Server, log *slog.Logger) (*stateStore, error) {
	k := &stateStore{flag: "monitor-state", extension: ".monitor", dir: dir}
	k.find = func(name, version string) (savedState, error) { return s.Monitor(name, version) }
	k.of = func(m *calibrate.Monitor, _ *serve.Adaptation) savedState {
		if m == nil {
			return nil
		}
		return m
	}
	k.unusable = func(model, file string, err error) error {
		log.Warn("the monitor starts again, because its saved state cannot be used", "model", model, "file", file, "error", err.Error())
		return nil
	}
	return k, k.open("")
}

// openAdaptations opens the store of adaptive intervals. A state that cannot be used is an error,
// because rows that wait for targets would be lost. The folder may be that of monitors.
func openAdaptations(dir string, s *serve.Server, monitors *stateStore) (*stateStore, error) {
	k := &stateStore{flag: "adapt-state", extension: ".adaptive", dir: dir}
	k.find = func(name, version string) (savedState, error) { return s.Adaptation(name, version) }
	k.of = func(_ *calibrate.Monitor, a *serve.Adaptation) savedState {
		if a == nil {
			return nil
		}
		return a
	}
	k.unusable = func(_, file string, err error) error {
		return fmt.Errorf("--adapt-state: %s: %w; name another folder, or delete the file to start again without the rows that wait", file, err)
	}
	return k, k.open(monitors.dir)
}

// open creates and locks the folder, unless it is the locked one.
func (k *stateStore) open(locked string) error {
	k.saved, k.unlock = map[string][sha256.Size]byte{}, func() {}
	if k.dir == "" {
		return nil
	}
	if err := os.MkdirAll(k.dir, 0o777); err != nil {
		return fmt.Errorf("--%s: %w", k.flag, err)
	}
	if sameFile(k.dir, locked) {
		return nil
	}
	unlock, err := atomicfile.Lock(k.dir)
	if err != nil {
		return fmt.Errorf("%s: %w; each server has its own --%s", k.dir, err, k.flag)
	}
	k.unlock = unlock
	return nil
}

// file returns the path of the state of a model. model is NAME/VERSION.
func (k *stateStore) file(model string) string {
	return filepath.Join(k.dir, url.QueryEscape(model)+k.extension)
}

// restore loads the state m of a model if it was saved. m is nil if the model has no state, for
// example no monitor because it has no calibrated detector.
func (k *stateStore) restore(model string, m savedState) error {
	if k.dir == "" || m == nil {
		return nil
	}
	k.saved[model] = [sha256.Size]byte{}
	state, err := regularfile.ReadFile(k.file(model))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := m.UnmarshalBinary(state); err != nil {
		return k.unusable(model, k.file(model), err)
	}
	return nil
}

// save writes each state that has changed since it was last saved.
func (k *stateStore) save(ctx context.Context) error {
	var errs []error
	for model, before := range k.saved {
		name, version, _ := strings.Cut(model, "/")
		m, err := k.find(name, version)
		if err != nil {
			continue // for example, the model was replaced by one without a calibrated detector
		}
		state, err := m.MarshalBinary()
		hash := sha256.Sum256(state)
		if err == nil && hash != before {
			err = atomicfile.WriteFile(ctx, k.file(model), func(w io.Writer) error {
				_, err := w.Write(state)
				return err
			})
		}
		if err == nil {
			k.saved[model] = hash
		} else {
			err = fmt.Errorf("--%s: %w", k.flag, err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// stateStores are all stores of a server.
type stateStores []*stateStore

func (all stateStores) unlock() {
	for _, k := range all {
		k.unlock()
	}
}

// restore loads the states of a model before it is served: see serve.Options.Restore.
func (all stateStores) restore(name, version string, m *calibrate.Monitor, a *serve.Adaptation) error {
	for _, k := range all {
		if err := k.restore(name+"/"+version, k.of(m, a)); err != nil {
			return err
		}
	}
	return nil
}

func (all stateStores) save(ctx context.Context) error {
	var errs []error
	for _, k := range all {
		errs = append(errs, k.save(ctx))
	}
	return errors.Join(errs...)
}
