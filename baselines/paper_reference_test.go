package baselines_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/internal/train"
	"github.com/attach-uncertainty/attach/ood"
)

// paperReference is testdata/paper.json; see the script beside it.
type paperReference struct {
	Train, Outliers, Test [][]float32
	Oracle                []struct {
		Lambda float64
		Scores []float64
	}
	Weights            map[string][][]float32
	Distillation, SVDD []float64
}

func readPaperReference(t *testing.T) paperReference {
	t.Helper()
	b, err := os.ReadFile("testdata/paper.json")
	if err != nil {
		t.Fatal(err)
	}
	var ref paperReference
	if err := json.Unmarshal(b, &ref); err != nil {
		t.Fatal(err)
	}
	return ref
}

func compareScores(t *testing.T, s *ood.Scorer, rows [][]float32, want []float64, tolerance float64) {
	t.Helper()
	for i, got := range score(t, s, ood.Batch{Features: general(rows)}) {
		if !(math.Abs(got-want[i]) <= tolerance*max(1, math.Abs(want[i]))) {
			t.Errorf("row %d: %v, want %v", i, got, want[i])
		}
	}
}

func TestOracleAgreesWithScikitLearn(t *testing.T) {
	ref := readPaperReference(t)
	for _, c := range ref.Oracle {
		s, err := ood.Fit(background, baselines.Oracle, ood.Training{
			Batch: ood.Batch{Features: general(ref.Train)}, Outliers: ood.Batch{Features: general(ref.Outliers)},
		}, ood.Params{"lambda": c.Lambda})
		if err != nil {
			t.Fatal(err)
		}
		compareScores(t, s, ref.Test, c.Scores, 2e-6)
	}
}

func TestTrainedScoresAgreeWithPyTorch(t *testing.T) {
	ref := readPaperReference(t)
	layers := func(names ...string) train.Network {
		var n train.Network
		for i := 0; i < len(names); i += 2 {
			l := train.Layer{W: general(ref.Weights[names[i]])}
			if b := names[i+1]; b != "" {
				l.B = ref.Weights[b][0]
			}
			n.Layers = append(n.Layers, l)
		}
		return n
	}
	restored := func(m ood.Method, v any) *ood.Scorer {
		st := rows.Save(v)
		st.Params["width of features"] = float64(len(ref.Test[0]))
		s, err := ood.Restore(m, st)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	compareScores(t, restored(baselines.Distillation, &struct {
		Teacher train.Network `state:"teacher"`
		Student train.Network `state:"student"`
	}{layers("w0", "b0", "w1", "b1"), layers("ws", "bs")}), ref.Test, ref.Distillation, 1e-5)
	compareScores(t, restored(baselines.SVDD, &struct {
		Network train.Network `state:"network"`
		Centre  []float32     `state:"centre[k]"`
	}{layers("w0", "", "w1", ""), ref.Weights["centre"][0]}), ref.Test, ref.SVDD, 1e-5)
}

// output is a network's output for one row, term by term.
func output(layers []train.Layer, x []float32) []float64 {
	var in []float64
	for _, v := range x {
		in = append(in, float64(v))
	}
	for i, l := range layers {
		out := make([]float64, l.W.Cols)
		for j := range out {
			if l.B != nil {
				out[j] = float64(l.B[j])
			}
			for k, v := range in {
				if i > 0 {
					v = max(v, 0)
				}
				out[j] += v * float64(l.W.Data[k*l.W.Stride+j])
			}
		}
		in = out
	}
	return in
}

// TestPaperProblems checks what the two trained methods ask of a trainer.
func TestPaperProblems(t *testing.T) {
	training := newToy().training(30)
	var r recorder
	training.Trainer = &r
	params := ood.Params{"k": 7., "epochs": 3.}
	row := func(m blas32.General, i int) []float32 { return m.Data[i*m.Stride : i*m.Stride+m.Cols] }
	near := func(got float32, want float64) bool { return math.Abs(float64(got)-want) < 1e-5 }
	as := func(p train.Problem, hidden int, noBias bool) bool {
		m := p.Models[0]
		return p.Loss == train.MSE && p.Epochs == 3 && p.BatchSize == 64 && p.Outputs == 7 && len(p.Hidden) == hidden &&
			p.NoBias == noBias && len(p.Models) == 1 && m.LearningRate == 1e-3 && m.Target == -1 && m.Seed == training.Seed
	}

	s, err := ood.Fit(background, baselines.Distillation, training, params)
	if err != nil {
		t.Fatal(err)
	}
	p := r.problems[0]
	var drawn struct {
		Teacher train.Network `state:"teacher"`
		Student train.Network `state:"student"`
	}
	st := s.State()
	delete(st.Params, "width of features")
	if err := rows.Restore(&drawn, st, nil); err != nil {
		t.Fatal(err)
	}
	teacher := drawn.Teacher
	if len(teacher.Layers) != 2 || teacher.Layers[0].Out() != 64 || !as(p, 0, false) {
		t.Errorf("a teacher of %d layers, and the problem %+v", len(teacher.Layers), p)
	}
	for i := range p.X.Rows {
		for j, want := range output(teacher.Layers, row(training.Features, i)) {
			if !near(p.Y.Data[i*p.Y.Stride+j], want) {
				t.Fatalf("label %d of row %d is %v, the teacher says %v", j, i, p.Y.Data[i*p.Y.Stride+j], want)
			}
		}
	}

	if _, err := ood.Fit(background, baselines.SVDD, training, params); err != nil {
		t.Fatal(err)
	}
	p = r.problems[1]
	if !as(p, 1, true) || p.Y.Rows != 1 {
		t.Errorf("the problem of SVDD is %+v", p)
	}
	mean := make([]float64, 7)
	for i := range p.X.Rows {
		for j, v := range output(p.Models[0].Start, row(training.Features, i)) {
			mean[j] += v / float64(p.X.Rows)
		}
	}
	for j, want := range mean {
		if !near(p.Y.Data[j], want) {
			t.Errorf("the centre has %v at %d, the mean of the outputs to start with is %v", p.Y.Data[j], j, want)
		}
	}
}
