package tokenizer

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"golang.org/x/text/unicode/norm"
)

// normalizer rewrites a text before it is split.
type normalizer func(s string) (string, error)

// maxNesting limits the nesting of sequences in a file.
const maxNesting = 8

// readNormalizers reads the "normalizer" of a file as a list of steps. dropsFirst reports
// whether a step other than Precompiled can remove the first character of a text.
func readNormalizers(raw json.RawMessage, depth int) (steps []normalizer, dropsFirst bool, err error) {
	var v struct {
		Type         string
		Normalizers  []json.RawMessage
		CleanText    bool         `json:"clean_text"`
		Chinese      bool         `json:"handle_chinese_chars"`
		StripAccents *bool        `json:"strip_accents"`
		Lowercase    bool         `json:"lowercase"`
		Left         bool         `json:"strip_left"`
		Right        bool         `json:"strip_right"`
		Prepend      string       `json:"prepend"`
		Pattern      *patternJSON `json:"pattern"`
		Content      string       `json:"content"`
		Charsmap     string       `json:"precompiled_charsmap"`
	}
	if err := decode(raw, "the normalizer", &v); err != nil {
		return nil, false, err
	}
	noError := func(f func(string) string) []normalizer {
		return []normalizer{func(s string) (string, error) { return f(s), nil }}
	}
	switch v.Type {
	case "BertNormalizer":
		strip := v.Lowercase
		if v.StripAccents != nil {
			strip = *v.StripAccents
		}
		return noError(bertNormalizer(v.CleanText, v.Chinese, strip, v.Lowercase)), v.CleanText || strip, nil
	case "NFC", "NFD", "NFKC", "NFKD":
		form := map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}[v.Type]
		return noError(func(s string) string { return normalForm(form, s) }), false, nil
	case "Lowercase":
		return noError(lower), false, nil
	case "StripAccents":
		return noError(func(s string) string { return removeAll(s, charSet("combining")) }), true, nil
	case "Strip":
		return noError(func(s string) string {
			if v.Left {
				s = strings.TrimLeftFunc(s, unicode.IsSpace)
			}
			if v.Right {
				s = strings.TrimRightFunc(s, unicode.IsSpace)
			}
			return s
		}), v.Left, nil
	case "Prepend":
		return noError(func(s string) string {
			if s == "" {
				return s
			}
			return v.Prepend + s
		}), false, nil
	case "ByteLevel":
		return noError(byteLevel), false, nil
	case "Replace":
		p, err := v.Pattern.compile()
		if err != nil {
			return nil, false, fmt.Errorf("the normalizer Replace: %w", err)
		}
		return []normalizer{func(s string) (string, error) { return p.replace(s, v.Content) }}, v.Content == "", nil
	case "Precompiled":
		c, err := newCharsmap(v.Charsmap)
		if err != nil {
			return nil, false, fmt.Errorf("the normalizer Precompiled: %w", err)
		}
		return noError(c.apply), false, nil
	case "Sequence":
		if depth == maxNesting {
			return nil, false, fmt.Errorf("normalizers nest deeper than %d", maxNesting)
		}
		for _, r := range v.Normalizers {
			more, d, err := readNormalizers(r, depth+1)
			if err != nil {
				return nil, false, err
			}
			steps, dropsFirst = append(steps, more...), dropsFirst || d
		}
		return steps, dropsFirst, nil
	}
	return nil, false, fmt.Errorf("the normalizer %.80q is not supported", v.Type)
}

// errGrows reports that normalizers make a text many times longer.
var errGrows = errors.New("the normalizers make this text more than 64 times as long")

// maxNormalized returns the largest length to which a text of n bytes may grow.
func maxNormalized(n int) int { return 64*n + 4096 }

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func removeAll(s string, removed *set) string {
	return strings.Map(func(r rune) rune {
		if removed.has(r) {
			return -1
		}
		return r
	}, s)
}

// lower converts s to lower case, character by character. As in the library, a final sigma
// is not a special case.
func lower(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	libraryLower := unicodeTables().lower
	var b strings.Builder
	for _, r := range s {
		switch l := unicode.ToLower(r); {
		case r < utf8.RuneSelf || l != r && r != 'İ':
			b.WriteRune(l)
		case r == 'İ':
			b.WriteString("i\u0307")
		default:
			if n, ok := libraryLower[r]; ok {
				l = n
			}
			b.WriteRune(l)
		}
	}
	return b.String()
}

// bertNormalizer returns a function that removes control characters and replaces white
// space by spaces, puts spaces around Chinese characters, strips accents, and converts to
// lower case. Each argument turns on one of these four steps.
func bertNormalizer(clean, chinese, strip, lowercase bool) func(string) string {
	control, nonspacing := charSet("control"), charSet("nonspacing")
	return func(s string) string {
		if clean {
			s = strings.Map(func(r rune) rune {
				switch {
				case r >= ' ' && r <= '~':
					return r
				case control.has(r):
					return -1
				case unicode.IsSpace(r):
					return ' '
				}
				return r
			}, s)
		}
		ascii := isASCII(s)
		if chinese && !ascii && strings.ContainsFunc(s, isChinese) {
			var b strings.Builder
			for _, r := range s {
				if isChinese(r) {
					b.WriteByte(' ')
					b.WriteRune(r)
					b.WriteByte(' ')
				} else {
					b.WriteRune(r)
				}
			}
			s = b.String()
		}
		if strip && !ascii {
			s = removeAll(normalForm(norm.NFD, s), nonspacing)
		}
		if lowercase {
			s = lower(s)
		}
		return s
	}
}

// normalForm returns the normal form of s. Some characters have a decomposition or a
// combining class that the library's older Unicode tables lack. These inert characters stay
// unchanged, and no mark moves across them.
func normalForm(form norm.Form, s string) string {
	if isASCII(s) {
		return s
	}
	inert := charSet("inert")
	var b strings.Builder
	for cut := strings.IndexFunc(s, inert.has); cut >= 0; cut = strings.IndexFunc(s, inert.has) {
		_, n := utf8.DecodeRuneInString(s[cut:])
		b.WriteString(form.String(s[:cut]))
		b.WriteString(s[cut : cut+n])
		s = s[cut+n:]
	}
	b.WriteString(form.String(s))
	return b.String()
}

// charsmap is the rewriting table of a SentencePiece model. units is a trie of keys, stored
// as a double array.
type charsmap struct {
	units []uint32
	text  string // replacements, each terminated by a zero byte
}

func newCharsmap(encoded string) (*charsmap, error) {
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("its character map is no base64: %w", err)
	}
	if len(raw) < 4 {
		return nil, errors.New("its character map is cut short")
	}
	size := binary.LittleEndian.Uint32(raw)
	raw = raw[4:]
	if size == 0 || size%4 != 0 || int64(size) > int64(len(raw)) {
		return nil, fmt.Errorf("its character map says that its keys take %d bytes, and %d follow", size, len(raw))
	}
	c := &charsmap{units: make([]uint32, size/4), text: string(raw[size:])}
	for i := range c.units {
		c.units[i] = binary.LittleEndian.Uint32(raw[4*i:])
	}
	if !utf8.ValidString(c.text) {
		return nil, errors.New("its character map contains a replacement that is not UTF-8")
	}
	for part := range strings.SplitSeq(c.text, "\x00") {
		if len(part) > maxReplacement {
			return nil, fmt.Errorf("its character map makes %d bytes of a character, at most %d are supported", len(part), maxReplacement)
		}
	}
	return c, nil
}

// maxReplacement limits the replacement of a character, in bytes.
const maxReplacement = 256

// replacement returns the replacement of the shortest key that s begins with, even if s
// also begins with a longer key.
func (c *charsmap) replacement(s string) (string, bool) {
	offset := func(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }
	at := offset(c.units[0])
	for i := range len(s) {
		if s[i] == 0 {
			break
		}
		if at ^= uint32(s[i]); int64(at) >= int64(len(c.units)) {
			break
		}
		unit := c.units[at]
		if unit&(1<<31|0xFF) != uint32(s[i]) {
			break
		}
		at ^= offset(unit)
		if unit>>8&1 == 0 {
			continue
		}
		if int64(at) >= int64(len(c.units)) {
			break
		}
		value := c.units[at] & (1<<31 - 1)
		if int64(value) >= int64(len(c.text)) || !utf8.RuneStart(c.text[value]) {
			break
		}
		out, _, _ := strings.Cut(c.text[value:], "\x00")
		return out, true
	}
	return "", false
}

// apply rewrites a text, as SentencePiece's converter does. It first looks up each grapheme
// of fewer than 6 bytes as a whole. If a grapheme is longer or has no replacement, apply
// looks up each of its characters.
func (c *charsmap) apply(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for it := graphemes.FromString(s); it.Next(); {
		g := it.Value()
		if len(g) < 6 {
			if out, ok := c.replacement(g); ok {
				b.WriteString(out)
				continue
			}
		}
		for len(g) > 0 {
			_, n := utf8.DecodeRuneInString(g)
			if out, ok := c.replacement(g[:n]); ok {
				b.WriteString(out)
			} else {
				b.WriteString(g[:n])
			}
			g = g[n:]
		}
	}
	return b.String()
}
