package inputs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/preprocess"
)

// wantError checks that an error is one sentence that contains place and words.
func wantError(t *testing.T, err error, place, words string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("no error that says %q of %s", words, place)
	case !strings.Contains(err.Error(), place) || !strings.Contains(err.Error(), words):
		t.Errorf("error %q; want it to name %q and say %q", err, place, words)
	case strings.Contains(err.Error(), "\n") || strings.HasSuffix(err.Error(), "."):
		t.Errorf("error %q is not one sentence without a period", err)
	}
}

func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func writeNPY(t *testing.T, name string, a rows.Array) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := npy.Write(f, a); err != nil {
		t.Fatal(err)
	}
	return path
}

func writeNPZ(t *testing.T, deflate bool, arrays map[string]rows.Array) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "set.npz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := npy.WriteNPZ(f, arrays, deflate); err != nil {
		t.Fatal(err)
	}
	return path
}

func pipeline(t *testing.T, json string) *preprocess.Pipeline {
	t.Helper()
	p, err := preprocess.Parse([]byte(json))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// unscaled returns preprocessing that leaves pixels as they are, 0…255.
func unscaled(t *testing.T) *preprocess.Pipeline {
	t.Helper()
	return pipeline(t, `{"do_rescale": false}`)
}

func open(t *testing.T, path string, o Options) *Set {
	t.Helper()
	s, err := Open(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// readAll returns all rows. It reads them in blocks of the given size and checks the bounds
// of blocks.
func readAll(t *testing.T, s *Set, rows int) []float32 {
	t.Helper()
	var out []float32
	next := 0
	for b, err := range s.Blocks(context.Background(), rows) {
		if err != nil {
			t.Fatal(err)
		}
		if b.Start != next || b.Len() != min(rows, s.Len()-next) || len(b.Tensors[0].Data) != b.Len()*s.RowLen() {
			t.Fatalf("block of %d rows from %d with %d numbers", b.Len(), b.Start, len(b.Tensors[0].Data))
		}
		next += b.Len()
		out = append(out, b.Tensors[0].Data...)
	}
	if next != s.Len() {
		t.Fatalf("%d rows, want %d", next, s.Len())
	}
	return out
}

func sequence[T uint8 | float32 | float64 | int64](n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = T(i)
	}
	return out
}

// TestBroken checks that broken files are distinguished from wrong options and from failures
// of the machine.
func TestBroken(t *testing.T) {
	for err, want := range map[error]bool{
		nil:                  false,
		context.Canceled:     false,
		ErrPreprocess:        false,
		ErrNoPixels:          false,
		ErrEmpty:             true,
		errors.New("line 3"): true,
		io.ErrUnexpectedEOF:  true,
		syscall.EACCES:       true,
		syscall.EIO:          true,
		syscall.EMFILE:       false,
		syscall.ENOENT:       false,
		syscall.ENOMEM:       false,
	} {
		if err != nil {
			err = fmt.Errorf("x.csv: %w", err)
		}
		if got := Broken(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}
