package baselines_test

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
)

func features(x ...float32) ood.Batch {
	return ood.Batch{Features: blas32.General{Rows: len(x) / 2, Cols: 2, Stride: 2, Data: x}}
}

func Example() {
	ctx := context.Background()
	distance, _ := attach.MethodByName("distance")
	scorer, err := ood.Fit(ctx, distance,
		ood.Training{Batch: features(0, 0, 1, 0, 0, 1)}, ood.Params{"percentile": 0.})
	if err != nil {
		fmt.Println(err)
		return
	}
	scores, err := scorer.Score(ctx, nil, features(0, 0, 4, 4))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(scores)

	// What was fitted goes to a file as its State and comes back by Restore.
	restored, err := ood.Restore(distance, scorer.State())
	if err != nil {
		fmt.Println(err)
		return
	}
	scores, err = restored.Score(ctx, nil, features(1, 2))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.4f\n", scores)
	// Output:
	// [0 5]
	// [1.4142]
}

func Example_grid() {
	m, _ := attach.MethodByName("largest")
	fmt.Println(m.Default())
	for _, p := range m.Grid() {
		fmt.Println(p)
	}
	// Output:
	// logits=false temperature=1
	// temperature=1
	// temperature=2
	// temperature=10
	// logits=true
}

// A scorer that runs the network holds it; one that is restored finds it beside
// the rows.
func Example_network() {
	ctx := context.Background()
	rows := blas32.General{Rows: 2, Cols: 2, Stride: 2, Data: []float32{3, 0, .1, 0}}
	last := &ood.Linear{Weight: blas32.General{Rows: 2, Cols: 2, Stride: 2, Data: []float32{1, 0, 0, 1}}, Bias: make([]float32, 2)}
	network := twoLayers{act: bend, slope: bendSlope, last: last} // in a program: featurize.Model.Network
	b, err := network.Forward(ctx, ood.BlockOf([]int{2, 2}, rows.Data))
	if err != nil {
		fmt.Println(err)
		return
	}
	b.Inputs, b.Network = ood.InputsOf(ood.BlockOf([]int{2, 2}, rows.Data)), network
	odin, _ := attach.MethodByName("odin")
	scorer, err := ood.Fit(ctx, odin, ood.Training{Batch: b}, ood.Params{"temperature": 10., "epsilon": .1})
	if err != nil {
		fmt.Println(err)
		return
	}
	restored, err := ood.Restore(odin, scorer.State())
	if err != nil {
		fmt.Println(err)
		return
	}
	b.Network = nil
	_, err = restored.Score(ctx, nil, b)
	fmt.Println(err)
	b.Network = network
	scores, err := restored.Score(ctx, nil, b)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.4f\n", scores)
	// Output:
	// method "odin" needs the network, to differentiate it: scorers that were stored come without it: give the model
	// [-0.5810 -0.5112]
}

// A method that needs what is not there is skipped, with the reason.
func Example_compare() {
	logits := func(x ...float32) ood.Batch {
		return ood.Batch{Logits: blas32.General{Rows: len(x) / 3, Cols: 3, Stride: 3, Data: x}}
	}
	entropy, _ := attach.MethodByName("entropy")
	largest, _ := attach.MethodByName("largest")
	distance, _ := attach.MethodByName("distance")
	report, err := compare.Run(context.Background(), compare.Options{
		Methods:  []ood.Method{entropy, largest, distance},
		Training: ood.Training{Batch: logits(5, 0, 0, 0, 6, 1)},
		In:       logits(4, 0, 0, 0, 1, 7),
		Out:      logits(1, 0, 1, 2, 1, 1),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range report.Ranked() {
		fmt.Printf("%s %.2f\n", m.Name, m.AUROC.Mean)
	}
	for _, s := range report.Skipped {
		fmt.Println(s.Reason)
	}
	// Output:
	// entropy 1.00
	// largest 1.00
	// method "distance" needs features: the rows to fit with carry none
}
