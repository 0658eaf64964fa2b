package attach_test

import (
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
)

// TestEmbedding checks that a model with features but no predictions gets a detector, and
// neither classes nor intervals.
func TestEmbedding(t *testing.T) {
	in := regressor(1, 200, 1)
	in.Base.Task = attach.Embedding
	if _, err := attach.Fit(t.Context(), in); err == nil || !strings.Contains(err.Error(), "the rows have logits") {
		t.Errorf("error %v of an embedding with logits", err)
	}
	in.Batch.Logits, in.Targets = blas32.General{}, blas32.General{}
	b, err := read(mustWrite(t, mustFit(t, in)))
	if err != nil {
		t.Fatal(err)
	}
	if b.Base.Task != attach.Embedding || b.IntervalModel != nil || b.Detector.Method != "certificates" {
		t.Errorf("read %+v", b)
	}
	for _, p := range mustPredict(t, b, in.Batch, attach.PredictOptions{})[:3] {
		if p.Class != -1 || p.Targets != nil || !(p.PValue > 0) {
			t.Errorf("predicted %+v", p)
		}
	}
	e := mustEvaluate(t, b, blocksOf(in.Batch, blas32.General{}, nil), attach.PredictOptions{}, evaluate.Options{})
	if e.Flags == nil || e.Classifier != nil || len(e.Targets) > 0 {
		t.Errorf("evaluated %+v", e)
	}
	if _, err := b.Predictor(attach.PredictOptions{Sets: "lac"}); err == nil || !strings.HasSuffix(err.Error(), "the model is not a classifier") {
		t.Errorf("error %v of sets", err)
	}
}
