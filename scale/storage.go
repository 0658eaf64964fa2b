package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // file://
	_ "gocloud.dev/blob/gcsblob"  // gs://
	_ "gocloud.dev/blob/s3blob"   // s3://

	"github.com/attach-uncertainty/attach/internal/audit/engine"
	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
)

// storage is object storage that URLs name, and folders. It is safe for concurrent use.
type storage struct {
	opening sync.Mutex
	buckets map[string]*blob.Bucket
}

// temporary is the folder of all copies of this process.
var temporary = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "attach-scale-") })

func newStorage() *storage { return &storage{buckets: map[string]*blob.Bucket{}} }

// copies makes a folder for copies.
func copies() (string, error) {
	dir, err := temporary()
	if err != nil {
		return "", err
	}
	return os.MkdirTemp(dir, "")
}

// removeCopies removes all copies of this process.
func removeCopies() {
	if dir, err := temporary(); err == nil {
		os.RemoveAll(dir)
	}
}

// open opens the bucket of a URL and returns what the URL names in it.
func (s *storage) open(ctx context.Context, name string) (b *blob.Bucket, key string, err error) {
	u, err := url.Parse(name)
	if err != nil {
		return nil, "", fmt.Errorf("%s: it is no URL of a file", name)
	}
	key = strings.Trim(u.Path, "/")
	u.Path = ""
	if u.Scheme == "file" {
		u.Path = "/"
		q := u.Query()
		q.Set("no_tmp_dir", "true") // else files are moved between disks
		q.Set("metadata", "skip")   // else every file has one beside it
		u.RawQuery = q.Encode()
	}
	s.opening.Lock()
	defer s.opening.Unlock()
	if b = s.buckets[u.String()]; b == nil {
		if b, err = blob.OpenBucket(ctx, u.String()); err != nil {
			return nil, "", fmt.Errorf("%s: %w", name, err)
		}
		s.buckets[u.String()] = b
	}
	return b, key, nil
}

// changed is a URL with another path, which asks for the same.
func changed(name string, to func(at string) string) string {
	at, query, asks := strings.Cut(name, "?")
	if asks {
		return to(at) + "?" + query
	}
	return to(at)
}

// under is the URL of a file in the folder of another.
func under(folder, name string) string {
	return changed(folder, func(at string) string { return strings.TrimSuffix(at, "/") + "/" + name })
}

// list are the keys that begin so.
func list(ctx context.Context, b *blob.Bucket, prefix, delimiter string) (all []*blob.ListObject, err error) {
	for it := b.List(&blob.ListOptions{Prefix: prefix, Delimiter: delimiter}); ; {
		one, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
}

// Shards are the files and folders that a URL stands for: itself, a pattern such as
// s3://bucket/day-*.parquet, or a folder of files of rows.
func (s *storage) Shards(ctx context.Context, name string) (shards []string, err error) {
	at, _, _ := strings.Cut(name, "?")
	names, err := inputs.Expand(at)
	if err != nil {
		return nil, err
	}
	for _, one := range names {
		one = changed(name, func(string) string { return one })
		some, err := s.shards(ctx, one)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one, err)
		}
		shards = append(shards, some...)
	}
	return shards, nil
}

func (s *storage) shards(ctx context.Context, name string) (shards []string, err error) {
	b, key, err := s.open(ctx, name)
	if err != nil {
		return nil, err
	}
	sibling := func(of string) string { // name, with another key
		return changed(name, func(at string) string { return strings.TrimSuffix(strings.TrimSuffix(at, "/"), key) + of })
	}
	if i := strings.IndexAny(key, "*["); i >= 0 {
		found, err := list(ctx, b, key[:i], "")
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			if ok, err := path.Match(key, o.Key); err != nil {
				return nil, errors.New("it is no pattern of names; write * for any letters")
			} else if ok {
				shards = append(shards, sibling(o.Key))
			}
		}
		if shards == nil {
			err = errors.New("no file is called so")
		}
		return shards, err
	}
	if is, err := s.isFile(ctx, b, key); err != nil || is {
		return []string{name}, err
	}
	found, err := list(ctx, b, key+"/", "/")
	if err == nil && found == nil {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, o := range found {
		names = append(names, strings.TrimPrefix(o.Key, key+"/")) // of folders with a slash
	}
	for _, one := range inputs.FilesOfRows(names) {
		shards = append(shards, sibling(key+"/"+one))
	}
	if shards == nil {
		shards = []string{sibling(key)}
	}
	slices.Sort(shards)
	return shards, nil
}

// Stamps look at the files and folders of URLs: what lies in one folder is listed
// together.
func (s *storage) Stamps(ctx context.Context, urls []string) ([]engine.Stamp, error) {
	type folder struct {
		bucket *blob.Bucket
		prefix string // that all names in it begin with
		files  map[string]*blob.ListObject
	}
	type place struct {
		bucket *blob.Bucket
		dir    string
	}
	folders := map[place]*folder{}
	at := make([]place, len(urls))
	keys := make([]string, len(urls))
	for i, name := range urls {
		b, key, err := s.open(ctx, name)
		if err != nil {
			return nil, err
		}
		at[i], keys[i] = place{b, path.Dir(key)}, key
		if f := folders[at[i]]; f == nil {
			folders[at[i]] = &folder{bucket: b, prefix: key}
		} else {
			for !strings.HasPrefix(key, f.prefix) {
				f.prefix = f.prefix[:len(f.prefix)-1]
			}
		}
	}
	stamps := make([]engine.Stamp, len(urls))
	for i, name := range urls {
		f := folders[at[i]]
		if f.files == nil {
			found, err := list(ctx, f.bucket, f.prefix, "/")
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			f.files = map[string]*blob.ListObject{}
			for _, o := range found {
				if !o.IsDir {
					f.files[o.Key] = o
				}
			}
		}
		if o := f.files[keys[i]]; o != nil {
			stamps[i] = stampOf([]*blob.ListObject{o})
			continue
		}
		found, err := list(ctx, f.bucket, keys[i]+"/", "")
		if err == nil && len(found) == 0 {
			err = fs.ErrNotExist
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		stamps[i] = stampOf(found)
		stamps[i].Files = len(found)
	}
	return stamps, nil
}

// stampOf is of all objects, and of what the storage knows of their content.
func stampOf(all []*blob.ListObject) (stamp engine.Stamp) {
	members := sha256.New()
	for _, o := range all {
		stamp.Size += o.Size
		if o.ModTime.After(stamp.Modified) {
			stamp.Modified = o.ModTime.UTC()
		}
		fmt.Fprintf(members, "%q %d %d %x\n", o.Key, o.Size, o.ModTime.UnixNano(), o.MD5)
	}
	stamp.Members = hex.EncodeToString(members.Sum(nil))
	return stamp
}

// isFile says whether a key is that of a file.
func (s *storage) isFile(ctx context.Context, b *blob.Bucket, key string) (bool, error) {
	found, err := list(ctx, b, key, "/")
	return slices.ContainsFunc(found, func(o *blob.ListObject) bool { return o.Key == key && !o.IsDir }), err
}

// Fetch copies the file or folder of a URL to this machine, under its own name, until
// release is called. With a model comes what begins with its name: large ones keep
// their weights so.
func (s *storage) Fetch(ctx context.Context, name string) (at string, release func(), err error) {
	b, key, err := s.open(ctx, name)
	if err != nil {
		return "", nil, err
	}
	dir, err := copies()
	if err != nil {
		return "", nil, err
	}
	release = func() { os.RemoveAll(dir) }
	prefix := key
	is, err := s.isFile(ctx, b, key)
	if !is {
		prefix += "/"
	}
	var found []*blob.ListObject
	if err == nil && is && path.Ext(key) != ".onnx" {
		found = []*blob.ListObject{{Key: key}}
	} else if err == nil {
		found, err = list(ctx, b, prefix, "")
	}
	if err == nil && len(found) == 0 {
		err = fs.ErrNotExist
	}
	above := strings.TrimSuffix(key, path.Base(key))
	for _, o := range found {
		if err == nil {
			err = download(ctx, b, o.Key, filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(o.Key, above))))
		}
	}
	if err != nil {
		release()
		return "", nil, fmt.Errorf("%s: %w", name, err)
	}
	return filepath.Join(dir, path.Base(key)), release, nil
}

func download(ctx context.Context, b *blob.Bucket, key, to string) error {
	r, err := b.NewReader(ctx, key, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	return atomicfile.WriteFile(ctx, to, func(w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	})
}

// have are the files of a folder whose names begin so and are some, as paths until
// release is called.
func (s *storage) have(ctx context.Context, folder, prefix string, some func(name string) bool) (paths []string, release func(), err error) {
	release = func() {}
	if strings.Contains(folder, "://") {
		dir, err := copies()
		if err != nil {
			return nil, nil, err
		}
		if err := s.get(ctx, folder, prefix, some, dir); err != nil {
			return nil, nil, err
		}
		folder, release = dir, func() { os.RemoveAll(dir) }
	}
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && some(e.Name()) {
			paths = append(paths, filepath.Join(folder, e.Name()))
		}
	}
	return paths, release, err
}

// get copies the files of the folder of a URL whose names begin so and are some to
// another, but for those that are there.
func (s *storage) get(ctx context.Context, folder, prefix string, some func(name string) bool, to string) error {
	b, key, err := s.open(ctx, folder)
	if err != nil {
		return err
	}
	found, err := list(ctx, b, key+"/"+prefix, "/")
	if err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	for _, o := range found {
		name := filepath.Join(to, path.Base(o.Key))
		if o.IsDir || !some(path.Base(o.Key)) {
			continue
		}
		if _, err := os.Stat(name); err == nil {
			continue
		}
		if err := download(ctx, b, o.Key, name); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
	}
	return nil
}

// put writes a file to a folder, whole or not at all.
func (s *storage) put(ctx context.Context, folder, name string, from io.WriterTo) error {
	write := func(w io.Writer) error {
		_, err := from.WriteTo(w)
		return err
	}
	if !strings.Contains(folder, "://") {
		return atomicfile.WriteFile(ctx, filepath.Join(folder, name), write)
	}
	b, key, err := s.open(ctx, under(folder, name))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := b.NewWriter(ctx, key, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	if err := write(w); err != nil {
		cancel() // what was written is left out
		w.Close()
		return err
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	return nil
}

// audit is a folder with what is in that of a URL.
func (s *storage) audit(ctx context.Context, from string) (dir string, err error) {
	if dir, err = copies(); err != nil {
		return "", err
	}
	if err := os.Mkdir(filepath.Join(dir, "parts"), 0o777); err != nil {
		return "", err
	}
	for _, name := range []string{"scores.parquet", "audit.json", "report.html", "run.json"} {
		if err := s.get(ctx, from, name, func(is string) bool { return is == name }, dir); err != nil {
			return "", err
		}
	}
	whole := func(name string) bool { return strings.HasSuffix(name, ".parquet") || name == plan }
	return dir, s.get(ctx, under(from, "parts"), "", whole, filepath.Join(dir, "parts"))
}

// bring makes the folder of a URL what a folder is that holds an audit, and removes parts
// that went into it. If the audit is not finished the folder of the URL stays as it is.
func (s *storage) bring(ctx context.Context, dir, to string) error {
	if _, err := os.Stat(filepath.Join(dir, "parts", plan)); err == nil {
		return nil
	}
	for _, name := range []string{"scores.parquet", "audit.json", "report.html", "run.json"} { // the last says what the others are of
		f, err := os.Open(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // nothing was scored
		}
		if err != nil {
			return err
		}
		err = s.put(ctx, to, name, f)
		f.Close()
		if err != nil {
			return err
		}
	}
	if err := s.remove(ctx, under(to, "parts"), engine.IsPartFile); err != nil {
		return err
	}
	return s.sweep(to)
}

// remove removes the files of the folder of a URL that are some.
func (s *storage) remove(ctx context.Context, folder string, some func(name string) bool) error {
	b, key, err := s.open(ctx, folder)
	if err != nil {
		return err
	}
	found, err := list(ctx, b, key+"/", "/")
	if err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	for _, o := range found {
		if o.IsDir || !some(path.Base(o.Key)) {
			continue
		}
		if err := b.Delete(ctx, o.Key); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
	}
	return nil
}

// sweep removes the folder of parts that a URL of a disk leaves when these are gone.
func (s *storage) sweep(to string) error {
	u, err := url.Parse(under(to, "parts"))
	if err != nil || u.Scheme != "file" {
		return err
	}
	os.Remove(filepath.FromSlash(u.Path)) // unless it holds what is another's
	return nil
}
