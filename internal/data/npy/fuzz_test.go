package npy

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// seed adds the golden files that match pattern, and the first half of each file. It fails
// if there are fewer files than minimum.
func seed(f *testing.F, pattern string, minimum int) {
	f.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(paths) < minimum {
		f.Fatalf("%d seeds %s, error %v; want at least %d", len(paths), pattern, err, minimum)
	}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
}

// FuzzRead checks that no file makes Read panic, and that an array survives being written and
// read again.
func FuzzRead(f *testing.F) {
	seed(f, "*.npy", 11)
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := readBytes(b)
		if err != nil {
			return
		}
		var first, second bytes.Buffer
		if err := Write(&first, a); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := readBytes(first.Bytes())
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if err := Write(&second, again); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Fatalf("not stable: %x then %x, error %v", first.Bytes(), second.Bytes(), err)
		}
	})
}

func readBytes(b []byte) (rows.Array, error) { return Read(bytes.NewReader(b), int64(len(b))) }

// FuzzReadNPZ checks that no archive causes a panic, and that arrays survive being written
// and read again. The seeds are small because the fuzzer would spend its time on shortening
// large ones.
func FuzzReadNPZ(f *testing.F) {
	for _, deflate := range []bool{false, true} {
		var b bytes.Buffer
		arrays := map[string]rows.Array{"a": {Shape: []int{2, 2}, Data: []float32{1, 2, 3, 4}}}
		if err := WriteNPZ(&b, arrays, deflate); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
		f.Add(bytes.Replace(b.Bytes(), []byte("False"), []byte("True "), 1))
		f.Add(bytes.ReplaceAll(b.Bytes(), []byte("a.npy"), []byte("b/npy")))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		readLazily(b)
		arrays, err := ReadNPZ(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		var first, second bytes.Buffer
		if err := WriteNPZ(&first, arrays, false); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := ReadNPZ(bytes.NewReader(first.Bytes()), int64(first.Len()))
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if err := WriteNPZ(&second, again, false); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Fatalf("not stable, error %v", err)
		}
	})
}

// readLazily reads the arrays of an archive with Lazy and Cursor, and ignores errors.
func readLazily(b []byte) {
	z, err := newNPZ("memory", inMemory(bytes.NewReader(b)), int64(len(b)))
	if err != nil {
		return
	}
	for _, name := range z.Names() {
		l, err := z.Entry(name)
		if err != nil || len(l.Shape) == 0 || l.Len() == 0 {
			continue
		}
		if l.Len() < 1<<16 {
			if _, err := l.Float32s(); err != nil {
				continue
			}
		}
		c, err := l.Open()
		if err != nil {
			continue
		}
		for i := range min(l.Rows(), 3) {
			if _, err := c.ReadRows(l.Rows()-1-i, 1); err != nil {
				break
			}
		}
		c.Close()
	}
}
