package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token that is found in a text before the model gets it.
type addedToken struct {
	ID         *int32 `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LeftStrip  bool   `json:"lstrip"`
	RightStrip bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
}

// addedTokens is a set of added tokens that are searched together, the longest first.
type addedTokens struct {
	trie   *trie // to the position in tokens
	tokens []addedToken
}

// readAdded checks the file's "added_tokens". It separates those found in the original text
// from those found in the normalized text. ids includes all of them.
func (t *Tokenizer) readAdded(tokens []addedToken) error {
	asIs, normalized := vocabulary{}, vocabulary{}
	free := int32(t.model.size())
	t.added = vocabulary{}
	for i, a := range tokens {
		if a.Content == "" {
			continue
		}
		// The reference uses the model's id, or else the next free one, whatever the file
		// says.
		id := t.id(a.Content)
		if id < 0 {
			id = free
			free++
		}
		if a.ID == nil || *a.ID != id {
			return fmt.Errorf("the added token %.80q should have the id %d", a.Content, id)
		}
		if _, twice := t.added[a.Content]; twice {
			return fmt.Errorf("the added token %.80q stands twice", a.Content)
		}
		t.added[a.Content] = id
		if !a.Normalized {
			asIs[a.Content] = int32(i)
			continue
		}
		content, err := t.normalize(a.Content)
		if err != nil {
			return err
		}
		if _, twice := normalized[content]; twice || content == "" {
			return fmt.Errorf("the added token %.80q is, normalized, %.80q, which is no token or another's", a.Content, content)
		}
		normalized[content] = int32(i)
	}
	t.asIs, t.normalized = addedTokens{newTrie(asIs), tokens}, addedTokens{newTrie(normalized), tokens}
	return nil
}

// split calls token for each token that it finds in s, and text for the parts between them.
func (a *addedTokens) split(s string, text func(part string, start int) error, token func(id int32)) error {
	from, blank := 0, 0 // bytes up to blank are spaces after the last token that strips
	for i := 0; i < len(s); {
		if a.trie.root[s[i]] == 0 {
			i++
			continue
		}
		which, n := a.trie.longest(0, s[i:])
		if n == 0 {
			i++
			continue
		}
		start, end := i, i+n
		i = end
		found := a.tokens[which]
		if found.SingleWord && (inWord(utf8.DecodeLastRuneInString(s[:start])) || inWord(utf8.DecodeRuneInString(s[end:]))) {
			continue
		}
		if found.LeftStrip && from < start {
			start = from + len(strings.TrimRightFunc(s[from:start], unicode.IsSpace))
		}
		if found.RightStrip {
			blank = max(blank, end)
			blank = len(s) - len(strings.TrimLeftFunc(s[blank:], unicode.IsSpace))
			end = blank
		}
		if from < start {
			if err := text(s[from:start], from); err != nil {
				return err
			}
		}
		token(*found.ID)
		from = end
	}
	if from < len(s) {
		return text(s[from:], from)
	}
	return nil
}

// inWord reports whether a character of n bytes, 0 if there is none, belongs to a word.
func inWord(r rune, n int) bool { return n > 0 && named("word").has(r) }
