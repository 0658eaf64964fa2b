package featurize_test

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// denseModel builds a tiny model with a dense last layer.
func denseModel(t testing.TB) string {
	return tiny(t, 13, func(b *onnx.Builder, x string) { addOutput(b, gemm(b, phiOf(b, x))) }, "n", 3)
}

// blocks yields rows of three columns in blocks of the given sizes. It overwrites one
// buffer for all blocks, as readers of files do.
func blocks(x []float32, sizes ...int) iter.Seq2[ood.InputBlock, error] {
	return func(yield func(ood.InputBlock, error) bool) {
		buf := make([]float32, len(x))
		for _, n := range sizes {
			b := buf[:3*n]
			copy(b, x)
			x = x[3*n:]
			if !yield(ood.BlockOf([]int{n, 3}, b), nil) {
				return
			}
			for i := range b {
				b[i] = 1e9
			}
		}
	}
}

// TestBlocks checks that the features do not depend on how rows are divided into blocks.
func TestBlocks(t *testing.T) {
	rt := runtime(t)
	x := noise(3 * 23)
	want := trunkOf(x)
	for _, batch := range []int{1, 4, 23, 64} {
		m := open(t, rt, denseModel(t), featurize.Options{Batch: batch})
		for _, sizes := range [][]int{{23}, {1, 22}, {4, 4, 4, 4, 4, 3}, {5, 0, 5, 13}, slices.Repeat([]int{1}, 23)} {
			seen := 0
			for b, err := range m.Features(context.Background(), blocks(x, sizes...)) {
				if err != nil {
					t.Fatal(err)
				}
				n := b.Features.Rows
				if n == 0 || n > batch || b.Logits.Rows != n {
					t.Fatalf("a batch of %d rows with %d logits", n, b.Logits.Rows)
				}
				checkNear(t, "φ", b.Features.Data, want[seen*h:(seen+n)*h], 1e-6)
				seen += n
			}
			if seen != 23 {
				t.Errorf("%d of 23 rows came back", seen)
			}
		}
	}
}

// TestConcurrent checks that several goroutines can use a model at once.
func TestConcurrent(t *testing.T) {
	m := open(t, runtime(t), denseModel(t), featurize.Options{Batch: 3})
	x := noise(3 * 50)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			b, err := m.All(context.Background(), featurize.Single(ood.BlockOf([]int{50, 3}, x)), 50, nil)
			if err != nil || relative(b.Features.Data, trunkOf(x)) > 1e-6 {
				t.Errorf("a run beside others fails: %v", err)
			}
		})
	}
	wg.Wait()
}

// TestStop checks that reading ends when the loop ends or the context is cancelled.
func TestStop(t *testing.T) {
	m := open(t, runtime(t), denseModel(t), featurize.Options{Batch: 2})
	reading := false
	endlessRows := func(yield func(ood.InputBlock, error) bool) {
		reading = true
		defer func() { reading = false }()
		for yield(ood.BlockOf([]int{2, 3}, noise(6)), nil) {
		}
	}
	for range m.Features(context.Background(), endlessRows) {
		break
	}
	if reading {
		t.Error("the rows are still read after the loop has ended")
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := 0
	var last error
	for _, err := range m.Features(ctx, endlessRows) {
		if n++; n == 5 {
			cancel()
		}
		last = err
	}
	if !errors.Is(last, context.Canceled) || n > 8 || reading {
		t.Errorf("after a cancel: error %v, %d batches", last, n)
	}
	if _, err := m.All(ctx, endlessRows, -1, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context: %v", err)
	}
	if _, err := featurize.Open(ctx, denseModel(t), featurize.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Open with a cancelled context: %v", err)
	}
}

// TestAll checks the calls of progress, and the errors if the number of rows is wrong or
// the reader fails.
func TestAll(t *testing.T) {
	m := open(t, runtime(t), denseModel(t), featurize.Options{Batch: 2})
	var done []int
	x := noise(15)
	b, err := m.All(context.Background(), featurize.Single(ood.BlockOf([]int{5, 3}, x)), -1, func(n int) { done = append(done, n) })
	if err != nil || !slices.Equal(done, []int{2, 4, 5}) || b.Features.Rows != 5 || len(b.Logits.Data) != 5*c {
		t.Errorf("progress %v, %d rows (%v)", done, b.Features.Rows, err)
	}
	if _, err := m.All(context.Background(), featurize.Single(ood.BlockOf([]int{5, 3}, x)), 6, nil); err == nil {
		t.Error("a missing row goes unnoticed")
	}
	if _, err := m.All(context.Background(), featurize.Single(ood.BlockOf([]int{0, 3}, nil)), 0, nil); err == nil {
		t.Error("an empty set goes unnoticed")
	}
	broken := errors.New("broken reader")
	if _, err := m.All(context.Background(), func(yield func(ood.InputBlock, error) bool) { yield(ood.InputBlock{}, broken) }, 1, nil); !errors.Is(err, broken) {
		t.Errorf("the reader's error is lost: %v", err)
	}
}

// TestBadRows checks that the error for an invalid row names the row and the cause.
func TestBadRows(t *testing.T) {
	rt := runtime(t)
	m := open(t, rt, denseModel(t), featurize.Options{Batch: 2})
	with := func(i int, v float64) []float32 {
		x := noise(12)
		x[i] = float32(v)
		return x
	}
	u8 := onnx.NewBuilder("tiny", 13)
	addOutput(u8, gemm(u8, phiOf(u8, u8.Node("Cast", []string{u8.Input("x", pb.TensorProto_UINT8, "n", 3)}, onnx.Attr("to", float)))))
	model, err := u8.Model()
	if err != nil {
		t.Fatal(err)
	}
	whole := open(t, rt, save(t, model), featurize.Options{})
	nchw := open(t, rt, tiny(t, 13, func(b *onnx.Builder, x string) {
		addOutput(b, gemm(b, b.Node("Flatten", []string{b.Node("GlobalAveragePool", []string{b.Node("Conv", []string{x, b.Initializer("stem", noise(12), 4, 3, 1, 1)})})})))
	}, "n", 3, 8, 8), featurize.Options{})
	for name, k := range map[string]struct {
		m     *featurize.Model
		shape []int
		x     []float32
		words []string
	}{
		"width":           {m, []int{3, 4}, noise(12), []string{"n×3", "n×4"}},
		"rank":            {m, []int{2, 2, 3}, noise(12), []string{"n×3", "n×2×3"}},
		"layout":          {nchw, []int{1, 8, 8, 3}, noise(192), []string{"n×3×8×8", "n×8×8×3", "move the channels"}},
		"NaN":             {m, []int{4, 3}, with(7, math.NaN()), []string{"row 2 (counted from 0)", "NaN"}},
		"infinity":        {m, []int{4, 3}, with(11, math.Inf(-1)), []string{"row 3", "infinity"}},
		"fraction":        {whole, []int{4, 3}, slices.Concat(make([]float32, 5), []float32{.5}, make([]float32, 6)), []string{"row 1", "0.5", "uint8"}},
		"too large":       {whole, []int{1, 3}, []float32{1, 256, 2}, []string{"row 0", "256", "uint8"}},
		"shape and data":  {m, []int{4, 3}, noise(11), []string{"11 numbers"}},
		"NaN in features": {m, []int{4, 3}, with(6, 3e38), []string{"row 2", "infinity", "model's"}},
	} {
		_, err := k.m.All(context.Background(), featurize.Single(ood.BlockOf(k.shape, k.x)), k.shape[0], nil)
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v", name, err)
			continue
		}
		for _, s := range k.words {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: error %q does not say %q", name, err, s)
			}
		}
	}
}
