package command

import (
	"math"
	"strings"
	"testing"
)

// TestPreview checks that columns are aligned and flags are red. Columns for programs are
// left out, and only the first rows are shown.
func TestPreview(t *testing.T) {
	for _, colour := range []bool{false, true} {
		var out strings.Builder
		p := &previewTable{w: &out, colour: colour}
		for i := range 12 {
			p.write([]field{
				{"input", []string{"a.png", "b\x1b.png"}[i%2]}, {"class", 7}, {"class_name", "cat"}, {"set", []int{1, 2}}, {"set_size", 2},
				{"lower", []number{{x: 1.23456}, {x: math.Inf(1)}}}, {"ood_score", number{x: 3}}, {"p_value", number{x: .000999000999}}, {"flag", i == 1},
			})
		}
		if err := p.close(); err != nil {
			t.Fatal(err)
		}
		flag := "FLAG"
		if colour {
			flag = "\x1b[31mFLAG\x1b[0m"
		}
		want := "  input      class_name  set  lower       p_value  flag\n" +
			"  a.png      cat         1 2  1.235 inf  0.000999\n" +
			"  b\\x1b.png  cat         1 2  1.235 inf  0.000999  " + flag + "\n"
		if got := out.String(); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "\n  10 of 12 rows; write all rows and columns with -o FILE.csv\n") || strings.Count(got, "\n") != 12 {
			t.Errorf("%s", got)
		}
	}
}
