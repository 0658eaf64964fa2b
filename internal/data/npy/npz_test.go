package npy

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// TestOverlappingEntries checks that an archive is rejected if several entries share the
// same bytes. Reading it could need many times the memory of its size.
func TestOverlappingEntries(t *testing.T) {
	var b bytes.Buffer
	array := rows.Array{Shape: []int{100}, Data: make([]float32, 100)}
	if err := WriteNPZ(&b, map[string]rows.Array{"a": array}, false); err != nil {
		t.Fatal(err)
	}
	content := b.Bytes()
	end := bytes.LastIndex(content, []byte("PK\x05\x06"))
	directory := content[binary.LittleEndian.Uint32(content[end+16:]):end]
	head, tail := content[:end-len(directory)], bytes.Clone(content[end:])
	var entries []byte
	for _, name := range []string{"a", "b", "c"} {
		entries = append(entries, bytes.ReplaceAll(directory, []byte("a.npy"), []byte(name+".npy"))...)
	}
	binary.LittleEndian.PutUint16(tail[8:], 3)
	binary.LittleEndian.PutUint16(tail[10:], 3)
	binary.LittleEndian.PutUint32(tail[12:], uint32(len(entries)))
	path := filepath.Join(t.TempDir(), "a.npz")
	if err := os.WriteFile(path, bytes.Join([][]byte{head, entries, tail}, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenNPZ(path); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "overlap") {
		t.Errorf("error is %v, want one of entries that overlap", err)
	}
}

// TestManyEntries checks that reading one array of many does not read all names again.
func TestManyEntries(t *testing.T) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := range 2000 {
		e, err := w.Create(fmt.Sprintf("%d.npy", i))
		if err == nil {
			err = Write(e, rows.Array{Shape: []int{1}, Data: []float32{1}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.npz")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	z, err := OpenNPZ(path)
	if err != nil {
		t.Fatal(err)
	}
	allocations := testing.AllocsPerRun(1, func() {
		l, err := z.Entry("1999")
		if err == nil {
			_, err = l.Read()
		}
		if err != nil {
			t.Error(err)
		}
	})
	if allocations > 500 {
		t.Errorf("reading one of 2000 arrays takes %v allocations", allocations)
	}
}
