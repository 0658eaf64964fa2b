package fit

import (
	"context"
	"flag"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
)

// benchProblems are the problems of the benchmark. The script testdata/bench_torch.py
// trains the same problems.
var benchProblems = []struct {
	name           string
	n, d, h, batch int
	models         int
}{
	{name: "batch=256,513-128-1", n: 4096, d: 512, h: 128, batch: 256, models: 1},
	{name: "batch=64,5-64-1", n: 1024, d: 4, h: 64, batch: 64, models: 1},
	{name: "batch=64,5-64-1,M=300", n: 1024, d: 4, h: 64, batch: 64, models: 300},
}

func benchProblem(n, d, h, batch, models int) train.Problem {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(rows, cols int) blas32.General {
		g := blas32.General{Rows: rows, Cols: cols, Stride: cols, Data: make([]float32, rows*cols)}
		for i := range g.Data {
			g.Data[i] = float32(rng.NormFloat64())
		}
		return g
	}
	p := train.Problem{
		X: random(n, d), Y: random(n, 1), Hidden: []int{h}, Outputs: 1,
		Loss: "pinball", Conditional: true, Epochs: 1, BatchSize: batch,
	}
	for m := range models {
		p.Models = append(p.Models, train.ModelConfig{Seed: uint64(m), LearningRate: 1e-3})
	}
	return p
}

// stepTimer runs training steps of a problem. A step collects its rows and levels, and
// includes the Adam update.
type stepTimer struct {
	*training
	start, done int
}

func newStepTimer(t testing.TB, e *Engine, p train.Problem) *stepTimer {
	pl := newPlan(p)
	r, err := e.runtime(context.Background(), e.threads(pl))
	if err != nil {
		t.Fatal(err)
	}
	tr, err := newTraining(context.Background(), r, pl, hooks{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.close)
	return &stepTimer{training: tr, start: pl.X.Rows}
}

func (s *stepTimer) step(t testing.TB) {
	if s.start+s.batch > s.X.Rows {
		s.feeder.shuffle()
		s.start = 0
	}
	if err := s.training.step(s.full, s.start, s.done); err != nil {
		t.Fatal(err)
	}
	s.start += s.batch
	s.done++
}

// BenchmarkStep measures a step of simultaneous quantile regression. With several models,
// one iteration is a step of all of them.
func BenchmarkStep(b *testing.B) {
	e := open(b)
	for _, c := range benchProblems {
		b.Run(c.name, func(b *testing.B) {
			s := newStepTimer(b, e, benchProblem(c.n, c.d, c.h, c.batch, c.models))
			for b.Loop() {
				s.step(b)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/1e3/float64(b.N*c.models), "µs/model-step")
		})
	}
}

var torch = flag.String("torch", "", "a Python with PyTorch, to compare the time of a step with")

// TestAgainstTorch prints the time of a step in the engine and in PyTorch. Each time is the
// best epoch of several seconds. The engine is measured before and after PyTorch:
//
//	go test ./heads/fit -run AgainstTorch -torch python3 -v
func TestAgainstTorch(t *testing.T) {
	if *torch == "" {
		t.Skip("pass -torch PYTHON to compare with PyTorch")
	}
	e := open(t)
	engineTime := make(map[string]float64)
	measure := func() {
		for _, c := range benchProblems {
			s := newStepTimer(t, e, benchProblem(c.n, c.d, c.h, c.batch, c.models))
			perEpoch := c.n / c.batch
			for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
				began := time.Now()
				for range perEpoch {
					s.step(t)
				}
				us := float64(time.Since(began).Nanoseconds()) / 1e3 / float64(perEpoch*c.models)
				if best, ok := engineTime[c.name]; !ok || us < best {
					engineTime[c.name] = us
				}
			}
		}
	}
	measure()
	out, err := exec.Command(*torch, "testdata/bench_torch.py").Output()
	if err != nil {
		t.Fatal(err)
	}
	measure()
	torchTime := make(map[string]float64)
	for line := range strings.Lines(string(out)) {
		t.Log(strings.TrimSpace(line))
		if name, rest, ok := strings.Cut(line, "\t"); ok {
			us, _, _ := strings.Cut(rest, "\t")
			if torchTime[name], err = strconv.ParseFloat(us, 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range benchProblems {
		name, _, _ := strings.Cut(c.name, ",M=")
		t.Logf("%-24s %8.1f µs a model-step, PyTorch %8.1f µs: %.1f times as fast", c.name, engineTime[c.name], torchTime[name], torchTime[name]/engineTime[c.name])
	}
}

// open returns an engine on the CPU, or skips the test if ONNX Runtime is missing.
func open(t testing.TB) *Engine {
	t.Helper()
	orttest.Open(t)
	e, err := New(context.Background(), Options{Provider: "cpu", NoInstall: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}
