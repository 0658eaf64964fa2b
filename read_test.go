package attach_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach"
)

// unpack returns the names of the entries of a .attach file, in order, and the content of
// each.
func unpack(t testing.TB, b []byte) (names []string, content map[string][]byte) {
	t.Helper()
	zr, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	content = map[string][]byte{}
	for _, f := range zr.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		names, content[f.Name] = append(names, f.Name), data
	}
	return names, content
}

func pack(t testing.TB, names []string, content map[string][]byte, method uint16) []byte {
	t.Helper()
	var buf bytes.Buffer
	zw := zip.NewWriter(&buf)
	for _, name := range names {
		w, err := zw.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// edit replaces text in the manifest of a file. If reseal is true, it also corrects the
// checksum of the manifest.
func edit(t testing.TB, b []byte, reseal bool, oldnew ...string) []byte {
	t.Helper()
	names, content := unpack(t, b)
	m := strings.NewReplacer(oldnew...).Replace(string(content["manifest.json"]))
	if m == string(content["manifest.json"]) {
		t.Fatalf("the manifest has no %q", oldnew[0])
	}
	content["manifest.json"] = []byte(m)
	if reseal {
		sum := sha256.Sum256([]byte(m))
		content["manifest.sha256"] = []byte(hex.EncodeToString(sum[:]) + "  manifest.json\n")
	}
	return pack(t, names, content, zip.Store)
}

func TestRefusals(t *testing.T) {
	good := mustWrite(t, mustFit(t, regressor(1, 60, 1)))
	names, content := unpack(t, good)
	packWithout := func(name string) []byte {
		var rest []string
		for _, n := range names {
			if n != name {
				rest = append(rest, n)
			}
		}
		return pack(t, rest, content, zip.Store)
	}
	extra := append(append([]string{}, names...), "extra.txt")
	duplicated := append(append([]string{}, names...), names[0])
	tests := []struct {
		name    string
		content []byte
		want    error
		message string
	}{
		{"empty", nil, attach.ErrDamaged, "not a .attach file"},
		{"text", []byte("hello, this is no zip file at all"), attach.ErrDamaged, "not a .attach file"},
		{"half", good[:len(good)/2], attach.ErrDamaged, "cut short"},
		{"without its last byte", good[:len(good)-1], attach.ErrDamaged, "cut short"},
		{"something in front", append([]byte("#!/bin/sh\n"), good...), attach.ErrDamaged, "not a .attach file"},
		{"other zip", pack(t, []string{"a"}, nil, zip.Store), attach.ErrDamaged, "without manifest.json"},
		{"newer", edit(t, good, false, `"format": 1`, `"format": 8`), attach.ErrNewerFormat, "made by a newer attach (format 8, but this version reads formats up to 7); upgrade attach"},
		{"newer and resealed", edit(t, good, true, `"format": 1`, `"format": 99`), attach.ErrNewerFormat, "upgrade"},
		{"no format", edit(t, good, true, `"format": 1`, `"format": 0`), attach.ErrDamaged, "no format version"},
		{"edited", edit(t, good, false, `"alpha": 0.05`, `"alpha": 0.5`), attach.ErrDamaged, "manifest.json does not match its checksum; copy the file again or fit it again"},
		{"list", pack(t, []string{"manifest.json"}, map[string][]byte{"manifest.json": []byte("[]")}, zip.Store), attach.ErrDamaged, "manifest.json: it has a value of another kind, array"},
		{"format in words", edit(t, good, true, `"format": 1`, `"format": "one"`), attach.ErrDamaged, "manifest.json: format has a value of another kind, string"},
		{"no JSON", edit(t, good, true, `"format"`, `format`), attach.ErrDamaged, "manifest.json"},
		{"unknown method", edit(t, good, true, `"method": "certificates"`, `"method": "crystal-ball"`), attach.ErrUnknownMethod, `"crystal-ball"`},
		{"odd task", edit(t, good, true, `"task": "regression"`, `"task": "haruspicy"`), attach.ErrDamaged, "haruspicy"},
		{"odd level", edit(t, good, true, `"level": 0.9`, `"level": 9`), attach.ErrDamaged, "level 9"},
		{"odd width", edit(t, good, true, `"width": 4`, `"width": 5`), attach.ErrDamaged, "do not fit together"},
		{"huge width", edit(t, good, true, `"width": 4`, `"width": 40000000000`), attach.ErrDamaged, "features"},
		{"odd path", edit(t, good, true, `"name": "detector/`, `"name": "../detector/`), attach.ErrDamaged, "the manifest lists array \"../detector/certificates.npy\" twice or with an invalid name"},
		{"other checksum", edit(t, good, true, `"sha256": "`, `"sha256": "0`), attach.ErrDamaged, "checksum"},
		{"other dtype", edit(t, good, true, `"dtype": "float32"`, `"dtype": "float16"`), attach.ErrDamaged, "float16"},
		{"no checksum", packWithout("manifest.sha256"), attach.ErrDamaged, "manifest.sha256"},
		{"array missing", packWithout(names[0]), attach.ErrDamaged, "is missing"},
		{"stowaway", pack(t, extra, content, zip.Store), attach.ErrDamaged, `"extra.txt" is not in the manifest`},
		{"entry twice", pack(t, duplicated, content, zip.Store), attach.ErrDamaged, "twice"},
		{"deflated", pack(t, names, content, zip.Deflate), attach.ErrDamaged, "packed by another program"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.attach")
			if err := os.WriteFile(path, tt.content, 0o666); err != nil {
				t.Fatal(err)
			}
			_, err := attach.Open(path)
			if !errors.Is(err, tt.want) {
				t.Fatalf("error is %v, want one that is %v", err, tt.want)
			}
			if !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), tt.message) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error is %q, want one line that names the file and says %q", err, tt.message)
			}
		})
	}
}

func TestOpenMissingFile(t *testing.T) {
	if _, err := attach.Open(filepath.Join(t.TempDir(), "no.attach")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error is %v, want %v", err, os.ErrNotExist)
	}
	if _, err := attach.Open(t.TempDir()); err == nil {
		t.Error("a folder was opened as a bundle")
	}
}

// TestDeflatedNewerFormat checks that a newer format is recognised even in a file that another
// program compressed.
func TestDeflatedNewerFormat(t *testing.T) {
	names, content := unpack(t, edit(t, mustWrite(t, mustFit(t, classifier(30))), false, `"format": 1`, `"format": 8`))
	if _, err := read(pack(t, names, content, zip.Deflate)); !errors.Is(err, attach.ErrNewerFormat) {
		t.Errorf("error is %v, want %v", err, attach.ErrNewerFormat)
	}
}

// TestManifestBomb checks that Read rejects a small file whose compressed manifest expands to
// 32 MiB.
func TestManifestBomb(t *testing.T) {
	spaces := bytes.Repeat([]byte{' '}, 32<<20)
	compressed := pack(t, []string{"manifest.json"}, map[string][]byte{"manifest.json": spaces}, zip.Deflate)
	if len(compressed) > 1<<20 {
		t.Fatalf("the compressed file has %d bytes", len(compressed))
	}
	if _, err := read(compressed); !errors.Is(err, attach.ErrDamaged) {
		t.Errorf("error is %v, want %v", err, attach.ErrDamaged)
	}
}

// TestEveryByteCounts changes each byte of a file in turn. Read must reject the file, or
// return the same bundle if the byte is not part of the content.
func TestEveryByteCounts(t *testing.T) {
	in := regressor(1, 20, 1)
	good := mustWrite(t, mustFit(t, in))
	step := 1
	if testing.Short() {
		step = 17
	}
	rejected := 0
	for i := 0; i < len(good); i += step {
		bad := bytes.Clone(good)
		bad[i] ^= 0x41
		b, err := read(bad)
		if err != nil {
			rejected++
			continue
		}
		if again := mustWrite(t, b); !bytes.Equal(again, good) {
			t.Fatalf("byte %d of %d changed: read without an error, and differently", i, len(good))
		}
	}
	if rejected < len(good)/step*89/100 { // about 10 % of the bytes are not content but, for example, dates of zip entries
		t.Errorf("%d of %d changed files were refused", rejected, len(good)/step)
	}
	for i := 0; i < len(good); i += 1 + len(good)/500 {
		if _, err := read(good[:i]); err == nil {
			t.Fatalf("a file cut to %d of %d bytes was read", i, len(good))
		}
	}
}

func TestCheck(t *testing.T) {
	b := mustFit(t, classifier(30))
	if err := b.Check(b.Base.SHA256); err != nil {
		t.Error(err)
	}
	err := b.Check("fedcba98765432100123456789abcdef")
	if !errors.Is(err, attach.ErrWrongModel) || !strings.Contains(err.Error(), "0123456789ab…") || !strings.Contains(err.Error(), "fedcba987654…") {
		t.Errorf("error is %v, want one with both abbreviated checksums", err)
	}
	b.Base.SHA256 = ""
	if err := b.Check("fedcba98"); !errors.Is(err, attach.ErrWrongModel) {
		t.Errorf("error is %v, want %v", err, attach.ErrWrongModel)
	}
}

// TestOverlappingEntries checks that Read rejects a small file whose zip directory lists the
// same megabyte under many names, before it reads that megabyte many times.
func TestOverlappingEntries(t *testing.T) {
	names, content := unpack(t, mustWrite(t, mustFit(t, classifier(30))))
	const first = "calibration/a.npy"
	content[first] = make([]byte, 1<<20)
	file := pack(t, append(names, first), content, zip.Store)
	from := bytes.Index(file, []byte("PK\x01\x02"))
	end := bytes.LastIndex(file, []byte("PK\x05\x06"))
	record := file[bytes.LastIndex(file[:end], []byte("PK\x01\x02")):end]
	directory := bytes.Clone(file[from:end])
	const copies = 20
	for i := range copies {
		other := bytes.Clone(record)
		other[46+len("calibration/")] = byte('b' + i)
		directory = append(directory, other...)
	}
	tail := bytes.Clone(file[end:])
	entries := uint16(len(names) + 1 + copies)
	binary.LittleEndian.PutUint16(tail[8:], entries)
	binary.LittleEndian.PutUint16(tail[10:], entries)
	binary.LittleEndian.PutUint32(tail[12:], uint32(len(directory)))
	if _, err := read(slices.Concat(file[:from], directory, tail)); !errors.Is(err, attach.ErrDamaged) || !strings.Contains(err.Error(), "packed by another program") {
		t.Errorf("error is %v, want %v", err, attach.ErrDamaged)
	}
}
