package calibrate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// realised is the share of fresh rows that n calibration rows flag at alpha.
func realised(n int, alpha float64) distuv.Beta {
	l := math.Floor(float64(n+1)*alpha + 1e-9)
	return distuv.Beta{Alpha: l, Beta: float64(n+1) - l}
}

// enough is the least number of rows from which on the share is within a fifth of
// alpha with that probability: further down it goes up and down with ⌊alpha(n+1)⌋.
func enough(alpha, probability float64) int {
	within := func(n int) bool {
		b := realised(n, alpha)
		return b.Alpha > 0 && b.CDF(1.2*alpha)-b.CDF(.8*alpha) >= probability
	}
	n := int(120 * (1 - alpha) / alpha)
	for within(n - 1) {
		n--
	}
	return n
}

// TestChoosingPage: the tables of rows in docs/guides/calibration-data.md are what follows from the
// beta distribution.
func TestChoosingPage(t *testing.T) {
	content, err := os.ReadFile("../docs/guides/calibration-data.md")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, alpha := range []float64{.2, .1, .05, .01, .001} {
		lines = append(lines, fmt.Sprintf("| %v | %d | %s | %s |\n", alpha, hypothesis.LeastRows(alpha), display.Count(enough(alpha, .9)), display.Count(enough(alpha, .95))))
	}
	for _, n := range []int{100, 500, 1000, 5000} {
		line := fmt.Sprintf("| %s |", display.Count(n))
		for _, alpha := range []float64{.2, .1, .05, .01} {
			b := realised(n, alpha)
			line += fmt.Sprintf(" %.3f–%.3f |", 1-b.Quantile(.95), 1-b.Quantile(.05))
		}
		lines = append(lines, line+"\n")
	}
	for _, line := range lines {
		if !strings.Contains(string(content), line) {
			t.Errorf("docs/guides/calibration-data.md lacks %s", line)
		}
	}
}

// TestRealisedFalseAlarms draws calibration sets of the size that docs/guides/calibration-data.md
// says suffices nine times in ten.
func TestRealisedFalseAlarms(t *testing.T) {
	const alpha, draws = .05, 1000
	random := rand.New(rand.NewPCG(1, 2))
	within := 0
	for range draws {
		scores := make([]float64, 1270)
		for i := range scores {
			scores[i] = random.Float64()
		}
		c, err := calibrate.NewConformal(scores)
		if err != nil {
			t.Fatal(err)
		}
		// Fresh scores are uniform: this share of them is above the threshold.
		if share := 1 - c.Threshold(alpha); math.Abs(share-alpha) <= alpha/5 {
			within++
		}
	}
	if got := float64(within) / draws; math.Abs(got-.9) > .03 {
		t.Errorf("%.3f of %d calibration sets flag within a fifth of %v, want .9", got, draws, alpha)
	}
}
