package display

import (
	"math"
	"testing"
)

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		x      float64
		digits int
		want   string
	}{
		{1093, 3, "1,090"}, {118000, 3, "118,000"}, {1.09e8, 3, "1.09e8"}, {9999999, 3, "1e7"}, {9990000, 3, "9,990,000"},
		{.00012345, 3, "0.000123"}, {.000099999, 3, "0.0001"}, {.00009994, 3, "9.99e-5"}, {-2.5e-6, 3, "-2.5e-6"},
		{0, 3, "0"}, {math.Copysign(0, -1), 3, "0"}, {.5, 3, "0.5"}, {10, 3, "10"}, {999.6, 3, "1,000"}, {-1234.5678, 6, "-1,234.57"},
		{1e22, 3, "1e22"}, {math.MaxFloat64, 4, "1.798e308"}, {5e-324, 3, "4.94e-324"}, {7, 0, "7"},
		{math.Inf(1), 3, "inf"}, {math.Inf(-1), 3, "-inf"}, {math.NaN(), 3, "nan"},
	} {
		if got := Number(c.x, c.digits); got != c.want {
			t.Errorf("%v to %d digits is %q, want %q", c.x, c.digits, got, c.want)
		}
	}
}

func TestFixed(t *testing.T) {
	for _, c := range []struct {
		x        float64
		decimals int
		want     string
	}{{1234.5, 2, "1,234.50"}, {-123456, 0, "-123,456"}, {-123, 0, "-123"}, {999999.96, 1, "1,000,000.0"}, {.05, 3, "0.050"}} {
		if got := Fixed(c.x, c.decimals); got != c.want {
			t.Errorf("%v to %d decimals is %q, want %q", c.x, c.decimals, got, c.want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 14379: "14,379", -1234567: "-1,234,567"} {
		if got := Count(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

// TestPercent checks that only 0 and 1 are shown as 0 % and 100 %.
func TestPercent(t *testing.T) {
	for fraction, want := range map[float64]string{
		0: "0.0 %", 1: "100.0 %", .5: "50.0 %", .054: "5.4 %", .01: "1.0 %", .0092: "0.92 %", .00034: "0.034 %", 1e-5: "0.001 %", 1e-12: "1e-10 %",
		.993: "99.30 %", .99: "99.0 %", .9991: "99.91 %", .99995: "99.995 %", 1.5: "150.0 %",
	} {
		if got := Percent(fraction); got != want {
			t.Errorf("%v is %q, want %q", fraction, got, want)
		}
	}
}

// TestGivenPercent checks that a fraction is shown as the user gave it. Multiplying by 100
// must not add a rounding error.
func TestGivenPercent(t *testing.T) {
	for fraction, want := range map[float64]string{.05: "5 %", .07: "7 %", .001: "0.1 %", .9: "90 %", .95: "95 %"} {
		if got := GivenPercent(fraction); got != want {
			t.Errorf("%v is %q, want %q", fraction, got, want)
		}
	}
}
