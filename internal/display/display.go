// Package display formats numbers and names for people. A number looks the same in a table,
// a sentence and a page. Thousands have a comma, and numbers of ordinary size have no
// exponent. Long lists are cut, and names from untrusted input are escaped.
package display

import (
	"math"
	"strconv"
	"strings"
)

// Number writes numbers from minPlain up to maxPlain without an exponent.
const minPlain, maxPlain = 1e-4, 1e7

// Count formats a whole number: 14,379.
func Count(n int) string { return addCommas(strconv.Itoa(n)) }

// Number formats x rounded to a number of significant digits, without trailing zeros: 1,090
// and 0.25, but 1.09e8 and 2.5e-6.
func Number(x float64, digits int) string {
	switch {
	case x == 0:
		return "0" // not "-0"
	case math.IsNaN(x) || math.IsInf(x, 0):
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(x, 'g', -1, 64), "+"))
	}
	mantissa, power := scientific(x, digits)
	// Round first, because rounding can move a number across a power of ten.
	rounded, _ := strconv.ParseFloat(mantissa+"e"+strconv.Itoa(power), 64)
	if !Plain(rounded) {
		return Scientific(x, digits)
	}
	return trimZeros(Fixed(rounded, max(digits-1-power, 0)))
}

// Scientific formats x rounded to a number of significant digits, with an exponent: 1.09e8.
func Scientific(x float64, digits int) string {
	mantissa, power := scientific(x, digits)
	return trimZeros(mantissa) + "e" + strconv.Itoa(power)
}

func scientific(x float64, digits int) (mantissa string, power int) {
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(x, 'e', max(digits, 1)-1, 64), "e")
	power, _ = strconv.Atoi(exponent)
	return mantissa, power
}

// Plain reports whether Number formats x without an exponent. x must be finite, and already
// rounded to the digits that Number shows.
func Plain(x float64) bool { return x == 0 || math.Abs(x) >= minPlain && math.Abs(x) < maxPlain }

// Fixed formats x with the given number of decimals: 1,234.50.
func Fixed(x float64, decimals int) string {
	return addCommas(strconv.FormatFloat(x, 'f', decimals, 64))
}

// Percent formats a fraction as a percentage: 5.4 %. Near 0 and 1 it adds decimals (near 1
// at most six), so that other fractions do not become 0 % or 100 %: 0.034 % and 99.95 %.
func Percent(fraction float64) string { return PercentNumber(fraction) + " %" }

// GivenPercent formats a fraction that the user chose as a percentage, without trailing
// zeros: 5 % and 0.1 %.
func GivenPercent(fraction float64) string { return Number(100*fraction, 6) + " %" }

// PercentNumber formats a fraction as Percent does, without the percent sign.
func PercentNumber(fraction float64) string {
	const margin, maxDecimals = .01, 6
	complement := 1 - fraction
	switch {
	case fraction > 0 && fraction < margin:
		return Number(100*fraction, 2)
	case complement > 0 && complement < margin:
		return Fixed(100*fraction, min(max(2, -int(math.Floor(math.Log10(100*complement)+1e-9))), maxDecimals))
	}
	return Fixed(100*fraction, 1)
}

// Range formats an interval of fractions as percentages without the percent sign: 4.8–6.0.
func Range(low, high float64) string { return PercentNumber(low) + "–" + PercentNumber(high) }

// trimZeros removes trailing zeros after the decimal point.
func trimZeros(s string) string {
	if !strings.Contains(s, ".") {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// addCommas puts commas between thousands: 14,379.
func addCommas(s string) string {
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

// Shorten cuts a name with more than most characters in the middle.
func Shorten(name string, most int) string {
	letters := []rune(name)
	n := len(letters)
	if n <= most {
		return name
	}
	return string(letters[:most/2]) + "…" + string(letters[n-most/2:])
}
