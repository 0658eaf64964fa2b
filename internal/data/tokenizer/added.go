package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token that is searched for in a text before the model splits the rest.
type addedToken struct {
	ID         *int32 `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LeftStrip  bool   `json:"lstrip"`
	RightStrip bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
}

// addedTokens is a set of added tokens that are searched for together. The longest match
// wins.
type addedTokens struct {
	trie   *trie // maps the content of a token to its index in tokens
	tokens []addedToken
}

// readAdded checks the "added_tokens" of a file. It stores tokens to find in the original
// text in t.original, and tokens to find in the normalized text in t.normalized. It stores
// the ids of all added tokens in t.added.
func (t *Tokenizer) readAdded(tokens []addedToken) error {
	original, normalized := vocabulary{}, vocabulary{}
	free := int32(t.model.size())
	t.added = vocabulary{}
	for i, a := range tokens {
		if a.Content == "" {
			continue
		}
		// The library takes the id from the model, or else the next free id. It ignores the
		// id in the file, so a different one there is an error.
		id := t.id(a.Content)
		if id < 0 {
			id = free
			free++
		}
		if a.ID == nil || *a.ID != id {
			return fmt.Errorf("the added token %.80q should have the id %d", a.Content, id)
		}
		if _, duplicate := t.added[a.Content]; duplicate {
			return fmt.Errorf("the added token %.80q stands twice", a.Content)
		}
		t.added[a.Content] = id
		if !a.Normalized {
			original[a.Content] = int32(i)
			continue
		}
		content, err := t.normalize(a.Content)
		if err != nil {
			return err
		}
		if _, duplicate := normalized[content]; duplicate || content == "" {
			return fmt.Errorf("the added token %.80q is, normalized, %.80q, which is no token or another's", a.Content, content)
		}
		normalized[content] = int32(i)
	}
	t.original, t.normalized = addedTokens{newTrie(original), tokens}, addedTokens{newTrie(normalized), tokens}
	return nil
}

// split calls token for each token that it finds in s, and text for the parts between them.
func (a *addedTokens) split(s string, text func(part string, start int) error, token func(id int32)) error {
	from, spacesEnd := 0, 0 // spacesEnd is the end of spaces that follow the last token with RightStrip
	for i := 0; i < len(s); {
		if a.trie.root[s[i]] == 0 {
			i++
			continue
		}
		index, n := a.trie.longest(0, s[i:])
		if n == 0 {
			i++
			continue
		}
		start, end := i, i+n
		i = end
		match := a.tokens[index]
		if match.SingleWord && (inWord(utf8.DecodeLastRuneInString(s[:start])) || inWord(utf8.DecodeRuneInString(s[end:]))) {
			continue
		}
		if match.LeftStrip && from < start {
			start = from + len(strings.TrimRightFunc(s[from:start], unicode.IsSpace))
		}
		if match.RightStrip {
			spacesEnd = max(spacesEnd, end)
			spacesEnd = len(s) - len(strings.TrimLeftFunc(s[spacesEnd:], unicode.IsSpace))
			end = spacesEnd
		}
		if from < start {
			if err := text(s[from:start], from); err != nil {
				return err
			}
		}
		token(*match.ID)
		from = end
	}
	if from < len(s) {
		return text(s[from:], from)
	}
	return nil
}

// inWord reports whether r belongs to a word. n is the number of bytes of r, or 0 if there
// is no character.
func inWord(r rune, n int) bool { return n > 0 && charSet("word").has(r) }
