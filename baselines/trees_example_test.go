package baselines_test

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/rows"
)

func ExampleQuantileByName() {
	// y is 0 to 99 where x is 0, and 1000 to 1099 where x is 1.
	x := blas32.General{Rows: 200, Cols: 1, Stride: 1}
	y := blas32.General{Rows: 200, Cols: 1, Stride: 1}
	for i := range 200 {
		x.Data = append(x.Data, float32(i%2))
		y.Data = append(y.Data, float32(i/2+1000*(i%2)))
	}
	m, ok := baselines.QuantileByName("gradient-boosting")
	if !ok {
		fmt.Println("no such method")
		return
	}
	levels := []float64{0.05, 0.95}
	model, err := m.Fit(context.Background(), heads.Regression{X: x, Y: y, Levels: levels}, map[string]any{"learning_rate": 1.})
	if err != nil {
		fmt.Println(err)
		return
	}
	q := model.Quantiles(blas32.General{Rows: 2, Cols: 1, Stride: 1, Data: []float32{0, 1}}, levels)
	fmt.Println(q.Row(0, 0))
	fmt.Println(q.Row(1, 0))

	restored, err := baselines.RestoreBoosting(model.(rows.Stater).State())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(restored.Quantiles(blas32.General{Rows: 1, Cols: 1, Stride: 1, Data: []float32{1}}, []float64{0.95}).Data)
	// Output:
	// [4 94]
	// [1004 1094]
	// [1094]
}

func ExampleRestoreQuantileForest() {
	x := blas32.General{Rows: 4, Cols: 1, Stride: 1, Data: []float32{0, 1, 2, 3}}
	y := blas32.General{Rows: 4, Cols: 1, Stride: 1, Data: []float32{5, 5, 5, 5}}
	model, err := baselines.QuantileForest.Fit(context.Background(), heads.Regression{X: x, Y: y}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	restored, err := baselines.RestoreQuantileForest(model.(rows.Stater).State())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(restored.Quantiles(x, []float64{0.5}).Data)
	// Output: [5 5 5 5]
}
