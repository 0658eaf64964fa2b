package pictures

import (
	"os"
	"path/filepath"
	"strings"
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

// TestReasonsAreMeasured checks that the page of reasons, whose commands are tested, prints the
// results in its picture.
func TestReasonsAreMeasured(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "concepts", "reasons.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range []string{reasonCell, reasonShift, reasonScore} {
		if !strings.Contains(string(page), result) {
			t.Errorf("docs/concepts/reasons.md lacks %q", result)
		}
	}
}
