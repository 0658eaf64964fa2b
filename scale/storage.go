package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
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
	"gocloud.dev/gcerrors"

	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/audit/engine"
	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
)

// storage reads and writes files in local folders and in object storage. It is safe for
// concurrent use.
type storage struct {
	mu      sync.Mutex
	buckets map[string]*blob.Bucket
}

// tempRoot returns the root folder of all local copies of this process. The first call
// creates it.
var tempRoot = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "attach-scale-") })

func newStorage() *storage { return &storage{buckets: map[string]*blob.Bucket{}} }

// newCopyDir creates a new folder for local copies.
func newCopyDir() (string, error) {
	dir, err := tempRoot()
	if err != nil {
		return "", err
	}
	return os.MkdirTemp(dir, "")
}

// removeCopies removes all local copies of this process.
func removeCopies() {
	if dir, err := tempRoot(); err == nil {
		os.RemoveAll(dir)
	}
}

// open opens the bucket of a URL. It also returns the key that the URL names.
func (s *storage) open(ctx context.Context, name string) (b *blob.Bucket, key string, err error) {
	u, err := url.Parse(name)
	if err != nil {
		return nil, "", fmt.Errorf("%s: this is not a valid URL", name)
	}
	key = strings.Trim(u.Path, "/")
	u.Path = ""
	if u.Scheme == "file" {
		u.Path = "/"
		q := u.Query()
		q.Set("no_tmp_dir", "true") // avoids moving files between disks
		q.Set("metadata", "skip")   // avoids a second file with metadata for each file
		u.RawQuery = q.Encode()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b = s.buckets[u.String()]; b == nil {
		if b, err = blob.OpenBucket(ctx, u.String()); err != nil {
			return nil, "", fmt.Errorf("%s: %w", name, err)
		}
		s.buckets[u.String()] = b
	}
	return b, key, nil
}

// withPath replaces the part of a URL before the query by the result of newPath.
func withPath(name string, newPath func(base string) string) string {
	base, query, hasQuery := strings.Cut(name, "?")
	if hasQuery {
		return newPath(base) + "?" + query
	}
	return newPath(base)
}

// joinURL returns the URL of a file in a folder, given the folder's URL.
func joinURL(folder, name string) string {
	return withPath(folder, func(base string) string { return strings.TrimSuffix(base, "/") + "/" + name })
}

// listObjects returns the objects with the given key prefix. If delimiter is a slash, each
// folder is one object. If it is empty, the objects in folders are listed instead.
func listObjects(ctx context.Context, b *blob.Bucket, prefix, delimiter string) (all []*blob.ListObject, err error) {
	for iterator := b.List(&blob.ListOptions{Prefix: prefix, Delimiter: delimiter}); ; {
		object, err := iterator.Next(ctx)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, object)
	}
}

// Shards returns the files and folders that a URL matches. The URL names a single file, a
// pattern such as s3://bucket/day-*.parquet, a folder of files of rows, or a folder of images.
func (s *storage) Shards(ctx context.Context, name string) (shards []string, err error) {
	pattern, _, _ := strings.Cut(name, "?")
	names, err := inputs.Expand(pattern)
	if err != nil {
		return nil, err
	}
	for _, expanded := range names {
		expanded = withPath(name, func(string) string { return expanded })
		matches, err := s.shards(ctx, expanded)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", expanded, err)
		}
		shards = append(shards, matches...)
	}
	return shards, nil
}

func (s *storage) shards(ctx context.Context, name string) (shards []string, err error) {
	b, key, err := s.open(ctx, name)
	if err != nil {
		return nil, err
	}
	sibling := func(newKey string) string { // same URL with newKey as its key
		return withPath(name, func(base string) string { return strings.TrimSuffix(strings.TrimSuffix(base, "/"), key) + newKey })
	}
	if i := strings.IndexAny(key, "*["); i >= 0 {
		objects, err := listObjects(ctx, b, key[:i], "")
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			if ok, err := path.Match(key, o.Key); err != nil {
				return nil, errors.New("invalid pattern: write * for any characters")
			} else if ok {
				shards = append(shards, sibling(o.Key))
			}
		}
		if shards == nil {
			err = errors.New("no file matches")
		}
		return shards, err
	}
	if isFile, err := s.isFile(ctx, b, key); err != nil || isFile {
		return []string{name}, err
	}
	objects, err := listObjects(ctx, b, key+"/", "/")
	if err == nil && objects == nil {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, o := range objects {
		names = append(names, strings.TrimPrefix(o.Key, key+"/")) // folder names end in a slash
	}
	for _, file := range inputs.FilesOfRows(names) {
		shards = append(shards, sibling(key+"/"+file))
	}
	if shards == nil {
		shards = []string{sibling(key)}
	}
	slices.Sort(shards)
	return shards, nil
}

// Stamps returns the stamps of the files and folders of URLs. It lists each parent folder
// only once.
func (s *storage) Stamps(ctx context.Context, urls []string) ([]engine.Stamp, error) {
	type folder struct {
		bucket *blob.Bucket
		prefix string // common prefix of the keys
		files  map[string]*blob.ListObject
	}
	type folderKey struct {
		bucket *blob.Bucket
		dir    string
	}
	folders := map[folderKey]*folder{}
	folderKeys := make([]folderKey, len(urls))
	keys := make([]string, len(urls))
	for i, name := range urls {
		b, key, err := s.open(ctx, name)
		if err != nil {
			return nil, err
		}
		folderKeys[i], keys[i] = folderKey{b, path.Dir(key)}, key
		if f := folders[folderKeys[i]]; f == nil {
			folders[folderKeys[i]] = &folder{bucket: b, prefix: key}
		} else {
			for !strings.HasPrefix(key, f.prefix) {
				f.prefix = f.prefix[:len(f.prefix)-1]
			}
		}
	}
	stamps := make([]engine.Stamp, len(urls))
	for i, name := range urls {
		f := folders[folderKeys[i]]
		if f.files == nil {
			objects, err := listObjects(ctx, f.bucket, f.prefix, "/")
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			f.files = map[string]*blob.ListObject{}
			for _, o := range objects {
				if !o.IsDir {
					f.files[o.Key] = o
				}
			}
		}
		if o := f.files[keys[i]]; o != nil {
			stamps[i] = stampOf([]*blob.ListObject{o})
			continue
		}
		objects, err := listObjects(ctx, f.bucket, keys[i]+"/", "")
		if err == nil && len(objects) == 0 {
			err = fs.ErrNotExist
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		stamps[i] = stampOf(objects)
		stamps[i].Files = len(objects)
	}
	return stamps, nil
}

// stampOf returns a stamp that covers the keys, sizes, times and MD5 digests of all objects.
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

// isFile reports whether the key names a file.
func (s *storage) isFile(ctx context.Context, b *blob.Bucket, key string) (bool, error) {
	objects, err := listObjects(ctx, b, key, "/")
	return slices.ContainsFunc(objects, func(o *blob.ListObject) bool { return o.Key == key && !o.IsDir }), err
}

// Fetch copies the file or folder of a URL to this machine and keeps its name. The copy
// exists until release is called. For an ONNX model, Fetch also copies files whose names
// begin with the model's name, because large models keep their weights in such files.
func (s *storage) Fetch(ctx context.Context, name string) (localPath string, release func(), err error) {
	b, key, err := s.open(ctx, name)
	if err != nil {
		return "", nil, err
	}
	dir, err := newCopyDir()
	if err != nil {
		return "", nil, err
	}
	release = func() { os.RemoveAll(dir) }
	prefix := key
	isFile, err := s.isFile(ctx, b, key)
	if !isFile {
		prefix += "/"
	}
	var objects []*blob.ListObject
	if err == nil && isFile && path.Ext(key) != ".onnx" {
		objects = []*blob.ListObject{{Key: key}}
	} else if err == nil {
		objects, err = listObjects(ctx, b, prefix, "")
	}
	if err == nil && len(objects) == 0 {
		err = fs.ErrNotExist
	}
	parentPrefix := strings.TrimSuffix(key, path.Base(key))
	for _, o := range objects {
		if err == nil {
			err = download(ctx, b, o.Key, filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(o.Key, parentPrefix))))
		}
	}
	if err != nil {
		release()
		return "", nil, fmt.Errorf("%s: %w", name, err)
	}
	return filepath.Join(dir, path.Base(key)), release, nil
}

func download(ctx context.Context, b *blob.Bucket, key, destination string) error {
	r, err := b.NewReader(ctx, key, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := os.MkdirAll(filepath.Dir(destination), 0o777); err != nil {
		return err
	}
	return atomicfile.WriteFile(ctx, destination, func(w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	})
}

// localFiles returns the files in a folder whose names begin with prefix, and for which match
// returns true. If folder is a URL, the files are local copies that exist until release is
// called.
func (s *storage) localFiles(ctx context.Context, folder, prefix string, match func(name string) bool) (paths []string, release func(), err error) {
	release = func() {}
	if strings.Contains(folder, "://") {
		dir, err := newCopyDir()
		if err != nil {
			return nil, nil, err
		}
		if err := s.get(ctx, folder, prefix, match, dir); err != nil {
			return nil, nil, err
		}
		folder, release = dir, func() { os.RemoveAll(dir) }
	}
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && match(e.Name()) {
			paths = append(paths, filepath.Join(folder, e.Name()))
		}
	}
	return paths, release, err
}

// get copies files from the folder of a URL to a local folder, if their names begin with
// prefix and match returns true for them. It skips files that exist with the same size.
func (s *storage) get(ctx context.Context, folder, prefix string, match func(name string) bool, destination string) error {
	return s.each(ctx, folder, prefix, match, destination, func(b *blob.Bucket, o *blob.ListObject, to string) error {
		return download(ctx, b, o.Key, to)
	})
}

// each calls the function use for the files that get copies, with their destinations.
func (s *storage) each(ctx context.Context, folder, prefix string, match func(name string) bool, destination string, use func(b *blob.Bucket, o *blob.ListObject, to string) error) error {
	b, key, err := s.open(ctx, folder)
	if err != nil {
		return err
	}
	objects, err := listObjects(ctx, b, key+"/"+prefix, "/")
	if err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	for _, o := range objects {
		to := filepath.Join(destination, path.Base(o.Key))
		if o.IsDir || !match(path.Base(o.Key)) {
			continue
		}
		if info, err := os.Stat(to); err == nil && info.Size() == o.Size {
			continue
		}
		if err := use(b, o, to); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
	}
	return nil
}

// footerBytes is the number of bytes at the end of a part that getHeaders copies at first.
const footerBytes = 1 << 18

// getHeaders copies the files in the folder of a URL to a local folder as get does, but parts
// without their rows: a copy has the size of the part, and only its beginning and its footer. It
// returns the copies without rows.
func (s *storage) getHeaders(ctx context.Context, folder, destination string) (partial []string, err error) {
	if err := s.get(ctx, folder, "", func(name string) bool { return !isPart(name) }, destination); err != nil {
		return nil, err
	}
	err = s.each(ctx, folder, "", isPart, destination, func(b *blob.Bucket, o *blob.ListObject, to string) error {
		partial = append(partial, to)
		return copyHeader(ctx, b, o, to)
	})
	return partial, err
}

// copyHeader copies the beginning and the footer of a Parquet file. The last 8 bytes of the file
// are the length of the footer and a magic number.
func copyHeader(ctx context.Context, b *blob.Bucket, o *blob.ListObject, destination string) error {
	read := func(offset, n int64) ([]byte, error) {
		r, err := b.NewRangeReader(ctx, o.Key, offset, n, nil)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return io.ReadAll(r)
	}
	const end = 8
	begin, err := read(0, min(end, o.Size))
	if err != nil {
		return err
	}
	tail := min(footerBytes, o.Size)
	footer, err := read(o.Size-tail, tail)
	if err != nil {
		return err
	}
	if tail >= end {
		if length := end + int64(binary.LittleEndian.Uint32(footer[tail-end:])); length > tail && length <= o.Size {
			tail = length
			if footer, err = read(o.Size-tail, tail); err != nil {
				return err
			}
		}
	}
	f, err := os.Create(destination)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(begin, 0)
	if err == nil {
		_, err = f.WriteAt(footer, o.Size-tail)
	}
	return errors.Join(err, f.Close())
}

// countParts returns the number of parts in the folder of a URL.
func (s *storage) countParts(ctx context.Context, folder string) (n int, err error) {
	b, key, err := s.open(ctx, folder)
	if err != nil {
		return 0, err
	}
	objects, err := listObjects(ctx, b, key+"/", "/")
	for _, o := range objects {
		if isPart(path.Base(o.Key)) {
			n++
		}
	}
	return n, err
}

// put writes a file to a folder. An interrupted put leaves no partial file.
func (s *storage) put(ctx context.Context, folder, name string, content io.WriterTo) error {
	write := func(w io.Writer) error {
		_, err := content.WriteTo(w)
		return err
	}
	if !strings.Contains(folder, "://") {
		return atomicfile.WriteFile(ctx, filepath.Join(folder, name), write)
	}
	b, key, err := s.open(ctx, joinURL(folder, name))
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
		cancel() // discards the written bytes
		w.Close()
		return err
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	return nil
}

// fetchAudit downloads the audit in a URL's folder, if there is one, to a new local folder. It
// returns the path of this folder.
func (s *storage) fetchAudit(ctx context.Context, folder string) (dir string, err error) {
	if dir, err = newCopyDir(); err != nil {
		return "", err
	}
	if err := os.Mkdir(filepath.Join(dir, "parts"), 0o777); err != nil {
		return "", err
	}
	for _, name := range engine.ResultNames() {
		err := s.get(ctx, folder, name, func(other string) bool { return other == name }, dir)
		if err == nil { // a large result is a folder of files
			err = s.get(ctx, joinURL(folder, name), "", isTableFile, filepath.Join(dir, name))
		}
		if err != nil {
			return "", err
		}
	}
	isPart := func(name string) bool { return strings.HasSuffix(name, ".parquet") || name == planFile }
	return dir, s.get(ctx, joinURL(folder, "parts"), "", isPart, filepath.Join(dir, "parts"))
}

// publish uploads the audit in a local folder to the folder of a URL. If workers merged the
// audit, it puts the tables that they wrote in place. It then removes the parts from that URL,
// because the scores replace them. If the audit is incomplete, publish does nothing.
func (s *storage) publish(ctx context.Context, dir, folder string, merged bool) error {
	if _, err := os.Stat(filepath.Join(dir, "parts", planFile)); err == nil {
		return nil
	}
	for _, name := range engine.ResultNames() { // run.json comes last because it describes the other files
		info, err := os.Stat(filepath.Join(dir, name))
		switch {
		case merged && (name == audit.Scores || name == audit.Duplicates):
			err = s.place(ctx, folder, name)
		case errors.Is(err, fs.ErrNotExist): // no rows were scored
			err = nil
		case err == nil && info.IsDir():
			err = s.putFolder(ctx, filepath.Join(dir, name), folder, name)
		case err == nil:
			if err = s.removeFolder(ctx, joinURL(folder, name), isTableFile); err == nil {
				err = s.putFile(ctx, filepath.Join(dir, name), folder, name)
			}
		}
		if err != nil {
			return err
		}
	}
	return s.removeFolder(ctx, joinURL(folder, "parts"), engine.IsPartFile)
}

// isTableFile reports whether a file in a folder of results has a name that audits use.
func isTableFile(name string) bool {
	return strings.HasPrefix(name, "part-") && strings.HasSuffix(name, ".parquet")
}

// putFile uploads a local file.
func (s *storage) putFile(ctx context.Context, path, folder, name string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.put(ctx, folder, name, f)
}

// putFolder uploads the files of a local folder to the folder with this name in the folder of a
// URL. Then it removes the files of an earlier result, whose names differ. A file with the name of
// the folder is removed first, because a file URL cannot have both.
func (s *storage) putFolder(ctx context.Context, dir, folder, name string) error {
	if err := s.remove(ctx, folder, func(other string) bool { return other == name }); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	current := map[string]bool{}
	for _, e := range entries {
		current[e.Name()] = true
		if err := s.putFile(ctx, filepath.Join(dir, e.Name()), joinURL(folder, name), e.Name()); err != nil {
			return err
		}
	}
	return s.remove(ctx, joinURL(folder, name), func(other string) bool { return isTableFile(other) && !current[other] })
}

// place moves the files that workers wrote for a table to the folder with its name, in the folder
// of a URL. Then it removes the files of an earlier result.
func (s *storage) place(ctx context.Context, folder, name string) error {
	if err := s.remove(ctx, folder, func(other string) bool { return other == name }); err != nil {
		return err
	}
	staged := joinURL(folder, audit.StagedFolder(name))
	b, key, err := s.open(ctx, staged)
	if err != nil {
		return err
	}
	objects, err := listObjects(ctx, b, key+"/", "/")
	if err != nil {
		return fmt.Errorf("%s: %w", staged, err)
	}
	_, to, err := s.open(ctx, joinURL(folder, name))
	current := map[string]bool{}
	for _, o := range objects {
		base := path.Base(o.Key)
		if current[base] = true; err == nil {
			err = b.Copy(ctx, to+"/"+base, o.Key, nil)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", staged, err)
	}
	if err := s.remove(ctx, joinURL(folder, name), func(other string) bool { return isTableFile(other) && !current[other] }); err != nil {
		return err
	}
	return s.removeFolder(ctx, staged, isTableFile)
}

// remove deletes the matching files in the folder of a URL.
func (s *storage) remove(ctx context.Context, folder string, match func(name string) bool) error {
	b, key, err := s.open(ctx, folder)
	if err != nil {
		return err
	}
	objects, err := listObjects(ctx, b, key+"/", "/")
	if err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	for _, o := range objects {
		if o.IsDir || !match(path.Base(o.Key)) {
			continue
		}
		if err := b.Delete(ctx, o.Key); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
	}
	return nil
}

// removeNamed deletes files in a folder, if they exist.
func (s *storage) removeNamed(ctx context.Context, folder string, names []string) error {
	for _, name := range names {
		var err error
		if !strings.Contains(folder, "://") {
			err = os.Remove(filepath.Join(folder, name))
		} else {
			var b *blob.Bucket
			var key string
			if b, key, err = s.open(ctx, joinURL(folder, name)); err == nil {
				err = b.Delete(ctx, key)
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && gcerrors.Code(err) != gcerrors.NotFound {
			return err
		}
	}
	return nil
}

// removeFolder deletes the matching files in the folder of a URL. If it is then an empty folder of
// a file URL, the folder is removed too. Object storage has no empty folders.
func (s *storage) removeFolder(ctx context.Context, folder string, match func(name string) bool) error {
	if err := s.remove(ctx, folder, match); err != nil {
		return err
	}
	u, err := url.Parse(folder)
	if err != nil || u.Scheme != "file" {
		return err
	}
	path := filepath.FromSlash(u.Path)
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		os.Remove(path) // fails and changes nothing if the folder has other files
	}
	return nil
}
