package attach

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

const (
	manifestName = "manifest.json"
	checksumName = "manifest.sha256"
	arraySuffix  = ".npy"
)

// Save writes the bundle to path. At any time, path has either the old file or the complete
// new one; if ctx ends early, it keeps the old one. The path of the base model is stored
// relative to the folder of path, so that the two can move together. Save returns an error if
// Open with the same own methods could not read the result.
func (b *Bundle) Save(ctx context.Context, path string, own ...ood.Method) error {
	stored := *b
	stored.Base.Path = quotePath(relativeTo(filepath.Dir(path), b.Base.Path))
	return atomicfile.WriteFile(ctx, path, func(w io.Writer) error { return stored.Write(w, own...) })
}

// relativeTo returns path relative to dir, with forward slashes, or the absolute path if there
// is no relative one.
func relativeTo(dir, path string) string {
	if path == "" {
		return ""
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return filepath.ToSlash(path)
	}
	if from, err := filepath.Abs(dir); err == nil {
		if rel, err := filepath.Rel(from, absolute); err == nil {
			return filepath.ToSlash(rel)
		}
	}
	return filepath.ToSlash(absolute)
}

// quotePath returns path in a form that JSON can hold: in quotes, with Go escapes, if it is
// not UTF-8 or begins with such a quote itself.
func quotePath(path string) string {
	if utf8.ValidString(path) && !strings.HasPrefix(path, `"`) {
		return path
	}
	return strconv.Quote(path)
}

func unquotePath(stored string) string {
	if path, err := strconv.Unquote(stored); err == nil && strings.HasPrefix(stored, `"`) {
		return path
	}
	return stored
}

// Write writes the bundle to w, with the path of the base model unchanged. Equal bundles are
// equal bytes. Write returns an error if Read with the same own methods could not read the
// result.
func (b *Bundle) Write(w io.Writer, own ...ood.Method) error {
	if err := b.checkFitted(); err != nil {
		return err
	}
	m, states, err := b.describe()
	if err != nil {
		return err
	}
	manifest, err := m.encode()
	if err != nil {
		return err
	}
	if err := b.readsBack(manifest, states, own); err != nil {
		if errors.Is(err, ErrDamaged) { // no file exists yet
			err = errors.New(strings.TrimPrefix(err.Error(), ErrDamaged.Error()+": "))
		}
		return fmt.Errorf("the bundle cannot be saved, because it could not be read again: %w", err)
	}
	// Write entries directly from the arrays: a detector that keeps its training rows can use
	// most of the memory.
	entries := make(map[string]func(io.Writer) error)
	for _, e := range m.Arrays {
		entries[e.Name] = func(w io.Writer) error { return npy.Write(w, states[e.folder()].Arrays[e.short()]) }
	}
	entries[manifestName] = func(w io.Writer) error {
		_, err := w.Write(manifest)
		return err
	}
	entries[checksumName] = func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s  %s\n", checksum(manifest), manifestName)
		return err
	}
	return writeZip(w, entries)
}

// describe returns the manifest of the file, and the state of every part.
func (b *Bundle) describe() (manifest, map[string]rows.State, error) {
	states, err := b.parts()
	if err != nil {
		return manifest{}, nil, err
	}
	m := b.manifest(states)
	for _, folder := range slices.Sorted(maps.Keys(states)) {
		arrays := states[folder].Arrays
		for _, name := range slices.Sorted(maps.Keys(arrays)) {
			entry, err := describeArray(folder+name+arraySuffix, arrays[name])
			if err != nil {
				return manifest{}, nil, err
			}
			m.Arrays = append(m.Arrays, entry)
		}
	}
	return m, states, nil
}

// readsBack returns an error if the manifest and states do not restore the bundle: a custom
// method may have the name of another.
func (b *Bundle) readsBack(content []byte, states map[string]rows.State, own []ood.Method) error {
	m, err := decodeManifest(content)
	if err != nil {
		return err
	}
	back, err := m.restore(states, own)
	if err != nil {
		return err
	}
	for _, part := range [][2]*Fitted{{b.Detector, back.Detector}, {b.IntervalModel, back.IntervalModel}} {
		if is := part[0]; is != nil && reflect.TypeOf(part[1].scorer.Fitted()) != reflect.TypeOf(is.scorer.Fitted()) {
			return fmt.Errorf("another method is known by the name %q", is.Method)
		} else if is != nil {
			if name := missingField(is.scorer.Fitted(), part[1].scorer.Fitted()); name != "" {
				return fmt.Errorf("method %q: the field %s of its fit has no tag, and no method Restored computes it", is.Method, name)
			}
		}
	}
	return back.checkRoundTrip(content)
}

// missingField returns the name of a field that a fitted struct has, and that is missing after
// it was read back.
func missingField(fitted, back any) string {
	was, is := reflect.ValueOf(fitted).Elem(), reflect.ValueOf(back).Elem()
	for i := range was.NumField() {
		if is.Field(i).IsZero() && !was.Field(i).IsZero() {
			return was.Type().Field(i).Name
		}
	}
	return ""
}

var arrayName = regexp.MustCompile(`^(detector|quantiles|calibration|text|features|cells)/[A-Za-z0-9_][A-Za-z0-9_.-]*\.npy$`)

// describeArray returns the manifest entry of an array.
func describeArray(name string, a rows.Array) (arrayEntry, error) {
	if !arrayName.MatchString(name) {
		return arrayEntry{}, fmt.Errorf("array name %q has characters other than letters, digits, _, . and -", name)
	}
	sum, size := sha256.New(), byteCount(0)
	if err := npy.Write(io.MultiWriter(sum, &size), a); err != nil {
		return arrayEntry{}, fmt.Errorf("array %s cannot be written: %w", name, err)
	}
	return arrayEntry{
		Name: name, DType: dtypeOf(a), Shape: a.Shape, Bytes: int64(size), SHA256: hex.EncodeToString(sum.Sum(nil)),
	}, nil
}

// byteCount counts the bytes written to it.
type byteCount int64

func (n *byteCount) Write(p []byte) (int, error) {
	*n += byteCount(len(p))
	return len(p), nil
}

func dtypeOf(a rows.Array) string {
	switch a.Data.(type) {
	case []float32:
		return "float32"
	case []float64:
		return "float64"
	case []int64:
		return "int64"
	case []uint8:
		return "uint8"
	}
	return "unknown"
}

// writeZip stores entries by name. Compression would save little for floating-point data, and
// a stored entry is never larger than the file that contains it.
func writeZip(w io.Writer, entries map[string]func(io.Writer) error) error {
	zw := zip.NewWriter(w)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		e, err := zw.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err != nil {
			return err
		}
		if err := entries[name](e); err != nil {
			return err
		}
	}
	return zw.Close()
}

func checksum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
