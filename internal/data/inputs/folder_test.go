package inputs

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"testing"
	"time"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/preprocess"
)

// imageTree writes files below a new folder and returns the folder. A file without text
// gets the picture rgb.png.
func imageTree(t *testing.T, files map[string]string) string {
	t.Helper()
	png, err := os.ReadFile("../../../preprocess/testdata/rgb.png")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for name, text := range files {
		if text == "" {
			text = string(png)
		}
		writeFile(t, root, name, text)
	}
	return root
}

func TestFolder(t *testing.T) {
	root := imageTree(t, map[string]string{
		"dog/b.png": "", "dog/a.PNG": "", "cat/deep/er/z.png": "", "cat/notes.txt": "no image",
		".hidden/a.png": "", "cat/._a.png": "resource fork",
	})
	s := open(t, root, Options{Preprocess: pipeline(t, `{"do_rescale": false, "size": {"height": 4, "width": 5}}`), Labels: true})
	var names []string
	for i := range s.Len() {
		names = append(names, s.Name(i))
	}
	if want := []string{"cat/deep/er/z.png", "dog/a.PNG", "dog/b.png"}; !slices.Equal(names, want) {
		t.Errorf("files %v, want %v", names, want)
	}
	if !slices.Equal(s.Labels, []int{0, 1, 1}) || !slices.Equal(s.ClassNames, []string{"cat", "dog"}) {
		t.Errorf("labels %v of %v", s.Labels, s.ClassNames)
	}
	if s.Targets.Rows > 0 {
		t.Error("folders have no targets")
	}
	if !slices.Equal(s.Shape(), []int{3, 4, 5}) || s.Skipped != 0 {
		t.Errorf("shape %v, %d skipped", s.Shape(), s.Skipped)
	}
	x := readAll(t, s, 2)
	if !slices.Equal(x[:60], x[60:120]) || !slices.Equal(x[:60], x[120:]) {
		t.Error("copies of one picture give different rows")
	}
	if m, err := s.Thumbnails(t.Context(), []int{0}); err != nil || m[0] == nil || m[0].Bounds().Dx() > thumbnailEdge {
		t.Errorf("thumbnails %v, error %v", m, err)
	}
	if err := os.Remove(filepath.Join(root, "dog/b.png")); err != nil {
		t.Fatal(err)
	}
	if m, err := s.Thumbnails(t.Context(), []int{2}); err == nil || m != nil {
		t.Errorf("thumbnails %v of a file that is gone", m)
	}
}

// TestFolderLinks checks that links to folders are followed, and that each folder is read
// once.
func TestFolderLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege there")
	}
	above := imageTree(t, map[string]string{
		"root/a/1.png": "", "root/b/deep/2.png": "", "else/3.png": "", "else/in/4.png": "", "else/.hidden/5.png": "", "else/notes.txt": "no image", "in.png": "",
	})
	root := filepath.Join(above, "root")
	for from, to := range map[string]string{
		"b/out":    "../../else",    // another folder
		"b/out2":   "../../else/in", // a folder in that folder
		"a/cycle":  "../../root",
		"a/up":     "../..", // contains all others
		"again":    "b/deep",
		".skipped": "../else",
		"5.png":    "../in.png",
		"nothing":  "../none",
		"notes":    "../else/notes.txt",
	} {
		if err := os.Symlink(to, filepath.Join(root, from)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../root/a", filepath.Join(above, "else", "back")); err != nil {
		t.Fatal(err)
	}
	linked := filepath.Join(above, "linked")
	if err := os.Symlink("root", linked); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{root, linked} {
		in, err := Images(t.Context(), from)
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"5.png", "a/1.png", "b/deep/2.png", "b/out/3.png", "b/out/in/4.png"}; !slices.Equal(in.Files, want) {
			t.Errorf("images %v, want %v", in.Files, want)
		}
		if len(in.Linked) != 1 || filepath.Base(in.Linked[0]) != "else" {
			t.Errorf("folders elsewhere: %v", in.Linked)
		}
	}
	s := open(t, root, Options{Preprocess: unscaled(t)})
	if want := []string{"its links to folders are followed: b/out", "links that lead to folders whose images are read already are not followed: a/cycle, a/up, again, b/out2, b/out/back"}; !slices.Equal(s.Notes, want) || s.Len() != 5 {
		t.Errorf("%d rows, notes %q", s.Len(), s.Notes)
	}
	readAll(t, s, 2)

	// A folder that contains another folder is not a list of shards, even if the other
	// folder is only linked.
	writeFile(t, filepath.Join(above, "else"), "x.csv", "x\n1\n")
	if got, err := Shards(filepath.Join(above, "else")); err != nil || len(got) != 1 || filepath.Base(got[0]) != "else" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestOneImage(t *testing.T) {
	s := open(t, "../../../preprocess/testdata/grey.png", Options{Preprocess: unscaled(t)})
	if s.Len() != 1 || s.Name(0) != "grey.png" || !slices.Equal(s.Shape(), []int{3, 29, 37}) {
		t.Errorf("%d rows of %v, the first %s", s.Len(), s.Shape(), s.Name(0))
	}
	readAll(t, s, 1)
}

func TestSkipBad(t *testing.T) {
	files := map[string]string{"bad.jpg": "no image", "cut.png": "\x89PNG\r\n\x1a\n"}
	for i := range 9 {
		files[fmt.Sprintf("%d.png", i)] = ""
	}
	root := imageTree(t, files)
	o := Options{Preprocess: unscaled(t)}
	s := open(t, root, o)
	_, err := s.All(context.Background())
	wantError(t, err, root+string(filepath.Separator), "not a readable image")
	o.SkipBad = true
	s = open(t, root, o)
	if s.Len() != 9 || s.Skipped != 2 {
		t.Errorf("%d images, %d skipped; want 9 and 2", s.Len(), s.Skipped)
	}
	readAll(t, s, 4)
	_, err = Open(context.Background(), imageTree(t, map[string]string{"bad.jpg": "no"}), o)
	wantError(t, err, "", "no image can be read")

	// A folder is not a class if all its images are left out.
	o.Labels = true
	s = open(t, imageTree(t, map[string]string{"bad.jpg": "no", "a/bad.png": "no", "b/1.png": "", "c/2.png": ""}), o)
	if !slices.Equal(s.Labels, []int{0, 1}) || !slices.Equal(s.ClassNames, []string{"b", "c"}) || s.Row(1) != 3 || s.Opened() != 2 {
		t.Errorf("labels %v of %v, the second in row %d of %d", s.Labels, s.ClassNames, s.Row(1), s.Opened())
	}

	// If an image is left out, the other cells of its row are left out with it.
	root = imageTree(t, map[string]string{"good.png": "", "bad.png": "no image"})
	path := writeFile(t, root, "x.csv", "file,age,site,y\ngood.png,5,a,1\nbad.png,6,b,2\ngood.png,7,c,3\n")
	o = Options{Preprocess: unscaled(t), SkipBad: true, Targets: []string{"y"}, Groups: "site"}
	o.Takes = []Takes{{Name: "pixels", Shape: []int{-1, 3, -1, -1}}, {Name: "age", Shape: []int{-1, 1}}}
	s = open(t, path, o)
	if s.Skipped != 1 || !slices.Equal(s.Labels, []int{1, 3}) || !slices.Equal(s.Groups, []string{"a", "c"}) || s.Name(1) != "line 4 of "+path {
		t.Errorf("%d skipped, labels %v, groups %v, the second row is %s", s.Skipped, s.Labels, s.Groups, s.Name(1))
	}
	for b, err := range s.Blocks(t.Context(), 4) {
		if err != nil || !slices.Equal(b.Tensors[0].Data, []float32{5, 7}) || b.Tensors[1].Shape[0] != 2 {
			t.Errorf("%v, error %v", b.Tensors, err)
		}
	}
}

func TestFolderErrors(t *testing.T) {
	ctx := context.Background()
	p := unscaled(t)
	flat := imageTree(t, map[string]string{"a.png": "", "c/b.png": ""})
	_, err := Open(ctx, flat, Options{})
	wantError(t, err, flat, "images need a preprocessing file")
	_, err = Open(ctx, flat, Options{Preprocess: p, Labels: true})
	wantError(t, err, filepath.Join(flat, "a.png"), "has no label")
	none := imageTree(t, map[string]string{"a.txt": "text"})
	_, err = Open(ctx, none, Options{Preprocess: p})
	wantError(t, err, none, "there are no rows: the folder has no images (.png .jpg .jpeg .gif .bmp .tif .tiff .webp)")
	if !errors.Is(err, ErrEmpty) {
		t.Errorf("error %v is not ErrEmpty", err)
	}
	mixed := imageTree(t, map[string]string{"a.png": ""})
	photo, err := os.ReadFile("../../../preprocess/testdata/photo.png")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, mixed, "b.png", string(photo))
	_, err = open(t, mixed, Options{Preprocess: p}).All(ctx)
	wantError(t, err, filepath.Join(mixed, "b.png"), "set crop_size")

	dangling := imageTree(t, map[string]string{"a.png": ""})
	if err := os.Symlink("gone.png", filepath.Join(dangling, "b.png")); err == nil {
		_, err = open(t, dangling, Options{Preprocess: p}).All(ctx)
		wantError(t, err, filepath.Join(dangling, "b.png"), "not a readable image: it is a link to a missing file, gone.png")
		if !errors.Is(err, preprocess.ErrImage) {
			t.Errorf("error %v is not ErrImage", err)
		}
	}

	done, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Open(done, flat, Options{Preprocess: p}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v of a cancelled context", err)
	}
}

// TestLargeImages checks how much memory is used for images that have few bytes but a
// hundred million pixels.
func TestLargeImages(t *testing.T) {
	root := t.TempDir()
	frame := image.NewPaletted(image.Rect(0, 0, 4, 4), color.Palette{color.White, color.Black})
	for _, name := range []string{"a.gif", "b.gif", "c.gif"} {
		f, err := os.Create(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		g := gif.GIF{Image: []*image.Paletted{frame}, Delay: []int{0}, Config: image.Config{Width: 10000, Height: 11000}}
		if err := gif.EncodeAll(f, &g); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	writeFile(t, root, "0.gif", "GIF89a\x01\x00\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x80\x00\x00\x00\xff\xff\xff\x02\x02D\x01\x00;")
	peak := watchHeap(t)
	// An image with a different size from the first is rejected before it is decoded.
	s := open(t, root, Options{Preprocess: unscaled(t)})
	for _, err := range s.Blocks(context.Background(), 4) {
		wantError(t, err, root, "the image has 11000×10000 pixels and becomes 3×11000×10000 after preprocessing, but earlier images became 3×1×1; set")
	}
	if got := peak(); got > 100<<20 {
		t.Errorf("images of another size took %d MB", got>>20)
	}
	if testing.Short() {
		t.Skip("large images take seconds")
	}
	peak = watchHeap(t)
	s = open(t, root, Options{Preprocess: pipeline(t, `{"do_rescale": false, "size": 2, "resample": 0}`)})
	readAll(t, s, 4)
	// Allow three bytes for each pixel of one image, and half as much for everything else.
	if got := peak(); got > 500<<20 {
		t.Errorf("three large images at once took %d MB", got>>20)
	}
}

// watchHeap returns a function that stops watching and returns the largest heap size.
func watchHeap(t *testing.T) func() uint64 {
	t.Helper()
	runtime.GC()
	stop, done := make(chan struct{}), make(chan uint64)
	go func() {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		peak := uint64(0)
		for {
			metrics.Read(sample)
			peak = max(peak, sample[0].Value.Uint64())
			select {
			case <-stop:
				done <- peak
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(stop)
		return <-done
	}
}

func TestImageSides(t *testing.T) {
	p := pipeline(t, `{"do_rescale": false, "size": {"height": 4, "width": 16384}}`)
	for _, c := range []struct {
		shape   []int
		message string
	}{
		{[]int{1, 1, 70000}, "over the limit of 65536 pixels a side"},
		{[]int{1, 60000, 3}, "would be resized to 4×16384"}, // the intermediate image would have 60000×16384 pixels
	} {
		path := writeNPY(t, "x.npy", rows.Array{Shape: c.shape, Data: make([]uint8, rows.Elements(c.shape))})
		_, err := Open(context.Background(), path, Options{Preprocess: p})
		wantError(t, err, path, c.message)
	}
	path := writeNPY(t, "x.npy", rows.Array{Shape: []int{1, 2, 2}, Data: make([]uint8, 4)})
	_, err := Open(context.Background(), path, Options{Preprocess: pipeline(t, `{"do_rescale": false, "pad_size": 16384}`)})
	wantError(t, err, path, "over the limit of 134217728 pixels")
}
