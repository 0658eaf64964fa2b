package attach_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/ood"
)

// sumNetwork is the network that computes the data of blob: its features are its inputs, and
// each logit is a sum of features.
type sumNetwork struct{ classes int }

// sumLayer returns the last layer of a sumNetwork with c classes and h features.
func sumLayer(c, h int) *ood.Linear {
	l := &ood.Linear{Weight: matrix(c, h), Bias: make([]float32, c)}
	for j := range h {
		l.Weight.Data[j%c*h+j] = 1
	}
	return l
}

func inputsOf(b ood.Batch) ood.Inputs {
	return ood.BlockOf([]int{b.Features.Rows, b.Features.Cols}, b.Features.Data)
}

func (n sumNetwork) Forward(ctx context.Context, x ood.InputBlock) (ood.Batch, error) {
	in := x.Tensors[0]
	h := in.Shape[1]
	b := ood.Batch{Features: matrix(x.Len(), h), Logits: matrix(x.Len(), n.classes)}
	copy(b.Features.Data, in.Data)
	for i, v := range in.Data {
		b.Logits.Data[i/h*n.classes+i%h%n.classes] += v
	}
	return b, ctx.Err()
}

func (n sumNetwork) Gradient(ctx context.Context, x ood.InputBlock, of ood.Scalar) (ood.Batch, ood.Tensor, error) {
	b, err := n.Forward(ctx, x)
	in := x.Tensors[0]
	g := make([]float32, len(in.Data))
	h := in.Shape[1]
	for i := range g {
		// Any gradient that depends only on the logits will do for these tests. With a
		// single logit, return the true one, which is 1 for each input.
		z := b.Logits.Data[i/h*n.classes+i%h%n.classes]
		if g[i] = z; n.classes == 1 {
			g[i] = 1
		}
	}
	return b, ood.Tensor{Shape: in.Shape, Data: g}, err
}

func (n sumNetwork) Dropouts() int { return 1 }

func (n sumNetwork) Dropout(ctx context.Context, x ood.InputBlock, passes int, _ float64, seed uint64) ([]float32, error) {
	var z []float32
	for s := range passes {
		b, err := n.Forward(ctx, x)
		if err != nil {
			return nil, err
		}
		for i, v := range b.Logits.Data {
			z = append(z, v*float32(1+(s+i+int(seed))%3))
		}
	}
	return z, nil
}

func TestDetectorThatRunsTheNetwork(t *testing.T) {
	in := classifier(80)
	in.Detector, in.Batch.Inputs, in.Batch.Network = method("odin"), inputsOf(in.Batch), sumNetwork{3}
	in.InputScale = ood.InputScale{Factor: []float32{3}}
	b := mustFit(t, in)
	if !b.RunsNetwork() || mustFit(t, classifier(80)).RunsNetwork() {
		t.Error("RunsNetwork")
	}
	stored, err := read(mustWrite(t, b))
	if err != nil {
		t.Fatal(err)
	}
	var need *ood.NeedError
	withoutNetwork := in.Batch
	withoutNetwork.Network = nil
	if _, err := predict(stored, attach.Rows{Batch: withoutNetwork}, attach.PredictOptions{}); !errors.As(err, &need) || !need.Need.Network {
		t.Errorf("without the network: %v", err)
	}
	withoutInputs := in.Batch
	withoutInputs.Inputs = nil
	if _, err := predict(stored, attach.Rows{Batch: withoutInputs}, attach.PredictOptions{}); !errors.As(err, &need) || !need.Need.Inputs {
		t.Errorf("without inputs: %v", err)
	}
	in.Batch.Inputs = nil
	if _, err := attach.Fit(context.Background(), in); !errors.As(err, &need) || !need.Need.Inputs {
		t.Errorf("fitted without inputs: %v", err)
	}
	if !bytes.Equal(mustWrite(t, b), mustWrite(t, stored)) {
		t.Error("what is read is written otherwise")
	}
}

// TestLogisticNetwork checks the scores of a network with a single logit z against formulas
// for the two logits 0 and z. The gradients in these formulas are finite differences.
func TestLogisticNetwork(t *testing.T) {
	in := classifier(60)
	in.Batch.Logits = matrix(60, 1)
	in.Base.Classes = nil
	in.Batch.Labels = nil
	for i := range 60 {
		for j := range 8 {
			in.Batch.Logits.Data[i] += in.Batch.Features.Data[i*8+j]
		}
	}
	in.Batch.Inputs, in.Batch.Network = inputsOf(in.Batch), sumNetwork{1}
	for _, c := range []struct {
		method ood.Method
		params ood.Params
		scalar func(z float64) float64
	}{
		{method("geometrical"), ood.Params{"temperature": 2., "gradient": "margin"}, func(z float64) float64 { return math.Abs(math.Tanh(z / 4)) }},
		{method("geometrical"), ood.Params{"logits": true, "gradient": "margin"}, math.Abs},
	} {
		in.Detector, in.DetectorParams = c.method, c.params
		p := mustPredict(t, mustFit(t, in), in.Batch, attach.PredictOptions{})
		for i, row := range p {
			got := row.Score
			z := float64(in.Batch.Logits.Data[i])
			slope := (c.scalar(z+1e-6) - c.scalar(z-1e-6)) / 2e-6
			if want := -c.scalar(z) / (math.Abs(slope) * math.Sqrt(8)); !isClose(got, want, 1e-5) {
				t.Errorf("%v row %d: %v, want %v", c.params, i, got, want)
			}
		}
	}
	// ODIN moves each of the 8 inputs by ε along the sign of its gradient. The logit is their
	// sum, so it moves by 8ε away from 0.
	in.Detector, in.DetectorParams = method("odin"), ood.Params{"epsilon": .01, "temperature": 100.}
	for i, row := range mustPredict(t, mustFit(t, in), in.Batch, attach.PredictOptions{}) {
		got := row.Score
		z := math.Abs(float64(in.Batch.Logits.Data[i])) + .08
		if want := -1 / (1 + math.Exp(-z/100)); math.Abs(got-want) > 1e-8 {
			t.Errorf("ODIN row %d: %v, want %v", i, got, want)
		}
	}
	for _, m := range []ood.Method{method("odin"), method("bald")} {
		in.Detector, in.DetectorParams = m, nil
		b := mustFit(t, in)
		stored, err := read(mustWrite(t, b))
		if err != nil {
			t.Fatal(err)
		}
		want := mustPredict(t, b, in.Batch, attach.PredictOptions{})
		if !samePredictions(mustPredict(t, stored, in.Batch, attach.PredictOptions{}), want) {
			t.Errorf("%s: scores differ after reading", m.Name)
		}
	}
}
