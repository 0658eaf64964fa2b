package attach_test

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/attach-uncertainty/attach"
)

func TestText(t *testing.T) {
	in := classifier(200)
	in.Text = &attach.Text{
		Tokenizer: json.RawMessage("{ \"model\":\n{}}"), Config: json.RawMessage(`{"pad_token": "[PAD]"}`),
		MaxTokens: 64, Columns: []string{"question", "answer"},
	}
	b := mustFit(t, in)
	restored, err := read(mustWrite(t, b))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(restored.Text, in.Text) {
		t.Errorf("it reads as %+v, want %+v", restored.Text, in.Text)
	}
	in.Text.Config, in.Text.MaxTokens, in.Text.Columns = nil, 0, nil
	if restored, err = read(mustWrite(t, mustFit(t, in))); err != nil || !reflect.DeepEqual(restored.Text, in.Text) {
		t.Errorf("it reads as %+v (%v), want %+v", restored.Text, err, in.Text)
	}
	for what, text := range map[string]attach.Text{
		"no tokenizer":    {},
		"a list":          {Tokenizer: json.RawMessage("[]")},
		"cut short":       {Tokenizer: json.RawMessage("{")},
		"a bad config":    {Tokenizer: json.RawMessage("{}"), Config: json.RawMessage("1")},
		"fewer than none": {Tokenizer: json.RawMessage("{}"), MaxTokens: -1},
		"three texts":     {Tokenizer: json.RawMessage("{}"), Columns: []string{"a", "b", "c"}},
	} {
		in.Text = &text
		if _, err := attach.Fit(context.Background(), in); err == nil {
			t.Errorf("%s: it is accepted", what)
		}
	}
}
