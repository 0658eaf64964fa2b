package attach_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

// goldenFiles returns the .attach files in testdata, which the fuzz tests change.
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

// maxChanges limits the changes to a file, because the Go fuzzer minimises a failing input
// slowly: it tries to remove every range of its bytes.
const maxChanges = 4

// applyChanges changes content at one or more positions. Each change is five bytes: the
// position (two bytes), the number of bytes to remove there, and two bytes to insert. A
// byte 0xff inserts nothing.
func applyChanges(t *testing.T, content, changes []byte) []byte {
	if len(changes) > 5*maxChanges {
		t.Skip("too long")
	}
	for ; len(changes) >= 5; changes = changes[5:] {
		at := int(binary.LittleEndian.Uint16(changes)) % (len(content) + 1)
		end := min(at+int(changes[2]), len(content))
		content = slices.Concat(content[:at], bytes.Trim(changes[3:5], "\xff"), content[end:])
	}
	return content
}

// checkRead reads arbitrary content. The result must be an error of one line, or a bundle that
// can be written and can predict.
func checkRead(t *testing.T, content []byte) {
	t.Helper()
	start := time.Now()
	b, err := read(content)
	// Wall time varies on a busy machine, so outside of fuzzing the limit only detects that
	// the call hangs.
	if d := time.Since(start); d > 20*time.Second || d > time.Second && flag.Lookup("test.fuzzworker").Value.String() == "true" {
		t.Errorf("reading takes %v", d)
	}
	if err != nil {
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("error has several lines: %q", err)
		}
		return
	}
	if _, err := read(mustWrite(t, b)); err != nil {
		t.Fatalf("what was read is written, and then cannot be read: %v", err)
	}
	var row attach.Rows
	widths := b.Base.Widths()
	for _, name := range widths.Names() {
		batchparts.Set(&row.Batch, name, rows.New(1, widths[name]))
	}
	if b.Calibration.Groups != nil {
		row.Groups = []string{""}
	}
	need := (*ood.NeedError)(nil) // allowed if the detector needs the network, or logits of unknown width
	if _, err := predict(b, row, attach.PredictOptions{}); err != nil && !errors.As(err, &need) {
		t.Errorf("what was read predicts nothing: %v", err)
	}
}

// seedFiles returns the golden files, and a file for a model of table rows.
func seedFiles(f *testing.F) [][]byte {
	in := tableRegressor(3, 1, true)
	in.IntervalParams, in.IntervalModel = ood.Params{"n_estimators": 2.}, method("quantile-forest")
	return append(goldenFiles(f), mustWrite(f, mustFit(f, in)))
}

// FuzzRead changes bytes of valid files and reads the result.
func FuzzRead(f *testing.F) {
	files := seedFiles(f)
	for i, b := range files {
		f.Add(uint8(i), []byte{})
		f.Add(uint8(i), []byte{byte(len(b) / 2), byte(len(b) / 2 >> 8), 255, 'P', 'K'})
		f.Add(uint8(i), []byte{0, 0, 1, 'p', 0xff})
	}
	f.Fuzz(func(t *testing.T, file uint8, changes []byte) {
		checkRead(t, applyChanges(t, files[int(file)%len(files)], changes))
	})
}

// FuzzResealed changes the manifest and one array of a valid file, and corrects all checksums.
// The changes thus reach the code that runs after the checksums are verified.
func FuzzResealed(f *testing.F) {
	type file struct {
		names   []string
		content map[string][]byte
	}
	var files []file
	for i, b := range seedFiles(f) {
		names, content := unpack(f, b)
		files = append(files, file{names, content})
		number := regexp.MustCompile(`: [0-9]`)
		for _, at := range number.FindAllIndex(content["manifest.json"], -1) {
			f.Add(uint8(i), uint8(0), []byte{byte(at[0] + 2), byte((at[0] + 2) >> 8), 1, '9', '9'}, []byte{})
		}
		for index := range names {
			f.Add(uint8(i), uint8(index), []byte{}, []byte{128, 0, 4, 0, 0x80})
		}
	}
	f.Fuzz(func(t *testing.T, index, part uint8, manifest, array []byte) {
		file := files[int(index)%len(files)]
		content := maps.Clone(file.content)
		name := file.names[int(part)%len(file.names)]
		if strings.HasSuffix(name, ".npy") {
			content[name] = applyChanges(t, content[name], array)
		}
		content["manifest.json"] = applyChanges(t, content["manifest.json"], manifest)
		seal(content, name)
		checkRead(t, pack(t, file.names, content, zip.Store))
	})
}

func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
