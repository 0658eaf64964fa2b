package inputs

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
)

func TestExpand(t *testing.T) {
	for list, want := range map[string]string{
		"a.tar":                    "a.tar",
		"s-{000..002}.tar":         "s-000.tar s-001.tar s-002.tar",
		"s-{9..11}.tar":            "s-9.tar s-10.tar s-11.tar",
		"s-{08..10}.tar":           "s-08.tar s-09.tar s-10.tar",
		"{train,val}/{0..1}.tar":   "train/0.tar train/1.tar val/0.tar val/1.tar",
		"{a.tar,b.tar}":            "a.tar b.tar",
		"s-{000..99999}-of-5.tar":  "!is not a list of shards",
		"s-{2..1}.tar":             "!is not a list of shards",
		"s-{a..b}.tar":             "!is not a list of shards",
		"s-{000..003.tar":          "!a brace is not closed",
		"{0..999}-{0..999}.tar":    "!more than 65536 shards",
		"s-{0..99999999999999}tar": "!is not a list of shards",
	} {
		got, err := Expand(list)
		if words, bad := strings.CutPrefix(want, "!"); bad {
			wantError(t, err, list, words)
		} else if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v; want %s", list, got, err, want)
		}
	}
	literal := filepath.Join(t.TempDir(), "{0..1}.tar")
	if err := os.WriteFile(literal, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := Expand(literal); err != nil || !slices.Equal(got, []string{literal}) {
		t.Errorf("%v, %v of a file of that name", got, err)
	}
}

const shards = "testdata/shard-{000..001}.tar"

// TestWebDataset checks the images, labels and groups in shards that testdata/shards.py
// wrote.
func TestWebDataset(t *testing.T) {
	s := open(t, shards, Options{Preprocess: unscaled(t)})
	if s.Len() != 6 || !slices.Equal(s.Shape(), []int{3, 4, 6}) || !slices.Equal(s.Labels, []int{0, 1, 0, 1, 0, 1}) || s.TargetNames != nil {
		t.Fatalf("%d rows of %v, labels %v", s.Len(), s.Shape(), s.Labels)
	}
	if name := s.Name(4); name != "shard-001.tar/dog/0004.png" || s.File(4) != name {
		t.Errorf("names %q and %q", name, s.File(4))
	}
	x := readAll(t, s.Subset([]int{5, 0, 3, 1}), 3)
	for k, i := range []int{5, 0, 3, 1} {
		for c := range 3 {
			for _, v := range x[(3*k+c)*24 : (3*k+c+1)*24] {
				if v != float32(10*i+c) {
					t.Fatalf("row %d, channel %d: %v", i, c, v)
				}
			}
		}
	}
	m, err := s.Thumbnails(t.Context(), []int{4, 1})
	if err != nil {
		t.Fatal(err)
	}
	if r, g, b, _ := m[0].At(0, 0).RGBA(); r>>8 != 40 || g>>8 != 41 || b>>8 != 42 {
		t.Errorf("the thumbnail of row 4 has the levels %d, %d, %d", r>>8, g>>8, b>>8)
	}
	if err := s.CheckImages([]int{3, 8, 8}); err == nil || !strings.Contains(err.Error(), "shard-000.tar: dog/0000.png: the image is of 4×6 pixels") {
		t.Errorf("error %v of the size", err)
	}

	s = open(t, shards, Options{Preprocess: unscaled(t), Labels: true})
	if !slices.Equal(s.Labels, []int{1, 0, 1, 0, 1, 0}) || !slices.Equal(s.ClassNames, []string{"cat", "dog"}) {
		t.Errorf("labels %v of %v", s.Labels, s.ClassNames)
	}
	s = open(t, shards, Options{Preprocess: unscaled(t), Targets: []string{"label"}, Classes: []string{"cat", "dog"}, Groups: "place"})
	if !slices.Equal(s.Labels, []int{1, 0, 1, 0, 1, 0}) || !slices.Equal(s.TargetNames, []string{"label"}) {
		t.Errorf("labels %v from names", s.Labels)
	}
	if want := []string{"north", "north", "north", "south", "south", "south"}; !slices.Equal(s.Groups, want) {
		t.Errorf("groups %v", s.Groups)
	}
}

func TestWebDatasetArrays(t *testing.T) {
	s := open(t, shards, Options{Targets: []string{"y", "cls"}})
	y, ok := s.Targets, s.Targets.Rows > 0
	if want := []float32{0, 0, .5, 1, 1, 0, 1.5, 1, 2, 0, 2.5, 1}; !ok || y.Cols != 2 || !slices.Equal(y.Data, want) {
		t.Errorf("targets %v", y)
	}
	if !slices.Equal(s.Shape(), []int{2, 2}) || s.Name(0) != "shard-000.tar/dog/0000.npy" || s.File(0) != "" {
		t.Errorf("rows of %v, the first %s", s.Shape(), s.Name(0))
	}
	want := []float32{3, 4, 5, 6, 0, 1, 2, 3}
	if x := readAll(t, s.Subset([]int{3, 0}), 5); !slices.Equal(x, want) {
		t.Errorf("rows %v, want %v", x, want)
	}
	if m, err := s.Thumbnails(t.Context(), []int{0}); m != nil || err != nil {
		t.Errorf("thumbnails %v of arrays, error %v", m, err)
	}
}

// writeTar writes a tar archive of members "name=content". The content is a text, or the
// name of a picture or an array in contents.
func writeTar(t *testing.T, members ...string) string {
	t.Helper()
	png, err := os.ReadFile("../../../preprocess/testdata/rgb.png")
	if err != nil {
		t.Fatal(err)
	}
	array := func(shape []int, data any) string {
		var b bytes.Buffer
		if err := npy.Write(&b, rows.Array{Shape: shape, Data: data}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	contents := map[string]string{
		"rgb": string(png), "array": array([]int{3}, sequence[float32](3)), "pair": array([]int{2}, sequence[float64](2)), "pixels": array([]int{3, 1}, sequence[uint8](3)),
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		name, text, _ := strings.Cut(m, "=")
		text = cmp.Or(contents[text], text)
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return writeFile(t, t.TempDir(), "a.tar", b.String())
}

func TestWebDatasetErrors(t *testing.T) {
	var frames []string
	for i := range maxMembers + 1 {
		frames = append(frames, fmt.Sprintf("frame.%04d.png=rgb", i))
	}
	images, classes := Options{Preprocess: unscaled(t)}, Options{Preprocess: unscaled(t), Classes: []string{"cat"}}
	targets := Options{Preprocess: unscaled(t), Targets: []string{"y"}}
	for _, c := range []struct {
		words   string
		o       Options
		members []string
	}{
		{"there are no samples in it", images, nil},
		{"there are no samples in it", images, []string{"README=text", "._1.png=resource fork", "__1.png__=", ".git/1.png=rgb"}},
		{`sample "2": its input is missing: there is no image in it (`, images, []string{"1.png=rgb", "1.cls=0", "2.cls=1"}},
		{`sample "1": it lacks "y"`, targets, []string{"1.png=rgb", "1.cls=0"}},
		{`sample "d/2": it lacks "cls"`, Options{Preprocess: unscaled(t), Targets: []string{"cls"}}, []string{"d/1.png=rgb", "d/1.cls=0", "d/2.png=rgb"}},
		{`its .json member is not a JSON object`, targets, []string{"1.png=rgb", "1.json=[1"}},
		{`its "y": "[1]" is not a number`, targets, []string{"1.png=rgb", `1.json={"y": [1]}`}},
		{`its "y": "dog" is neither a number nor the name of a class; classes are cat`, Options{Preprocess: unscaled(t), Classes: classes.Classes, Targets: []string{"y"}},
			[]string{"1.png=rgb", `1.json={"y": "dog"}`}},
		{`it lacks "place"`, Options{Preprocess: unscaled(t), Groups: "place"}, []string{"1.png=rgb", `1.json={"place": null}`}},
		{`two members have the name "1.png"`, images, []string{"1.png=rgb", "1.png=rgb"}},
		{`sample "frame": it has more than 1024 members; members of one sample, and only these, must share their name up to the first dot`, images, frames},
		{`it has several inputs, .png and .jpg`, images, []string{"1.png=rgb", "1.jpg=rgb"}},
		{`the member "../1.png" leads out of the archive`, images, []string{"../1.png=rgb"}},
		{`the member "/1.png" leads out of the archive`, images, []string{"/1.png=rgb"}},
		{"images need a preprocessing file", Options{}, []string{"1.png=rgb"}},
		{"name images, or save", images, []string{"1.npy=array"}},
		{"1.png: not a readable image", images, []string{"1.png=text"}},
		{"only a table has columns to ignore", Options{Ignore: []string{"a"}, Targets: []string{"y"}}, []string{"1.npy=array", "1.y=1"}},
	} {
		path := writeTar(t, c.members...)
		_, err := Open(context.Background(), path, c.o)
		wantError(t, err, path, c.words)
	}
	path := writeTar(t, "1.npy=array", "2.npy=array")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for size, words := range map[int]string{
		0:                 "the archive has no end",
		100:               "the archive is cut short",
		512 + 100:         "the archive is cut short",
		1024:              "the archive has no end",
		1024 + 100:        "the archive is cut short",
		len(whole) - 1024: "the archive has no end",
	} {
		_, err := Open(context.Background(), writeFile(t, t.TempDir(), "cut.tar", string(whole[:size])), Options{})
		wantError(t, err, "cut.tar", words)
	}
	_, err = Open(context.Background(), writeFile(t, t.TempDir(), "text.tar", strings.Repeat("no tar at all ", 100)), Options{})
	wantError(t, err, "text.tar", "not a tar archive, or damaged: there is no member header before byte 512")
	_, err = Open(context.Background(), "testdata/shard-{000..002}.tar", Options{})
	wantError(t, err, "testdata/shard-002.tar", "no such file")
	_, err = Open(context.Background(), writeFile(t, t.TempDir(), "x.tar.gz", ""), Options{})
	wantError(t, err, "x.tar.gz", "the archive is compressed")
}

func TestWebDatasetOdd(t *testing.T) {
	members := []string{"./1.png=rgb", "./1.cls=3", "./2.cls=1", "3.png=text", "3.cls=2", "4.png=rgb", "4.cls=5"}
	s := open(t, writeTar(t, members...), Options{Preprocess: unscaled(t), SkipBad: true})
	if s.Len() != 2 || s.Skipped != 2 || !slices.Equal(s.Labels, []int{3, 5}) || s.Name(1) != "a.tar/4.png" {
		t.Errorf("%d rows, %d left out, labels %v, the last %s", s.Len(), s.Skipped, s.Labels, s.Name(1))
	}
	// Classes are ignored if a sample has none.
	s = open(t, writeTar(t, "1.png=rgb", "1.cls=3", "2.png=rgb"), Options{Preprocess: unscaled(t)})
	if s.Labels != nil || s.Odd == nil || !strings.Contains(s.Odd.Error(), `sample "2": it lacks "cls"`) {
		t.Errorf("labels %v, odd for %v", s.Labels, s.Odd)
	}
	// Targets of the fit may be missing.
	s = open(t, writeTar(t, "1.png=rgb", "1.cls=3"), Options{Preprocess: unscaled(t), Targets: []string{"y"}, TargetOptional: true})
	if s.Targets.Rows > 0 || s.Odd != nil {
		t.Error("there are targets that nothing names")
	}
	_, err := open(t, writeTar(t, "1.npy=array", "2.npy=pixels"), Options{}).All(t.Context())
	wantError(t, err, "a.tar: 2.npy", "2.npy: it contains pixels; store images as .png or .jpg members")
	_, err = open(t, writeTar(t, "1.npy=array", "2.npy=pair"), Options{}).All(t.Context())
	wantError(t, err, "a.tar: 2.npy", "its shape is [2], but earlier arrays have [3]")
}

// checkAllocated returns a function to call at the end of a test. It fails the test if more
// than limit bytes were allocated in between.
func checkAllocated(t *testing.T, limit uint64) func() {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	return func() {
		t.Helper()
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > limit {
			t.Errorf("%d bytes were allocated", n)
		}
	}
}

func FuzzArchive(f *testing.F) {
	for _, name := range []string{"testdata/shard-000.tar", "testdata/shard-001.tar"} {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text[:4096])
		f.Add(append(text[:4096:4096], make([]byte, 1024)...))
	}
	path := filepath.Join(f.TempDir(), "a.tar")
	f.Fuzz(func(t *testing.T, text []byte) {
		defer checkAllocated(t, 1<<30)()
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := Open(context.Background(), path, Options{Groups: "place", Targets: []string{"label"}, TargetOptional: true, SkipOdd: true})
		if err != nil {
			if errors.Is(err, os.ErrNotExist) || strings.Contains(err.Error(), "\n") {
				t.Fatal(err)
			}
			return
		}
		for _, err := range s.Blocks(context.Background(), 4) {
			if err != nil {
				return
			}
		}
	})
}

func TestWebDatasetTexts(t *testing.T) {
	texts := func(s *Set, idx ...int) (all []string) {
		for b, err := range s.Subset(idx).Blocks(t.Context(), 3) {
			if err != nil {
				t.Fatal(err)
			}
			for _, tensor := range b.Tensors {
				all = append(all, tensor.Strings...)
			}
		}
		return all
	}
	s := open(t, shards, Options{HasText: true})
	if s.Len() != 6 || !slices.Equal(s.Texts, []string{"txt"}) || s.Name(4) != "shard-001.tar/dog/0004.txt" || !slices.Equal(s.Labels, []int{0, 1, 0, 1, 0, 1}) {
		t.Errorf("%d rows of %v, row 4 %s, labels %v", s.Len(), s.Texts, s.Name(4), s.Labels)
	}
	if got := texts(s, 5, 0); !slices.Equal(got, []string{"sentence 5", "sentence 0"}) {
		t.Errorf("texts %q", got)
	}
	s = open(t, shards, Options{HasText: true, Text: []string{"place", "txt"}})
	if got := texts(s, 5, 0); s.Len() != 6 || !slices.Equal(got, []string{"south", "north", "sentence 5", "sentence 0"}) {
		t.Errorf("pairs %q", got)
	}
	lacks := writeTar(t, "1.txt=a", "2.json={}")
	_, err := Open(t.Context(), lacks, Options{HasText: true})
	wantError(t, err, lacks, `sample "2": its input is missing: it lacks the text "txt", as a member .txt or a key of its .json; its members are .json`)
	if s := open(t, lacks, Options{HasText: true, SkipBad: true}); s.Len() != 1 || s.Skipped != 1 {
		t.Errorf("%d rows, %d left out", s.Len(), s.Skipped)
	}
	none := writeTar(t, "1.cls=1")
	_, err = Open(t.Context(), none, Options{HasText: true})
	wantError(t, err, none, "there is no text in it (.txt); its members are .cls")
	_, err = open(t, writeTar(t, "1.txt=a\xff"), Options{HasText: true}).All(t.Context())
	wantError(t, err, "1.txt", "the text is not UTF-8")
}
