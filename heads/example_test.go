package heads_test

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/ood"
)

// Rows near the plane x+y = z, and one that is not.
func planeAndOutlier() (in, out blas32.General) {
	in = blas32.General{Rows: 200, Cols: 3, Stride: 3, Data: make([]float32, 600)}
	for i := range in.Rows {
		x, y := math.Sin(float64(i)), math.Cos(1.7*float64(i))
		copy(in.Data[3*i:], []float32{float32(x), float32(y), float32(x + y)})
	}
	return in, blas32.General{Rows: 1, Cols: 3, Stride: 3, Data: []float32{1, 1, -1}}
}

func Example_certificates() {
	in, out := planeAndOutlier()
	certificates, _ := attach.MethodByName("certificates")
	c, err := ood.Fit(context.Background(), certificates, ood.Training{Batch: ood.Batch{Features: in}}, ood.Params{"k": 1., "unit_norm": false})
	if err != nil {
		panic(err)
	}
	scores, err := c.Score(context.Background(), nil, ood.Batch{Features: out})
	fmt.Printf("%.2f %v\n", scores, err)
	// Output: [3.00] <nil>
}

// A trainer of the simplest kind: it knows the answer. Package heads/fit has
// one that learns.
type oracle struct{}

func (oracle) Train(_ context.Context, p train.Problem) ([]train.Network, error) {
	// One input and the level, (τ−0.5)·12, to one output.
	w := blas32.General{Rows: 2, Cols: 1, Stride: 1, Data: []float32{0, 0.25}}
	return []train.Network{{Layers: []train.Layer{{W: w, B: []float32{0}}}}}, nil
}

func Example_sqr() {
	x := blas32.General{Rows: 3, Cols: 1, Stride: 1, Data: []float32{0, 1, 2}}
	y := blas32.General{Rows: 3, Cols: 1, Stride: 1, Data: []float32{10, 20, 30}}
	t := ood.Training{Batch: ood.Batch{Features: x}, Targets: y, Trainer: oracle{}}
	sqr, _ := attach.MethodByName("sqr")
	s, err := ood.Fit(context.Background(), sqr, t, ood.Params{"layers": 0.})
	if err != nil {
		panic(err)
	}
	q := s.Quantiles(x, []float64{0.1, 0.5, 0.9})
	fmt.Printf("%.1f %.1f %.1f\n", q.At(0, 0, 0), q.At(0, 0, 1), q.At(0, 0, 2))
	// Output: 10.2 20.0 29.8
}

// A fusion of a program's own is a method like any other: where it is fitted by
// attach.Fit, its file opens again if Save and Open are given it too.
func ExampleFused() {
	certificates, _ := attach.MethodByName("certificates")
	knn, _ := attach.MethodByName("knn")
	mine := heads.Fused("mine", "harmonic",
		heads.Component{Method: certificates, Params: ood.Params{"k": 1., "unit_norm": false}, Weight: 2},
		heads.Component{Method: knn})
	in, out := planeAndOutlier()
	scorer, err := ood.Fit(context.Background(), mine, ood.Training{Batch: ood.Batch{Features: in}}, nil)
	if err != nil {
		panic(err)
	}
	far, err := scorer.Score(context.Background(), nil, ood.Batch{Features: out})
	if err != nil {
		panic(err)
	}
	near, err := scorer.Score(context.Background(), nil, ood.Batch{Features: in})
	fmt.Println(far[0] > slices.Max(near), err)
	// Output: true <nil>
}

func ExampleNetwork_Apply() {
	n := train.Network{Layers: []train.Layer{
		{W: blas32.General{Rows: 1, Cols: 2, Stride: 2, Data: []float32{1, -1}}},
		{W: blas32.General{Rows: 2, Cols: 1, Stride: 1, Data: []float32{1, 1}}, B: []float32{0.5}},
	}}
	x := blas32.General{Rows: 2, Cols: 1, Stride: 1, Data: []float32{-3, 2}}
	fmt.Println(n.Apply(x).Data) // |x| + 0.5
	// Output: [3.5 2.5]
}
