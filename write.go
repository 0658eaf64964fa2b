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

// Save writes the bundle to path, which holds the old file or the whole new one
// at any time, the old one where ctx is done before the end. The base model's
// path is stored relative to path's folder, so that the two can move together.
// What Open with the same methods of a program's own would refuse is an error.
func (b *Bundle) Save(ctx context.Context, path string, own ...ood.Method) error {
	stored := *b
	stored.Base.Path = quotePath(relativeTo(filepath.Dir(path), b.Base.Path))
	return atomicfile.WriteFile(ctx, path, func(w io.Writer) error { return stored.Write(w, own...) })
}

// relativeTo is path as seen from dir with forward slashes, or the absolute
// path where there is no way from one to the other.
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

// quotePath is path as JSON can hold it: in quotes, with escapes as in Go, where
// it is no UTF-8 or begins with such a quote itself.
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

// Write writes the bundle to w, with the base model's path as it stands. Equal
// bundles are equal bytes. What Read with the same methods of a program's own
// would refuse is an error.
func (b *Bundle) Write(w io.Writer, own ...ood.Method) error {
	if err := b.made(); err != nil {
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
		if errors.Is(err, ErrDamaged) { // of which no file is yet
			err = errors.New(strings.TrimPrefix(err.Error(), ErrDamaged.Error()+": "))
		}
		return fmt.Errorf("the bundle cannot be saved, as it would not be read again: %w", err)
	}
	// Entries are written from the arrays themselves: those of detectors that
	// keep their training rows can be most of the memory there is.
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

// describe is the manifest of what is written, and the state of every part.
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

// readsBack refuses a bundle that its manifest and states do not restore: a
// method of a program's own may have the name of another.
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
			return fmt.Errorf("method %q is not the one that is known under that name", is.Method)
		} else if is != nil {
			if name := lost(is.scorer.Fitted(), part[1].scorer.Fitted()); name != "" {
				return fmt.Errorf("method %q: the field %s of what it fitted has no tag, and no method Restored works it out", is.Method, name)
			}
		}
	}
	return back.writes(content)
}

// lost is the name of a field that a fitted struct has and, read back, lacks.
func lost(fitted, back any) string {
	was, is := reflect.ValueOf(fitted).Elem(), reflect.ValueOf(back).Elem()
	for i := range was.NumField() {
		if is.Field(i).IsZero() && !was.Field(i).IsZero() {
			return was.Type().Field(i).Name
		}
	}
	return ""
}

var arrayName = regexp.MustCompile(`^(detector|quantiles|calibration|text|features|cells)/[A-Za-z0-9_][A-Za-z0-9_.-]*\.npy$`)

// describeArray is what the manifest says of an array.
func describeArray(name string, a rows.Array) (arrayEntry, error) {
	if !arrayName.MatchString(name) {
		return arrayEntry{}, fmt.Errorf("array name %q is not made of letters, digits, _, . and -", name)
	}
	sum, size := sha256.New(), byteCount(0)
	if err := npy.Write(io.MultiWriter(sum, &size), a); err != nil {
		return arrayEntry{}, fmt.Errorf("array %s cannot be written: %w", name, err)
	}
	return arrayEntry{
		Name: name, DType: dtypeOf(a), Shape: a.Shape, Bytes: int64(size), SHA256: hex.EncodeToString(sum.Sum(nil)),
	}, nil
}

// byteCount counts what is written to it.
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

// writeZip stores entries by name. Deflating would save little on floating
// point, and a stored entry is never larger than the file that holds it.
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
