package attach

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// Text describes how texts become the input of a model.
type Text struct {
	Tokenizer json.RawMessage `json:"-"` // content of a Hugging Face tokenizer.json
	Config    json.RawMessage `json:"-"` // content of the tokenizer_config.json of the same tokenizer, or nil
	// MaxTokens is the largest number of tokens that the model reads of a text, or of a pair
	// of texts. It counts special tokens, and further tokens are cut off. 0 means no limit.
	MaxTokens int `json:"max_tokens,omitempty"`
	// Columns names the table columns that hold the texts: one column, or two for pairs of
	// texts. It is nil if texts do not come from a table.
	Columns []string `json:"columns,omitempty"`
}

// check returns an error if the tokenizer or its configuration is not a JSON object, if
// MaxTokens is negative, or if there are more than two columns.
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

// state returns the tokenizer files as arrays of bytes.
func (t *Text) state() rows.State {
	s := rows.State{Arrays: map[string]rows.Array{"tokenizer": {Shape: []int{len(t.Tokenizer)}, Data: []uint8(t.Tokenizer)}}}
	if t.Config != nil {
		s.Arrays["config"] = rows.Array{Shape: []int{len(t.Config)}, Data: []uint8(t.Config)}
	}
	return s
}

// restore restores the tokenizer files from arrays of bytes.
func (t *Text) restore(s rows.State) error {
	for name, to := range map[string]*json.RawMessage{"tokenizer": &t.Tokenizer, "config": &t.Config} {
		a, ok := s.Arrays[name]
		content, isBytes := a.Data.([]uint8)
		switch {
		case ok && (!isBytes || len(a.Shape) != 1):
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
