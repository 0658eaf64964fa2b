package npy

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// lazyArrays returns a 6×2 array with the elements 0…11, in every form that a cursor supports.
func lazyArrays(t *testing.T) map[string]*Lazy {
	t.Helper()
	out := map[string]*Lazy{}
	stored, err := OpenNPZ("testdata/stored.npz")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	packed := filepath.Join(dir, "packed.npz")
	w, err := os.Create(packed)
	if err != nil {
		t.Fatal(err)
	}
	zw := zip.NewWriter(w)
	for _, name := range []string{"rows", "columns"} {
		l, err := stored.Entry(name)
		if err != nil {
			t.Fatal(err)
		}
		out["stored "+name] = l
		raw := entryBytes(t, "testdata/stored.npz", name)
		plain := filepath.Join(dir, name+".npy")
		if err := os.WriteFile(plain, raw, 0o644); err != nil {
			t.Fatal(err)
		}
		if out["plain "+name], err = OpenFile(plain); err != nil {
			t.Fatal(err)
		}
		e, err := zw.Create(name + ".npy")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Write(raw); err != nil {
			t.Fatal(err)
		}
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	z, err := OpenNPZ(packed)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rows", "columns"} {
		if out["deflated "+name], err = z.Entry(name); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func entryBytes(t *testing.T, path, name string) []byte {
	t.Helper()
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	r, err := z.Open(name + ".npy")
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCursor(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for form, l := range lazyArrays(t) {
		c, err := l.Open()
		if err != nil {
			t.Fatal(err)
		}
		for _, request := range [][2]int{{0, 2}, {2, 1}, {5, 1}, {6, 0}, {1, 3}, {0, 6}, {4, 2}} {
			start, n := request[0], request[1]
			got, err := c.ReadRows(start, n)
			if err != nil {
				t.Fatal(err)
			}
			want := rows.Array{Shape: []int{n, 2}, Data: make([]float32, 0, 12)}
			for i := 2 * start; i < 2*(start+n); i++ {
				want.Data = append(want.Data.([]float32), float32(i))
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: rows %d to %d: got %v, want %v", form, start, start+n, got, want)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		whole, err := l.Read()
		if err != nil || whole.Data.([]float32)[7] != 7 {
			t.Errorf("%s: whole array %v, error %v", form, whole, err)
		}
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files left: %v, error %v", left, err)
	}
}

// TestChecksum checks that a changed byte in the elements of an array is detected.
func TestChecksum(t *testing.T) {
	b, err := os.ReadFile("testdata/stored.npz")
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, binary.LittleEndian.AppendUint32(nil, 0x41000000)) // 8.0
	if at < 0 {
		t.Fatal("no element to alter")
	}
	b[at]++
	path := filepath.Join(t.TempDir(), "altered.npz")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadNPZ(bytes.NewReader(b), int64(len(b))); !errors.Is(err, zip.ErrChecksum) {
		t.Errorf("error %v, want a checksum error", err)
	}
	z, err := OpenNPZ(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range z.Names() {
		l, err := z.Entry(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Read(); errors.Is(err, zip.ErrChecksum) {
			if _, err := l.Open(); !errors.Is(err, zip.ErrChecksum) {
				t.Errorf("rows of the altered array are read: %v", err)
			}
			if !strings.Contains(err.Error(), l.Name()) || !strings.HasSuffix(err.Error(), "copy or write the file again") {
				t.Errorf("error %v does not name the array and say what to do", err)
			}
			return
		}
	}
	t.Error("no array has a checksum error")
}

func TestNPZErrors(t *testing.T) {
	z, err := OpenNPZ("testdata/stored.npz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Entry("x"); !errors.Is(err, ErrNoEntry) || !strings.Contains(err.Error(), `"columns", "rows"`) {
		t.Errorf("error %v of a missing array; want ErrNoEntry and the names that are there", err)
	}
	b, err := os.ReadFile("testdata/stored.npz")
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string][]byte{
		"empty": nil, "text": []byte("hello"), "cut": b[:len(b)-30],
	} {
		path := filepath.Join(t.TempDir(), "bad.npz")
		if err := os.WriteFile(path, file, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenNPZ(path); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want ErrFormat with the path", name, err)
		}
		if _, err := ReadNPZ(bytes.NewReader(file), int64(len(file))); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: error %v, want ErrFormat", name, err)
		}
	}
	if _, err := OpenNPZ(filepath.Join(t.TempDir(), "none.npz")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v of a missing file", err)
	}
	if _, err := OpenNPZ(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("error %v of a directory", err)
	}
}

// TestFalseSizes checks that an archive is refused if a few bytes claim to contain
// terabytes.
func TestFalseSizes(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	header := formatHeader("<f4", []int{1 << 40})
	w, err := z.CreateRaw(&zip.FileHeader{
		Name: "x.npy", Method: zip.Store,
		CompressedSize64: uint64(len(header)), UncompressedSize64: 1<<42 + uint64(len(header)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(header); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadNPZ(bytes.NewReader(b.Bytes()), int64(b.Len())); !errors.Is(err, ErrFormat) {
		t.Errorf("error %v, want ErrFormat", err)
	}
}
