package tokenizer

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzRead checks that errors for broken files have one line. If a file can be read, it
// checks that each token has a type and a valid id.
func FuzzRead(f *testing.F) {
	const pre, nor = `"pre_tokenizer":{"type":"WhitespaceSplit"}`, `"normalizer":null`
	for _, change := range [][2]string{
		{"", ""},
		{nor, `"normalizer":{"type":"Sequence","normalizers":[{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"lowercase":true},{"type":"NFKC"},{"type":"Strip","strip_left":true},{"type":"Prepend","prepend":"_"},{"type":"Replace","pattern":{"Regex":" {2,}"},"content":"_"}]}`},
		{nor, `"normalizer":{"type":"Precompiled","precompiled_charsmap":"CAAAAAABAAABAACAYQBiAA=="}`},
		{pre, `"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"(?i:'s|'t)|[^\\r\\n\\p{L}]?\\p{L}+|\\s+(?!\\S)|\\s+"},"behavior":"Removed","invert":true},{"type":"ByteLevel","add_prefix_space":true}]}`},
		{pre, `"pre_tokenizer":{"type":"Metaspace","replacement":"_","prepend_scheme":"first"}`},
		{pre, `"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},{"type":"Punctuation","behavior":"MergedWithNext"},{"type":"Whitespace"}]}`},
		{`"post_processor":null`, `"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],"special_tokens":{"x":{"id":"x","ids":[1],"tokens":["x"]}}}`},
		{`{"id":0,"content":"[UNK]"}`, `{"id":3,"content":"ab","lstrip":true,"rstrip":true,"single_word":true,"normalized":true}`},
		{`{"type":"WordLevel","unk_token":"[UNK]","vocab":{"[UNK]":0,"a":1,"b":2}}`, `{"type":"BPE","unk_token":"[UNK]","byte_fallback":true,"end_of_word_suffix":"w","vocab":{"[UNK]":0,"a":1,"bw":2,"abw":3},"merges":["a bw"]}`},
		{`{"type":"WordLevel","unk_token":"[UNK]","vocab":{"[UNK]":0,"a":1,"b":2}}`, `{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"#","max_input_chars_per_word":9,"vocab":{"[UNK]":0,"a":1,"#b":2}}`},
		{`{"type":"WordLevel","unk_token":"[UNK]","vocab":{"[UNK]":0,"a":1,"b":2}}`, `{"type":"Unigram","unk_id":0,"byte_fallback":true,"vocab":[["[UNK]",0],["a",-1.5],["b",-2e0],["ab",-3.25]]}`},
	} {
		f.Add([]byte(strings.Replace(minimalFile, change[0], change[1], 1)), "ab a  b's \u00e9x")
	}
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		tok, err := Read(file, nil)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %v", err)
			}
			return
		}
		if e, err := tok.EncodePair(text, "b a"); err == nil && (len(e.IDs) != len(e.Types) || len(e.IDs) > 0 && slices.Min(e.IDs) < 0) {
			t.Errorf("%d ids, %d types, %v", len(e.IDs), len(e.Types), e.IDs)
		}
	})
}

// FuzzEncode checks that any text can be tokenized, and that a truncated text has the same
// first tokens as the whole text.
func FuzzEncode(f *testing.F) {
	ref := readReference(f)
	var toks []*Tokenizer
	for _, kind := range slices.Sorted(maps.Keys(ref.Kinds)) {
		toks = append(toks, open(f, kind))
	}
	for i, text := range ref.Texts {
		f.Add(uint(i), text)
	}
	f.Fuzz(func(t *testing.T, kind uint, text string) {
		tok := toks[kind%uint(len(toks))]
		short := *tok
		short.MaxTokens = 6
		whole, err := tok.tokens(text, true)
		first, err2 := short.tokens(text, true)
		if err != nil || err2 != nil {
			t.Fatalf("%v, %v", err, err2)
		}
		if n := min(6, len(whole)); len(first) < n || !slices.Equal(first[:n], whole[:n]) {
			t.Errorf("%v does not begin with %v", whole, first)
		}
		if e, err := short.EncodePair(text, text); err != nil || len(e.IDs) > 6 || len(e.IDs) != len(e.Types) {
			t.Errorf("%d ids, %d types, %v", len(e.IDs), len(e.Types), err)
		}
	})
}

// FuzzPattern checks that a supported pattern splits a text without losing any part of it.
func FuzzPattern(f *testing.F) {
	for _, regex := range []string{gptPattern, `(?i:'s|'ll)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}|\s*[\r\n]+`, ` ?[^(\s|[.,!?…])]+`, `A|B(?=c)(d|e)?|[\P{^Lu}-]{2,}`, `a.b\|`} {
		f.Add(regex, "I'll say  it's 1234\n\n ABcd été… a|b")
	}
	f.Fuzz(func(t *testing.T, regex, text string) {
		p, err := newPattern(regex)
		if err != nil || !utf8.ValidString(text) {
			return
		}
		pieces, err := p.splitter(isolated, false)(nil, piece{text, true})
		if err != nil {
			return
		}
		var all strings.Builder
		for i, p := range pieces {
			if all.WriteString(p.text); p.text == "" || p.start != (i == 0) {
				t.Errorf("piece %d of %q: %+v", i, text, p)
			}
		}
		if all.String() != text {
			t.Errorf("%q became %+v", text, pieces)
		}
	})
}
