package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
)

// part is one part of the model's input: the tokens of the first or the second text, or
// special tokens.
type part struct {
	sequence  int // 0 or 1; −1 for special tokens in ids
	ids       []int64
	tokenType int64 // type of all tokens of the part
}

// template lists the parts for a single text and for a pair of texts.
type template struct{ single, pair []part }

func (t *template) parts(pair bool) []part {
	if pair {
		return t.pair
	}
	return t.single
}

// countSpecial returns the number of special tokens in the parts.
func countSpecial(parts []part) int {
	n := 0
	for _, p := range parts {
		n += len(p.ids)
	}
	return n
}

func plainTemplate() *template {
	return &template{single: []part{{sequence: 0}}, pair: []part{{sequence: 0}, {sequence: 1, tokenType: 1}}}
}

// maxID limits ids and token types.
const maxID = 1<<31 - 1

// readTemplate reads the "post_processor" of a file.
func readTemplate(raw json.RawMessage, depth int) (*template, error) {
	var v struct {
		Type          string
		Processors    []json.RawMessage
		Sep, Cls      []any
		Single, Pair  []pieceJSON
		SpecialTokens map[string]struct{ IDs []int64 } `json:"special_tokens"`
	}
	if err := decode(raw, "the post-processor", &v); err != nil {
		return nil, err
	}
	switch v.Type {
	case "ByteLevel":
		return plainTemplate(), nil
	case "BertProcessing", "RobertaProcessing":
		cls, sep, err := tokenID(v.Cls), tokenID(v.Sep), error(nil)
		if cls == nil || sep == nil {
			err = fmt.Errorf("the post-processor %s: cls and sep are not a token and its id", v.Type)
		}
		first, last := part{sequence: -1, ids: cls}, part{sequence: -1, ids: sep}
		single := []part{first, {sequence: 0}, last}
		if v.Type == "RobertaProcessing" {
			return &template{single, []part{first, {sequence: 0}, last, last, {sequence: 1}, last}}, err
		}
		return &template{single, []part{first, {sequence: 0}, last, {sequence: 1, tokenType: 1}, {sequence: -1, ids: sep, tokenType: 1}}}, err
	case "TemplateProcessing":
		parts := func(pieces []pieceJSON, sequences int) ([]part, error) {
			var out []part
			for _, p := range pieces {
				switch {
				case p.Sequence != nil && p.SpecialToken == nil:
					n := map[string]int{"A": 1, "B": 2}[p.Sequence.ID]
					if n == 0 || n > sequences {
						return nil, fmt.Errorf("there is no sequence %.80q", p.Sequence.ID)
					}
					out = append(out, part{sequence: n - 1, tokenType: p.Sequence.TypeID})
				case p.SpecialToken != nil && p.Sequence == nil:
					token, ok := v.SpecialTokens[p.SpecialToken.ID]
					if !ok {
						return nil, fmt.Errorf("special_tokens lacks %.80q", p.SpecialToken.ID)
					}
					out = append(out, part{sequence: -1, ids: token.IDs, tokenType: p.SpecialToken.TypeID})
				default:
					return nil, errors.New("a part is neither a Sequence nor a SpecialToken")
				}
			}
			for _, p := range out {
				for _, n := range append(p.ids[:len(p.ids):len(p.ids)], p.tokenType) {
					if n < 0 || n > maxID {
						return nil, fmt.Errorf("%d is no id", n)
					}
				}
			}
			return out, nil
		}
		single, err := parts(v.Single, 1)
		var pair []part
		if err == nil {
			pair, err = parts(v.Pair, 2)
		}
		if err != nil {
			return nil, fmt.Errorf("the post-processor TemplateProcessing: %w", err)
		}
		return &template{single, pair}, nil
	case "Sequence":
		if depth == maxNesting {
			return nil, fmt.Errorf("post-processors nest deeper than %d", maxNesting)
		}
		out, foundTemplate := plainTemplate(), false
		for _, r := range v.Processors {
			t, err := readTemplate(r, depth+1)
			if err != nil {
				return nil, err
			}
			if isPlain(t) {
				continue
			}
			if foundTemplate {
				return nil, errors.New("the post-processor Sequence has two members that arrange tokens, which is not supported")
			}
			out, foundTemplate = t, true
		}
		return out, nil
	}
	return nil, fmt.Errorf("the post-processor %.80q is not supported", v.Type)
}

type pieceJSON struct{ Sequence, SpecialToken *referenceJSON }

type referenceJSON struct {
	ID     string
	TypeID int64 `json:"type_id"`
}

// isPlain reports whether t is the template without special tokens.
func isPlain(t *template) bool {
	return len(t.single) == 1 && len(t.pair) == 2 && countSpecial(t.pair) == 0 && t.pair[1].tokenType == 1
}

// tokenID returns the id of a pair such as ["[CLS]", 101], or nil if the pair is malformed.
func tokenID(pair []any) []int64 {
	if len(pair) != 2 {
		return nil
	}
	id, ok := pair[1].(float64)
	if _, isString := pair[0].(string); !isString || !ok || id < 0 || id > maxID || id != float64(int64(id)) {
		return nil
	}
	return []int64{int64(id)}
}
