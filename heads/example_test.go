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

// planeAndOutlier returns rows on the plane x+y = z, and one row that is not on it.
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
	scores, err := scoresOf(certificates, ood.Params{"k": 1., "unit_norm": false}, in, out)
	fmt.Printf("%.2f %v\n", scores, err)
	// Output: [3.00] <nil>
}

// scoresOf fits a detector to the rows in, and returns the scores of the rows x.
func scoresOf(m ood.Method, p ood.Params, in, x blas32.General) ([]float64, error) {
	b, err := attach.Fit(context.Background(), attach.FitOptions{
		Base: attach.Base{Task: attach.Classification}, Batch: ood.Batch{Features: in}, Detector: m, DetectorParams: p,
	})
	if err != nil {
		return nil, err
	}
	predictor, err := b.Predictor(attach.PredictOptions{})
	if err != nil {
		return nil, err
	}
	predictions, err := predictor.Predict(context.Background(), attach.Rows{Batch: ood.Batch{Features: x}})
	var scores []float64
	for _, p := range predictions {
		scores = append(scores, p.Score)
	}
	return scores, err
}

// Example: Fused returns a method that can be used like any other. A .attach file that uses
// it can be saved and opened only if the method is passed to Save and to Open.
func ExampleFused() {
	certificates, _ := attach.MethodByName("certificates")
	knn, _ := attach.MethodByName("knn")
	custom := heads.Fused("mine", "harmonic",
		heads.Component{Method: certificates, Params: ood.Params{"k": 1., "unit_norm": false}, Weight: 2},
		heads.Component{Method: knn})
	in, out := planeAndOutlier()
	outScores, err := scoresOf(custom, nil, in, out)
	if err != nil {
		panic(err)
	}
	inScores, err := scoresOf(custom, nil, in, in)
	fmt.Println(outScores[0] > slices.Max(inScores), err)
	// Output: true <nil>
}
