package inputs

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

const hub = "testdata/hub.parquet"

// TestParquetImages checks the images, labels and groups in a file that testdata/hub.py
// wrote.
func TestParquetImages(t *testing.T) {
	s := open(t, hub, Options{Preprocess: unscaled(t)})
	if s.Len() != 6 || !slices.Equal(s.Shape(), []int{3, 4, 6}) || !slices.Equal(s.Labels, []int{0, 1, 0, 1, 0, 1}) || !slices.Equal(s.ClassNames, []string{"dog", "cat"}) {
		t.Fatalf("%d rows of %v, labels %v of %v", s.Len(), s.Shape(), s.Labels, s.ClassNames)
	}
	if s.Targets.Rows > 0 || s.File(2) != "" || s.Name(2) != "row 2 of "+hub {
		t.Errorf("targets %v, file %q, name %q", s.Targets, s.File(2), s.Name(2))
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
	if r, _, _, _ := m[0].At(0, 0).RGBA(); r>>8 != 40 {
		t.Errorf("the thumbnail of row 4 has the level %d", r>>8)
	}
	wantError(t, s.CheckImages([]int{3, 8, 8}), "row 0 of "+hub, "the image is of 4×6 pixels")

	// If the model's class names include all names in the file, they number the labels.
	s = open(t, hub, Options{Preprocess: unscaled(t), Classes: []string{"bird", "cat", "dog"}, Groups: "place"})
	if !slices.Equal(s.Labels, []int{2, 1, 2, 1, 2, 1}) || len(s.ClassNames) != 3 || s.Groups[3] != "south" {
		t.Errorf("labels %v of %v, groups %v", s.Labels, s.ClassNames, s.Groups)
	}
	s = open(t, hub, Options{Preprocess: unscaled(t), Targets: []string{"y"}})
	if y := s.Targets; !slices.Equal(y.Data, []float32{0, .5, 1, 1.5, 2, 2.5}) || !slices.Equal(s.TargetNames, []string{"y"}) || s.ClassNames != nil {
		t.Errorf("targets %v", y)
	}
}

// writeParquet writes a Parquet file with the given rows and returns its path.
func writeParquet[T any](t *testing.T, rows []T) string {
	t.Helper()
	var b bytes.Buffer
	if err := parquet.Write(&b, rows); err != nil {
		t.Fatal(err)
	}
	return writeFile(t, t.TempDir(), "a.parquet", b.String())
}

func TestParquetImageErrors(t *testing.T) {
	png, err := os.ReadFile("../../../preprocess/testdata/rgb.png")
	if err != nil {
		t.Fatal(err)
	}
	images := Options{Preprocess: unscaled(t)}
	type photoRow struct {
		Photo []byte
		Label *int `parquet:"label,optional"`
	}
	seven := 7
	photos := writeParquet(t, []photoRow{{png, &seven}, {png, nil}, {[]byte("text"), &seven}, {nil, &seven}})
	_, err = open(t, photos, images).Subset([]int{0, 2}).All(t.Context())
	wantError(t, err, "row 2 of "+photos, "not a readable image")
	s := open(t, photos, Options{Preprocess: images.Preprocess, SkipBad: true})
	if s.Len() != 2 || s.Skipped != 2 || s.Labels != nil {
		t.Errorf("%d rows, %d left out, labels %v", s.Len(), s.Skipped, s.Labels)
	}
	if s.Row(1) != 1 || s.Subset([]int{1}).Row(0) != 1 {
		t.Errorf("row 1 has the number %d", s.Row(1))
	}
	wantError(t, s.Odd, "row 1 of "+photos, `its "label" is empty`)
	withSite := writeParquet(t, []struct {
		Photo []byte
		Site  float64
	}{{png, 1e7}})
	if s = open(t, withSite, Options{Preprocess: images.Preprocess, Groups: "Site"}); s.Groups[0] != "10000000" {
		t.Errorf("the group 10000000, as a table names it, is %s", s.Groups[0])
	}
	// The metadata of Hugging Face describe a column of lists before the column of classes.
	var described bytes.Buffer
	zero := 0
	about := parquet.KeyValueMetadata("huggingface", `{"info": {"features": {"tags": [{"dtype": "string"}], "label": {"names": ["cat"], "_type": "ClassLabel"}}}}`)
	if err := parquet.Write(&described, []photoRow{{png, &zero}}, about); err != nil {
		t.Fatal(err)
	}
	if s = open(t, writeFile(t, t.TempDir(), "a.parquet", described.String()), images); !slices.Equal(s.ClassNames, []string{"cat"}) {
		t.Errorf("classes %v", s.ClassNames)
	}
	_, err = Open(context.Background(), photos, Options{Preprocess: images.Preprocess, Targets: []string{"y"}})
	wantError(t, err, photos, `there is no column "y" of numbers or texts`)
	_, err = Open(context.Background(), photos, Options{Takes: []Takes{{Name: "x", DType: "float32", Shape: []int{-1, 3, 24, 24}}}})
	wantError(t, err, photos, "images need a preprocessing file")

	type cell struct {
		Bytes []byte `parquet:"bytes"`
		Path  string `parquet:"path"`
	}
	type named struct {
		Image cell `parquet:"image"`
	}
	files := writeParquet(t, []named{{cell{png, "no.png"}}, {cell{nil, "b.png"}}, {cell{nil, ""}}, {cell{nil, "no.png"}}})
	writeFile(t, filepath.Dir(files), "b.png", string(png))
	x := readAll(t, open(t, files, images).Subset([]int{0, 1}), 2)
	if half := len(x) / 2; !slices.Equal(x[:half], x[half:]) {
		t.Error("an image in a file of its own is another")
	}
	_, err = open(t, files, images).Subset([]int{2}).All(t.Context())
	wantError(t, err, "row 2 of "+files, "the cell is empty")
	_, err = open(t, files, images).Subset([]int{3}).All(t.Context())
	wantError(t, err, "row 3 of "+files, "no.png: no such file")

	type twoPhotos struct{ A, B []byte }
	twoColumns := writeParquet(t, []twoPhotos{{png, png}})
	_, err = Open(context.Background(), twoColumns, images)
	wantError(t, err, twoColumns, "several columns may contain the images, A, B; rename the right one to image")
	images.Takes = []Takes{{Name: "B", DType: "float32"}}
	readAll(t, open(t, twoColumns, images), 1)

	emptyFile := writeParquet(t, []photoRow{})
	_, err = Open(context.Background(), emptyFile, images)
	wantError(t, err, emptyFile, "there are no rows")
	whole, err := os.ReadFile(hub)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(context.Background(), writeFile(t, t.TempDir(), "cut.parquet", string(whole[:len(whole)-100])), images)
	wantError(t, err, "cut.parquet", "not a Parquet file, or cut short or damaged")
	holed := bytes.Clone(whole)
	clear(holed[4:200])
	s, err = Open(context.Background(), writeFile(t, t.TempDir(), "holed.parquet", string(holed)), Options{Preprocess: images.Preprocess, SkipBad: true})
	if err == nil {
		t.Errorf("%d rows of a file with a hole", s.Len())
	} else {
		wantError(t, err, "holed.parquet", "")
	}
}

func FuzzParquetImages(f *testing.F) {
	for _, seed := range []string{hub, "testdata/features.parquet"} {
		text, err := os.ReadFile(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	path := filepath.Join(f.TempDir(), "a.parquet")
	f.Fuzz(func(t *testing.T, text []byte) {
		defer checkAllocated(t, 1<<30)()
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenFeatures(path); err != nil && strings.Contains(err.Error(), "\n") {
			t.Fatal(err)
		}
		s, err := openParquetImages(context.Background(), path, Options{Preprocess: unscaled(t), Groups: "place", SkipOdd: true})
		if err != nil || s == nil {
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Fatal(err)
			}
			return
		}
		if s.Len() > 100 {
			return
		}
		for _, err := range s.Blocks(context.Background(), 4) {
			if err != nil {
				return
			}
		}
	})
}
