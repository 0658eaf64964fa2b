package inputs

import (
	"cmp"
	"regexp"
	"strings"
	"unicode"
)

// maxNotation limits the bytes of a cell that is tested for numbers and dates in other
// notations.
const maxNotation = 48

const months = `(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)`

var (
	dates = []*regexp.Regexp{
		regexp.MustCompile(`^(?:1[5-9]|2[01])\d{2}[-/.]\d{1,2}(?:[-/.]\d{1,2})?(?:[T ].*\d.*)?$`),
		regexp.MustCompile(`^\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2})(?:[T, ]+\d{1,2}:\d{2}.*)?$`),
		regexp.MustCompile(`^\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AaPp]\.?[Mm]\.?)?$`),
		regexp.MustCompile(`(?i)^(?:\d{1,2}(?:st|nd|rd|th)?[ .\-/]+)?` + months + `\.?[ .,\-/]+(?:\d{1,2}(?:st|nd|rd|th)?,? +)?\d{2,4}(?:[ ,T].*)?$`),
	}
	// In these patterns, ' stands for any separator of thousands other than a point or a
	// comma. bareNumber replaces such separators by '.
	plainNumber  = regexp.MustCompile(`^(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$`)
	decimalComma = regexp.MustCompile(`^\d*,\d+(?:[eE][+-]?\d+)?$`)
	commaGroups  = regexp.MustCompile(`^\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d*)?$`)
	pointGroups  = regexp.MustCompile(`^\d{1,3}(?:\.\d{3})+,\d*$|^\d{1,3}(?:\.\d{3}){2,}$`)
	otherGroups  = regexp.MustCompile(`^\d{1,3}(?:'\d{3})+(?:[.,]\d*)?$`)
)

// otherNotation recognises a number, date or boolean in a notation that ParseFloat does not
// accept. It returns a guess at the notation, and what to write instead. For other texts,
// guess is empty.
func otherNotation(text string) (guess, instead string) {
	text = strings.TrimSpace(text)
	switch {
	case len(text) > maxNotation:
		return "", ""
	case strings.EqualFold(text, "true"), strings.EqualFold(text, "false"):
		return "a truth value?", "write 1 for true and 0 for false"
	case !strings.ContainsFunc(text, unicode.IsDigit):
		return "", ""
	}
	for _, form := range dates {
		if form.MatchString(text) {
			return "a date or time?", "turn it into a number"
		}
	}
	body, guess := bareNumber(text)
	body, negative := strings.CutPrefix(body, "-")
	sign := ""
	if negative {
		sign = "-"
	}
	remove := func(mark string) string { return strings.ReplaceAll(body, mark, "") }
	number, kind := body, ""
	switch {
	case plainNumber.MatchString(body):
	case decimalComma.MatchString(body) && commaGroups.MatchString(body) && body[0] != '0':
		return "decimal comma, or thousands separator?", "write " + sign + strings.Replace(body, ",", ".", 1) + " or " + sign + remove(",")
	case decimalComma.MatchString(body):
		number, kind = strings.Replace(body, ",", ".", 1), "decimal comma?"
	case commaGroups.MatchString(body):
		number, kind = remove(","), "thousands separator?"
	case pointGroups.MatchString(body):
		number, kind = strings.Replace(remove("."), ",", ".", 1), "thousands separator?"
	case otherGroups.MatchString(body):
		number, kind = strings.Replace(remove("'"), ",", ".", 1), "thousands separator?"
	default:
		return "", ""
	}
	if guess = cmp.Or(guess, kind); guess == percent {
		return guess, "write the number without it, as a share or a percentage, as the model was trained"
	}
	if strings.HasPrefix(number, ".") {
		number = "0" + number
	}
	return guess, "write " + sign + strings.TrimSuffix(number, ".")
}

const percent = "percent sign?"

// bareNumber removes currency signs, percent signs and similar marks from a number, and
// returns a guess at the notation. It replaces separators of thousands other than points
// and commas by '.
func bareNumber(text string) (body, guess string) {
	inner, open := strings.CutPrefix(text, "(")
	if inner, closed := strings.CutSuffix(inner, ")"); open && closed {
		text, guess = "-"+inner, "parentheses for a minus?"
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case unicode.Is(unicode.Sc, r):
			guess = "currency sign?"
		case r == '%', r == '‰':
			guess = percent
		case r == '−', r == '–':
			b.WriteByte('-')
			guess = "not the minus sign -?"
		case unicode.IsSpace(r), r == '\'', r == '’', r == '_':
			b.WriteByte('\'')
		default:
			b.WriteRune(r)
		}
	}
	body = strings.Trim(b.String(), "'")
	if rest, ok := strings.CutPrefix(body, "-"); ok {
		body = "-" + strings.Trim(rest, "'")
	}
	return strings.TrimPrefix(body, "+"), guess
}
