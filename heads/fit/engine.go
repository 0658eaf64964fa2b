package fit

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
)

// Options configures where training runs. The zero value finds or installs the library and
// uses CUDA if it works. It chooses the number of threads by the size of a step. A
// featurize.Runtime converts to Options.
type Options struct {
	Library   string       // path of libonnxruntime; "" searches for it
	NoInstall bool         // never install the library
	Provider  string       // "auto" (also ""), "cpu" or "cuda"
	Device    int          // number of the CUDA device
	Threads   int          // threads per operator; 0 means 1 for small steps and otherwise the runtime's choice
	Log       *slog.Logger // destination of log messages; nil discards them
}

// Engine trains networks in ONNX Runtime. It implements train.Trainer, and is safe for
// concurrent use.
type Engine struct {
	options  Options
	mu       sync.Mutex
	runtimes map[int]*ort.Runtime // open runtimes by number of threads
	closed   bool
}

var _ train.Trainer = (*Engine)(nil)

// New returns an engine and opens ONNX Runtime.
func New(ctx context.Context, o Options) (*Engine, error) {
	e := &Engine{options: o, runtimes: make(map[int]*ort.Runtime)}
	if _, err := e.runtime(ctx, o.Threads); err != nil {
		return nil, err
	}
	return e, nil
}

// Close releases ONNX Runtime. The caller must wait until no training is running.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, r := range e.runtimes {
		errs = append(errs, r.Close())
	}
	e.runtimes, e.closed = nil, true
	return errors.Join(errs...)
}

// runtime returns an ONNX Runtime whose sessions have the given number of threads.
func (e *Engine) runtime(ctx context.Context, threads int) (*ort.Runtime, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errors.New("the training engine is closed")
	}
	if r := e.runtimes[threads]; r != nil {
		return r, nil
	}
	o := e.options
	o.Threads = threads
	for _, open := range e.runtimes {
		o.Library = open.Library().Path
	}
	r, err := ort.Open(ctx, ort.Options(o))
	if err != nil {
		return nil, err
	}
	e.runtimes[threads] = r
	return r, nil
}

// Train implements train.Trainer. If the loss or the weights of a model become infinite or
// NaN, the error is a *train.DivergedError. If X or Y contains NaN or an infinity, the
// error names the row. If the context is cancelled, Train returns the error of the context.
// Train does not copy X and Y as a whole, so the caller must not change them during the
// call.
//
// If all models together need more than a gigabyte, Train divides them into groups, and
// trains one group after another.
//
// The same problem gives the same weights on the same machine with the same number of
// threads.
func (e *Engine) Train(ctx context.Context, p train.Problem) ([]train.Network, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := check(p); err != nil {
		return nil, err
	}
	group := groupSize(p)
	rounds := (len(p.Models) + group - 1) / group
	var networks []train.Network
	for models := range slices.Chunk(p.Models, group) {
		q := p
		q.Models = models
		q.Progress = rows.Progress(p.Progress).Part(len(networks)/group, rounds)
		trained, err := e.train(ctx, newPlan(q))
		if diverged, ok := errors.AsType[*train.DivergedError](err); ok {
			diverged.Model += len(networks)
		}
		if err != nil {
			return nil, err
		}
		networks = append(networks, trained...)
	}
	return networks, nil
}

func (e *Engine) train(ctx context.Context, p *plan) ([]train.Network, error) {
	r, err := e.runtime(ctx, e.threads(p))
	if err != nil {
		return nil, err
	}
	t, err := newTraining(ctx, r, p, hooks{})
	if err != nil {
		return nil, err
	}
	defer t.close()
	return t.run(ctx)
}

// smallStep is the number of multiplications in a step below which a second thread costs
// more time than it saves.
const smallStep = 2 << 20

func (e *Engine) threads(p *plan) int {
	if e.options.Threads != 0 {
		return e.options.Threads
	}
	work := 0
	for _, q := range p.params {
		work += 3 * p.models * p.batch * q.size()
	}
	if p.drawsNoise() {
		work *= 4
	}
	if work < smallStep {
		return 1
	}
	return 0
}

// groupSize returns the number of models to train together, so that they fit into memory.
func groupSize(p train.Problem) int {
	const limit = 1 << 30 // bytes
	all := p.Models
	p.Models = all[:1]
	single := newPlan(p)
	// 16 vectors are enough for the weights and two moments before and after a step, the
	// gradients, the hyper-parameters, the averages, and the weights that validation
	// evaluates and keeps.
	floats := 16 * single.flat
	// Each row of a batch needs memory for its input, and for the value, mask and gradients
	// of each layer.
	perRow := single.width + single.targets + 4*p.Outputs
	for _, h := range p.Hidden {
		perRow += 5 * h
	}
	if slices.ContainsFunc(all, func(m train.ModelConfig) bool { return m.GradientPenalty > 0 || m.Diversity > 0 }) {
		perRow *= 5 // also rows of noise, points between rows, and second derivatives
	}
	floats += single.batch*perRow + single.n // single.n is for the order of rows
	return min(max(limit/(4*floats), 1), len(all))
}
