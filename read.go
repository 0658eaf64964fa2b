package attach

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/filekind"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

const (
	// maxManifest is the largest size of manifest.json in bytes. The manifest is decoded
	// before its SHA-256 is verified, and decoding needs many times its size in memory.
	maxManifest = 4 << 20
	// maxBrackets is the largest number of brackets in the preprocessing, because the size of
	// indented JSON grows with its depth.
	maxBrackets = 1000
)

// Open reads the .attach file at path and verifies its checksums. The file stores the path
// of the base model relative to the folder of the file; Open sets Base.Path to a path that
// can be opened. If nothing exists there, but the folder of the .attach file contains a file
// of the same name, Open sets Base.Path to that file. Open finds methods by name, among Methods
// and the custom methods.
func Open(path string, custom ...ood.Method) (*Bundle, error) {
	// os.Open of a named pipe would wait for a writer, so check the kind of the file first.
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w", err)
	case info.IsDir():
		return nil, fmt.Errorf("%s: %w", path, notAttachError{filekind.Folder})
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: %w: it is not a regular file", path, notAttachError{})
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w", err)
	}
	defer f.Close()
	b, err := Read(f, info.Size(), custom...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if p := b.Base.Path; p != "" {
		p = filepath.FromSlash(unquotePath(p))
		if !filepath.IsAbs(p) {
			p = filepath.Join(filepath.Dir(path), p)
		}
		b.Base.Path = modelPath(p, filepath.Dir(path))
	}
	return b, nil
}

// modelPath returns the stored path, or the path of the file with the same name in the folder
// dir of the .attach file, if only that file exists. People copy both files into one folder to
// deploy them. Another model of the same name does no harm, because the digest is checked.
func modelPath(stored, dir string) string {
	if _, err := os.Stat(stored); !errors.Is(err, fs.ErrNotExist) {
		return stored
	}
	beside := filepath.Join(dir, filepath.Base(stored))
	if _, err := os.Stat(beside); err != nil {
		return stored
	}
	return beside
}

// Read reads a .attach file of size bytes, verifies all checksums and rebuilds the bundle.
// Its errors wrap one of the error values of this package, unless r cannot be read at all.
// Base.Path stays as stored, relative to the folder of the file. Read finds methods by
// name, among Methods and the custom methods.
func Read(r io.ReaderAt, size int64, custom ...ood.Method) (*Bundle, error) {
	a, err := openArchive(r, size)
	if err != nil {
		return nil, err
	}
	content, err := a.manifest()
	if err != nil {
		return nil, err
	}
	m, err := decodeManifest(content)
	if err != nil {
		return nil, err
	}
	if err := a.verify(content, m); err != nil {
		return nil, err
	}
	states := map[string]rows.State{}
	for _, entry := range m.Arrays {
		array, err := a.array(entry)
		if err != nil {
			return nil, err
		}
		folder := entry.folder()
		if states[folder].Arrays == nil {
			states[folder] = rows.State{Arrays: map[string]rows.Array{}}
		}
		states[folder].Arrays[entry.shortName()] = array
	}
	b, err := m.restore(states, custom)
	if err != nil {
		return nil, err
	}
	return b, b.checkRoundTrip(content)
}

func hasNaN(a rows.Array) bool {
	switch v := a.Data.(type) {
	case []float32:
		return slices.ContainsFunc(v, func(x float32) bool { return x != x })
	case []float64:
		return slices.ContainsFunc(v, math.IsNaN)
	}
	return false
}

// checkRoundTrip returns an error unless a bundle that was read from the manifest content
// would be written with the same manifest. This finds content that was ignored or misread.
func (b *Bundle) checkRoundTrip(content []byte) error {
	m, _, err := b.describe()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	rewritten, err := m.encode()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	got, want := bytes.Split(content, []byte("\n")), bytes.Split(rewritten, []byte("\n"))
	for i := range min(len(got), len(want)) {
		if !bytes.Equal(got[i], want[i]) {
			return fmt.Errorf("%w: line %d of %s is %.100q, but a fit writes %.100q",
				ErrDamaged, i+1, manifestName, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%w: %s has %d lines, but a fit writes %d", ErrDamaged, manifestName, len(got), len(want))
	}
	return nil
}

// restore rebuilds the bundle from its manifest and from the arrays of each folder.
func (m manifest) restore(states map[string]rows.State, custom []ood.Method) (*Bundle, error) {
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	for folder, state := range states {
		for name, array := range state.Arrays {
			if hasNaN(array) {
				return nil, fmt.Errorf("%w: array %q contains NaN", ErrDamaged, folder+name)
			}
		}
	}
	b := &Bundle{Library: m.Library.Version, Base: m.Model, Layout: m.Layout, Calibration: m.Calibration.Calibration}
	if m.Preprocess != nil {
		var compact bytes.Buffer
		if err := json.Compact(&compact, m.Preprocess); err != nil {
			return nil, fmt.Errorf("%w: preprocess: %w", ErrDamaged, err)
		}
		b.Preprocess = compact.Bytes()
	}
	if m.Text != nil {
		text := *m.Text
		if err := text.restore(states[textFolder]); err != nil {
			return nil, err
		}
		b.Text = &text
	}
	var err error
	if b.Detector, err = m.Detector.restore("detector", false, states[detectorFolder].Arrays, custom); err != nil {
		return nil, err
	}
	if b.IntervalModel, err = m.Quantiles.restore("quantile method", true, states[quantilesFolder].Arrays, custom); err != nil {
		return nil, err
	}
	if err := b.restoreFolds(m.Quantiles, m.FoldStates, states[foldsFolder].Arrays, custom); err != nil {
		return nil, err
	}
	if err := b.restoreScaling(states[featuresFolder]); err != nil {
		return nil, err
	}
	if err := b.restoreCells(rows.State{Params: m.Cells, Arrays: states[cellsFolder].Arrays}); err != nil {
		return nil, err
	}
	if err := b.restoreProfile(states[profileFolder]); err != nil {
		return nil, err
	}
	if err := b.Calibration.restore(states[calibrationFolder], m.Calibration.QuantileLevels, m.Calibration.GroupNames); err != nil {
		return nil, err
	}
	if err := b.checkParts(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return b, b.checkConsistent()
}

// archive holds the entries of a zip file that has a manifest and no duplicate names.
type archive struct {
	files map[string]*zip.File
	size  int64
}

func openArchive(r io.ReaderAt, size int64) (archive, error) {
	zr, err := zip.NewReader(r, size)
	start := make([]byte, min(max(size, 0), 512))
	if n, readErr := r.ReadAt(start, 0); n < len(start) {
		return archive{}, readErr
	}
	switch kind := filekind.Of(start); kind {
	case filekind.Attach, filekind.Zip, filekind.NPZ, "":
		// Go also opens a zip file with other bytes in front, but NumPy recognises a zip file
		// only by its first bytes.
		if err != nil || !bytes.HasPrefix(start, []byte("PK\x03\x04")) {
			return archive{}, fmt.Errorf("%w; copy it again or fit it again", notAttachError{})
		}
	default:
		return archive{}, notAttachError{kind}
	}
	a := archive{files: make(map[string]*zip.File, len(zr.File)), size: size}
	for _, f := range zr.File {
		if a.files[f.Name] != nil {
			return archive{}, fmt.Errorf("%w: it contains %q twice", ErrDamaged, f.Name)
		}
		a.files[f.Name] = f
	}
	if a.files[manifestName] == nil {
		if kind := filekind.Of(start); kind == filekind.NPZ {
			return archive{}, notAttachError{kind}
		}
		return archive{}, fmt.Errorf("%w: it is a zip file without %s", notAttachError{}, manifestName)
	}
	return a, nil
}

// manifest returns the content of manifest.json. It accepts a compressed entry, so that a
// newer format is recognised even in a file that was repacked.
func (a archive) manifest() ([]byte, error) {
	f := a.files[manifestName]
	if f.UncompressedSize64 > maxManifest {
		return nil, fmt.Errorf("%w: %s has %d bytes, which is too many", ErrDamaged, manifestName, f.UncompressedSize64)
	}
	return readEntry(f)
}

// readEntry returns the content of an entry whose size has been checked. Its buffer grows with
// the data that it reads, because the size in the zip directory may be false.
func readEntry(f *zip.File) ([]byte, error) {
	var buf bytes.Buffer
	err := readChecked(f, func(r io.Reader) error {
		_, err := io.Copy(&buf, r)
		return err
	})
	return buf.Bytes(), err
}

// readChecked opens an entry whose size has been checked, and calls the function read with its
// content. It returns an error if the content does not match its checksum or its size.
func readChecked(f *zip.File, read func(r io.Reader) error) error {
	r, err := f.Open()
	if err != nil {
		return fmt.Errorf("%w: %q cannot be read: %w", ErrDamaged, f.Name, err)
	}
	defer r.Close()
	var n byteCount
	err = read(io.TeeReader(io.LimitReader(r, int64(f.UncompressedSize64)+1), &n))
	switch {
	case errors.Is(err, zip.ErrChecksum):
		return fmt.Errorf("%w: the content of %q has changed; copy the file again or fit it again", ErrDamaged, f.Name)
	case err != nil:
		return fmt.Errorf("%w: %q cannot be read: %w", ErrDamaged, f.Name, err)
	case uint64(n) != f.UncompressedSize64:
		return fmt.Errorf("%w: %q has another length than the directory says", ErrDamaged, f.Name)
	}
	return nil
}

// verify checks the checksum of the manifest, and that the archive contains exactly the
// entries that the manifest lists. It also checks that entries are stored uncompressed, and
// that together they are not larger than the file, as overlapping entries could be.
func (a archive) verify(content []byte, m manifest) error {
	remaining := uint64(a.size)
	for name, f := range a.files {
		if f.Method != zip.Store || f.UncompressedSize64 != f.CompressedSize64 || f.UncompressedSize64 > remaining {
			return fmt.Errorf("%w: %q was packed by another program; restore the original or fit again", ErrDamaged, name)
		}
		remaining -= f.UncompressedSize64
	}
	f := a.files[checksumName]
	if f == nil || f.UncompressedSize64 > 1024 {
		return fmt.Errorf("%w: it has no %s", ErrDamaged, checksumName)
	}
	sum, err := readEntry(f)
	if err != nil {
		return err
	}
	if want, _, _ := strings.Cut(string(sum), " "); want != checksum(content) {
		return fmt.Errorf("%w: %s does not match its checksum; copy the file again or fit it again", ErrDamaged, manifestName)
	}
	listed := map[string]bool{manifestName: true, checksumName: true}
	for _, e := range m.Arrays {
		if listed[e.Name] || !arrayName.MatchString(e.Name) {
			return fmt.Errorf("%w: the manifest lists array %q twice or with an invalid name", ErrDamaged, e.Name)
		}
		listed[e.Name] = true
		if a.files[e.Name] == nil {
			return fmt.Errorf("%w: %q is missing", ErrDamaged, e.Name)
		}
	}
	for name := range a.files {
		if !listed[name] {
			return fmt.Errorf("%w: %q is not in the manifest", ErrDamaged, name)
		}
	}
	return nil
}

// array reads one array and checks it against its manifest entry. It decodes while it reads,
// because arrays can take most of the memory.
func (a archive) array(e arrayEntry) (rows.Array, error) {
	f := a.files[e.Name]
	var array rows.Array
	var decodeErr error
	sum, size := sha256.New(), byteCount(0)
	err := readChecked(f, func(r io.Reader) error {
		r = io.TeeReader(r, io.MultiWriter(sum, &size))
		array, decodeErr = npy.Read(r, int64(f.UncompressedSize64))
		_, err := io.Copy(io.Discard, r)
		return err
	})
	switch {
	case err != nil:
		return rows.Array{}, err
	case int64(size) != e.Bytes || hex.EncodeToString(sum.Sum(nil)) != e.SHA256:
		return rows.Array{}, fmt.Errorf("%w: %q does not match its checksum; copy the file again or fit it again", ErrDamaged, e.Name)
	}
	if decodeErr != nil {
		return rows.Array{}, fmt.Errorf("%w: %q: %w", ErrDamaged, e.Name, decodeErr)
	}
	if dtypeOf(array) != e.DType || !slices.Equal(array.Shape, e.Shape) {
		return rows.Array{}, fmt.Errorf("%w: %q is %s %v, but the manifest says %s %v",
			ErrDamaged, e.Name, dtypeOf(array), array.Shape, e.DType, e.Shape)
	}
	return array, nil
}
