package tokenizer

import (
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// reference holds expected ids. testdata/reference.py computed them with Hugging Face's
// library tokenizers.
type reference struct {
	Texts  []string
	Pairs  [][2]string
	Limits []struct {
		Max      int
		Strategy Strategy
		Left     bool
	}
	Kinds map[string]struct {
		Texts [][]int64
		Pairs [][][][]int64 // by limit and pair: ids and token types, or null if truncation is an error
	}
}

func readReference(t testing.TB) reference {
	t.Helper()
	raw, err := os.ReadFile("testdata/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var r reference
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func open(t testing.TB, kind string) *Tokenizer {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", kind+".json"))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := Read(raw, nil)
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	return tok
}

func TestIDsEqualReference(t *testing.T) {
	ref := readReference(t)
	for kind, want := range ref.Kinds {
		t.Run(kind, func(t *testing.T) {
			tok := open(t, kind)
			for i, text := range ref.Texts {
				got, err := tok.Encode(text)
				if err != nil || !slices.Equal(got.IDs, want.Texts[i]) {
					t.Errorf("%q: %v, %v, want %v", text, got.IDs, err, want.Texts[i])
				}
			}
			for i, l := range ref.Limits {
				tok.MaxTokens, tok.Truncate, tok.CutLeft = l.Max, l.Strategy, l.Left
				for j, p := range ref.Pairs {
					got, err := tok.EncodePair(p[0], p[1])
					if w := want.Pairs[i][j]; w == nil {
						if err == nil {
							t.Errorf("%+v %q: %v, want an error", l, p, got)
						}
					} else if err != nil || !slices.Equal(got.IDs, w[0]) || !slices.Equal(got.Types, w[1]) {
						t.Errorf("%+v %q: %v, %v, want %v", l, p, got, err, w)
					}
				}
			}
		})
	}
}

// TestCLINC150 checks all ids of the 23,600 sentences of a public data set against digests
// that reference.py computed.
func TestCLINC150(t *testing.T) {
	data := os.Getenv("ATTACH_DATA")
	if data == "" {
		t.Skip("ATTACH_DATA names no folder of the public data sets")
	}
	model := filepath.Join(data, "..", "models", "clinc_bert")
	var files [2][]byte
	for i, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		var err error
		if files[i], err = os.ReadFile(filepath.Join(model, name)); err != nil {
			t.Skip(err)
		}
	}
	tok, err := Read(files[0], files[1])
	if err != nil {
		t.Fatal(err)
	}
	if tok.MaxTokens != 64 || tok.PadID != 0 || tok.PadLeft {
		t.Errorf("%d tokens, padding %d, left %t, want 64, 0, false", tok.MaxTokens, tok.PadID, tok.PadLeft)
	}
	tok.MaxTokens = 0
	digests, err := os.ReadFile("testdata/clinc150.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(digests)) {
		f := strings.Fields(line)
		raw, err := os.Open(filepath.Join(data, "clinc150", f[0]+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		rows, err := csv.NewReader(raw).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		digest := sha256.New()
		for _, row := range rows[1:] {
			e, err := tok.Encode(row[0])
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(digest, strings.Trim(fmt.Sprint(e.IDs), "[]"))
		}
		if got := fmt.Sprintf("%x", digest.Sum(nil)); got != f[1] {
			t.Errorf("%s: the ids' digest is %s, want %s", f[0], got, f[1])
		}
	}
}

// minimalFile is a minimal tokenizer.json, in which tests replace one part.
const minimalFile = `{"version":"1.0","added_tokens":[{"id":0,"content":"[UNK]"}],"normalizer":null,"pre_tokenizer":{"type":"WhitespaceSplit"},
	"post_processor":null,"model":{"type":"WordLevel","unk_token":"[UNK]","vocab":{"[UNK]":0,"a":1,"b":2}}}`

func TestErrorsNameUnsupportedParts(t *testing.T) {
	split := func(regex string) string {
		raw, _ := json.Marshal(regex)
		return `"pre_tokenizer":{"type":"Split","pattern":{"Regex":` + string(raw) + `},"behavior":"Isolated","invert":false}`
	}
	const pre, nor, post, added = `"pre_tokenizer":{"type":"WhitespaceSplit"}`, `"normalizer":null`, `"post_processor":null`, `{"id":0,"content":"[UNK]"}`
	model := func(m string) [2]string {
		return [2]string{minimalFile[strings.Index(minimalFile, `"model"`):], `"model":` + m + `}`}
	}
	nested := func(key, inner string) string {
		return strings.Repeat(`{"type":"Sequence","`+key+`":[`, 20) + inner + strings.Repeat(`]}`, 20)
	}
	for _, c := range []struct {
		change [2]string
		want   string
	}{
		{[2]string{"1.0", "2.0"}, `version "2.0"`},
		{[2]string{nor, `"normalizer":{"type":"Nmt"}`}, `normalizer "Nmt"`},
		{[2]string{nor, `"normalizer":` + nested("normalizers", `{"type":"NFC"}`)}, "deeper than 8"},
		{[2]string{nor, `"normalizer":{"type":"Precompiled","precompiled_charsmap":"AAAA"}`}, "cut short"},
		{[2]string{nor, `"normalizer":{"type":"Precompiled","precompiled_charsmap":"////fwAA"}`}, "keys take 2147483647 bytes, and 2 follow"},
		{[2]string{nor, `"normalizer":{"type":"Replace","pattern":{"String":""},"content":"x"}`}, "pattern of 0 bytes"},
		{[2]string{pre, `"pre_tokenizer":{"type":"UnicodeScripts"}`}, `pre-tokenizer "UnicodeScripts"`},
		{[2]string{pre, `"pre_tokenizer":` + nested("pretokenizers", `{"type":"Digits"}`)}, "deeper than 8"},
		{[2]string{pre, `"pre_tokenizer":{"type":"Punctuation","behavior":"Dropped"}`}, `behavior "Dropped"`},
		{[2]string{pre, `"pre_tokenizer":{"type":"Metaspace","replacement":"__"}`}, `replacement "__"`},
		{[2]string{pre, `"pre_tokenizer":{"type":"Metaspace","replacement":"_","prepend_scheme":"last"}`}, `prepend_scheme "last"`},
		{[2]string{nor + "," + pre, `"normalizer":{"type":"StripAccents"},"pre_tokenizer":{"type":"Metaspace","replacement":"_","prepend_scheme":"first"}`}, "may drop a text's first character"},
		{[2]string{pre, split(`(?<=a)b`)}, `the group "(?<="`},
		{[2]string{pre, split(`(ab)+`)}, "a repeated group"},
		{[2]string{pre, split(`a+?`)}, "the repeat of a repeat"},
		{[2]string{pre, split(`\p{N}{1,3}+`)}, "the repeat of a repeat"},
		{[2]string{pre, split(`a*`)}, "matches the empty text"},
		{[2]string{pre, split(`\bfoo`)}, `the escape "\\b"`},
		{[2]string{pre, split(`[[:alpha:]]`)}, `"[:"`},
		{[2]string{pre, split(`\p{Klingon}`)}, `property "Klingon"`},
		{[2]string{pre, split(`[a-z`)}, "a class is empty or not closed"},
		{[2]string{pre, split(`[]a]`)}, "a class is empty or not closed"},
		{[2]string{pre, split(`[z-a]`)}, "a range without an end"},
		{[2]string{pre, split(`(?i:é)`)}, "'é' regardless of case"},
		{[2]string{pre, split(`(?i:[^s])`)}, "a negated class regardless of case"},
		{[2]string{pre, split(`(?i:\p{Lu})`)}, `property "Lu"`},
		{[2]string{pre, split(`a{2`)}, "the repeat {2"},
		{[2]string{pre, split(`(a`)}, "not closed"},
		{[2]string{pre, split(`a)`)}, "a ) closes no group"},
		{[2]string{pre, split(`^a`)}, `"^" stands where`},
		{[2]string{pre, split(`(?i:fin)`)}, "one ligature"},
		{[2]string{pre, split(strings.Repeat("a", 9000))}, "of 9000 bytes"},
		{[2]string{pre, split(strings.Repeat("(", 100))}, "deeper than 16"},
		{[2]string{post, `"post_processor":{"type":"Odd"}`}, `post-processor "Odd"`},
		{[2]string{post, `"post_processor":{"type":"BertProcessing","sep":["s",1.5],"cls":["c",1]}`}, "cls and sep"},
		{[2]string{post, `"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}],"pair":[],"special_tokens":{}}`}, `special_tokens lacks "x"`},
		{[2]string{post, `"post_processor":{"type":"TemplateProcessing","single":[{"Sequence":{"id":"B"}}],"pair":[],"special_tokens":{}}`}, `no sequence "B"`},
		{[2]string{post, `"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}}],"pair":[],"special_tokens":{"x":{"ids":[-1]}}}`}, "-1 is no id"},
		{[2]string{post, `"post_processor":{"type":"Sequence","processors":[{"type":"BertProcessing","sep":["s",1],"cls":["c",1]},{"type":"BertProcessing","sep":["s",1],"cls":["c",1]}]}`}, "two members"},
		{[2]string{added, `{"id":7,"content":"[UNK]"}`}, "should have the id 0"},
		{[2]string{added, `{"id":4,"content":"new"}`}, "should have the id 3"},
		{[2]string{added, added + "," + added}, "stands twice"},
		{model(`{"type":"Chars"}`), `model "Chars"`},
		{model(`null`), "the model is missing"},
		{model(`{"type":"WordLevel","vocab":{"a":0}}`), "it has no unk_token"},
		{model(`{"type":"WordLevel","unk_token":"u","vocab":{"a":0}}`), `unk_token "u" is not in its vocabulary`},
		{model(`{"type":"WordLevel","unk_token":"a","vocab":{"a":-3}}`), "negative"},
		{model(`{"type":"WordLevel","unk_token":"a","vocab":{"a":1.5}}`), "number 1.5"},
		{model(`{"type":"WordLevel","unk_token":"a","vocab":{"a":1099511627776}}`), "number 1099511627776"},
		{model(`{"type":"WordPiece","unk_token":"a","vocab":{"a":0}}`), "lacks continuing_subword_prefix"},
		{model(`{"type":"BPE","dropout":0.1,"vocab":{"a":0},"merges":[]}`), "dropout"},
		{model(`{"type":"BPE","vocab":{"a":0},"merges":["a b"]}`), `merge of "a" and "b"`},
		{model(`{"type":"BPE","vocab":{"a":0},"merges":["a"]}`), "not of two tokens"},
		{model(`{"type":"Unigram","unk_id":null,"vocab":[["a",-1]]}`), "unk_id"},
		{model(`{"type":"Unigram","unk_id":0,"vocab":[["a"]]}`), "not a token and its score"},
		{[2]string{minimalFile[100:], ""}, "cut short or no JSON"},
		{[2]string{minimalFile, "[]"}, "of the wrong kind at byte 1: array"},
	} {
		file := strings.Replace(minimalFile, c.change[0], c.change[1], 1)
		if _, err := Read([]byte(file), nil); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.200s: %v, want one line with %s", c.change[1], err, c.want)
		}
	}
	if _, err := Read([]byte(minimalFile), nil); err != nil {
		t.Errorf("unchanged: %v", err)
	}
}

func TestConfigWins(t *testing.T) {
	file := []byte(strings.Replace(minimalFile, `"added_tokens"`, `"truncation":{"direction":"Left","max_length":9,"strategy":"OnlyFirst","stride":0},
		"padding":{"direction":"Left","pad_id":2,"pad_type_id":1,"strategy":"BatchLongest"},"added_tokens"`, 1))
	tok, err := Read(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintln(tok.MaxTokens, tok.Truncate, tok.CutLeft, tok.PadLeft, tok.PadID, tok.PadType); got != "9 only_first true true 2 1\n" {
		t.Error(got)
	}
	tok, err = Read(file, []byte(`{"model_max_length":5,"padding_side":"right","truncation_side":"right","pad_token":{"content":"a"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintln(tok.MaxTokens, tok.Truncate, tok.CutLeft, tok.PadLeft, tok.PadID, tok.PadType); got != "5 only_first false false 1 1\n" {
		t.Error(got)
	}
	if tok, err = Read(file, []byte(`{"model_max_length":1000000000000000019884624838656}`)); err != nil || tok.MaxTokens != 9 {
		t.Error(tok, err)
	}
	bert, err := os.ReadFile("testdata/bert.json")
	if err != nil {
		t.Fatal(err)
	}
	for config, want := range map[string]string{
		`{"do_lower_case":false}`:                            "do_lower_case is false and tokenizer.json's lowercase is true",
		`{"pad_token":"<none>"}`:                             `pad_token "<none>" has no id`,
		`{"padding_side":"up"}`:                              `padding_side is "up"`,
		`{"model_max_length":0}`:                             "model_max_length is 0",
		`{"model_max_length":"many"}`:                        "wrong kind at byte 26: string",
		`{"added_tokens_decoder":{"9":{"content":"<new>"}}}`: `added token "<new>" is not among`,
		`{`: "cut short",
	} {
		if _, err := Read(bert, []byte(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", config, err, want)
		}
	}
}

func TestInvalidUTF8IsReplacedAsPythonDoes(t *testing.T) {
	tok := open(t, "roberta")
	// The expected texts come from Python's b"...".decode("utf-8", "replace").
	for bad, good := range map[string]string{
		"a\xffb":         "a\ufffdb",
		"\xe4\xbd":       "\ufffd",
		"\xe4\xbdx\xc3":  "\ufffdx\ufffd",
		"\xed\xa0\x80":   "\ufffd\ufffd\ufffd",
		"\xf0\x9f\x98z":  "\ufffdz",
		"\xc0\xaf\xf5é€": "\ufffd\ufffd\ufffdé€",
	} {
		got, err := tok.Encode(bad)
		want, err2 := tok.Encode(good)
		if err != nil || err2 != nil || !slices.Equal(got.IDs, want.IDs) {
			t.Errorf("%q: %v %v, want %v %v", bad, got, err, want, err2)
		}
	}
}

// TestLongTexts checks that tokenizing does not take time that is quadratic in the length
// of a text.
func TestLongTexts(t *testing.T) {
	stripping, err := Read([]byte(strings.Replace(minimalFile, `{"id":0,"content":"[UNK]"}`, `{"id":0,"content":"[UNK]"},{"id":3,"content":" ","lstrip":true,"rstrip":true}`, 1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	const blanks = 100_000
	start := time.Now()
	if e, err := stripping.Encode(strings.Repeat(" ", blanks)); err != nil || len(e.IDs) != blanks || time.Since(start) > 5*time.Second {
		t.Errorf("%d tokens of %d blanks in %v, %v", len(e.IDs), blanks, time.Since(start), err)
	}
	for kind := range readReference(t).Kinds {
		tok := open(t, kind)
		for _, unit := range []string{"a", " ", "ab ", "\n", "e\u0301", "\u0323\u0301", "模", "👨\u200d", "'", "\xff", "<"} {
			if _, err := tok.Encode(strings.Repeat(unit, 5_000/len(unit))); err != nil {
				t.Errorf("%s: %q: %v", kind, unit, err)
			}
			start := time.Now()
			if _, err := tok.Encode(strings.Repeat(unit, 40_000/len(unit)) + "\n"); err != nil || time.Since(start) > 1500*time.Millisecond {
				t.Errorf("%s: %q and a line's end in %v: %v", kind, unit, time.Since(start), err)
			}
		}
	}
}

func TestHostileFilesDoNotRunAway(t *testing.T) {
	text := strings.Repeat("a", 100_000)
	doubling := strings.Repeat(`{"type":"Replace","pattern":{"String":"a"},"content":"aa"},`, 200)
	files := map[string]string{
		strings.Replace(minimalFile, `"normalizer":null`, `"normalizer":{"type":"Sequence","normalizers":[`+doubling[:len(doubling)-1]+`]}`, 1):                       "64 times as long",
		strings.Replace(minimalFile, `"normalizer":null`, `"normalizer":{"type":"Replace","pattern":{"String":"a"},"content":"`+strings.Repeat("b", 100_000)+`"}`, 1): "64 times as long",
	}
	for _, pattern := range []string{"a*a*a*a*b", strings.Repeat("(a|a)", 60) + "b", "a" + strings.Repeat("(|)", 60) + "b", "a{99999}b", "a{200000}|a{90000}b"} {
		files[strings.Replace(minimalFile, `{"type":"WhitespaceSplit"}`, `{"type":"Split","pattern":{"Regex":"`+pattern+`"},"behavior":"Isolated","invert":false}`, 1)] = "too many steps"
	}
	for file, want := range files {
		tok, err := Read([]byte(file), nil)
		if err != nil {
			t.Errorf("%.300s: %v", file, err)
			continue
		}
		if _, err := tok.Encode(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.300s: %v, want %s", file, err, want)
		}
	}
}

func TestTruncationErrors(t *testing.T) {
	tok := open(t, "bert")
	for _, c := range []struct {
		max  int
		s    Strategy
		pair bool
		want string
	}{
		{1, LongestFirst, false, "the special ones are 2"},
		{4, OnlySecond, false, "only a second text"},
		{4, OnlyFirst, true, "the one that may lose some has"},
	} {
		tok.MaxTokens, tok.Truncate = c.max, c.s
		_, err := tok.Encode("a b c d e f")
		if c.pair {
			_, err = tok.EncodePair("a b c d e f", "a b c d e f")
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
