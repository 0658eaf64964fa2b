package evaluate_test

import (
	"context"
	"fmt"
	"log"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
)

// Rows whose truth is known show whether a bundle keeps its promises on them.
func ExampleRows() {
	ctx := context.Background()
	b, err := attach.Fit(ctx, attach.FitOptions{
		Base:  attach.Base{Task: attach.Classification},
		Batch: blob(1, 500, 8, 3, 0), // in-domain rows: φ, logits, labels
		Cal:   blob(2, 500, 8, 3, 0), // and others
	})
	if err != nil {
		log.Fatal(err)
	}
	predictor, err := b.Predictor(attach.PredictOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, mean := range []float64{0, -3} { // fresh rows, and rows that are shifted
		fresh := func(yield func(attach.Rows, error) bool) {
			yield(attach.Rows{Batch: blob(3, 1000, 8, 3, mean)}, nil)
		}
		e, err := evaluate.Rows(ctx, predictor, fresh, evaluate.Options{})
		if err != nil {
			log.Fatal(err)
		}
		for _, p := range e.Guarantees {
			if p.Kind == "false_alarm_rate" && p.Nominal == e.Alpha {
				fmt.Printf("%.3f flagged where %v was asked: %s\n", p.Fraction, p.Nominal, p.Verdict)
			}
		}
	}
	// Output:
	// 0.050 flagged where 0.05 was asked: met
	// 1.000 flagged where 0.05 was asked: violated
}
