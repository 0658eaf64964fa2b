package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// Read returns the tokenizer of a tokenizer.json file. config is the content of the
// tokenizer_config.json that comes with it, or nil. The limits, sides and padding in config
// have priority.
func Read(file, config []byte) (*Tokenizer, error) {
	t, err := readFile(file)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	if config != nil {
		if err := t.configure(config, file); err != nil {
			return nil, fmt.Errorf("tokenizer_config.json: %w", err)
		}
	}
	return t, nil
}

func readFile(file []byte) (*Tokenizer, error) {
	var v struct {
		Version    string
		Truncation *struct {
			Direction string
			MaxLength int      `json:"max_length"`
			Strategy  Strategy `json:"strategy"`
		}
		Padding *struct {
			Direction string
			PadID     int64 `json:"pad_id"`
			PadTypeID int64 `json:"pad_type_id"`
		}
		AddedTokens   []addedToken     `json:"added_tokens"`
		Normalizer    *json.RawMessage `json:"normalizer"`
		PreTokenizer  *json.RawMessage `json:"pre_tokenizer"`
		PostProcessor *json.RawMessage `json:"post_processor"`
		Model         json.RawMessage  `json:"model"`
	}
	if err := decode(file, "the file", &v); err != nil {
		return nil, err
	}
	if v.Version != "1.0" && v.Version != "" {
		return nil, fmt.Errorf("the version %.80q is not supported", v.Version)
	}
	t := &Tokenizer{Truncate: LongestFirst, template: plainTemplate()}
	if c := v.Truncation; c != nil {
		names := map[Strategy]Strategy{"LongestFirst": LongestFirst, "OnlyFirst": OnlyFirst, "OnlySecond": OnlySecond}
		t.MaxTokens, t.Truncate, t.CutLeft = c.MaxLength, names[c.Strategy], c.Direction == "Left"
		if t.MaxTokens < 1 || t.Truncate == "" {
			return nil, fmt.Errorf("the truncation to %d tokens by the strategy %.80q is not supported", c.MaxLength, c.Strategy)
		}
	}
	if p := v.Padding; p != nil {
		t.PadID, t.PadType, t.PadLeft = p.PadID, p.PadTypeID, p.Direction == "Left"
		if p.PadID < 0 || p.PadID > maxID || p.PadTypeID < 0 || p.PadTypeID > maxID {
			return nil, fmt.Errorf("the padding's id %d or type %d is out of range", p.PadID, p.PadTypeID)
		}
	}
	var err error
	dropsFirst := false
	if v.Normalizer != nil {
		if t.normalizers, dropsFirst, err = readNormalizers(*v.Normalizer, 0); err != nil {
			return nil, err
		}
	}
	if v.PreTokenizer != nil {
		if t.splitters, err = readSplitters(*v.PreTokenizer, dropsFirst, 0); err != nil {
			return nil, err
		}
	}
	if v.PostProcessor != nil {
		if t.template, err = readTemplate(*v.PostProcessor, 0); err != nil {
			return nil, err
		}
	}
	if t.model, err = readModel(v.Model); err != nil {
		return nil, err
	}
	return t, t.readAdded(v.AddedTokens)
}

// configure applies the settings of tokenizer_config.json. It returns an error if they
// contradict tokenizer.json.
func (t *Tokenizer) configure(config, file []byte) error {
	var v struct {
		MaxLength   *float64 `json:"model_max_length"`
		Padding     string   `json:"padding_side"`
		Truncation  string   `json:"truncation_side"`
		PadToken    any      `json:"pad_token"`
		Lowercase   *bool    `json:"do_lower_case"`
		PrefixSpace *bool    `json:"add_prefix_space"`
		Added       map[string]struct {
			Content string
		} `json:"added_tokens_decoder"`
	}
	if err := decode(config, "the file", &v); err != nil {
		return err
	}
	var f struct {
		Normalizer *struct {
			Type      string
			Lowercase *bool
		}
		PreTokenizer *struct {
			Type        string
			PrefixSpace *bool `json:"add_prefix_space"`
		} `json:"pre_tokenizer"`
	}
	if err := decode(file, "tokenizer.json", &f); err != nil {
		return err
	}
	if n := f.Normalizer; n != nil && n.Type == "BertNormalizer" && v.Lowercase != nil && n.Lowercase != nil && *v.Lowercase != *n.Lowercase {
		return fmt.Errorf("do_lower_case is %t and tokenizer.json's lowercase is %t", *v.Lowercase, *n.Lowercase)
	}
	if p := f.PreTokenizer; p != nil && p.Type == "ByteLevel" && v.PrefixSpace != nil && p.PrefixSpace != nil && *v.PrefixSpace != *p.PrefixSpace {
		return fmt.Errorf("add_prefix_space is %t and tokenizer.json's is %t", *v.PrefixSpace, *p.PrefixSpace)
	}
	for _, a := range v.Added {
		if _, ok := t.added[a.Content]; !ok {
			return fmt.Errorf("its added token %.80q is not among tokenizer.json's", a.Content)
		}
	}
	if m := v.MaxLength; m != nil {
		if *m < 1 || *m < 1e9 && *m != math.Trunc(*m) {
			return fmt.Errorf("model_max_length is %g", *m)
		}
		if *m < 1e9 { // exporters write 1e30 for no limit
			t.MaxTokens = int(*m)
		}
	}
	var err error
	side := func(name, value string, left *bool) {
		switch value {
		case "left", "right":
			*left = value == "left"
		case "":
		default:
			err = fmt.Errorf("%s is %.80q, neither left nor right", name, value)
		}
	}
	side("padding_side", v.Padding, &t.PadLeft)
	side("truncation_side", v.Truncation, &t.CutLeft)
	pad, hasPad := v.PadToken.(string)
	if m, ok := v.PadToken.(map[string]any); ok {
		pad, hasPad = m["content"].(string)
	}
	if hasPad {
		id := t.id(pad)
		if id < 0 {
			return fmt.Errorf("its pad_token %.80q has no id in tokenizer.json", pad)
		}
		t.PadID = int64(id)
	}
	return err
}

// decode decodes JSON. what names its source in errors.
func decode(raw []byte, what string, into any) error {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return fmt.Errorf("%s is missing", what)
	}
	err := json.Unmarshal(raw, into)
	_, syntax := errors.AsType[*json.SyntaxError](err)
	kind, wrongType := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case syntax:
		return fmt.Errorf("%s is cut short or no JSON: %w", what, err)
	case wrongType:
		return fmt.Errorf("%s has a value of the wrong kind at byte %d: %.80s", what, kind.Offset, kind.Value)
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
