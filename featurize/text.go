package featurize

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/internal/tokenizer"
	"github.com/attach-uncertainty/attach/ood"
)

// tokens are the inputs of a network that reads texts, by what exporters call them;
// others are nil.
type tokens struct {
	ids, mask, types, positions *Value
	inputs                      []Value // all
}

func findTokens(inputs []Value) tokens {
	t := tokens{inputs: inputs}
	for i, v := range inputs {
		switch strings.TrimSuffix(v.Name, ":0") {
		case "input_ids", "input_word_ids":
			t.ids = &inputs[i]
		case "attention_mask", "input_mask", "mask":
			t.mask = &inputs[i]
		case "token_type_ids", "segment_ids", "input_type_ids":
			t.types = &inputs[i]
		case "position_ids":
			t.positions = &inputs[i]
		}
	}
	return t
}

// length is how many tokens all rows must have, or 0.
func (t tokens) length() int {
	if len(t.ids.Shape) == 2 && t.ids.Shape[1] > 0 {
		return int(t.ids.Shape[1])
	}
	return 0
}

// texts makes a network's inputs of texts. It is safe for concurrent use.
type texts struct {
	tokens
	*tokenizer.Tokenizer
	cut atomic.Int64 // texts that lost tokens
}

// newTexts refuses a tokenizer that cannot be read. Its error names the file.
func newTexts(t attach.Text, inputs []Value) (*texts, error) {
	read, err := tokenizer.Read(t.Tokenizer, t.Config)
	if err != nil {
		return nil, err
	}
	x := &texts{tokens: findTokens(inputs), Tokenizer: read}
	if t.MaxTokens > 0 {
		x.MaxTokens = t.MaxTokens
	}
	return x, nil
}

// Truncated is how many texts so far had more tokens than the network reads, and
// lost the others.
func (m *Model) Truncated() int {
	if m.texts == nil {
		return 0
	}
	return int(m.texts.cut.Load())
}

// tokenised has the texts of rows tokenized where the model has a tokenizer.
func (m *Model) tokenised(blocks iter.Seq2[ood.InputBlock, error]) iter.Seq2[ood.InputBlock, error] {
	if m.texts == nil {
		return blocks
	}
	return func(yield func(ood.InputBlock, error) bool) {
		next := 0
		for b, err := range blocks {
			n := b.Rows()
			if err == nil {
				b, err = m.texts.block(b, next)
			}
			next += n
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// block is a block with the network's inputs in place of texts that are none of
// these; first is the number of the first row.
func (x *texts) block(b ood.InputBlock, first int) (ood.InputBlock, error) {
	var columns [][]string
	own := ood.InputBlock{Start: b.Start}
	for _, t := range b.Tensors {
		switch {
		case t.Strings == nil || slices.ContainsFunc(x.inputs, func(v Value) bool { return v.Name == t.Name }):
			own.Tensors = append(own.Tensors, t)
		case len(t.Strings) != b.Rows():
			return b, fmt.Errorf("%s of texts come with %d texts", rows.Count(b.Rows(), "row"), len(t.Strings))
		default:
			columns = append(columns, t.Strings)
		}
	}
	switch n := len(columns); {
	case n == 0:
		return b, nil
	case n > 2:
		return b, fmt.Errorf("the rows bring %d texts each, and the network reads one or a pair", n)
	}
	list := make([]tokenizer.Encoding, b.Rows())
	for i := range list {
		var err error
		if len(columns) == 1 {
			list[i], err = x.Encode(columns[0][i])
		} else {
			list[i], err = x.EncodePair(columns[0][i], columns[1][i])
		}
		if err != nil {
			return b, fmt.Errorf("row %d (counted from 0): its text cannot be tokenized: %w", first+i, err)
		}
		if len(list[i].IDs) == 0 {
			return b, fmt.Errorf("row %d (counted from 0): its text has no tokens", first+i)
		}
		if list[i].Cut {
			x.cut.Add(1)
		}
	}
	own.Tensors = append(own.Tensors, x.tensors(list)...)
	return own, nil
}

// tensors are rows of tokens as the network's inputs: of different lengths, or
// filled up to the length that it fixes.
func (x *texts) tensors(list []tokenizer.Encoding) []ood.Tensor {
	lengths := make([]int, len(list))
	longest, total := x.length(), 0
	for i, e := range list {
		if lengths[i] = len(e.IDs); x.length() > 0 {
			lengths[i] = x.length()
		}
		longest, total = max(longest, lengths[i]), total+lengths[i]
	}
	var tensors []ood.Tensor
	add := func(input *Value, filling int64, of func(e tokenizer.Encoding, i int) int64) {
		if input == nil {
			return
		}
		t := ood.Tensor{Name: input.Name, Shape: []int{len(list), longest}, Data: make([]float32, 0, total)}
		if x.length() == 0 {
			t.Lengths = lengths
		}
		for row, e := range list {
			missing := lengths[row] - len(e.IDs)
			fill := func() {
				for range missing {
					t.Data = append(t.Data, float32(filling))
				}
			}
			if x.PadLeft {
				fill()
			}
			for i := range e.IDs {
				t.Data = append(t.Data, float32(of(e, i)))
			}
			if !x.PadLeft {
				fill()
			}
		}
		tensors = append(tensors, t)
	}
	add(x.ids, x.PadID, func(e tokenizer.Encoding, i int) int64 { return e.IDs[i] })
	add(x.mask, 0, func(tokenizer.Encoding, int) int64 { return 1 })
	add(x.types, x.PadType, func(e tokenizer.Encoding, i int) int64 { return e.Types[i] })
	add(x.positions, 0, func(_ tokenizer.Encoding, i int) int64 { return int64(i) })
	return tensors
}
