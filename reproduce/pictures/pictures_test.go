package pictures

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPicturesAreCurrent checks that the files of the documentation match newly drawn
// pictures.
func TestPicturesAreCurrent(t *testing.T) {
	m, err := readMeasured()
	if err != nil {
		t.Fatal(err)
	}
	docs := filepath.Join("..", "..", "docs")
	pictures, err := draw(m, docs)
	if err != nil {
		t.Fatal(err)
	}
	for name, picture := range pictures {
		file, err := os.ReadFile(filepath.Join(docs, name))
		if err != nil {
			t.Error(err)
		} else if string(file) != picture.String() {
			t.Errorf("docs/%s is not what is drawn: cd reproduce && go run . pictures", name)
		}
	}
}
