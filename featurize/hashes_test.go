package featurize

import (
	"iter"
	"slices"
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/ood"
)

// TestHashes checks that the hash of a row depends only on the row's inputs, and not on
// other rows of its block.
func TestHashes(t *testing.T) {
	orttest.Open(t)
	m, err := Open(t.Context(), "../testmodels/text", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	texts := []string{"play some album", "play a song", "set an alarm for eight thirty on monday", "play a song", "play a record"}
	var separate [][16]byte
	for _, text := range texts {
		b, err := m.All(t.Context(), oneBlock(ood.InputBlock{Tensors: []ood.Tensor{textTensor("", text)}}), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		separate = append(separate, b.Hashes...)
	}
	var blocks iter.Seq2[ood.InputBlock, error] = func(yield func(ood.InputBlock, error) bool) {
		_ = yield(ood.InputBlock{Tensors: []ood.Tensor{textTensor("", texts[:2]...)}}, nil) && yield(ood.InputBlock{Start: 2, Tensors: []ood.Tensor{textTensor("", texts[2:]...)}}, nil)
	}
	b, err := m.All(t.Context(), blocks, len(texts), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(b.Hashes, separate) {
		t.Errorf("hashes in blocks are %x, those of rows alone %x", b.Hashes, separate)
	}
	if len(separate) != 5 || separate[1] != separate[3] || slices.Contains(separate[2:], separate[0]) || slices.Contains(separate[2:4], separate[4]) {
		t.Errorf("the 5 texts, the second the same as the fourth, have hashes %x", separate)
	}
}

// TestUnhashed checks that rows get no hashes with Options.Unhashed.
func TestUnhashed(t *testing.T) {
	orttest.Open(t)
	for _, unhashed := range []bool{false, true} {
		m, err := Open(t.Context(), "../testmodels/toy_regressor.onnx", Options{Unhashed: unhashed})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		b, err := m.All(t.Context(), ood.InputBlock{Tensors: []ood.Tensor{{Shape: []int{2, 1}, Data: []float32{1, 2}}}}.Blocks(t.Context(), 2), 2, nil)
		if err != nil || (b.Hashes == nil) != unhashed {
			t.Errorf("unhashed is %v: hashes %x, error %v", unhashed, b.Hashes, err)
		}
	}
}
