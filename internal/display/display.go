// Package display writes numbers for people: the same number reads the same in a
// table, a sentence and a page. Thousands have a comma, and numbers of ordinary size
// have no exponent. Lists are cut, and names that strangers chose are escaped.
package display

import (
	"math"
	"strconv"
	"strings"
)

// Between least and most a number is written without an exponent.
const least, most = 1e-4, 1e7

// Count writes a whole number: 14,379.
func Count(n int) string { return grouped(strconv.Itoa(n)) }

// Number writes x rounded to significant digits, without trailing zeros: 1,090 and
// 0.25, but 1.09e8 and 2.5e-6.
func Number(x float64, digits int) string {
	switch {
	case x == 0:
		return "0" // without the sign that it may have
	case math.IsNaN(x) || math.IsInf(x, 0):
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(x, 'g', -1, 64), "+"))
	}
	mantissa, power := scientific(x, digits)
	// Rounding first decides about numbers just below a power of ten.
	rounded, _ := strconv.ParseFloat(mantissa+"e"+strconv.Itoa(power), 64)
	if !Plain(rounded) {
		return Scientific(x, digits)
	}
	return trimmed(Fixed(rounded, max(digits-1-power, 0)))
}

// Scientific writes x rounded to significant digits with an exponent: 1.09e8.
func Scientific(x float64, digits int) string {
	mantissa, power := scientific(x, digits)
	return trimmed(mantissa) + "e" + strconv.Itoa(power)
}

func scientific(x float64, digits int) (mantissa string, power int) {
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(x, 'e', max(digits, 1)-1, 64), "e")
	power, _ = strconv.Atoi(exponent)
	return mantissa, power
}

// Plain reports whether Number writes a number of x's size without an exponent.
func Plain(x float64) bool { return x == 0 || math.Abs(x) >= least && math.Abs(x) < most }

// Fixed writes x with so many decimals: 1,234.50.
func Fixed(x float64, decimals int) string {
	return grouped(strconv.FormatFloat(x, 'f', decimals, 64))
}

// Percent writes a share: 5.4 %, and closer to 0 and 1 as many decimals as tell it
// from these, 0.034 % and 99.95 %.
func Percent(share float64) string { return Hundredths(share) + " %" }

// Asked writes a share that people gave, without zeros at its end: 5 % and 0.1 %.
func Asked(share float64) string { return Number(100*share, 6) + " %" }

// Hundredths is Percent without its sign.
func Hundredths(share float64) string {
	const near, most = .01, 6
	rest := 1 - share
	switch {
	case share > 0 && share < near:
		return Number(100*share, 2)
	case rest > 0 && rest < near:
		return Fixed(100*share, min(max(2, -int(math.Floor(math.Log10(100*rest)+1e-9))), most))
	}
	return Fixed(100*share, 1)
}

// Range writes an interval of shares in hundredths: 4.8–6.0.
func Range(low, high float64) string { return Hundredths(low) + "–" + Hundredths(high) }

// trimmed leaves out zeros at the end of decimals.
func trimmed(s string) string {
	if !strings.Contains(s, ".") {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// grouped puts commas between thousands.
func grouped(s string) string {
	start := strings.IndexAny(s, "0123456789")
	end := strings.IndexByte(s, '.')
	if end < 0 {
		end = len(s)
	}
	if start < 0 || end-start < 4 {
		return s
	}
	var b strings.Builder
	for i := range end {
		if i > start && (end-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteByte(s[i])
	}
	return b.String() + s[end:]
}
