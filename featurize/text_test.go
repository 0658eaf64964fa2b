package featurize

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// bertTokenizer returns a BERT tokenizer for a model with the given inputs. Texts are
// truncated to maxTokens tokens.
func bertTokenizer(t *testing.T, maxTokens int, list ...input) *textTokenizer {
	t.Helper()
	file, err := os.ReadFile("../internal/data/tokenizer/testdata/bert.json")
	if err != nil {
		t.Fatal(err)
	}
	x, err := newTextTokenizer(attach.Text{Tokenizer: file, MaxTokens: maxTokens}, list)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// integerInputs returns integer inputs of a model with the given names.
func integerInputs(names ...string) inputs {
	var list inputs
	for _, name := range names {
		list = append(list, input{name: name, dims: []int{-1, -1}, axes: []string{"", ""}, elemType: int32(pb.TensorProto_INT64)})
	}
	return list
}

// textTensor returns a column of texts.
func textTensor(name string, texts ...string) ood.Tensor {
	return ood.Tensor{Name: name, Shape: []int{len(texts)}, Strings: texts}
}

// TestTexts checks which inputs a tokenizer makes from texts and from pairs of texts.
func TestTexts(t *testing.T) {
	x := bertTokenizer(t, 6, integerInputs("input_ids:0", "attention_mask", "token_type_ids", "position_ids", "title", "ages")...)
	ages := ood.Tensor{Name: "ages", Shape: []int{2, 1}, Data: []float32{3, 4}}
	title := textTensor("title", "a", "b")
	b, err := x.tokenizeBlock(ood.InputBlock{Start: 7, Tensors: []ood.Tensor{ages, textTensor("text", "how are you today", "no"), title}}, 7)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Check(); err != nil || b.Start != 7 {
		t.Errorf("row %d: %v", b.Start, err)
	}
	got := map[string]ood.Tensor{}
	for _, tensor := range b.Tensors {
		got[tensor.Name] = tensor
	}
	if !reflect.DeepEqual(got["ages"], ages) || !reflect.DeepEqual(got["title"], title) || len(got) != 6 {
		t.Errorf("other inputs become %v", got)
	}
	n := got["input_ids:0"].Lengths
	if n[0] != 6 || n[1] < 3 || n[1] > 5 || x.truncated.Load() != 1 {
		t.Errorf("rows of %v tokens, %d cut", n, x.truncated.Load())
	}
	for name, want := range map[string]func(i int) float32{
		"attention_mask": func(int) float32 { return 1 },
		"token_type_ids": func(int) float32 { return 0 },
		"position_ids":   func(i int) float32 { return float32(i % 6) },
	} {
		for i, v := range got[name].Data {
			if v != want(i) || !slices.Equal(got[name].Lengths, n) {
				t.Errorf("%s: %v of lengths %v", name, got[name].Data, got[name].Lengths)
				break
			}
		}
	}

	// A pair of texts keeps its order, and only inputs that the model has are made.
	x = bertTokenizer(t, 0, integerInputs("input_ids", "token_type_ids")...)
	b, err = x.tokenizeBlock(ood.InputBlock{Tensors: []ood.Tensor{textTensor("q", "yes"), textTensor("a", "no")}}, 0)
	want, _ := x.EncodePair("yes", "no")
	if err != nil || len(b.Tensors) != 2 || !slices.EqualFunc(b.Tensors[0].Data, want.IDs, func(a float32, b int64) bool { return a == float32(b) }) || !slices.Contains(b.Tensors[1].Data, 1) {
		t.Errorf("a pair becomes %v (%v), want %v", b.Tensors, err, want)
	}

	// If the model has a fixed length, rows are padded to it, with or without a mask.
	for _, names := range [][]string{{"input_ids", "attention_mask"}, {"input_ids"}} {
		fixed := integerInputs(names...)
		for i := range fixed {
			fixed[i].dims[1] = 9
		}
		m := &Model{inputs: fixed, tokenizer: bertTokenizer(t, 9, fixed...)}
		f := newFeeder(m, 2, 0)
		go f.feed(t.Context(), oneBlock(ood.InputBlock{Tensors: []ood.Tensor{textTensor("", "yes")}}))
		c := <-f.filled
		if c.err != nil || !slices.Equal(c.tensors[0].Shape, []int{1, 9}) || len(c.tensors[0].Data) != 9 || c.tensors[0].Data[8] != float32(m.tokenizer.PadID) {
			t.Fatalf("%v become %+v (%v)", names, c.tensors, c.err)
		}
		if mask := c.tensors[len(names)-1]; len(names) == 2 && (mask.Data[0] != 1 || mask.Data[8] != 0) {
			t.Errorf("the mask is %v", mask.Data)
		}
	}

	if _, err := x.tokenizeBlock(ood.InputBlock{Tensors: []ood.Tensor{textTensor("a", "x"), textTensor("b", "x"), textTensor("c", "x")}}, 0); err == nil || !strings.Contains(err.Error(), "has 3 texts") {
		t.Errorf("three texts a row: %v", err)
	}
}

// openClinc opens a BERT model that was trained on CLINC150, in the folder that its exporter
// wrote.
func openClinc(t *testing.T) *Model {
	t.Helper()
	data := os.Getenv("ATTACH_DATA")
	if data == "" {
		t.Skip("ATTACH_DATA names no folder of data sets, with networks beside it")
	}
	m, err := Open(t.Context(), filepath.Join(data, "..", "models", "clinc_bert"), Options{
		Runtime: Runtime{Library: orttest.Open(t).Library().Path, Provider: "cpu"}, EarlierLayers: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestMeansFollowMask checks that padding, which the mask marks with 0, changes neither the
// layers nor the logits.
func TestMeansFollowMask(t *testing.T) {
	m := openClinc(t)
	if !m.canPad || m.Info().Text.MaxTokens != 64 || len(m.Info().Classes) != 150 {
		t.Errorf("rows may be filled up: %t; %d tokens, %d classes", m.canPad, m.Info().Text.MaxTokens, len(m.Info().Classes))
	}
	for _, v := range m.views[2:] {
		if v.mask != "attention_mask" {
			t.Errorf("the mean of %s follows the mask %q", v.tensor, v.mask)
		}
	}
	plain, err := m.tokenizer.tokenizeBlock(ood.InputBlock{Tensors: []ood.Tensor{textTensor("", "how are you today")}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var filled ood.InputBlock
	for i := range plain.Tensors {
		plain.Tensors[i].Lengths = nil
		filled.Tensors = append(filled.Tensors, m.addPadding(plain.Tensors[i], 20))
	}
	runBlock := func(b ood.InputBlock) ood.Batch {
		t.Helper()
		out, err := m.All(t.Context(), func(yield func(ood.InputBlock, error) bool) { yield(b, nil) }, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	a, b := runBlock(plain), runBlock(filled)
	for i := range a.Layers {
		if !equalUpToRounding(a.Layers[i].Data, b.Layers[i].Data) {
			t.Errorf("filling changes layer %d", i)
		}
	}
	if !equalUpToRounding(a.Logits.Data, b.Logits.Data) {
		t.Error("filling changes the logits")
	}
}

// clincTexts returns the texts of a CLINC150 file and their intents.
func clincTexts(t *testing.T, name string) (texts, intents []string) {
	t.Helper()
	f, err := os.Open(filepath.Join(os.Getenv("ATTACH_DATA"), "clinc150", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, cells := range all[1:] {
		texts, intents = append(texts, cells[0]), append(intents, cells[1])
	}
	return texts, intents
}

// TestTextsIndependent checks that the result of a text depends neither on other texts in the run
// nor on the padded length.
func TestTextsIndependent(t *testing.T) {
	m := openClinc(t)
	texts, intents := clincTexts(t, "val.csv")
	texts, intents = texts[:600], intents[:600]
	long := strings.Repeat("and then what is the weather in the city of the bank ", 8)
	texts = append(texts, "", long, long[:120], long[:170])
	run := func(block int, list ...string) ood.Batch {
		t.Helper()
		b, err := m.All(t.Context(), func(yield func(ood.InputBlock, error) bool) {
			for part := range slices.Chunk(list, block) {
				if !yield(ood.InputBlock{Tensors: []ood.Tensor{textTensor("text", part...)}}, nil) {
					return
				}
			}
		}, len(list), nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	all := run(1024, texts...)
	right := 0
	for i, intent := range intents {
		row := all.Logits.Data[i*150 : (i+1)*150]
		if m.Info().Classes[slices.Index(row, slices.Max(row))] == intent {
			right++
		}
	}
	if right < 500 {
		t.Errorf("%d of 600 sentences are classified right", right)
	}
	if m.Truncated() != 1 {
		t.Errorf("%d texts are said to be too long, want 1", m.Truncated())
	}
	for _, i := range []int{0, 1, 17, 300, 599, 600, 601, 602, 603} {
		alone, withOthers := run(1, texts[i]), run(7, append(slices.Clone(texts[40:52]), texts[i])...)
		for k, of := range [][3]blas32.General{{all.Logits, alone.Logits, withOthers.Logits}, {all.Features, alone.Features, withOthers.Features},
			{all.Layers[0], alone.Layers[0], withOthers.Layers[0]}, {all.Layers[2], alone.Layers[2], withOthers.Layers[2]}} {
			row := rows.Row(of[0], i)
			if !equalUpToRounding(rows.Row(of[1], 0), row) || !equalUpToRounding(rows.Row(of[2], 12), row) {
				t.Errorf("part %d of text %d depends on what it is run with", k, i)
			}
		}
	}
}
