package calibrate

import (
	"math"
	"math/rand/v2"
	"testing"
)

// drawConfidences draws rows with random confidences. The model is right with probability
// right(confidence).
func drawConfidences(rng *rand.Rand, n int, right func(confidence float64) float64) (c ClassCalibration) {
	for range n {
		top := .5 + rng.Float64()/2
		rank := 0
		if rng.Float64() > right(top) {
			rank = 1
		}
		c.Labels, c.Ranks, c.Top = append(c.Labels, 0), append(c.Ranks, rank), append(c.Top, top)
	}
	return c
}

// TestSelectiveGuarantee checks that the true error rate of accepted rows exceeds the
// requested one in at most 5 % of draws of the calibration rows.
func TestSelectiveGuarantee(t *testing.T) {
	epsilons := [...]float64{.02, .05, .0799}
	for name, tt := range map[string]struct {
		right func(confidence float64) float64
		risk  func(threshold float64) float64 // true error rate of the rows above a threshold
	}{
		"calibrated": {func(c float64) float64 { return c }, func(t float64) float64 { return 1 - (1+t)/2 }},
		"flat":       {func(float64) float64 { return .92 }, func(float64) float64 { return .08 }},
		"overconfident": {
			func(c float64) float64 { return .8 + .2*(2*c-1) }, func(t float64) float64 { return .2 - .2*((2*t-1)+1)/2 },
		},
	} {
		const draws = 500
		rng := rand.New(rand.NewPCG(5, 6))
		var exceeded, acceptingDraws [len(epsilons)]int
		for range draws {
			c := drawConfidences(rng, 600, tt.right)
			for e, epsilon := range epsilons {
				s, err := c.Selective(nil, epsilon)
				if err != nil {
					t.Fatal(err)
				}
				if s.Rows == 0 {
					continue
				}
				acceptingDraws[e]++
				if tt.risk(max(s.Confidence, .5)) > epsilon {
					exceeded[e]++
				}
			}
		}
		for e, epsilon := range epsilons {
			if float64(exceeded[e]) > draws*.05+3*math.Sqrt(draws*.05*.95) {
				t.Errorf("%s: an error of %v is exceeded in %d of %d draws", name, epsilon, exceeded[e], draws)
			}
			if name == "calibrated" && epsilon > .05 && acceptingDraws[e] < draws/2 {
				t.Errorf("%s: an error of %v is found in %d of %d draws", name, epsilon, acceptingDraws[e], draws)
			}
		}
	}
}

func TestSelective(t *testing.T) {
	var c ClassCalibration
	for i := range 100 {
		c.Labels, c.Top, c.Ranks = append(c.Labels, 0), append(c.Top, 1-float64(i)/1000), append(c.Ranks, 0)
	}
	first59 := make([]bool, 100)
	for i := range first59 {
		first59[i] = i < 59
	}
	c.Ranks[70] = 2
	for _, tt := range []struct {
		what       string
		candidates []bool
		epsilon    float64
		want       Selective
	}{
		// All of 59 rows are right with probability 0.95^59 < 0.05, and all of 58 rows with
		// probability 0.95^58 > 0.05.
		{"59 without an error", first59, .05, Selective{Confidence: 0, Rows: 59, Of: 59, Least: 59}},
		{"58 without an error", append(append([]bool(nil), first59[1:]...), false), .05, Selective{Confidence: math.Inf(1), Of: 58, Least: 59}},
		{"none", make([]bool, 100), .05, Selective{Confidence: math.Inf(1), Least: 59}},
		// The smallest tested number of rows that could pass is 75, and these rows include the
		// error.
		{"one error", nil, .04, Selective{Confidence: math.Inf(1), Of: 100, Least: 74}},
		{"more is asked", nil, .1, Selective{Confidence: 0, Rows: 100, Errors: 1, Of: 100, Least: 29}},
	} {
		got, err := c.Selective(tt.candidates, tt.epsilon)
		if err != nil || got != tt.want {
			t.Errorf("%s: %+v (%v), want %+v", tt.what, got, err, tt.want)
		}
	}
	if _, err := c.Selective(first59[1:], .05); err == nil {
		t.Error("candidates of another length are no error")
	}
	// Rows with equal confidence cannot be separated by a threshold.
	for i := range c.Top {
		c.Top[i] = 1
	}
	c.Ranks[70] = 0
	if got, err := c.Selective(nil, .1); err != nil || got.Rows != 100 || got.Confidence != 0 {
		t.Errorf("of one confidence: %+v (%v)", got, err)
	}
	c.Ranks[0], c.Ranks[1], c.Ranks[2], c.Ranks[3], c.Ranks[4], c.Ranks[5] = 1, 1, 1, 1, 1, 1
	if got, err := c.Selective(nil, .1); err != nil || got.Rows != 0 {
		t.Errorf("of one confidence, with errors: %+v (%v)", got, err)
	}
}
