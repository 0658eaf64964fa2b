package audit

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	pq "github.com/attach-uncertainty/attach/internal/data/parquet"
)

// finishWith writes the results of files to dir, with at most fileRows rows in a file, and opens
// the scores again.
func finishWith(t *testing.T, files []*File, dir string, fileRows int) *File {
	t.Helper()
	_, err := Finish(t.Context(), files, Output{Dir: dir, FileRows: fileRows, Page: func(io.Writer, *Audit) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(filepath.Join(dir, Scores))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

// rowsOf returns the names of the files in a folder, and their numbers of rows.
func rowsOf(t *testing.T, dir string) (names []string, rows []int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		f, err := pq.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		names, rows = append(names, e.Name()), append(rows, f.Rows())
	}
	return names, rows
}

// TestFolderOfFiles checks that a large result is a folder of files, that a file and a folder
// replace each other, and that a folder is read as if it were a file.
func TestFolderOfFiles(t *testing.T) {
	s, err := NewScorer(bundle(t), Identity{FDR: .1, Delta: .1})
	if err != nil {
		t.Fatal(err)
	}
	all, names := shardsWithCopies()
	files := scoreFiles(t, s, all, names, noCuts)
	file, folder := t.TempDir(), t.TempDir()
	n := finishWith(t, files, file, 0).Rows()
	checkSame := func(dir string) {
		t.Helper()
		for _, name := range []string{Scores, Duplicates, "audit.json"} {
			want, err := os.ReadFile(filepath.Join(file, name))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s differs, %v", name, err)
			}
		}
		if names, _ := filepath.Glob(filepath.Join(dir, ".attach*")); names != nil {
			t.Errorf("%v are left", names)
		}
	}
	fileRows := n/3 + 1
	partial := finishWith(t, files, folder, fileRows)
	paths, rows := rowsOf(t, filepath.Join(folder, Scores))
	if want := []int{fileRows, fileRows, n - 2*fileRows}; !slices.Equal(rows, want) || paths[1] != "part-00001-"+partial.sum()+".parquet" {
		t.Errorf("%v have %d rows, want %d", paths, rows, want)
	}
	if again, _ := rowsOf(t, filepath.Join(folder, Scores)); finishWith(t, []*File{partial}, folder, fileRows).Rows() != n || !slices.Equal(again, paths) {
		t.Errorf("an equal result has other files: %v", again)
	}
	smaller := t.TempDir()
	finishWith(t, []*File{partial}, smaller, 0)
	checkSame(smaller)
	finishWith(t, []*File{partial}, folder, 0) // a file replaces the folder that it is read from
	checkSame(folder)
	f := finishWith(t, files, folder, 10) // a folder replaces a file
	if names, _ := rowsOf(t, filepath.Join(folder, Duplicates)); len(names) != len(f.paths) || names[1] != filepath.Base(f.paths[1]) {
		t.Errorf("the files of copies are %v", names)
	}

	// A folder may have files of an earlier result if a run was killed.
	other := t.TempDir()
	first := scoreFiles(t, s, all, names[:2], noCuts)
	earlier := finishWith(t, first, other, 10)
	for i, path := range earlier.paths {
		content, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, Scores, filepath.Base(path)), content, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := OpenFile(f.path); err != nil || got.Rows() != n {
			t.Errorf("with %d files of an earlier result: %v", i+1, err)
		}
	}
	if err := os.Remove(f.paths[1]); err != nil {
		t.Fatal(err)
	}
	got, err := OpenFile(f.path)
	if err != nil || got.Rows() != earlier.Rows() {
		t.Errorf("without a file of the last result: %v", err)
	}
	finishWith(t, files, folder, 10)
	if paths, _ := rowsOf(t, f.path); len(paths) != (n+9)/10 {
		t.Errorf("the folder has %v", paths)
	}
	for _, damage := range []func(path string) error{
		func(path string) error { return os.WriteFile(path, []byte("PAR1"), 0o666) },
		func(path string) error {
			return os.Rename(path, filepath.Join(filepath.Dir(path), fmt.Sprintf("x%d", n)))
		},
		func(path string) error {
			return os.Rename(filepath.Join(filepath.Dir(path), "part-00000-"+f.sum()+".parquet"), path)
		},
	} {
		finishWith(t, files, folder, 10)
		if err := damage(filepath.Join(f.path, "part-00001-"+f.sum()+".parquet")); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenFile(f.path); !Damaged(err) {
			t.Errorf("a damaged folder: %v", err)
		}
	}
}

// sum returns the checksum in the names of the files of a folder.
func (f *File) sum() string {
	sum, _ := setOf(filepath.Base(f.paths[0]))
	return sum
}
