package audit

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
)

// fileRows is the largest number of rows of a partition.
const fileRows = 1 << 23

// table writes rows of the results to the file at path or, if there are several partitions, to a
// folder of files at path, one for each. The names of these files end with sum, which identifies
// the results. The files of an earlier result therefore stay until all new files are in the
// folder.
type table struct {
	ctx     context.Context
	path    string
	columns *columns
	header  []byte // the first file has it, and all files have its checksum; nil without a header
	sum     string
	files   []*atomicfile.File // by partition; nil if workers wrote them to t.staged()
}

// tableFile writes the file of a partition.
type tableFile struct {
	*writer
	header []byte
	sum    string
	buffer *bufio.Writer
}

// create begins the file of a partition. Several goroutines may create files.
func (t *table) create(partition int) (*tableFile, error) {
	path := t.path
	if len(t.files) > 1 || isDir(t.path) {
		path += ".new" // no file gets this name, because commitTables knows the right one
	}
	f, err := atomicfile.Create(t.ctx, path)
	if err != nil {
		return nil, err
	}
	t.files[partition] = f
	buffer := bufio.NewWriterSize(f, 1<<16)
	file := &tableFile{newWriter(buffer, t.columns), nil, t.sum, buffer}
	if partition == 0 {
		file.header = t.header
	}
	return file, nil
}

// end writes the end of the file.
func (f *tableFile) end() error { return cmp.Or(f.close(f.header, f.sum), f.buffer.Flush()) }

// abort discards the files, unless they are in place.
func (t *table) abort() {
	for _, f := range t.files {
		if f != nil {
			f.Abort()
		}
	}
	os.RemoveAll(t.staged())
}

// staged is the path of a new folder before it replaces a file.
func (t *table) staged() string { return t.temporary("new") }

// old is the path of an earlier folder until a file has replaced it.
func (t *table) old() string { return t.temporary("old") }

func (t *table) temporary(state string) string {
	return filepath.Join(filepath.Dir(t.path), temporaryFolder(filepath.Base(t.path), state))
}

func temporaryFolder(table, state string) string { return ".attach-" + table + "-" + state + ".tmp" }

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// setName returns the name of a file in a folder of results.
func setName(index int, sum string) string { return fmt.Sprintf("part-%05d-%s.parquet", index, sum) }

// commitTables puts tables in place, then other files. All files of a folder are complete before
// an earlier result is replaced. If a folder replaces a file, or the reverse, the process may be
// killed while neither is in place. Their rows are then scored again, or merged from their parts.
func commitTables(tables []*table, others ...*atomicfile.File) (err error) {
	var single, parts []*atomicfile.File
	for _, t := range tables {
		if len(t.files) == 1 {
			single = append(single, t.files...)
			continue
		}
		dir := t.path
		switch {
		case t.files[0] == nil && isDir(dir):
			for i := range t.files {
				if err := os.Rename(filepath.Join(t.staged(), setName(i, t.sum)), filepath.Join(dir, setName(i, t.sum))); err != nil {
					return err
				}
			}
			continue
		case t.files[0] == nil:
			continue
		case !isDir(dir):
			dir = t.staged()
			if err := cmp.Or(os.RemoveAll(dir), os.Mkdir(dir, 0o777)); err != nil {
				return err
			}
		}
		for i, f := range t.files {
			f.Retarget(filepath.Join(dir, setName(i, t.sum)))
		}
		parts = append(parts, t.files...)
	}
	if err := atomicfile.Commit(parts...); err != nil {
		return err
	}
	for _, t := range tables {
		if err := t.makeRoom(); err != nil {
			return err
		}
	}
	err = atomicfile.Commit(append(single, others...)...)
	for _, t := range tables {
		t.clean(err)
	}
	return err
}

// makeRoom moves a new folder to path. If the table is a file, it moves an earlier folder away.
func (t *table) makeRoom() error {
	switch {
	case len(t.files) > 1 && isDir(t.path):
		return nil
	case len(t.files) > 1:
		if err := os.Remove(t.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return os.Rename(t.staged(), t.path)
	case isDir(t.path):
		t.files[0].Retarget(t.path)
		return cmp.Or(os.RemoveAll(t.old()), os.Rename(t.path, t.old()))
	}
	return nil
}

// clean removes what remains of an earlier folder. If there was an error, it restores it.
func (t *table) clean(err error) {
	if len(t.files) == 1 {
		if err != nil {
			os.Rename(t.old(), t.path)
		}
		os.RemoveAll(t.old())
		return
	}
	names, _ := os.ReadDir(t.path)
	for _, e := range names {
		if sum, ok := setOf(e.Name()); ok && sum != t.sum {
			os.Remove(filepath.Join(t.path, e.Name()))
		}
	}
}

// setOf returns the checksum in the name of a file of a folder of results.
func setOf(name string) (sum string, ok bool) {
	index, ok := strings.CutPrefix(name, "part-")
	index, sum, found := strings.Cut(strings.TrimSuffix(index, ".parquet"), "-")
	return sum, ok && found && len(index) >= 5 && strings.HasSuffix(name, ".parquet")
}

// sets returns the paths of the files of each result in the folder at path. A result may lack
// files, because a run was killed before it wrote or removed all of them.
func sets(path string) (all [][]string, err error) {
	entries, err := os.ReadDir(path)
	index := map[string]int{}
	for _, e := range entries { // sorted by name
		sum, ok := setOf(e.Name())
		if !ok {
			continue
		}
		i, known := index[sum]
		if !known {
			i = len(all)
			index[sum], all = i, append(all, nil)
		}
		all[i] = append(all[i], filepath.Join(path, e.Name()))
	}
	return slices.DeleteFunc(all, func(paths []string) bool {
		return !strings.HasPrefix(filepath.Base(paths[0]), "part-00000-")
	}), err
}
