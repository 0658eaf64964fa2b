package inputs

import "testing"

// TestOtherNotation checks which texts are recognised as numbers, dates or booleans in another
// notation.
func TestOtherNotation(t *testing.T) {
	for text, want := range map[string]string{
		"1,5":                  "decimal comma?; write 1.5",
		" -0,25 ":              "decimal comma?; write -0.25",
		",5":                   "decimal comma?; write 0.5",
		"0,125":                "decimal comma?; write 0.125",
		"2,5e-3":               "decimal comma?; write 2.5e-3",
		"794,36":               "decimal comma?; write 794.36",
		"1,234":                "decimal comma, or thousands separator?; write 1.234 or 1234",
		"-1,234":               "decimal comma, or thousands separator?; write -1.234 or -1234",
		"1,234.5":              "thousands separator?; write 1234.5",
		"12,34,567":            "thousands separator?; write 1234567",
		"1.234,5":              "thousands separator?; write 1234.5",
		"1.234.567":            "thousands separator?; write 1234567",
		"1\u00a0234":           "thousands separator?; write 1234",
		"1 234,5":              "thousands separator?; write 1234.5",
		"1'234.5":              "thousands separator?; write 1234.5",
		"$1.50":                "currency sign?; write 1.50",
		"1.234,50 €":           "currency sign?; write 1234.50",
		"-€ 7":                 "currency sign?; write -7",
		"(12.5)":               "parentheses for a minus?; write -12.5",
		"−3.5":                 "not the minus sign -?; write -3.5",
		"True":                 "a truth value?; write 1 for true and 0 for false",
		"2024-01-31":           "a date or time?; turn it into a number",
		"31.12.2024":           "a date or time?; turn it into a number",
		"1/2/24":               "a date or time?; turn it into a number",
		"12:30:05 PM":          "a date or time?; turn it into a number",
		"2024-01-31T12:00:00Z": "a date or time?; turn it into a number",
		"Jan 2, 2024":          "a date or time?; turn it into a number",
		"02-Mar-24":            "a date or time?; turn it into a number",
		"12 %":                 "percent sign?; write the number without it, as a share or a percentage, as the model was trained",
		// Texts.
		"":                  "; ",
		"steel":             "; ",
		"12 kg":             "; ",
		"1.2.3":             "; ",
		"10.0.0.1":          "; ",
		"123-45-6789":       "; ",
		"+49 170 1234567":   "; ",
		"Marie 12":          "; ",
		"1,2,3":             "; ",
		"10–20":             "; ",
		"$":                 "; ",
		"c1,234":            "; ",
		"May flowers of 20": "; ",
	} {
		guess, instead := otherNotation(text)
		if got := guess + "; " + instead; got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
