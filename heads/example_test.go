package heads_test

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/heads"
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
