package featurize

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/data/tokenizer"
	"github.com/attach-uncertainty/attach/ood"
)

// role is the kind of token data that an input holds, for example token ids.
type role int

const (
	noRole role = iota
	tokenIDs
	tokenMask // 1 for real tokens, 0 for padding
	tokenTypes
	tokenPositions
)

// roles maps the input names that exporters of transformers use to roles.
var roles = map[string]role{
	"input_ids": tokenIDs, "input_word_ids": tokenIDs, "attention_mask": tokenMask, "input_mask": tokenMask, "mask": tokenMask,
	"token_type_ids": tokenTypes, "segment_ids": tokenTypes, "input_type_ids": tokenTypes, "position_ids": tokenPositions,
}

// roleOf returns the role of the named input. TensorFlow's suffix ":0" is ignored.
func roleOf(input string) role { return roles[strings.TrimSuffix(input, ":0")] }

// isMask reports whether the input is a mask of tokens.
func (in input) isMask() bool { return roleOf(in.name) == tokenMask }

// byRole returns the first input with the given role, or nil.
func (list inputs) byRole(r role) *input {
	i := slices.IndexFunc(list, func(in input) bool { return roleOf(in.name) == r })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// textTokenizer tokenizes texts and makes a model's inputs from the tokens. It is safe for
// concurrent use.
type textTokenizer struct {
	inputs inputs
	*tokenizer.Tokenizer
	truncated atomic.Int64 // number of texts that were truncated
}

// newTextTokenizer reads a tokenizer. If this fails, the error names the tokenizer's file.
func newTextTokenizer(t attach.Text, inputs inputs) (*textTokenizer, error) {
	loaded, err := tokenizer.Read(t.Tokenizer, t.Config)
	if err != nil {
		return nil, err
	}
	x := &textTokenizer{inputs: inputs, Tokenizer: loaded}
	if t.MaxTokens > 0 {
		x.MaxTokens = t.MaxTokens
	}
	return x, nil
}

// Truncated returns how many texts so far had more tokens than the model takes. The last
// tokens of these texts were dropped, or the first if the tokenizer truncates on the left.
func (m *Model) Truncated() int {
	if m.tokenizer == nil {
		return 0
	}
	return int(m.tokenizer.truncated.Load())
}

// tokenizeBlocks tokenizes the texts in blocks of rows. If the model has no tokenizer, the
// blocks are unchanged.
func (m *Model) tokenizeBlocks(blocks iter.Seq2[ood.InputBlock, error]) iter.Seq2[ood.InputBlock, error] {
	if m.tokenizer == nil {
		return blocks
	}
	return func(yield func(ood.InputBlock, error) bool) {
		next := 0
		for b, err := range blocks {
			n := b.Len()
			if err == nil {
				b, err = m.tokenizer.tokenizeBlock(b, next)
			}
			next += n
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// tokenizeBlock tokenizes the texts in b that are not inputs of the model, and replaces them by the
// model's inputs. first is the number of the first row.
func (x *textTokenizer) tokenizeBlock(b ood.InputBlock, first int) (ood.InputBlock, error) {
	var columns [][]string
	result := ood.InputBlock{Start: b.Start}
	for _, t := range b.Tensors {
		switch {
		case t.Strings == nil || slices.ContainsFunc(x.inputs, func(in input) bool { return in.name == t.Name }):
			result.Tensors = append(result.Tensors, t)
		case len(t.Strings) != b.Len():
			return b, fmt.Errorf("a block of %s has %d texts", rows.Count(b.Len(), "row"), len(t.Strings))
		default:
			columns = append(columns, t.Strings)
		}
	}
	switch n := len(columns); {
	case n == 0:
		return b, nil
	case n > 2:
		return b, fmt.Errorf("each row has %d texts, and the model takes one or a pair", n)
	}
	list := make([]tokenizer.Encoding, b.Len())
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
			x.truncated.Add(1)
		}
	}
	result.Tensors = append(result.Tensors, x.tokenTensors(list)...)
	return result, nil
}

// tokenTensors returns the model's inputs for rows of tokens, which may differ in length.
func (x *textTokenizer) tokenTensors(list []tokenizer.Encoding) []ood.Tensor {
	shape, lengths, total := []int{len(list), 0}, make([]int, len(list)), 0
	for i, e := range list {
		lengths[i] = len(e.IDs)
		shape[1], total = max(shape[1], lengths[i]), total+lengths[i]
	}
	var tensors []ood.Tensor
	for _, in := range x.inputs {
		role := roleOf(in.name)
		if role == noRole {
			continue
		}
		t := ood.Tensor{Name: in.name, Shape: shape, Data: make([]float32, 0, total), Lengths: lengths}
		for _, e := range list {
			for i, id := range e.IDs {
				v := int64(1) // masks are 1 at each token
				switch role {
				case tokenIDs:
					v = id
				case tokenTypes:
					v = e.Types[i]
				case tokenPositions:
					v = int64(i)
				}
				t.Data = append(t.Data, float32(v))
			}
		}
		tensors = append(tensors, t)
	}
	return tensors
}
