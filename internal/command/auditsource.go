package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	slash "path"
	"path/filepath"
	"strings"
	"time"

	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/regularfile"
)

// Stamp is how a file or folder looks from outside. It differs once that was changed.
type Stamp struct {
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	// Files are how many a folder holds, and Members is of their names, sizes and times.
	Files   int    `json:"files,omitempty"`
	Members string `json:"members,omitempty"`
}

// same says that nothing was changed between two stamps.
func (s Stamp) same(other Stamp) bool {
	return s.Size == other.Size && s.Modified.Equal(other.Modified) && s.Files == other.Files && s.Members == other.Members
}

// String says what people see of it.
func (s Stamp) String() string {
	at := fmt.Sprintf("%d bytes of %s", s.Size, s.Modified.Format(time.RFC3339Nano))
	if s.Files > 0 {
		return fmt.Sprintf("%d files with %s", s.Files, at)
	}
	return at
}

// auditSource is a shard as it was when it was begun with.
type auditSource struct {
	Name string `json:"name"`
	Stamp
	// Machine, Path, links followed, and Number, which is what the disk calls it, tell
	// files apart. That of a URL is on no machine.
	Machine string `json:"machine,omitempty"`
	Path    string `json:"path"`
	Number  string `json:"number,omitempty"`
	// Linked are the folders that links in a folder of images lead to.
	Linked []string `json:"linked,omitempty"`
	// LeftOut is why no row of it was audited, or empty.
	LeftOut string `json:"left_out,omitempty"`
}

// place is where a source lies.
func (s auditSource) place() string { return s.Machine + ":" + s.Path }

// places are where a source has rows.
func (s auditSource) places() []string {
	all := []string{s.place()}
	for _, to := range s.Linked {
		all = append(all, s.Machine+":"+to)
	}
	return all
}

// related says how two sources that [twice] found have the same rows.
func (s auditSource) related(other auditSource) string {
	if strings.HasPrefix(other.Path, s.Path+"/") {
		return " within it"
	}
	if s.Linked != nil || other.Linked != nil {
		return ", one of which a link in the other leads to"
	}
	if s.Files > 0 {
		return ", which are one folder"
	}
	return ", which are one file"
}

// sources look at shards from outside.
func (f *auditing) sources(ctx context.Context, shards []shard) (list []auditSource, err error) {
	var urls []string
	for _, one := range shards {
		if isURL(one.path) {
			urls = append(urls, one.path)
		}
	}
	var stamps []Stamp
	if urls != nil {
		if stamps, err = f.engine.Stamps(ctx, urls); err != nil {
			return nil, err
		}
	}
	here := machine()
	for _, one := range shards {
		s := auditSource{Name: one.name, Path: one.leads}
		if isURL(one.path) {
			s.Stamp, stamps = stamps[0], stamps[1:]
		} else {
			s.Machine = here
			if err = s.look(ctx, one.path); err != nil {
				return nil, err
			}
		}
		list = append(list, s)
	}
	return list, nil
}

// machine tells this machine from others, and no more of it.
func machine() string {
	name, _ := os.Hostname()
	id, _ := os.ReadFile("/etc/machine-id")
	sum := sha256.Sum256(append(id, name...))
	return hex.EncodeToString(sum[:8])
}

// look looks at a file or at a folder of images.
func (s *auditSource) look(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	s.Number = regularfile.Number(info)
	if !info.IsDir() {
		s.Stamp = Stamp{Size: info.Size(), Modified: info.ModTime().UTC()}
		return nil
	}
	in, err := inputs.Images(ctx, path)
	if err != nil {
		return err
	}
	for _, to := range in.Linked {
		s.Linked = append(s.Linked, filepath.ToSlash(to))
	}
	members := sha256.New()
	for _, name := range in.Files {
		info, err := os.Stat(filepath.Join(path, filepath.FromSlash(name)))
		if err != nil { // a link to nothing: what it means is for who reads it
			fmt.Fprintf(members, "%q\n", name)
			continue
		}
		s.add(info.Size(), info.ModTime())
		fmt.Fprintf(members, "%q %d %d\n", name, info.Size(), info.ModTime().UnixNano())
	}
	s.Files, s.Members = len(in.Files), hex.EncodeToString(members.Sum(nil))
	return nil
}

// add counts a file of a folder.
func (s *Stamp) add(size int64, modified time.Time) {
	if s.Size += size; modified.After(s.Modified) {
		s.Modified = modified.UTC()
	}
}

// changes are the sources that are not what they were, with how they were. Both lists
// have the same names.
func changes(before, now []auditSource) (changed []string, how string) {
	was := map[string]auditSource{}
	for _, s := range before {
		was[s.Name] = s
	}
	for _, s := range now {
		if b := was[s.Name]; !s.same(b.Stamp) {
			if changed = append(changed, s.Name); len(changed) == 1 {
				how = fmt.Sprintf("it was %v and is %v", b.Stamp, s.Stamp)
			}
		}
	}
	return changed, how
}

// twice finds two sources that are one file, at the same place, whatever it holds now,
// or by other names, or one of which lies in the other. A disk uses its numbers again for
// other files, which are changed at other times.
func twice(list []auditSource) (one, other auditSource, found bool) {
	seen := map[string]auditSource{}
	for _, s := range list {
		keys := s.places()
		if s.Number != "" {
			keys = append(keys, fmt.Sprint(s.Machine, s.Number, s.Size, s.Modified.UnixNano(), s.Members))
		}
		for _, key := range keys {
			if before, is := seen[key]; is {
				return before, s, true
			}
			seen[key] = s
		}
	}
	for _, s := range list {
		for _, at := range append(s.Linked, s.Path) {
			for outer := slash.Dir(at); outer != at; at, outer = outer, slash.Dir(outer) {
				if holds, is := seen[s.Machine+":"+outer]; is && holds.place() != s.place() {
					return holds, s, true
				}
			}
		}
	}
	return one, other, false
}

// sourceNames are those of sources.
func sourceNames(list []auditSource) (names []string) {
	for _, s := range list {
		names = append(names, s.Name)
	}
	return names
}
