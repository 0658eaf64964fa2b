package bundle_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// goldenFiles are the seeds of the fuzz targets.
func goldenFiles(f *testing.F) [][]byte {
	paths, err := filepath.Glob("testdata/v*.attach")
	if err != nil || len(paths) == 0 {
		f.Fatalf("there are no seeds in testdata (%v)", err)
	}
	var files [][]byte
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		files = append(files, b)
	}
	return files
}

// checkRead reads content, which may be anything, and expects an error of one
// line or a bundle that is written stably.
func checkRead(t *testing.T, content []byte) {
	t.Helper()
	b, err := read(content)
	if err != nil {
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("error has several lines: %q", err)
		}
		return
	}
	first := mustWrite(t, b)
	again, err := read(first)
	if err != nil {
		t.Fatalf("what was read is written, and then cannot be read: %v", err)
	}
	if !bytes.Equal(first, mustWrite(t, again)) {
		t.Error("writing is not stable")
	}
}

func FuzzRead(f *testing.F) {
	for _, b := range goldenFiles(f) {
		f.Add(b)
		f.Add(edit(f, b, true, `"width": `, `"width": 1`))
	}
	f.Add([]byte("PK\x03\x04"))
	f.Fuzz(checkRead)
}

// FuzzResealed changes the manifest and one array of a good file and makes all
// checksums match, so that what lies behind the checksums is reached.
func FuzzResealed(f *testing.F) {
	files := goldenFiles(f)
	for file, b := range files {
		names, content := unpack(f, b)
		for which, name := range names {
			if strings.HasSuffix(name, ".npy") {
				f.Add(uint8(file), uint8(which), content["manifest.json"], content[name])
			}
		}
	}
	f.Fuzz(func(t *testing.T, file, which uint8, manifest, array []byte) {
		names, content := unpack(t, files[int(file)%len(files)])
		name := names[int(which)%len(names)]
		if strings.HasSuffix(name, ".npy") {
			content[name] = array
			manifest = reseal(manifest, name, array)
		}
		content["manifest.json"] = manifest
		content["manifest.sha256"] = []byte(sha(manifest) + "  manifest.json\n")
		checkRead(t, pack(t, names, content, zip.Store))
	})
}

// reseal corrects what the manifest says of an array, if it can be parsed.
func reseal(manifest []byte, name string, array []byte) []byte {
	var m map[string]any
	if json.Unmarshal(manifest, &m) != nil {
		return manifest
	}
	list, _ := m["arrays"].([]any)
	for _, e := range list {
		if entry, ok := e.(map[string]any); ok && entry["name"] == name {
			entry["bytes"], entry["sha256"] = len(array), sha(array)
		}
	}
	out, err := json.Marshal(m)
	if err != nil {
		return manifest
	}
	return out
}

func sha(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
