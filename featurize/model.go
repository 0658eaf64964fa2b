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

// Runtime says which libonnxruntime runs a network, and how. The zero value
// finds the library, or installs it, and uses CUDA where that works.
type Runtime struct {
	Library   string       // path of libonnxruntime; "" searches for one
	NoInstall bool         // never install the library
	Provider  string       // "auto" (also ""), "cpu" or "cuda"
	Device    int          // number of the CUDA device
	Threads   int          // threads within one run; 0 is the runtime's choice
	Log       *slog.Logger `json:"-"` // nil discards
}

// Options configures Open. The zero value works.
type Options struct {
	Runtime

	// Feature names the tensor to use as φ instead of the one found. A tensor
	// of rank 4 or more (n×h×…) is averaged over space, one of rank 3 (n×T×h)
	// over its middle axis.
	Feature string
	// Output names the output, or an inner tensor, to use as the network's
	// answer. By default it is the first whose walk back finds a linear layer,
	// unless a later one is made from it by a further linear layer.
	Output string
	// EarlierLayers is how many layers before φ to read too, spread evenly
	// between the input and φ; a network may have fewer. 0 reads none. Layers
	// names them instead, by their tensors. What is read is what convolutions
	// and other linear layers read, averaged over positions; vectors only where
	// nothing before φ has positions.
	EarlierLayers int
	Layers        []string
	// Batch is the number of rows in one run: 64 by default, less for large
	// inputs and long rows of tokens. A model with a fixed batch overrides it.
	Batch int
	// Unhashed leaves out ood.Batch.Hashes, which cost time in proportion to the size of
	// a row: about 0.7 ms for an image of 3×224×224. Only Fit, evaluations and audits read
	// them, to find rows that were used before.
	Unhashed bool
}

// Model is a network that gives features. It is safe for concurrent use.
type Model struct {
	rt      *ort.Runtime
	session *ort.Session
	inputs  inputs
	batch   int // rows in one run
	// positions bounds those of a run of rows of tokens, or is 0 where the caller
	// says how many rows there are in one.
	positions int
	fixed     bool // every run has exactly that many
	last      *ood.Linear
	info      Info
	sha       string
	path      string
	views     []view // φ, the logits and earlier layers
	derived   derived
	texts     *texts // nil where the model does not read them
	pads      bool   // rows of tokens may be filled up to one length
	unhashed  bool
	// dropouts is the number of dropout layers before the logits.
	dropouts int
}

// Open reads an ONNX model, finds its last linear layer and makes it ready to
// run. Path is the model or the folder that an exporter wrote it to, with the
// model as model.onnx, as onnx/model.onnx or as the only .onnx file. Without a
// linear layer, columns to take in its place (see Feature.Of) or Options.Feature,
// its error is a *NoLinearLayerError, which lists the tensors that could serve.
func Open(ctx context.Context, path string, o Options) (*Model, error) {
	path, dir, err := findModel(path)
	if err != nil {
		return nil, err
	}
	beside, err := readFolder(dir)
	if err != nil {
		return nil, err
	}
	return open(ctx, path, beside, o, func(string) error { return nil })
}

// open is Open of a model and what lies beside it, unless accept refuses the
// model's digest.
func open(ctx context.Context, path string, beside *folder, o Options, accept func(sha256 string) error) (*Model, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	g, err := load(path)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	files, err := g.External()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := onnx.CheckExternal(g.Model, dir); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m := &Model{path: path, unhashed: o.Unhashed}
	if m.sha, err = onnx.SHA256(ctx, path, files); err != nil {
		return nil, err
	}
	if err := accept(m.sha); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if m.inputs, err = findInputs(g, dir); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if m.rt, err = ort.Open(ctx, ort.Options(o.Runtime)); err != nil {
		return nil, err
	}
	s := source{constants: newConstants(g, dir, m.rt, m.inputs...), inputs: m.inputs, beside: beside, log: o.Log}
	if err := m.read(ctx, s, o); err != nil {
		m.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if o.Log != nil {
		o.Log.Debug("model opened", "path", path, "feature", m.info.Feature.Tensor, "output", m.info.Output, "exact", m.info.Exact)
	}
	return m, nil
}

// check refuses options that nothing would heed.
func (o Options) check() error {
	switch {
	case o.Batch < 0 || o.EarlierLayers < 0:
		return fmt.Errorf("options: runs of %d rows and %d earlier layers cannot be", o.Batch, o.EarlierLayers)
	case len(o.Layers) > 0 && o.EarlierLayers > 0:
		return fmt.Errorf("options: %d earlier layers are asked for, and %d named: give one of them", o.EarlierLayers, len(o.Layers))
	}
	return nil
}

// read fills in what is read of a network, and how.
func (m *Model) read(ctx context.Context, s source, o Options) error {
	l, err := s.locate(ctx, o)
	info := s.describe(l)
	m.texts = s.beside.texts(s.inputs)
	if err == nil {
		m.views = l.views()
		m.session, err = s.expose(ctx, m.views)
	}
	var p probed
	if err == nil {
		p, err = s.probe(ctx, m.session, l, info, o.Batch)
	}
	if none, ok := errors.AsType[*NoLinearLayerError](err); ok {
		s.beside.describe(&info)
		none.Info, none.Info.Feature = info, nil
		none.Info.Candidates = s.candidates(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err != nil {
		return err
	}
	m.info, m.last, m.batch, m.fixed = p.info, p.last, p.batch, p.info.FixedBatch > 0
	switch tokens := s.inputs.withRole(tokenIDs) != nil; {
	case o.Batch > 0:
	case tokens && s.scalesTogether():
		m.batch = 1
	default:
		m.positions = forwardPositions
	}
	if m.pads = m.mayPad(ctx, s); ctx.Err() != nil {
		return ctx.Err()
	}
	s.beside.describe(&m.info)
	// An error is one for who asks for dropout.
	if layers, err := dropLayers(s.g, s.dir, l.logits); err == nil {
		m.dropouts = len(layers)
	}
	return nil
}

// Inspect is Open for who only wants to know: that no linear layer was found
// is not an error here, but an Info without Feature.
func Inspect(ctx context.Context, path string, o Options) (Info, error) {
	m, err := Open(ctx, path, o)
	if none, ok := errors.AsType[*NoLinearLayerError](err); ok {
		return none.Info, nil
	}
	if err != nil {
		return Info{}, err
	}
	defer m.Close()
	return m.Info(), nil
}

// Info says what the model is and what was found in it.
func (m *Model) Info() Info { return m.info }

// Last returns the last layer, logits = φ·Weightᵀ + Bias, or nil where its
// weights are not known. It is to be read only. See Info.Exact.
func (m *Model) Last() *ood.Linear { return m.last }

// InputShape returns the shape of one row of the only input that rows must bring, or
// of the first of several that takes images, without the batch; −1 varies, and nil is
// unknown. Info.Inputs has all.
func (m *Model) InputShape() []int {
	i := slices.IndexFunc(m.inputs, func(in input) bool { return !in.optional() })
	in := &m.inputs[i]
	if m.inputs.required() > 1 {
		in = m.inputs.images()
	}
	if in == nil || in.dims == nil {
		return nil
	}
	return slices.Clone(in.dims[1:])
}

// Base is what a bundle says of the model: Attached reads the same tensors.
func (m *Model) Base(task attach.Task) attach.Base {
	several := m.info.Normaliser == "Sigmoid" || m.info.MultiLabel
	b := attach.Base{
		Path: m.path, SHA256: m.sha, Task: task, Feature: m.info.Feature.Tensor, Output: m.info.Output, Layers: m.info.Layers,
		Sigmoid:      task == attach.Classification && several && m.info.OutputsWidth > 1,
		Standardised: m.info.Feature.Standardised, Residual: m.info.Feature.Of != nil && task == attach.Regression,
		ClassNumbers: m.info.ClassNumbers,
	}
	for i, in := range m.inputs {
		b.Inputs = append(b.Inputs, attach.Input{Name: in.name, DType: m.info.Inputs[i].DType, Shape: slices.Clone(in.dims), Optional: in.optional(), NaN: in.nan})
	}
	return b
}

// Close frees the model. Nothing may be running.
func (m *Model) Close() error {
	errs := []error{m.session.Close(), m.derived.close()}
	if m.rt != nil {
		errs = append(errs, m.rt.Close())
		m.rt = nil
	}
	return errors.Join(errs...)
}
