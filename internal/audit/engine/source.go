package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"iter"
	"os"
	slash "path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/modelrows"
)

// Stamp holds the size and the modification time of a file. For a folder, it holds the total
// size of its files and the latest of their modification times. A changed stamp means that
// the file or folder has changed.
type Stamp struct {
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	// Files is the number of files in a folder. Members is a digest of their names, sizes
	// and modification times.
	Files   int    `json:"files,omitempty"`
	Members string `json:"members,omitempty"`
}

// same reports whether two stamps are equal.
func (s Stamp) same(other Stamp) bool {
	return s.Size == other.Size && s.Modified.Equal(other.Modified) && s.Files == other.Files && s.Members == other.Members
}

// String formats a stamp for a message.
func (s Stamp) String() string {
	at := fmt.Sprintf("%d bytes of %s", s.Size, s.Modified.Format(time.RFC3339Nano))
	if s.Files > 0 {
		return fmt.Sprintf("%d files with %s", s.Files, at)
	}
	return at
}

// source is a file or folder to audit, with its stamp at the start of the audit.
type source struct {
	Name string `json:"name"`
	Stamp
	// LeftOut is the reason why no row of the source was audited, or empty.
	LeftOut string `json:"left_out,omitempty"`

	path  string      // path or URL, with links not resolved
	paths []string    // resolved path of the source, and the targets of links in a folder
	info  fs.FileInfo // nil for a URL
}

// sources returns the files and folders at paths with their stamps, sorted by name.
func (e *Engine) sources(ctx context.Context, paths []string) (list []source, err error) {
	var stamps []Stamp
	if urls := slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return !isURL(path) }); len(urls) > 0 {
		if stamps, err = e.storage.Stamps(ctx, urls); err != nil {
			return nil, err
		}
	}
	for _, path := range paths {
		s := source{Name: audit.Name(path), path: path}
		if isURL(path) {
			s.Stamp, stamps = stamps[0], stamps[1:]
			s.paths = []string{slash.Clean(s.Name)}
		} else if err := s.stat(ctx); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	slices.SortStableFunc(list, func(a, b source) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// stat sets the stamp and the resolved paths of a file or of a folder of images.
func (s *source) stat(ctx context.Context) (err error) {
	if s.info, err = os.Stat(s.path); err != nil {
		return err
	}
	s.paths = []string{resolvePath(s.path)}
	if !s.info.IsDir() {
		s.Stamp = Stamp{Size: s.info.Size(), Modified: s.info.ModTime().UTC()}
		return nil
	}
	in, err := inputs.Images(ctx, s.path)
	if err != nil {
		return err
	}
	for _, to := range in.Linked {
		s.paths = append(s.paths, filepath.ToSlash(to))
	}
	members := sha256.New()
	for _, name := range in.Files {
		info, err := os.Stat(filepath.Join(s.path, filepath.FromSlash(name)))
		if err != nil { // a broken link; the reader reports it later
			fmt.Fprintf(members, "%q\n", name)
			continue
		}
		s.add(info.Size(), info.ModTime())
		fmt.Fprintf(members, "%q %d %d\n", name, info.Size(), info.ModTime().UnixNano())
	}
	s.Files, s.Members = len(in.Files), hex.EncodeToString(members.Sum(nil))
	return nil
}

// add adds a file to the stamp of its folder.
func (s *Stamp) add(size int64, modified time.Time) {
	if s.Size += size; modified.After(s.Modified) {
		s.Modified = modified.UTC()
	}
}

// find returns the files and folders that an option names, sorted by name. It returns an
// error if two of them share rows.
func (e *Engine) find(ctx context.Context, option string, names []string) (sources []source, err error) {
	var paths []string
	for _, name := range names {
		var matches []string
		if e.storage != nil && isURL(name) {
			matches, err = e.storage.Shards(ctx, name)
		} else {
			matches, err = inputs.Shards(name)
		}
		if err != nil {
			return nil, err
		}
		paths = append(paths, matches...)
	}
	if sources, err = e.sources(ctx, paths); err != nil {
		return nil, err
	}
	return sources, checkDistinct(option, sources)
}

// checkDir returns an error if the result folder is one of the inputs or is inside one.
func (o *Options) checkDir(sources []source) error {
	names := map[string]string{} // names of inputs by resolved path
	for _, s := range sources {
		names[s.paths[0]] = s.Name
	}
	for _, name := range o.Inputs {
		if !isURL(name) {
			names[resolvePath(name)] = name
		}
	}
	for at := range ancestors(resolvePath(o.Dir)) {
		if name, within := names[at]; within {
			return modelrows.Usagef("Options.Dir %s lies in %s, which Options.Inputs names; write to another folder", o.Dir, name)
		}
	}
	return nil
}

// changed returns the names of the sources that changed since r was recorded, or that r does
// not list. The result how describes the change of the first of them.
func (r run) changed(now []source) (changed []string, how string) {
	for _, s := range now {
		var before Stamp
		if i, named := r.index(s.Name); named {
			before = r.Shards[i].Stamp
		}
		if s.same(before) {
			continue
		}
		if changed = append(changed, s.Name); len(changed) == 1 {
			how = fmt.Sprintf("it was %v and is %v", before, s.Stamp)
		}
	}
	return changed, how
}

// checkDistinct returns an error if two sources share rows. They do if they are one file or
// folder under two names, if one contains the other, or if a link in one leads to the other.
func checkDistinct(option string, list []source) error {
	sharedRows := func(first, second source) error {
		how := ", which are one file"
		switch {
		case first.Name == second.Name:
			return modelrows.Usagef("%s names %s twice; name each input once", option, first.Name)
		case strings.HasPrefix(second.paths[0], first.paths[0]+"/"):
			how = " within it"
		case len(first.paths)+len(second.paths) > 2:
			how = ", one of which a link in the other leads to"
		case first.Files > 0:
			how = ", which are one folder"
		}
		return modelrows.Usagef("%s names %s and %s%s; name each input once", option, first.Name, second.Name, how)
	}
	at, like := map[string]source{}, map[Stamp][]*source{}
	for i, s := range list {
		for _, sourcePath := range s.paths {
			if before, found := at[sourcePath]; found {
				return sharedRows(before, s)
			}
			at[sourcePath] = s
		}
		for _, before := range like[s.Stamp] {
			if os.SameFile(before.info, s.info) { // the two names are hard links to one file
				return sharedRows(*before, s)
			}
		}
		like[s.Stamp] = append(like[s.Stamp], &list[i])
	}
	for _, s := range list {
		for _, sourcePath := range s.paths {
			for folder := range ancestors(sourcePath) {
				if parent, found := at[folder]; found && parent.Name != s.Name {
					return sharedRows(parent, s)
				}
			}
		}
	}
	return nil
}

// ancestors yields a path and its parent folders, up to the root.
func ancestors(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for yield(path) && path != slash.Dir(path) {
			path = slash.Dir(path)
		}
	}
}

// resolvePath returns the absolute path with forward slashes. It resolves links in the part
// of the path that exists.
func resolvePath(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return filepath.ToSlash(path)
	}
	for at := range ancestors(filepath.ToSlash(abs)) {
		if real, err := filepath.EvalSymlinks(filepath.FromSlash(at)); err == nil {
			return slash.Join(filepath.ToSlash(real), strings.TrimPrefix(filepath.ToSlash(abs), at))
		}
	}
	return filepath.ToSlash(abs)
}

// sourceNames returns the names of sources.
func sourceNames(list []source) (names []string) {
	for _, s := range list {
		names = append(names, s.Name)
	}
	return names
}
