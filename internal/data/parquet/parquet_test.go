package parquet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// cellsOf formats n rows as text, each as one string.
func cellsOf(v Values, n int) []string {
	at := 0
	out := make([]string, n)
	for i := range out {
		count := 1
		if v.Lengths != nil {
			count = v.Lengths[i]
		}
		var cells []string
		for ; count > 0; count-- {
			switch {
			case v.Numbers != nil:
				cells = append(cells, fmt.Sprint(v.Numbers[at]))
			case v.Bytes[at] == nil:
				cells = append(cells, "none")
			default:
				cells = append(cells, string(v.Bytes[at]))
			}
			at++
		}
		out[i] = strings.Join(cells, " ")
	}
	return out
}

// TestColumns checks the cells of every column that pyarrow wrote, for reads that start at
// different rows.
func TestColumns(t *testing.T) {
	want := map[string]func(i int) string{
		"a":           func(i int) string { return fmt.Sprint(float64(i) / 2) },
		"b":           func(i int) string { return fmt.Sprint(i) },
		"u":           func(i int) string { return fmt.Sprint(i) },
		"flag":        func(i int) string { return fmt.Sprint((i + 1) % 2) },
		"half":        func(i int) string { return fmt.Sprint(i) },
		"raw":         func(i int) string { return string([]byte{byte(i), 255}) },
		"gaps":        func(i int) string { return "1.5 NaN" },
		"nested":      func(i int) string { return "1 2 3 4" },
		"fixed":       func(i int) string { return fmt.Sprint(i, i+1, i+2) },
		"image.bytes": func(i int) string { return string([]byte{byte(i)}) },
		"image.path":  func(i int) string { return fmt.Sprintf("%d.png", i) },
		"text": func(i int) string {
			if i == 3 {
				return "none"
			}
			return fmt.Sprintf("row %d é", i)
		},
		"ids": func(i int) string {
			if i == 5 {
				return ""
			}
			return strings.Trim(fmt.Sprint([]int{0, 1, 2, 3, 4, 5, 6, 7, 8}[:i]), "[]")
		},
		"cat": func(i int) string {
			if i%3 == 0 {
				return "y"
			}
			return "x"
		},
		"cash": func(i int) string {
			if i == 7 {
				return "NaN"
			}
			return fmt.Sprint(1.25 * float64(i-5))
		},
		"tokens": func(i int) string { return strings.Join([]string{"p", "q"}[:i%3], " ") },
	}
	files, err := filepath.Glob("testdata/*.parquet")
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if v, ok := f.Metadata("huggingface"); !ok || !strings.Contains(v, "ClassLabel") {
			t.Errorf("%s: metadata %q", path, v)
		}
		if f.Rows() != 10 || len(f.Columns()) != len(want)+1 {
			t.Fatalf("%s: %d rows of %v", path, f.Rows(), f.Columns())
		}
		for j, column := range f.Columns() {
			if column.Kind == Other {
				if column.Name != "day" {
					t.Errorf("%s: %s is not read", path, column.Name)
				}
				continue
			}
			c, err := f.Open(j)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range [][2]int{{0, 10}, {0, 1}, {1, 3}, {8, 2}, {3, 4}, {9, 1}, {2, 0}, {5, 5}, {4, 1}, {6, 1}} {
				cells, err := c.Read(context.Background(), r[0], r[1])
				if err != nil {
					t.Fatalf("%s: %s: %v", path, column.Name, err)
				}
				for k, got := range cellsOf(cells[0], r[1]) {
					if got != want[column.Name](r[0]+k) {
						t.Errorf("%s: row %d of %s is %q, want %q", path, r[0]+k, column.Name, got, want[column.Name](r[0]+k))
					}
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestDamaged checks that truncated and damaged files cause ErrFormat.
func TestDamaged(t *testing.T) {
	whole, err := os.ReadFile("testdata/snappy.parquet")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	for _, n := range []int{0, 5, 11, 12, 100, len(whole) / 2, len(whole) - 1} {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); !errors.Is(err, ErrFormat) || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	// A damaged page is only found when it is read, because the footer is intact.
	copy(whole[4:], bytes.Repeat([]byte{0xff}, 2000))
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := f.Open(0); err != nil {
		t.Error(err)
	} else if _, err = c.Read(context.Background(), 0, 4); !errors.Is(err, ErrFormat) {
		t.Errorf("damaged pages: %v", err)
	}
}

// checkAllocated returns a function for the end of a test. The function fails the test if
// more than limit bytes were allocated since checkAllocated was called.
func checkAllocated(t *testing.T, limit uint64) func() {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	return func() {
		t.Helper()
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > limit {
			t.Errorf("%d bytes were allocated", n)
		}
	}
}

func FuzzParquet(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.parquet")
	if len(files) == 0 {
		f.Fatal("there are no seeds")
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer checkAllocated(t, 1<<29)()
		r, err := newReader(bytes.NewReader(b), int64(len(b)), "x")
		if err != nil {
			return
		}
		for j, column := range r.columns {
			if column.Kind == Other {
				continue
			}
			c := &Cursor{path: "x", r: r, streams: []*stream{newStream(r, j)}}
			n := min(r.rows, 100)
			cells, err := c.Read(context.Background(), 0, n)
			if err != nil || column.Kind == Other {
				continue
			}
			have := len(cells[0].Numbers) + len(cells[0].Bytes)
			if column.List {
				n = 0
				for _, l := range cells[0].Lengths {
					n += l
				}
			}
			if have != n {
				t.Fatalf("%s: %d cells in %d places", column.Name, have, n)
			}
		}
	})
}
