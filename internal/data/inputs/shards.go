package inputs

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/regularfile"
)

// Shards returns the files and folders that a name stands for. The name can be a path, a
// list in braces, a pattern such as *.parquet, or @FILE for a list of names in a file. A
// folder stands for its files of rows if it contains such files, but neither images nor
// folders.
func Shards(name string) ([]string, error) { return shardsOf(name, 0) }

// maxLists limits how deeply lists may name other lists.
const maxLists = 8

func shardsOf(name string, depth int) (shards []string, err error) {
	if list, isList := strings.CutPrefix(name, "@"); isList {
		if depth == maxLists {
			return nil, fmt.Errorf("%s: lists name other lists more than %d levels deep", list, maxLists)
		}
		lines, err := readList(list)
		if err != nil {
			return nil, err
		}
		for _, line := range lines {
			more, err := shardsOf(line, depth+1)
			if err != nil {
				return nil, InFile(list, err)
			}
			shards = append(shards, more...)
		}
		return shards, nil
	}
	names, err := Expand(name)
	if err != nil {
		return nil, err
	}
	for _, pattern := range names {
		found := []string{pattern}
		if _, err := os.Stat(pattern); err != nil && !strings.ContainsAny(pattern, "*?[") {
			return nil, err
		} else if err != nil {
			if found, err = filepath.Glob(pattern); err != nil {
				return nil, fmt.Errorf("%s: it is not a valid pattern of file names; use * for any characters and ? for one", pattern)
			}
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s: no file matches", pattern)
		}
		for _, path := range found {
			more, err := expandFolder(path)
			if err != nil {
				return nil, err
			}
			shards = append(shards, more...)
		}
	}
	return shards, nil
}

// maxShards limits the number of files in a list in braces.
const maxShards = 1 << 16

// Expand returns the names in a list in braces, such as shard-{000..146}.tar or
// {train,val}.tar. The name of an existing file is returned unchanged.
func Expand(name string) ([]string, error) {
	if _, err := os.Lstat(name); err == nil || !strings.Contains(name, "{") {
		return []string{name}, nil
	}
	names := []string{""}
	for rest := name; rest != ""; {
		before, after, braces := strings.Cut(rest, "{")
		choices := []string{""}
		if rest = ""; braces {
			list, behind, closed := strings.Cut(after, "}")
			if !closed {
				return nil, fmt.Errorf("%s: a brace is not closed; a list of shards looks like shard-{000..146}.tar", name)
			}
			var err error
			if choices, err = choicesOf(list); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			rest = behind
		}
		if len(names)*len(choices) > maxShards {
			return nil, fmt.Errorf("%s: the list has more than %d shards", name, maxShards)
		}
		var longer []string
		for _, n := range names {
			for _, c := range choices {
				longer = append(longer, n+before+c)
			}
		}
		names = longer
	}
	return names, nil
}

// choicesOf returns the choices in a list such as 000..146 or a,b,c.
func choicesOf(list string) ([]string, error) {
	from, to, isRange := strings.Cut(list, "..")
	if !isRange {
		return strings.Split(list, ","), nil
	}
	first, err := strconv.ParseUint(from, 10, 31)
	last, err2 := strconv.ParseUint(to, 10, 31)
	if err != nil || err2 != nil || last < first || last-first >= maxShards {
		return nil, fmt.Errorf("{%.40s} is not a list of shards; write {000..146}, with the smaller number first and at most %d numbers, or {a,b,c}", list, maxShards)
	}
	width := 0
	if strings.HasPrefix(from, "0") || strings.HasPrefix(to, "0") {
		width = max(len(from), len(to))
	}
	var names []string
	for i := first; i <= last; i++ {
		names = append(names, fmt.Sprintf("%0*d", width, i))
	}
	return names, nil
}

// readList reads one name from each line of a file, and skips empty lines.
func readList(path string) (lines []string, err error) {
	f, err := regularfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		if line := strings.TrimSpace(scan.Text()); line != "" {
			lines = append(lines, line)
		}
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if lines == nil {
		return nil, fmt.Errorf("%s: it names no files", path)
	}
	return lines, nil
}

// expandFolder returns the files of rows in a folder. If path is a file, or if FilesOfRows
// finds no such files in the folder, it returns path itself.
func expandFolder(path string) (files []string, err error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return []string{path}, nil // opening it will report the error
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if name := e.Name(); e.IsDir() || e.Type() == fs.ModeSymlink && isFolder(filepath.Join(path, name)) {
			names = append(names, name+"/")
		} else {
			names = append(names, name)
		}
	}
	for _, name := range FilesOfRows(names) {
		files = append(files, filepath.Join(path, name))
	}
	if files == nil {
		return []string{path}, nil
	}
	return files, nil
}

// FilesOfRows returns, sorted, the files of rows among the names in a folder. Names of
// folders end in a slash. It returns nil if there are no such files, or if there are also
// images or folders.
func FilesOfRows(names []string) (files []string) {
	for _, name := range names {
		switch ext := strings.ToLower(filepath.Ext(name)); {
		case strings.HasPrefix(name, "."):
		case isImage(name), strings.HasSuffix(name, "/"):
			return nil
		case ext == ".npy", ext == ".npz", ext == ".tar", IsTable(name):
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return files
}
