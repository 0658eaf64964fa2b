package atomicfile_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
)

// names returns the names of all files in a folder, including hidden files.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var s []string
	for _, e := range entries {
		s = append(s, e.Name())
	}
	return s
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestCommitReplacesAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.txt")
	if err := os.WriteFile(path, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	f, err := atomicfile.Create(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, "new")
	if got := content(t, path); got != "old" {
		t.Errorf("before Commit the file holds %q, want %q", got, "old")
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	f.Abort()
	if got := content(t, path); got != "new" {
		t.Errorf("after Commit the file holds %q, want %q", got, "new")
	}
	if got := names(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("folder holds %v, want out.txt alone", got)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
		t.Errorf("permissions are %v, want those of the file replaced, 0640", info.Mode().Perm())
	}
}

// TestCommitTogether checks that Commit replaces all of its files, or none if one of them
// was aborted.
func TestCommitTogether(t *testing.T) {
	dir := t.TempDir()
	create := func(ctx context.Context, text string) (files []*atomicfile.File) {
		t.Helper()
		for _, name := range []string{"a", "b", "c"} {
			f, err := atomicfile.Create(ctx, filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(f, text)
			files = append(files, f)
		}
		return files
	}
	expectContent := func(want string) {
		t.Helper()
		for _, name := range []string{"a", "b", "c"} {
			if got := content(t, filepath.Join(dir, name)); got != want {
				t.Errorf("%s holds %q, want %q", name, got, want)
			}
		}
		if got := names(t, dir); len(got) != 3 {
			t.Errorf("the folder holds %v", got)
		}
	}
	if err := atomicfile.Commit(create(t.Context(), "old")...); err != nil {
		t.Fatal(err)
	}
	expectContent("old")
	files := create(t.Context(), "new")
	files[2].Abort()
	if err := atomicfile.Commit(files...); !errors.Is(err, atomicfile.ErrAborted) {
		t.Errorf("one was aborted: %v", err)
	}
	for _, f := range files {
		f.Abort()
	}
	expectContent("old")
	ctx, cancel := context.WithCancel(t.Context())
	files = create(ctx, "new")
	cancel()
	for range 1000 {
		if len(names(t, dir)) == 3 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := atomicfile.Commit(files...); err == nil {
		t.Error("the context was done before")
	}
	expectContent("old")
	if err := atomicfile.Commit(create(t.Context(), "new")...); err != nil {
		t.Fatal(err)
	}
	expectContent("new")
}

func TestAbortLeavesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.txt")
	f, err := atomicfile.Create(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, "half")
	f.Abort()
	if got := names(t, filepath.Dir(path)); len(got) != 0 {
		t.Errorf("folder holds %v after Abort, want nothing", got)
	}
}

// TestCancelled checks that the temporary file is removed as soon as the context ends, and
// that Commit and WriteFile then return an error.
func TestCancelled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.txt")
	ctx, cancel := context.WithCancel(t.Context())
	f, err := atomicfile.Create(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for range 1000 {
		if len(names(t, filepath.Dir(path))) == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if got := names(t, filepath.Dir(path)); len(got) != 0 {
		t.Errorf("folder holds %v, want nothing", got)
	}
	if err := f.Commit(); !errors.Is(err, atomicfile.ErrAborted) {
		t.Errorf("Commit returns %v, want %v", err, atomicfile.ErrAborted)
	}
	if err := atomicfile.WriteFile(ctx, path, func(io.Writer) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("WriteFile returns %v, want %v", err, context.Canceled)
	}
}

func TestLongName(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("n", 255))
	err := atomicfile.WriteFile(t.Context(), path, func(w io.Writer) error {
		_, err := io.WriteString(w, "x")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWriteFileFailure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.txt")
	if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	err := atomicfile.WriteFile(t.Context(), path, func(w io.Writer) error {
		fmt.Fprint(w, strings.Repeat("x", 1<<20))
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("error is %v, want %v", err, boom)
	}
	if got := content(t, path); got != "old" {
		t.Errorf("the file was touched: it holds %d bytes", len(got))
	}
	if got := names(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("folder holds %v, want out.txt alone", got)
	}
}

func TestSeek(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.txt")
	f, err := atomicfile.Create(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Abort()
	fmt.Fprint(f, "....tail")
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, "head")
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := content(t, path); got != "headtail" {
		t.Errorf("the file holds %q, want %q", got, "headtail")
	}
}

func TestSymlinkStays(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	link := filepath.Join(dir, "link")
	if err := os.WriteFile(target, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("target", link); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	err := atomicfile.WriteFile(t.Context(), link, func(w io.Writer) error {
		_, err := io.WriteString(w, "through")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := content(t, target); got != "through" {
		t.Errorf("target holds %q, want %q", got, "through")
	}
	if info, _ := os.Lstat(link); info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link was replaced by a file")
	}
}

// TestSymlinkToNothing checks that writing to a link creates the missing file that it leads
// to, and that a link to itself is an error.
func TestSymlinkToNothing(t *testing.T) {
	dir := t.TempDir()
	link, circle := filepath.Join(dir, "link"), filepath.Join(dir, "circle")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "far"), 0o777), os.Symlink("far/target", link), os.Symlink("circle", circle)); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	writeThrough := func(w io.Writer) error {
		_, err := io.WriteString(w, "through")
		return err
	}
	if err := atomicfile.WriteFile(t.Context(), link, writeThrough); err != nil {
		t.Fatal(err)
	}
	if got := content(t, filepath.Join(dir, "far", "target")); got != "through" {
		t.Errorf("target holds %q, want %q", got, "through")
	}
	if err := atomicfile.WriteFile(t.Context(), circle, writeThrough); err == nil || !strings.Contains(err.Error(), "leads in a circle") {
		t.Errorf("a link to itself: error %v", err)
	}
}

func TestDevice(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no /dev/null")
	}
	err := atomicfile.WriteFile(t.Context(), "/dev/null", func(w io.Writer) error {
		_, err := io.WriteString(w, "gone")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat("/dev/null"); err != nil || info.Mode().IsRegular() {
		t.Errorf("/dev/null is no device any more: %v, %v", info, err)
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	locked := filepath.Join(dir, "locked")
	if err := os.Mkdir(locked, 0o555); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path, want string
		asRoot           bool
	}{
		{"empty", "", "the name of the output file is empty", true},
		{"folder", dir, "it is a folder", true},
		{"missing folder", filepath.Join(dir, "no", "x"), "does not exist", true},
		{"file as folder", filepath.Join(file, "x"), "is not a folder", true},
		{"no permission", filepath.Join(locked, "x"), "no permission", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !tt.asRoot && (os.Geteuid() == 0 || runtime.GOOS == "windows") {
				t.Skip("permissions do not bind this user")
			}
			_, err := atomicfile.Create(t.Context(), tt.path)
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %q, want it to say %q", err, tt.want)
			}
			if strings.Contains(err.Error(), ".tmp") {
				t.Errorf("error %q shows the temporary name", err)
			}
		})
	}
}

// TestLock checks that a folder cannot be locked a second time before it is unlocked, and
// that locking leaves no file behind.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	unlock, err := atomicfile.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := atomicfile.Lock(dir); !errors.Is(err, atomicfile.ErrLocked) {
		t.Errorf("it is held twice: %v", err)
	}
	unlock()
	again, err := atomicfile.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	again()
	if _, err := atomicfile.Lock(filepath.Join(dir, "none")); err == nil && runtime.GOOS != "windows" {
		t.Error("a folder that is not there is held")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v is left", entries, err)
	}
}
