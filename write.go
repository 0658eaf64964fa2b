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

// Save writes the bundle to path. At any time, path holds the old file or the complete new
// one, and the old one if ctx ends early. Save stores the path of the base model relative to
// the folder of path, so that both files can move together. It returns an error if Open with
// the same custom methods could not read the file.
func (b *Bundle) Save(ctx context.Context, path string, custom ...ood.Method) error {
	stored := *b
	stored.Base.Path = quotePath(relativeTo(filepath.Dir(path), b.Base.Path))
	return atomicfile.WriteFile(ctx, path, func(w io.Writer) error { return stored.Write(w, custom...) })
}

// relativeTo returns path relative to dir, with forward slashes. If there is no relative path,
// it returns the absolute path or, if that is unknown too, path itself. An empty path stays
// empty.
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

// quotePath returns path in a form that JSON can hold. It quotes a path with Go escapes if the
// path is not UTF-8, or if the path itself begins with a quote.
func quotePath(path string) string {
	if utf8.ValidString(path) && !strings.HasPrefix(path, `"`) {
		return path
	}
	return strconv.Quote(path)
}

// unquotePath reverses quotePath.
func unquotePath(stored string) string {
	if path, err := strconv.Unquote(stored); err == nil && strings.HasPrefix(stored, `"`) {
		return path
	}
	return stored
}

// Write writes the bundle to w, with the path of the base model unchanged. Equal bundles have
// equal bytes. It returns an error if Read with the same custom methods could not read the
// result.
func (b *Bundle) Write(w io.Writer, custom ...ood.Method) error {
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
	if err := b.checkReadable(manifest, states, custom); err != nil {
		if errors.Is(err, ErrDamaged) { // no file exists that could be damaged
			err = errors.New(strings.TrimPrefix(err.Error(), ErrDamaged.Error()+": "))
		}
		return fmt.Errorf("the bundle cannot be saved, because it could not be read again: %w", err)
	}
	// Encode arrays directly to w, because copies of them could double the memory: a detector
	// can keep all its training rows.
	entries := make(map[string]func(io.Writer) error)
	for _, e := range m.Arrays {
		entries[e.Name] = func(w io.Writer) error { return npy.Write(w, states[e.folder()].Arrays[e.shortName()]) }
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

// describe returns the manifest of the bundle and the state of each part, by folder.
func (b *Bundle) describe() (manifest, map[string]rows.State, error) {
	states, err := b.partStates()
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

// checkReadable returns an error if Read could not restore the bundle from this manifest and
// these states. For example, a custom method may have the name of another method.
func (b *Bundle) checkReadable(content []byte, states map[string]rows.State, custom []ood.Method) error {
	m, err := decodeManifest(content)
	if err != nil {
		return err
	}
	restored, err := m.restore(states, custom)
	if err != nil {
		return err
	}
	for _, part := range [][2]*Fitted{{b.Detector, restored.Detector}, {b.IntervalModel, restored.IntervalModel}} {
		if fitted := part[0]; fitted != nil && reflect.TypeOf(part[1].scorer.Fitted()) != reflect.TypeOf(fitted.scorer.Fitted()) {
			return fmt.Errorf("another method is known by the name %q", fitted.Method)
		} else if fitted != nil {
			if name := missingField(fitted.scorer.Fitted(), part[1].scorer.Fitted()); name != "" {
				return fmt.Errorf("method %q: the field %s of its fit has no tag, and no method Restored computes it", fitted.Method, name)
			}
		}
	}
	return restored.checkRoundTrip(content)
}

// missingField returns the name of the first field that is set in a fitted struct but zero in
// the struct that was read back. It returns "" if there is none.
func missingField(fitted, restored any) string {
	before, after := reflect.ValueOf(fitted).Elem(), reflect.ValueOf(restored).Elem()
	for i := range before.NumField() {
		if after.Field(i).IsZero() && !before.Field(i).IsZero() {
			return before.Type().Field(i).Name
		}
	}
	return ""
}

var arrayName = regexp.MustCompile(`^(detector|quantiles|folds|calibration|text|features|cells|profile)/[A-Za-z0-9_][A-Za-z0-9_.-]*\.npy$`)

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

// byteCount is an io.Writer that counts the bytes written to it.
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

// writeZip writes entries, sorted by name, without compression. Compressed floating-point data
// would hardly be smaller, and the size of a stored entry cannot exceed the size of the file.
func writeZip(w io.Writer, entries map[string]func(io.Writer) error) error {
	zw := zip.NewWriter(w)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		entry, err := zw.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err != nil {
			return err
		}
		if err := entries[name](entry); err != nil {
			return err
		}
	}
	return zw.Close()
}

func checksum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
