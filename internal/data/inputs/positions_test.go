package inputs

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestPositions checks that rows of a text file can be read in any order and are reported
// with the right line. Some rows have several lines, and comments are between rows.
func TestPositions(t *testing.T) {
	var text strings.Builder
	text.WriteString("note,x\n")
	var lines []int
	for i, line := 0, 2; i < 200; i++ {
		switch {
		case i%7 == 3:
			text.WriteString("\n# a comment\n")
			line += 2
		case i%31 == 30:
			lines = append(lines, line)
			fmt.Fprintf(&text, "\"two\nlines\",%d\n", i)
			line += 2
			continue
		}
		lines = append(lines, line)
		fmt.Fprintf(&text, "one,%d\n", i)
		line++
	}
	path := writeFile(t, t.TempDir(), "x.csv", text.String())
	s := open(t, path, Options{Ignore: []string{"note"}})
	if s.Len() != len(lines) {
		t.Fatalf("%d rows, want %d", s.Len(), len(lines))
	}
	for i, line := range lines {
		if want := fmt.Sprintf("line %d of %s", line, path); s.Name(i) != want {
			t.Errorf("row %d is %s, want %s", i, s.Name(i), want)
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		var picked []int
		for range 1 + random.IntN(60) {
			picked = append(picked, random.IntN(len(lines)))
		}
		all, err := s.Subset(picked).All(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for k, i := range picked {
			if all.Data[k] != float32(i) {
				t.Fatalf("row %d of %v holds %v", k, picked, all.Data[k])
			}
		}
	}
}
