package attach

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// Text says how texts become what a network reads.
type Text struct {
	Tokenizer json.RawMessage `json:"-"` // what Hugging Face's tokenizer.json holds
	Config    json.RawMessage `json:"-"` // what the tokenizer_config.json beside it holds, or nil
	// MaxTokens is how many tokens of a text, or of a pair, the network reads, special
	// ones included; others are cut off. 0 is any number.
	MaxTokens int `json:"max_tokens,omitempty"`
	// Columns are the names of the columns of a table that texts are taken from: one or,
	// of pairs, two; nil is none.
	Columns []string `json:"columns,omitempty"`
}

// check refuses what no tokenizer is.
func (t *Text) check() error {
	switch {
	case t == nil:
		return nil
	case !isObject(t.Tokenizer) || t.Config != nil && !isObject(t.Config):
		return errors.New("the tokenizer is no JSON object")
	case t.MaxTokens < 0:
		return fmt.Errorf("a text is to have at most %d tokens", t.MaxTokens)
	case len(t.Columns) > 2:
		return fmt.Errorf("texts are taken from %d columns, where a pair has two", len(t.Columns))
	}
	return nil
}

func isObject(raw json.RawMessage) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(raw, &object) == nil && object != nil
}

// state is the files as arrays of bytes.
func (t *Text) state() rows.State {
	s := rows.State{Arrays: map[string]rows.Array{"tokenizer": {Shape: []int{len(t.Tokenizer)}, Data: []uint8(t.Tokenizer)}}}
	if t.Config != nil {
		s.Arrays["config"] = rows.Array{Shape: []int{len(t.Config)}, Data: []uint8(t.Config)}
	}
	return s
}

// restore fills in the files.
func (t *Text) restore(s rows.State) error {
	for name, to := range map[string]*json.RawMessage{"tokenizer": &t.Tokenizer, "config": &t.Config} {
		a, ok := s.Arrays[name]
		content, is := a.Data.([]uint8)
		switch {
		case ok && (!is || len(a.Shape) != 1):
			return fmt.Errorf("%w: the text's %s is %T of shape %v", ErrDamaged, name, a.Data, a.Shape)
		case ok:
			*to = content
		}
	}
	if err := t.check(); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}
