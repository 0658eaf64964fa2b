package evaluate_test

import (
	"context"
	"fmt"
	"log"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
)

// This example tests the false-alarm rate of a detector on held-out rows, and on shifted rows.
func ExampleRows() {
	ctx := context.Background()
	b, err := attach.Fit(ctx, attach.FitOptions{
		Base:  attach.Base{Task: attach.Classification},
		Batch: blob(1, 500, 8, 3, 0), // features, logits and labels of in-distribution rows
		Cal:   blob(2, 500, 8, 3, 0), // held-out rows from the same source
	})
	if err != nil {
		log.Fatal(err)
	}
	predictor, err := b.Predictor(attach.PredictOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, mean := range []float64{0, -3} { // the second set is shifted
		rows := func(yield func(attach.Rows, error) bool) {
			yield(attach.Rows{Batch: blob(3, 1000, 8, 3, mean)}, nil)
		}
		e, err := evaluate.Rows(ctx, predictor, rows, evaluate.Options{})
		if err != nil {
			log.Fatal(err)
		}
		for _, g := range e.Guarantees {
			if g.Kind == "false_alarm_rate" && g.Nominal == e.Alpha {
				fmt.Printf("flagged %.3f, at most %v guaranteed: %s\n", g.Fraction, g.Nominal, g.Verdict)
			}
		}
	}
	// Output:
	// flagged 0.050, at most 0.05 guaranteed: met
	// flagged 1.000, at most 0.05 guaranteed: violated
}
