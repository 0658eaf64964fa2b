// Package sweep times a sweep of simultaneous quantile regression, all seeds by
// the paper's 15 settings, as one run of the step engine, and the same sweep in
// PyTorch: one network after another, and all as one batched network.
package sweep

import (
	"bytes"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/attach-uncertainty/attach/heads/train"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/uci"
)

// Experiment is what the command runs.
var Experiment = experiment.Experiment{
	Name:   "sweep-speed",
	Doc:    "time of a sweep over seeds and settings, beside PyTorch's",
	Shared: []string{"data", "sets", "seeds", "epochs", "ort-lib"},
	New: func(flags *flag.FlagSet, shared *experiment.Settings) func(ctx context.Context) error {
		s := &settings{Settings: shared}
		flags.StringVar(&s.python, "python", "", "a `Python` with PyTorch, to compare with")
		return s.run
	},
}

type settings struct {
	*experiment.Settings
	python string
}

//go:embed sweep.py
var sweepScript []byte

func (s *settings) run(ctx context.Context) error {
	if s.Sets == nil {
		s.Sets = []string{"concrete"}
	}
	if s.Epochs == 0 {
		s.Epochs = 20
	}
	sets, err := uci.ByName(s.Sets)
	if err != nil {
		return err
	}
	for _, set := range sets {
		data, err := set.Read(ctx, s.Data)
		if err != nil {
			return err
		}
		x, y := experiment.Standardised(data.X), experiment.Standardised(data.Y)
		if err := s.sweepOne(ctx, set.Name, x, y); err != nil {
			return err
		}
	}
	return nil
}

// timing is one line of the comparison.
type timing struct {
	seconds, loss float64
	note          string
}

func (s *settings) sweepOne(ctx context.Context, name string, x, y blas32.General) error {
	p := train.Problem{
		X: x, Y: y, Hidden: []int{64}, Outputs: 1, Loss: "pinball", Conditional: true, Epochs: s.Epochs, BatchSize: 64,
	}
	for seed := range s.Seeds {
		for _, rate := range []float64{1e-2, 1e-3, 1e-4} {
			for _, decay := range []float64{0, 1e-3, 1e-2, 1e-1, 1} {
				p.Models = append(p.Models, train.ModelConfig{Seed: uint64(seed), LearningRate: rate, WeightDecay: decay})
			}
		}
	}
	fmt.Fprintf(s.Stdout, "%s: %d rows × %d columns, %d models, %d epochs\n", name, x.Rows, x.Cols, len(p.Models), s.Epochs)
	ours, err := s.timeEngine(ctx, p)
	if err != nil {
		return err
	}
	var theirs map[string]timing
	if s.python != "" {
		if theirs, err = s.timePyTorch(ctx, x, y); err != nil {
			return err
		}
		// Once more, so that neither side has the machine to itself by chance.
		again, err := s.timeEngine(ctx, p)
		if err != nil {
			return err
		}
		ours.seconds = min(ours.seconds, again.seconds)
	}
	steps := float64(len(p.Models) * s.Epochs * ((x.Rows + 63) / 64))
	show := func(what string, t timing) {
		fmt.Fprintf(s.Stdout, "  %-28s %8.2f s  %7.1f µs a model-step  mean pinball %.4f  ratio %5.2f  %s\n",
			what, t.seconds, 1e6*t.seconds/steps, t.loss, t.seconds/ours.seconds, t.note)
	}
	show("one run of the step engine", ours)
	for _, what := range []string{"loop", "batched"} {
		if t, ok := theirs[what]; ok {
			show("PyTorch, "+what, t)
		}
	}
	return nil
}

func (s *settings) timeEngine(ctx context.Context, p train.Problem) (timing, error) {
	best := timing{seconds: math.Inf(1)}
	for range 2 {
		began := time.Now()
		networks, err := s.Trainer.Train(ctx, p)
		if err != nil {
			return best, err
		}
		best.seconds = min(best.seconds, time.Since(began).Seconds())
		best.loss = 0
		for _, n := range networks {
			best.loss += n.Loss / float64(len(networks))
		}
	}
	return best, nil
}

// timePyTorch runs the script and reads its lines: what, seconds, loss, note.
func (s *settings) timePyTorch(ctx context.Context, x, y blas32.General) (map[string]timing, error) {
	dir, err := os.MkdirTemp("", "sweep")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for name, m := range map[string]blas32.General{"x.npy": x, "y.npy": y} {
		var b bytes.Buffer
		if err := npy.Write(&b, rows.ArrayOf(m)); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644); err != nil {
			return nil, err
		}
	}
	cmd := exec.CommandContext(ctx, s.python, "-", dir, strconv.Itoa(s.Seeds), strconv.Itoa(s.Epochs))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(sweepScript), s.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run PyTorch with %s: %w", s.python, err)
	}
	times := map[string]timing{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 4 {
			return nil, fmt.Errorf("PyTorch's script printed %q, want four fields", line)
		}
		t := timing{note: fields[3]}
		var errs [2]error
		t.seconds, errs[0] = strconv.ParseFloat(fields[1], 64)
		t.loss, errs[1] = strconv.ParseFloat(fields[2], 64)
		if errs[0] != nil || errs[1] != nil {
			return nil, fmt.Errorf("PyTorch's script printed %q, want numbers", line)
		}
		times[fields[0]] = t
	}
	return times, nil
}
