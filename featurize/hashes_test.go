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
	var alone [][16]byte
	for _, text := range texts {
		b, err := m.All(t.Context(), single(ood.InputBlock{Tensors: []ood.Tensor{words("", text)}}), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		alone = append(alone, b.Hashes...)
	}
	var blocks iter.Seq2[ood.InputBlock, error] = func(yield func(ood.InputBlock, error) bool) {
		_ = yield(ood.InputBlock{Tensors: []ood.Tensor{words("", texts[:2]...)}}, nil) && yield(ood.InputBlock{Start: 2, Tensors: []ood.Tensor{words("", texts[2:]...)}}, nil)
	}
	b, err := m.All(t.Context(), blocks, len(texts), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(b.Hashes, alone) {
		t.Errorf("hashes in blocks are %x, those of rows alone %x", b.Hashes, alone)
	}
	if len(alone) != 5 || alone[1] != alone[3] || slices.Contains(alone[2:], alone[0]) || slices.Contains(alone[2:4], alone[4]) {
		t.Errorf("the 5 texts, the second the same as the fourth, have hashes %x", alone)
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
