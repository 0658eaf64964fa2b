package baselines_test

import (
	"context"
	"fmt"
	"log"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
)

func features(x ...float32) ood.Batch {
	return ood.Batch{Features: blas32.General{Rows: len(x) / 2, Cols: 2, Stride: 2, Data: x}}
}

func Example() {
	distance, _ := attach.MethodByName("distance")
	b, err := attach.Fit(context.Background(), attach.FitOptions{
		Base:  attach.Base{Task: attach.Classification},
		Batch: features(0, 0, 1, 0, 0, 1), Cal: features(2, 0, 1, 1, 0, 3),
		Detector: distance, DetectorParams: ood.Params{"percentile": 0.},
	})
	check(err)
	predictor, err := b.Predictor(attach.PredictOptions{})
	check(err)
	predictions, err := predictor.Predict(context.Background(), attach.Rows{Batch: features(0, 0, 4, 4)})
	check(err)
	for _, p := range predictions {
		fmt.Println(p.Score, p.PValue)
	}
	// Output:
	// 0 1
	// 5 0.25
}

func Example_parameters() {
	m, _ := attach.MethodByName("largest")
	for _, p := range m.Params {
		fmt.Println(p.Name, p.Default)
	}
	for _, p := range m.Sweep {
		fmt.Println(p)
	}
	// Output:
	// temperature 1
	// logits false
	// temperature=1
	// temperature=2
	// temperature=10
	// logits=true
}

// Example: fit a detector that runs the network, and score rows with it.
func Example_network() {
	ctx := context.Background()
	rows := blas32.General{Rows: 2, Cols: 2, Stride: 2, Data: []float32{3, 0, .1, 0}}
	last := &ood.Linear{Weight: blas32.General{Rows: 2, Cols: 2, Stride: 2, Data: []float32{1, 0, 0, 1}}, Bias: make([]float32, 2)}
	network := twoLayers{activation: wave, slope: waveSlope, last: last} // a program uses featurize.Model.Network
	b, err := network.Forward(ctx, ood.BlockOf([]int{2, 2}, rows.Data))
	check(err)
	b.Inputs, b.Network = ood.BlockOf([]int{2, 2}, rows.Data), network
	odin, _ := attach.MethodByName("odin")
	bundle, err := attach.Fit(ctx, attach.FitOptions{
		Base:  attach.Base{Task: attach.Classification},
		Batch: b, Cal: b, Detector: odin, DetectorParams: ood.Params{"temperature": 10., "epsilon": .1},
	})
	check(err)
	predictor, err := bundle.Predictor(attach.PredictOptions{})
	check(err)
	predictions, err := predictor.Predict(ctx, attach.Rows{Batch: b})
	check(err)
	for _, p := range predictions {
		fmt.Printf("%.4f\n", p.Score)
	}
	// Output:
	// -0.5810
	// -0.5112
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Example: Run skips a method if its needs are not met, and reports the reason.
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
		Test:     logits(4, 0, 0, 0, 1, 7),
		OOD:      logits(1, 0, 1, 2, 1, 1),
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
	// method "distance" needs features: the fit rows have none
}
