package selection

import (
	"context"
	"errors"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/ood"
)

// norm is a detector that scores by factor times the squared norm of the features. Fitting
// fails for a factor of 0.
type norm struct{ factor float64 }

func (s *norm) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	for i := range dst {
		x := b.Features.Data[i*b.Features.Stride : i*b.Features.Stride+b.Features.Cols]
		v := blas32.Vector{N: len(x), Inc: 1, Data: x}
		dst[i] = s.factor * float64(blas32.Dot(v, v))
	}
	return ctx.Err()
}

func normMethod(name string, factor float64) ood.Method {
	return ood.Method{
		Name: name, Doc: "Norm.", Needs: ood.Needs{Features: true},
		Fit: func(context.Context, ood.Training, ood.Params) (any, error) {
			if factor == 0 {
				return nil, errors.New("factor is 0")
			}
			return &norm{factor}, nil
		},
		New: func() any { return &norm{} },
	}
}

// TestPseudoAUROCs checks that the negative norm wins on mixed rows, because the norm is
// small half-way between classes.
func TestPseudoAUROCs(t *testing.T) {
	training, _ := networkRows(60, 2, 4, 4)
	few := classRows(60)
	training.Features, training.Logits, training.Last, training.Labels = few.Features, few.Logits, few.Last, few.Labels
	methods := []ood.Method{normMethod("norm", 1), normMethod("negative", -1), normMethod("failing", 0)}
	// corruptedInputs run the network, so its output must have the width of these features.
	training.Network = narrowNetwork{training.Network}
	got, err := pseudoAUROCs(t.Context(), methods, training)
	if err != nil {
		t.Fatal(err)
	}
	if m := got[mixedRows]; m["norm"] != 0 || m["negative"] != 1 {
		t.Errorf("mixed rows are told by %v", m)
	}
	for _, c := range criteria() {
		if _, failed := got[c]["failing"]; failed || len(got[c]) != 2 || got[c]["norm"]+got[c]["negative"] != 1 {
			t.Errorf("%s: %v", c, got[c])
		}
	}
	training.Network = identity{rows: new(int), err: errors.New("out of memory")}
	if _, err = pseudoAUROCs(t.Context(), methods, training); err == nil || err.Error() != "corrupted: out of memory" {
		t.Errorf("a network that fails: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pseudoAUROCs(ctx, methods, training); err == nil {
		t.Error("goes on when cancelled")
	}
}

// narrowNetwork keeps the first two features and returns three zero logits.
type narrowNetwork struct{ ood.Network }

func (n narrowNetwork) Forward(ctx context.Context, x ood.InputBlock) (ood.Batch, error) {
	b, err := n.Network.Forward(ctx, x)
	b.Features.Cols, b.Logits = 2, blas32.General{Rows: x.Len(), Cols: 3, Stride: 3, Data: make([]float32, 3*x.Len())}
	return b, err
}

func TestRank(t *testing.T) {
	methods := []ood.Method{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "lacking"}}
	aurocs := map[string]map[string]float64{
		mixedRows:    {"a": .5, "b": .75, "c": .75, "lacking": 1},
		shuffledRows: {"a": 1, "b": .5, "c": .25},
	}
	got, err := rule{"both", []string{mixedRows, shuffledRows}}.rank(methods, aurocs)
	// Method a ranks third and first. Methods b and c share the first two ranks of one
	// criterion and rank second and third in the other.
	want := []candidate{{"b", .625, 1.75}, {"a", .75, 2}, {"c", .5, 2.25}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("ranked %v (%v), want %v", got, err, want)
	}
	if got, err = (rule{"one", []string{mixedRows}}).rank(methods, aurocs); err != nil || got[0].method != "lacking" || got[1].method != "b" {
		t.Errorf("by one criterion: %v, %v", got, err)
	}
	if _, err = (rule{"one", []string{mixedRows}}).rank(nil, aurocs); err == nil {
		t.Error("chooses from nothing")
	}
	tied := map[string]map[string]float64{mixedRows: {"a": .5, "b": .5}, shuffledRows: {"a": .5, "b": .5}}
	if got, _ = (rule{"both", []string{mixedRows, shuffledRows}}).rank(methods[:2], tied); got[0].method != "a" || got[0].rank != 1.5 || got[1].rank != 1.5 {
		t.Errorf("two alike rank %v", got)
	}
}
