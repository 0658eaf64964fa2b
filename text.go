package attach

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// Text describes how texts become the input of a network.
type Text struct {
	Tokenizer json.RawMessage `json:"-"` // content of Hugging Face's tokenizer.json
	Config    json.RawMessage `json:"-"` // content of the tokenizer_config.json beside it, or nil
	// MaxTokens is the number of tokens of a text, or of a pair, that the network reads,
	// including special tokens; the rest is cut off. 0 means any number.
	MaxTokens int `json:"max_tokens,omitempty"`
	// Columns are the names of the table columns with the texts: one, or two for pairs; nil
	// means none.
	Columns []string `json:"columns,omitempty"`
}

// check returns an error for what cannot be a tokenizer.
func (t *Text) check() error {
	switch {
	case t == nil:
		return nil
	case !isObject(t.Tokenizer) || t.Config != nil && !isObject(t.Config):
		return errors.New("the tokenizer is not a JSON object")
	case t.MaxTokens < 0:
		return fmt.Errorf("the maximum number of tokens is %d", t.MaxTokens)
	case len(t.Columns) > 2:
		return fmt.Errorf("texts come from %d columns, but there can be at most two", len(t.Columns))
	}
	return nil
}

func isObject(raw json.RawMessage) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(raw, &object) == nil && object != nil
}

// state returns the files as arrays of bytes.
func (t *Text) state() rows.State {
	s := rows.State{Arrays: map[string]rows.Array{"tokenizer": {Shape: []int{len(t.Tokenizer)}, Data: []uint8(t.Tokenizer)}}}
	if t.Config != nil {
		s.Arrays["config"] = rows.Array{Shape: []int{len(t.Config)}, Data: []uint8(t.Config)}
	}
	return s
}

// restore restores the files.
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
