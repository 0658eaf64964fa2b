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

// falseAlarmRate returns the distribution of the false-alarm rate at alpha over draws of n
// calibration rows.
func falseAlarmRate(n int, alpha float64) distuv.Beta {
	l := math.Floor(float64(n+1)*alpha + 1e-9)
	return distuv.Beta{Alpha: l, Beta: float64(n+1) - l}
}

// rowsNeeded returns the smallest n such that n or more calibration rows have a false-alarm
// rate within 20 % of alpha with the given probability. For smaller numbers of rows, the
// probability rises and falls with ⌊alpha(n+1)⌋.
func rowsNeeded(alpha, probability float64) int {
	suffices := func(n int) bool {
		b := falseAlarmRate(n, alpha)
		return b.Alpha > 0 && b.CDF(1.2*alpha)-b.CDF(.8*alpha) >= probability
	}
	n := int(120 * (1 - alpha) / alpha)
	for suffices(n - 1) {
		n--
	}
	return n
}

// TestCalibrationDataPage checks that the tables in docs/guides/calibration-data.md
// follow from the beta distribution.
func TestCalibrationDataPage(t *testing.T) {
	content, err := os.ReadFile("../docs/guides/calibration-data.md")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, alpha := range []float64{.2, .1, .05, .01, .001} {
		lines = append(lines, fmt.Sprintf("| %v | %d | %s | %s |\n", alpha, hypothesis.LeastRows(alpha), display.Count(rowsNeeded(alpha, .9)), display.Count(rowsNeeded(alpha, .95))))
	}
	for _, n := range []int{100, 500, 1000, 5000} {
		line := fmt.Sprintf("| %s |", display.Count(n))
		for _, alpha := range []float64{.2, .1, .05, .01} {
			b := falseAlarmRate(n, alpha)
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

// TestRealisedFalseAlarms checks a statement of docs/guides/calibration-data.md: with 1,270
// calibration rows, the false-alarm rate is within 20 % of 0.05 in 90 % of draws.
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
		// New scores are uniform, so a fraction 1 − Threshold of them is flagged.
		if fraction := 1 - c.Threshold(alpha); math.Abs(fraction-alpha) <= alpha/5 {
			within++
		}
	}
	if got := float64(within) / draws; math.Abs(got-.9) > .03 {
		t.Errorf("%.3f of %d calibration sets flag within a fifth of %v, want .9", got, draws, alpha)
	}
}
