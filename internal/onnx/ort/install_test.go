package ort

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/attach-uncertainty/attach/internal/data/regularfile"
)

var fakeLibrary = []byte(strings.Repeat("the published library ", 1000))

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// installFixture holds a PATH that contains only fake clients and the tools they need, and
// an installer that expects the checksum of fakeLibrary.
type installFixture struct {
	t          *testing.T
	binDir     string
	archiveDir string
	installer  installer
}

func newInstallFixture(t *testing.T) *installFixture {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the fake clients are shell scripts")
	}
	w := &installFixture{t: t, binDir: t.TempDir(), archiveDir: t.TempDir()}
	for _, tool := range []string{"cp", "sleep", "touch"} {
		for _, dir := range []string{"/bin", "/usr/bin"} {
			if os.Symlink(filepath.Join(dir, tool), filepath.Join(w.binDir, tool)) == nil {
				break
			}
		}
	}
	t.Setenv("PATH", w.binDir)
	platform := runtime.GOOS + "/" + runtime.GOARCH
	w.installer = installer{dir: filepath.Join(t.TempDir(), "cache", pinnedVersion, "variant"), log: Options{}.log(), pins: []pin{
		{source: sourcePip, platform: platform, spec: "fake==1", wheel: "here", files: []pinnedFile{{"a/lib", libraryFile, sum(fakeLibrary)}, {"a/more", "more", sum(fakeLibrary[:100])}}},
		{source: sourceNpm, platform: platform, spec: "fake@1", files: []pinnedFile{{"package/lib", libraryFile, sum(fakeLibrary)}}},
	}}
	return w
}

// addScript adds a fake client to PATH. In its text, $dir is the download folder.
func (w *installFixture) addScript(name, text string) {
	w.t.Helper()
	head := "#!/bin/sh\nlast=\nfor a in \"$@\"; do case \"$last\" in --dest|--pack-destination) dir=$a;; esac; last=$a; done\n" +
		"case \"$*\" in *--version*) exit 0;; esac\n"
	if err := os.WriteFile(filepath.Join(w.binDir, name), []byte(head+text+"\n"), 0o700); err != nil {
		w.t.Fatal(err)
	}
}

func (w *installFixture) addPip(members map[string][]byte) {
	var b bytes.Buffer
	zw := zip.NewWriter(&b)
	for name, data := range members {
		f, err := zw.Create(name)
		if err != nil {
			w.t.Fatal(err)
		}
		f.Write(data)
	}
	zw.Close()
	w.writeArchive("fake-1-cp312.whl", b.Bytes())
	w.addScript("python3", `cp "`+filepath.Join(w.archiveDir, "fake-1-cp312.whl")+`" "$dir/"`)
}

func (w *installFixture) addNpm(members map[string][]byte) {
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	tw := tar.NewWriter(gz)
	for name, data := range members {
		tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg})
		tw.Write(data)
	}
	tw.Close()
	gz.Close()
	w.writeArchive("fake-1.tgz", b.Bytes())
	w.addScript("npm", `cp "`+filepath.Join(w.archiveDir, "fake-1.tgz")+`" "$dir/"`)
}

func (w *installFixture) writeArchive(name string, b []byte) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.archiveDir, name), b, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// leftovers returns the names of the files and temporary folders in the cache.
func (w *installFixture) leftovers() []string {
	var files []string
	filepath.WalkDir(filepath.Dir(filepath.Dir(w.installer.dir)), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, filepath.Base(path))
		}
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), tempPrefix) {
			files = append(files, d.Name())
		}
		return nil
	})
	return files
}

var (
	goodWheel   = map[string][]byte{"a/lib": fakeLibrary, "a/more": fakeLibrary[:100], "other": []byte("x")}
	goodTarball = map[string][]byte{"package/package.json": []byte("{}"), "package/lib": fakeLibrary}
)

func TestInstall(t *testing.T) {
	tampered := append([]byte("!"), fakeLibrary[1:]...)
	for _, c := range []struct {
		name     string
		setup    func(w *installFixture)
		source   string // expected source of the library, or "" if an error is expected
		is       error
		contains []string
	}{
		{name: "pip", setup: func(w *installFixture) { w.addPip(goodWheel) }, source: "installed with pip"},
		{name: "npm", setup: func(w *installFixture) { w.addNpm(goodTarball) }, source: "installed with npm"},
		{name: "both", setup: func(w *installFixture) { w.addPip(goodWheel); w.addNpm(goodTarball) }, source: "installed with pip"},
		{name: "npm after pip failed", setup: func(w *installFixture) { w.addScript("python3", "exit 1"); w.addNpm(goodTarball) }, source: "installed with npm"},
		{name: "npm where python has no pip", setup: func(w *installFixture) {
			w.addNpm(goodTarball)
			os.WriteFile(filepath.Join(w.binDir, "python3"), []byte("#!/bin/sh\necho no module named pip >&2; exit 1\n"), 0o700)
		}, source: "installed with npm"},
		{name: "pip tampered with", setup: func(w *installFixture) { w.addPip(map[string][]byte{"a/lib": tampered, "a/more": fakeLibrary[:100]}) }, is: ErrChecksum,
			contains: []string{"a/lib", "fake==1", "pip", "nothing was installed"}},
		{name: "second file tampered with", setup: func(w *installFixture) { w.addPip(map[string][]byte{"a/lib": fakeLibrary, "a/more": tampered}) }, is: ErrChecksum, contains: []string{"a/more"}},
		{name: "npm tampered with", setup: func(w *installFixture) { w.addNpm(map[string][]byte{"package/lib": tampered}) }, is: ErrChecksum, contains: []string{"package/lib"}},
		{name: "tampered with, though npm is there", setup: func(w *installFixture) {
			w.addPip(map[string][]byte{"a/lib": tampered, "a/more": fakeLibrary[:100]})
			w.addNpm(goodTarball)
		}, is: ErrChecksum},
		{name: "no library in the package", setup: func(w *installFixture) { w.addNpm(map[string][]byte{"package/other": fakeLibrary}) }, contains: []string{"package/lib is not in the package"}},
		{name: "no archive", setup: func(w *installFixture) { w.addScript("npm", "exit 0") }, contains: []string{"downloaded 0 .tgz"}},
		{name: "broken archive", setup: func(w *installFixture) { w.addScript("npm", `echo junk > "$dir/fake.tgz"`) }, contains: []string{"npm: unpack fake@1"}},
		{name: "two archives", setup: func(w *installFixture) { w.addScript("npm", `touch "$dir/a.tgz" "$dir/b.tgz"`) }, contains: []string{"downloaded 2 .tgz"}},
		{name: "network", setup: func(w *installFixture) {
			w.addScript("npm", "echo 'npm error network getaddrinfo ENOTFOUND' >&2; echo 'npm error A complete log of this run can be found in: x' >&2; exit 1")
		}, contains: []string{"npm failed", "ENOTFOUND", "unpack it"}},
		{name: "both fail", setup: func(w *installFixture) {
			w.addScript("pip", "echo 'ERROR: no matching distribution' >&2; echo '[notice] upgrade' >&2; exit 1")
			w.addScript("npm", "echo offline >&2; exit 1")
		}, contains: []string{"no matching distribution", "offline"}},
		{name: "no client", setup: func(*installFixture) {}, is: ErrNoClient, contains: []string{"github.com/microsoft/onnxruntime/releases", pinnedVersion}},
		{name: "no such platform", setup: func(w *installFixture) { w.installer.pins = nil }, is: ErrUnsupported, contains: []string{runtime.GOARCH}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newInstallFixture(t)
			c.setup(w)
			lib, err := w.installer.install(context.Background())
			if c.source != "" {
				if err != nil {
					t.Fatal(err)
				}
				if got, err := os.ReadFile(lib.Path); err != nil || !bytes.Equal(got, fakeLibrary) {
					t.Errorf("the library is not there: %v", err)
				}
				if lib.Source != c.source || lib.Version != pinnedVersion {
					t.Errorf("got %+v", lib)
				}
				for _, f := range w.leftovers() {
					if strings.HasPrefix(f, tempPrefix) {
						t.Errorf("%s was left behind", f)
					}
				}
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v is not %v", err, c.is)
			}
			for _, s := range c.contains {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %q", err, s)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is more than a line", err)
			}
			if leftovers := w.leftovers(); leftovers != nil {
				t.Errorf("left behind: %v", leftovers)
			}
		})
	}
}

func TestInstallCancel(t *testing.T) {
	w := newInstallFixture(t)
	started := filepath.Join(w.archiveDir, "started")
	w.addScript("npm", `touch "`+started+`" "$dir/half.tgz"; sleep 20`)
	cause := errors.New("ctrl-c")
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		for range 200 {
			if _, err := os.Stat(started); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		cancel(cause)
	}()
	begin := time.Now()
	_, err := w.installer.install(ctx)
	if !errors.Is(err, cause) {
		t.Errorf("got %v, want %v", err, cause)
	}
	if d := time.Since(begin); d > 10*time.Second {
		t.Errorf("took %v", d)
	}
	if leftovers := w.leftovers(); leftovers != nil {
		t.Errorf("left behind: %v", leftovers)
	}
}

// TestInstallCancelUnpacking checks that a cancellation stops the unpacking of an archive
// that is much larger unpacked than packed.
func TestInstallCancelUnpacking(t *testing.T) {
	w := newInstallFixture(t)
	w.addNpm(nil)
	const part, parts = 64 << 20, 512
	var header, zeros bytes.Buffer
	gz := gzip.NewWriter(&header)
	tar.NewWriter(gz).WriteHeader(&tar.Header{Name: "package/other", Mode: 0o644, Size: part * parts, Typeflag: tar.TypeReg})
	gz.Close()
	gz = gzip.NewWriter(&zeros)
	gz.Write(make([]byte, part))
	gz.Close()
	w.writeArchive("fake-1.tgz", append(header.Bytes(), bytes.Repeat(zeros.Bytes(), parts)...))
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if _, err := w.installer.install(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("took %v", d)
	}
}

// TestInstallTwice checks that no client runs if a valid library is already installed.
func TestInstallTwice(t *testing.T) {
	w := newInstallFixture(t)
	w.addNpm(goodTarball)
	if _, err := w.installer.install(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.addScript("npm", "exit 1")
	lib, err := w.installer.install(context.Background())
	if err != nil || lib.Source != "cache" {
		t.Errorf("got %+v, %v", lib, err)
	}
}

// TestInstallOverAltered checks that Install replaces a modified library in the cache.
func TestInstallOverAltered(t *testing.T) {
	w := newInstallFixture(t)
	w.addNpm(goodTarball)
	lib, err := w.installer.install(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lib.Path, []byte("altered"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := verifyCache(w.installer.pins, w.installer.dir, false, w.installer.log); !errors.Is(err, ErrChecksum) {
		t.Errorf("altered: got %v", err)
	}
	if _, err := w.installer.install(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := verifyCache(w.installer.pins, w.installer.dir, false, w.installer.log); err != nil {
		t.Error(err)
	}
	if leftovers := w.leftovers(); len(leftovers) != 1 {
		t.Errorf("left behind: %v", leftovers)
	}
}

func TestInstallAtOnce(t *testing.T) {
	w := newInstallFixture(t)
	w.addNpm(goodTarball)
	var wg sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		wg.Go(func() { _, errs[i] = w.installer.install(context.Background()) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := verifyCache(w.installer.pins, w.installer.dir, false, w.installer.log); err != nil {
		t.Error(err)
	}
	if leftovers := w.leftovers(); len(leftovers) != 1 {
		t.Errorf("left behind: %v", leftovers)
	}
}

func TestInstallUnwritable(t *testing.T) {
	w := newInstallFixture(t)
	w.addNpm(goodTarball)
	file := filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, nil, 0o600)
	w.installer.dir = filepath.Join(file, "x", "y")
	if _, err := w.installer.install(context.Background()); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v", err)
	}
}

func TestInstallRemovesStale(t *testing.T) {
	w := newInstallFixture(t)
	w.addNpm(goodTarball)
	parent := filepath.Dir(w.installer.dir)
	old, recent := filepath.Join(parent, tempPrefix+"1"), filepath.Join(parent, tempPrefix+"2")
	for _, d := range []string{old, recent} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-48 * time.Hour)
	os.Chtimes(old, past, past)
	if _, err := w.installer.install(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a folder that a killed process left days ago is still there")
	}
	if _, err := os.Stat(recent); err != nil {
		t.Error("another process' folder was removed")
	}
}

// TestPins checks that every supported platform has a pin with well-formed checksums.
func TestPins(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range pins {
		seen[fmt.Sprintf("%s %s gpu=%v", p.source, p.platform, p.gpu)] = true
		if !strings.Contains(p.spec, pinnedVersion) || (p.wheel == "") != (p.source == sourceNpm) {
			t.Errorf("%+v", p)
		}
		for i, f := range p.files {
			if len(f.sha256) != 64 || i == 0 && !strings.Contains(f.name, "onnxruntime.") {
				t.Errorf("%s %s: %+v", p.source, p.platform, f)
			}
		}
	}
	for _, want := range []string{"linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64"} {
		for _, source := range []string{sourcePip, sourceNpm} {
			if !seen[source+" "+want+" gpu=false"] {
				t.Errorf("%s has no pin for %s", source, want)
			}
		}
	}
	if apiVersion(pinnedVersion) < bindingAPI {
		t.Errorf("version %s is too old for the binding", pinnedVersion)
	}
}

// TestPinsPublished checks the pins against the published packages of all platforms. It
// downloads about a gigabyte, so it runs only with ATTACH_PINS=1.
func TestPinsPublished(t *testing.T) {
	if os.Getenv("ATTACH_PINS") == "" {
		t.Skip("downloads every package: set ATTACH_PINS=1")
	}
	ctx := context.Background()
	packages := map[string]string{}
	for _, p := range pins {
		for _, c := range clients() {
			if c.source != p.source {
				continue
			}
			key := p.spec + " " + p.wheel
			if packages[key] == "" {
				packages[key] = t.TempDir()
				argv := c.find(ctx, packages[key])
				if argv == nil {
					t.Skipf("no %s", c.source)
				}
				if err := c.fetch(ctx, argv, p, packages[key]); err != nil {
					t.Fatal(err)
				}
			}
			out := t.TempDir()
			if err := c.extract(ctx, packages[key], out, p.files); err != nil {
				t.Fatal(err)
			}
			for _, f := range p.files {
				got, err := regularfile.SHA256(filepath.Join(out, f.name))
				if err != nil || got != f.sha256 {
					t.Errorf("%s, %s, %s: published is %s (%v)", p.spec, p.platform, f.member, got, err)
				}
			}
		}
	}
}

// TestProvidersChecked checks that files of the CUDA provider are verified before they are
// loaded, and that unlisted files are removed. If no package is published, the folder is
// not used.
func TestProvidersChecked(t *testing.T) {
	w := newInstallFixture(t)
	platform := runtime.GOOS + "/" + runtime.GOARCH
	pins := []pin{{source: sourcePip, gpu: true, platform: platform, files: []pinnedFile{{"a", libraryFile, sum(fakeLibrary)}, {"b", "provider", sum(fakeLibrary[:100])}}}}
	dir := w.installer.dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	put := func(name string, content []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(libraryFile, fakeLibrary)
	put("provider", []byte("planted"))
	put("other", nil)
	p, err := verifyCache(pins, dir, true, w.installer.log)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "other")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not listed is still there: %v", err)
	}
	lib := Library{Path: filepath.Join(dir, libraryFile), pin: &p}
	if err := lib.checkProviders(); !errors.Is(err, ErrChecksum) || !strings.Contains(err.Error(), "provider was altered") {
		t.Errorf("got %v", err)
	}
	put("provider", fakeLibrary[:100])
	if err := lib.checkProviders(); err != nil {
		t.Error(err)
	}
	if _, err := verifyCache(pins, dir, false, w.installer.log); !errors.Is(err, ErrUnsupported) {
		t.Errorf("no package is published: %v", err)
	}
	if err := (Library{Path: lib.Path}).checkProviders(); err != nil {
		t.Errorf("a library of the user's own: %v", err)
	}
}

// TestVerifyUnderLock checks that the files of the CUDA provider can be verified while the
// environment is locked.
func TestVerifyUnderLock(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.so"), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	environment.Lock()
	defer environment.Unlock()
	if err := (pin{}).verify(dir, []pinnedFile{{name: "a.so", sha256: "0"}}); !errors.Is(err, ErrChecksum) {
		t.Errorf("error %v, want ErrChecksum", err)
	}
}
