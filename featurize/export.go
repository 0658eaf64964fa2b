package featurize

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// ExportOptions configures Export. The zero value takes the bundle's model, levels
// and rates.
type ExportOptions struct {
	Options // only how the model is run, to see how it is read
	// Model is where the model is, as OpenFor takes it.
	Model string
	// OnlyHeads asks for a graph that takes features, logits and earlier layers, under
	// these names (layer_0, layer_1 …), in place of the model's inputs.
	OnlyHeads bool
	// Sets ranks the classes of sets as attach.PredictOptions.Sets does: "lac" (also ""),
	// "aps", "raps" or "saps"; "none" asks for no sets.
	Sets string
	// Alpha and Level are what the graph's optional inputs are where nobody gives
	// them; 0 is the bundle's.
	Alpha, Level float64
}

// Exported is what Export wrote.
type Exported struct {
	// Data is the file beside the model that holds its weights, or empty.
	Data string
	// Outputs are the names of the outputs that were added, Inputs those of the
	// optional inputs.
	Outputs, Inputs []string
	// Notes say what was left out or changed, and why.
	Notes []string
}

// Export writes an ONNX model to path that is the one that a bundle was fitted on
// with what the bundle says of rows as further outputs, tensors all. They are
// named in docs/guides/export.md. Their arithmetic is Predictor.Predict's on the very
// features that Attached makes of rows. Nothing is written where a method has no
// graph: its error says why. Nor is it over the bundle's own model, its weights or
// a bundle.
func Export(ctx context.Context, b *attach.Bundle, path string, o ExportOptions) (Exported, error) {
	if err := spares(cmp.Or(o.Model, b.Base.Path), path); err != nil {
		return Exported{}, err
	}
	e := exporting{bundle: b, o: graphOptions{alpha: o.Alpha, level: o.Level, sets: o.Sets, rows: "rows"}}
	var err error
	if o.OnlyHeads {
		e.to = onnx.NewBuilder("attach", headsOpset)
		e.to.Note("attach.heads_only", "true")
	} else {
		err = e.base(ctx, o)
	}
	if err != nil {
		return e.done, err
	}
	left, err := writeGraph(b, e.to, e.rows, e.o)
	if err != nil {
		return e.done, err
	}
	for _, what := range left {
		e.done.Notes = append(e.done.Notes, "left out: "+what)
	}
	m, err := e.to.Model()
	if err != nil {
		return e.done, err
	}
	own := func(list []*pb.ValueInfoProto) (names []string) {
		for _, v := range list {
			if strings.HasPrefix(v.GetName(), ownPrefix) {
				names = append(names, v.GetName())
			}
		}
		return names
	}
	e.done.Outputs, e.done.Inputs = own(m.GetGraph().GetOutput()), own(m.GetGraph().GetInput())
	e.done.Data, err = onnx.Save(ctx, m, e.dir, path)
	return e.done, err
}

// spares refuses to write over what is needed yet: a bundle, the model, or the files
// of its weights.
func spares(model, path string) error {
	var reads []os.FileInfo
	for _, out := range []string{path, path + onnx.DataSuffix} {
		at, err := os.Stat(out)
		if err != nil {
			continue
		}
		if _, err := attach.Open(out); err == nil || errors.Is(err, attach.ErrUnknownMethod) {
			return fmt.Errorf("the export would replace the bundle %s: write to another file", out)
		}
		if reads == nil {
			reads = filesOf(model)
		}
		if slices.ContainsFunc(reads, func(r os.FileInfo) bool { return os.SameFile(r, at) }) {
			return fmt.Errorf("the export would replace %s, which the bundle's model reads: write to another file", out)
		}
	}
	return nil
}

// filesOf are those of the files of a model that are there.
func filesOf(path string) (files []os.FileInfo) {
	path, _, err := findModel(path)
	if err != nil {
		return nil // whoever reads it says why it cannot be read
	}
	names := []string{path}
	if g, err := load(path); err == nil {
		outside, _ := g.External()
		for _, name := range outside {
			names = append(names, filepath.Join(filepath.Dir(path), name))
		}
	}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil {
			files = append(files, info)
		}
	}
	return files
}

const (
	// ownPrefix begins the names of the outputs and optional inputs that are added.
	ownPrefix = "attach."
	// rowsPrefix begins those of the tensors that rows are read from.
	rowsPrefix = "attach/rows/"
)

// exporting is a graph that a bundle is written to.
type exporting struct {
	bundle *attach.Bundle
	o      graphOptions
	to     *onnx.Builder
	rows   graph.Batch // none of heads alone
	dir    string      // of external data
	done   Exported
}

// headsOpset is the operator set of a graph without a model.
const headsOpset = 17

// base begins with the model, and the tensors of it that rows are read from.
func (e *exporting) base(ctx context.Context, o ExportOptions) error {
	a, err := OpenFor(ctx, e.bundle, o.Model, o.Options)
	if err != nil {
		return err
	}
	defer a.Close()
	g, err := load(a.path)
	if err != nil {
		return err
	}
	e.dir = filepath.Dir(a.path)
	for _, v := range append(g.Outputs(), g.Model.GetGraph().GetInput()...) {
		if strings.HasPrefix(v.GetName(), ownPrefix) {
			return fmt.Errorf("%s has %s already: export from the model that it was made of", a.path, v.GetName())
		}
	}
	if err := e.raise(g); err != nil {
		return fmt.Errorf("%s: %w", a.path, err)
	}
	e.tensors(g)
	body := g.Model.GetGraph()
	names := []string{rowsPrefix + "features", rowsPrefix + "logits"}
	for i := range a.views[2:] {
		names = append(names, rowsPrefix+batchparts.Layer(i))
	}
	for i, v := range a.views {
		if i == 1 && a.info.Logits == "" {
			continue
		}
		body.Node = append(body.Node, v.nodes(names[i])...)
	}
	in := a.Model.inputs[0]
	if n := a.Model.inputs.fixedBatch(); n > 0 {
		e.o.rows = n
	} else if len(in.axes) > 0 && in.axes[0] != "" {
		e.o.rows = in.axes[0]
	}
	e.to = onnx.Extend(g.Model)
	of := func(i, width int) graph.Tensor {
		return graph.Of(e.to, names[i], pb.TensorProto_FLOAT, width)
	}
	e.rows.Features = of(0, e.bundle.Base.Width)
	if a.info.Logits != "" {
		e.rows.Logits = of(1, cmp.Or(e.bundle.Base.Outputs, a.info.OutputsWidth))
	}
	for i, l := range e.bundle.Base.Layers {
		e.rows.Layers = append(e.rows.Layers, of(2+i, l.Width))
	}
	version := int64(0)
	for _, set := range g.Model.GetOpsetImport() {
		if set.GetDomain() == classical {
			version = set.GetVersion()
		}
	}
	e.rows.Gaps = a.Model.inputs.writeGaps(e.to, version)
	return nil
}

// leastOpset is the oldest operator set that has all that is added, and leastIR the
// version of the format that knows inputs with defaults.
const leastOpset, leastIR = 9, 4

// raise has a model take what is added: an older operator set becomes the oldest
// that does, where the model's nodes mean the same in it.
func (e *exporting) raise(g *onnx.Graph) error {
	m := g.Model
	if old := g.Opset(); old < leastOpset {
		changed := []string{"Upsample", "Scan"} // to which sets 8 and 9 gave another form
		stuck := func(n *pb.NodeProto) bool {
			return onnx.IsDefault(n.GetDomain()) && (slices.Contains(changed, n.GetOpType()) || onnx.AttributeInt(n, "spatial", 1) == 0)
		}
		if at := slices.IndexFunc(m.GetGraph().GetNode(), stuck); old < 7 || at >= 0 {
			return fmt.Errorf("it is of operator set %d and what is added needs %d, in which it would mean something else: export the model anew in a later one, and fit to that", old, leastOpset)
		}
		for _, i := range m.GetOpsetImport() {
			if onnx.IsDefault(i.GetDomain()) {
				i.Version = new(int64(leastOpset))
			}
		}
		e.done.Notes = append(e.done.Notes, fmt.Sprintf("the model's operator set %d became %d", old, leastOpset))
	}
	if old := m.GetIrVersion(); old < leastIR {
		// Initializers were inputs too, and no longer need be.
		body := m.GetGraph()
		body.Input = g.Inputs()
		m.IrVersion = new(int64(leastIR))
		e.done.Notes = append(e.done.Notes, fmt.Sprintf("the model's IR version %d became %d", old, leastIR))
	}
	return nil
}

// tensors gives out what a ZipMap is made of in place of its maps, which many
// runtimes cannot return.
func (e *exporting) tensors(g *onnx.Graph) {
	for i, v := range g.Outputs() {
		n := g.Producer(v.GetName())
		if n == nil || n.GetOpType() != "ZipMap" || len(n.GetInput()) != 1 {
			continue
		}
		n.OpType, n.Domain, n.Attribute = new("Identity"), nil, nil
		g.Outputs()[i] = onnx.ValueInfo(v.GetName(), pb.TensorProto_FLOAT, -1, -1)
		e.done.Notes = append(e.done.Notes, fmt.Sprintf("the output %q is a tensor of probabilities, and was a sequence of maps", v.GetName()))
	}
}
