package featurize

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/ood"
)

// Runtime selects the libonnxruntime library that runs a model, and configures it. With the
// zero value, the library is searched for and installed if necessary, and CUDA is used if
// it works.
type Runtime struct {
	Library   string       // path of libonnxruntime; "" searches for it
	NoInstall bool         // never install the library
	Provider  string       // "auto" (also ""), "cpu" or "cuda"
	Device    int          // number of the CUDA device
	Threads   int          // threads within one run; 0 lets ONNX Runtime choose
	Log       *slog.Logger `json:"-"` // nil discards all messages
}

// Options configures Open. The zero value is valid.
type Options struct {
	Runtime

	// Feature names the tensor to use as features φ instead of the one that Open finds. A
	// tensor of rank 4 or more (n×h×…) is averaged over space, and a tensor of rank 3
	// (n×T×h) over its middle axis. If a Transpose node moved axis 1 to the end, all axes
	// between the first and the last are averaged.
	Feature string
	// Task is what the model predicts, if the caller knows. The graph of a network does not
	// always tell. A regressor that reads a table has its inputs and predictions as features.
	// OpenFor ignores Task.
	Task attach.Task
	// Output names the output, or an inner tensor, to use as the model's prediction. By
	// default, it is the first output that comes from a linear layer. If another linear
	// layer computes a later output from this one, the later output is used.
	Output string
	// EarlierLayers is the number of layers before φ that are read in addition. They are
	// spread evenly between the input and φ, and a model may have fewer. Their values are
	// inputs of convolutions and other linear layers, averaged over positions. Layers
	// without positions are read only if no layer before φ has positions. To read specific
	// tensors instead, set Layers to their names.
	EarlierLayers int
	Layers        []string
	// Batch is the largest number of rows in one run. The default is 64, or fewer for large
	// inputs and long rows of tokens. It is 1 for a model of tokens with dynamic
	// quantisation. If the model has a fixed batch, Batch is ignored.
	Batch int
	// Unhashed omits ood.Batch.Hashes. The time for hashes is proportional to the size of a
	// row, about 0.7 ms for an image of 3×224×224. Only Fit, evaluations and audits need
	// hashes, because they look for rows that were used before.
	Unhashed bool
	// KeepInputs makes Attached.Rows and Attached.Run add the model's inputs to the rows, for
	// attach.PredictOptions.Explain. Only OpenFor reads it.
	KeepInputs bool
}

// Model is an opened ONNX model that computes features. It is safe for concurrent use.
type Model struct {
	runtime   *ort.Runtime
	session   *ort.Session
	inputs    inputs
	batchSize int // largest number of rows in one run
	// maxPositions bounds the number of token positions in one run. 0 means no bound.
	maxPositions int
	fixedBatch   bool // whether every run has exactly batchSize rows
	lastLayer    *ood.Linear
	info         Info
	sha256       string
	path         string
	views        []view // views of φ, the logits and the earlier layers
	derived      derivedGraphs
	tokenizer    *textTokenizer // tokenizer, or nil if the model does not take texts
	canPad       bool           // whether rows of tokens may be padded to a common length
	unhashed     bool
	// dropouts is the number of dropout layers before the logits.
	dropouts int
}

// Open reads an ONNX model, finds its last linear layer and prepares the model to run.
// path is the model or an exporter's folder. The folder must contain the model as
// model.onnx, onnx/model.onnx or the only .onnx file. Open needs a linear layer, an output
// of embeddings, columns that replace the layer (see Feature.Of) or Options.Feature.
// Otherwise it returns a *NoLinearLayerError, which lists candidate tensors.
func Open(ctx context.Context, path string, o Options) (*Model, error) {
	path, dir, err := findModel(path)
	if err != nil {
		return nil, err
	}
	exportFiles, err := readFolder(dir)
	if err != nil {
		return nil, err
	}
	return open(ctx, path, exportFiles, o, func(string) error { return nil })
}

// open opens a model and the files beside it. It fails if accept returns an error for the
// model's digest.
func open(ctx context.Context, path string, exportFiles *folder, o Options, accept func(sha256 string) error) (*Model, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	g, err := load(path)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	external, err := g.External()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := onnx.CheckExternal(g.Model, dir); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m := &Model{path: path, unhashed: o.Unhashed}
	if m.sha256, err = onnx.SHA256(ctx, path, external); err != nil {
		return nil, err
	}
	if err := accept(m.sha256); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if m.inputs, err = findInputs(g, dir); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if m.runtime, err = ort.Open(ctx, ort.Options(o.Runtime)); err != nil {
		return nil, err
	}
	s := modelBuilder{constants: newConstants(g, dir, m.runtime, m.inputs...), inputs: m.inputs, exportFiles: exportFiles, log: o.Log}
	if err := m.setUp(ctx, s, o); err != nil {
		m.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if o.Log != nil {
		o.Log.Debug("model opened", "path", path, "feature", m.info.Feature.Tensor, "output", m.info.Output, "exact", m.info.Exact)
	}
	return m, nil
}

// check returns an error if options are invalid or contradict each other.
func (o Options) check() error {
	switch {
	case o.Batch < 0 || o.EarlierLayers < 0:
		return fmt.Errorf("options: Batch is %d and EarlierLayers %d; neither may be negative", o.Batch, o.EarlierLayers)
	case len(o.Layers) > 0 && o.EarlierLayers > 0:
		return fmt.Errorf("options: EarlierLayers is %d, and Layers names %d; set only one of them", o.EarlierLayers, len(o.Layers))
	}
	return nil
}

// setUp finds the tensors to read, opens the session and fills in the fields of m.
func (m *Model) setUp(ctx context.Context, s modelBuilder, o Options) error {
	l, err := s.locate(ctx, o)
	info := s.describe(l)
	m.tokenizer = s.exportFiles.tokenizer(s.inputs)
	if err == nil {
		m.views = l.views()
		m.session, err = s.expose(ctx, m.views)
	}
	var p probeResult
	if err == nil {
		p, err = s.probe(ctx, m.session, l, info, o.Batch)
	}
	if noLayer, ok := errors.AsType[*NoLinearLayerError](err); ok {
		s.exportFiles.describe(&info)
		noLayer.Info, noLayer.Info.Feature = info, nil
		noLayer.Info.Candidates = s.candidates(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err != nil {
		return err
	}
	m.info, m.lastLayer, m.batchSize, m.fixedBatch = p.info, p.lastLayer, p.batchSize, p.info.FixedBatch > 0
	switch tokens := s.inputs.byRole(tokenIDs) != nil; {
	case o.Batch > 0:
	case tokens && s.sharesScale():
		m.batchSize = 1
	default:
		m.maxPositions = forwardPositions
	}
	if m.canPad = m.testPadding(ctx, s); ctx.Err() != nil {
		return ctx.Err()
	}
	s.exportFiles.describe(&m.info)
	// An error of findDropLayers does not matter here, because Dropout returns it later.
	if layers, err := findDropLayers(s.graph, s.dir, l.logits); err == nil {
		m.dropouts = len(layers)
	}
	return nil
}

// Inspect opens a model and returns its Info. If Open returns a NoLinearLayerError,
// Inspect returns an Info without a Feature, and no error.
func Inspect(ctx context.Context, path string, o Options) (Info, error) {
	m, err := Open(ctx, path, o)
	if noLayer, ok := errors.AsType[*NoLinearLayerError](err); ok {
		return noLayer.Info, nil
	}
	if err != nil {
		return Info{}, err
	}
	defer m.Close()
	return m.Info(), nil
}

// Info returns a description of the model.
func (m *Model) Info() Info { return m.info }

// Last returns the last layer, logits = φ·Weightᵀ + Bias, or nil if its weights are
// unknown or it does not read φ. The caller must not change it. Info.Exact reports whether
// the equation is exact.
func (m *Model) Last() *ood.Linear { return m.lastLayer }

// InputShape returns the shape of one row of the only required input, without the batch
// axis. If several inputs are required, it returns the shape of the first input that takes
// images. A size of −1 may vary. The result is nil if the shape is unknown, or if none of
// several inputs takes images. Info.Inputs lists all inputs.
func (m *Model) InputShape() []int {
	i := slices.IndexFunc(m.inputs, func(in input) bool { return !in.isOptional() })
	in := &m.inputs[i]
	if m.inputs.requiredCount() > 1 {
		in = m.inputs.imageInput()
	}
	if in == nil || in.dims == nil {
		return nil
	}
	return slices.Clone(in.dims[1:])
}

// Base describes the model for a .attach file, so that OpenFor can read the same tensors
// again.
func (m *Model) Base(task attach.Task) attach.Base {
	multiLabel := m.info.Normaliser == "Sigmoid" || m.info.MultiLabel
	b := attach.Base{
		Path: m.path, SHA256: m.sha256, Task: task, Feature: m.info.Feature.Tensor, Output: m.info.Output, Layers: m.info.Layers,
		Sigmoid:      task == attach.Classification && multiLabel && m.info.OutputsWidth > 1,
		Standardised: m.info.Feature.Standardised, Residual: m.info.Feature.Of != nil && task == attach.Regression,
		ClassNumbers: m.info.ClassNumbers,
	}
	for i, in := range m.inputs {
		b.Inputs = append(b.Inputs, attach.Input{Name: in.name, DType: m.info.Inputs[i].DType, Shape: slices.Clone(in.dims), Optional: in.isOptional(), NaN: in.acceptsNaN})
	}
	return b
}

// Close frees the model. The caller must make sure that no run is in progress.
func (m *Model) Close() error {
	errs := []error{m.session.Close(), m.derived.close()}
	if m.runtime != nil {
		errs = append(errs, m.runtime.Close())
		m.runtime = nil
	}
	return errors.Join(errs...)
}
