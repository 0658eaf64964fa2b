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

// ExportOptions configures Export. With the zero value, Export uses the model, levels and
// rates that the .attach file stores.
type ExportOptions struct {
	Options // how the model is run for inspection; this does not affect the exported model
	// Model is the path of the model. OpenFor explains which paths are possible.
	Model string
	// OnlyHeads exports only the heads: the detector and the interval model, without the
	// original model. The inputs of this graph are those of features, logits, gaps (marks
	// of empty cells) and the earlier layers layer_0, layer_1, … that the .attach file
	// needs.
	OnlyHeads bool
	// Sets selects how classes are ranked for prediction sets: "lac" (also ""), "aps",
	// "raps" or "saps". See attach.PredictOptions.Sets. "none" exports no sets.
	Sets string
	// Only lists the outputs to add, for example "attach.p_value". Empty means all. ONNX
	// Runtime computes all outputs of a model, even if a program asks for a few.
	Only []string
	// Alpha and Level are the default values of the graph's optional inputs. 0 means the
	// value that the .attach file stores.
	Alpha, Level float64
}

// Exported describes what Export wrote.
type Exported struct {
	// Data is the path of the file that holds the model's weights, if they are stored
	// outside the model. Otherwise it is empty.
	Data string
	// Outputs lists the names of the added outputs. Inputs lists the names of the added
	// optional inputs.
	Outputs, Inputs []string
	// Notes lists what was left out or changed, with reasons.
	Notes []string
}

// Export writes an ONNX model to path. Unless o.OnlyHeads is set, the written model
// contains the model that the .attach file was fitted on. It returns the results of the
// detector and the interval model as additional outputs. These outputs are tensors, and
// docs/guides/export.md describes them. They agree with Predictor.Predict on the features
// from Attached. If a method cannot be expressed as a graph, Export writes nothing and
// returns an error with the reason. However, if only the interval model cannot be expressed
// and there is a detector, Export leaves out the intervals. Export refuses to overwrite the
// original model, its weights or a .attach file. It also refuses a bundle whose calibration
// rows have weights, because the graph cannot compute the weights of rows yet.
func Export(ctx context.Context, b *attach.Bundle, path string, o ExportOptions) (Exported, error) {
	if err := checkOverwrite(cmp.Or(o.Model, b.Base.Path), path); err != nil {
		return Exported{}, err
	}
	if b.Calibration.Weights != nil {
		return Exported{}, errors.New("an exported model cannot compute the weight of each row; predict with the .attach file, or fit without FitOptions.TargetRows")
	}
	e := exporter{bundle: b, opts: graphOptions{alpha: o.Alpha, level: o.Level, sets: o.Sets, rowAxis: "rows"}}
	e.opts.noIntervals = len(o.Only) > 0 && !slices.ContainsFunc(o.Only, func(name string) bool {
		return name == graph.QuantilesOut || name == graph.Lower || name == graph.Upper
	})
	var err error
	if o.OnlyHeads {
		e.builder = onnx.NewBuilder("attach", headsOpset)
		e.builder.AddMetadata("attach.heads_only", "true")
	} else {
		err = e.addModel(ctx, o)
	}
	if err != nil {
		return e.result, err
	}
	omitted, err := writeGraph(b, e.builder, e.rows, e.opts)
	if err != nil {
		return e.result, err
	}
	for _, what := range omitted {
		e.result.Notes = append(e.result.Notes, "left out: "+what)
	}
	if err := e.keepOnly(o.Only); err != nil {
		return e.result, err
	}
	m, err := e.builder.Model()
	if err != nil {
		return e.result, err
	}
	e.result.Outputs, e.result.Inputs = addedNames(m.GetGraph().GetOutput()), addedNames(m.GetGraph().GetInput())
	e.result.Data, err = onnx.Save(ctx, m, e.dir, path)
	return e.result, err
}

// keepOnly removes the added outputs that are not in the list, unless the list is empty.
func (e *exporter) keepOnly(list []string) error {
	if len(list) == 0 {
		return nil
	}
	all := addedNames(e.builder.Graph().GetOutput())
	for _, name := range list {
		if !slices.Contains(all, name) {
			return fmt.Errorf("the export has no output %s: choose from %s", name, strings.Join(all, ", "))
		}
	}
	e.builder.KeepOutputs(func(name string) bool { return !slices.Contains(all, name) || slices.Contains(list, name) })
	return nil
}

// addedNames returns the names in a list of inputs or outputs that Export adds.
func addedNames(list []*pb.ValueInfoProto) (names []string) {
	for _, v := range list {
		if strings.HasPrefix(v.GetName(), ownPrefix) {
			names = append(names, v.GetName())
		}
	}
	return names
}

// checkOverwrite returns an error if the export would overwrite a .attach file, the model or the
// model's weights.
func checkOverwrite(model, path string) error {
	var originals []os.FileInfo
	for _, out := range []string{path, path + onnx.DataSuffix} {
		info, err := os.Stat(out)
		if err != nil {
			continue
		}
		if _, err := attach.Open(out); err == nil || errors.Is(err, attach.ErrUnknownMethod) {
			return fmt.Errorf("the export would replace %s, which is a .attach file: write to another file", out)
		}
		if originals == nil {
			originals = modelFiles(model)
		}
		if slices.ContainsFunc(originals, func(r os.FileInfo) bool { return os.SameFile(r, info) }) {
			return fmt.Errorf("the export would replace %s, which belongs to the original model: write to another file", out)
		}
	}
	return nil
}

// modelFiles returns the files of a model that exist: the model itself and its external
// weights.
func modelFiles(path string) (files []os.FileInfo) {
	path, _, err := findModel(path)
	if err != nil {
		return nil // the caller gets this error when it reads the model
	}
	names := []string{path}
	if g, err := load(path); err == nil {
		external, _ := g.External()
		for _, name := range external {
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
	// ownPrefix starts the names of the added outputs and the optional inputs.
	ownPrefix = "attach."
	// rowsPrefix starts the names of the tensors that hold features, logits, earlier
	// layers and marks of empty cells.
	rowsPrefix = "attach/rows/"
)

// exporter is an export in progress: the .attach file and the graph that it is written to.
type exporter struct {
	bundle  *attach.Bundle
	opts    graphOptions
	builder *onnx.Builder
	rows    graph.Batch // empty if the graph does not contain the model
	dir     string      // folder of the model's external weights
	result  Exported
}

// headsOpset is the operator set of an exported graph that does not contain the model.
const headsOpset = 17

// addModel starts the graph with the model's nodes, and adds the tensors that hold features,
// logits and earlier layers.
func (e *exporter) addModel(ctx context.Context, o ExportOptions) error {
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
			return fmt.Errorf("%s already has %s: export from the original model", a.path, v.GetName())
		}
	}
	if err := e.raiseVersions(g); err != nil {
		return fmt.Errorf("%s: %w", a.path, err)
	}
	e.replaceZipMaps(g)
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
		e.opts.rowAxis = n
	} else if len(in.axes) > 0 && in.axes[0] != "" {
		e.opts.rowAxis = in.axes[0]
	}
	e.builder = onnx.Extend(g.Model)
	tensorOf := func(i, width int) graph.Tensor {
		return graph.Wrap(e.builder, names[i], pb.TensorProto_FLOAT, width)
	}
	e.rows.Features = tensorOf(0, e.bundle.Base.Width)
	if a.info.Logits != "" {
		e.rows.Logits = tensorOf(1, cmp.Or(e.bundle.Base.Outputs, a.info.OutputsWidth))
	}
	for i, l := range e.bundle.Base.Layers {
		e.rows.Layers = append(e.rows.Layers, tensorOf(2+i, l.Width))
	}
	version := int64(0)
	for _, set := range g.Model.GetOpsetImport() {
		if set.GetDomain() == mlDomain {
			version = set.GetVersion()
		}
	}
	e.rows.Gaps = a.Model.inputs.writeGaps(e.builder, version)
	return nil
}

// minOpset is the oldest operator set that contains all operators that Export adds. minIR
// is the oldest IR version in which inputs can have defaults.
const minOpset, minIR = 9, 4

// raiseVersions updates an old model to minOpset and minIR. It returns an error if the old
// operator set is below 7, or if the new one would change the meaning of a node.
func (e *exporter) raiseVersions(g *onnx.Graph) error {
	m := g.Model
	if old := g.Opset(); old < minOpset {
		changed := []string{"Upsample", "Scan"} // operator sets 8 and 9 changed these operators
		incompatible := func(n *pb.NodeProto) bool {
			return onnx.IsDefault(n.GetDomain()) && (slices.Contains(changed, n.GetOpType()) || onnx.AttributeInt(n, "spatial", 1) == 0)
		}
		if at := slices.IndexFunc(m.GetGraph().GetNode(), incompatible); old < 7 || at >= 0 {
			return fmt.Errorf("its operator set is %d, and attach needs %d, which changes the meaning of its nodes: export the model again with a later operator set, and fit again", old, minOpset)
		}
		for _, i := range m.GetOpsetImport() {
			if onnx.IsDefault(i.GetDomain()) {
				i.Version = new(int64(minOpset))
			}
		}
		e.result.Notes = append(e.result.Notes, fmt.Sprintf("the model's operator set %d became %d", old, minOpset))
	}
	if old := m.GetIrVersion(); old < minIR {
		// In older IR versions, initializers had to be listed as inputs. Now only real
		// inputs are listed.
		body := m.GetGraph()
		body.Input = g.Inputs()
		m.IrVersion = new(int64(minIR))
		e.result.Notes = append(e.result.Notes, fmt.Sprintf("the model's IR version %d became %d", old, minIR))
	}
	return nil
}

// replaceZipMaps replaces the maps that a ZipMap returns by the tensor of probabilities that they
// are made from, because many runtimes cannot return maps.
func (e *exporter) replaceZipMaps(g *onnx.Graph) {
	for i, v := range g.Outputs() {
		n := g.Producer(v.GetName())
		if n == nil || n.GetOpType() != "ZipMap" || len(n.GetInput()) != 1 {
			continue
		}
		n.OpType, n.Domain, n.Attribute = new("Identity"), nil, nil
		g.Outputs()[i] = onnx.ValueInfo(v.GetName(), pb.TensorProto_FLOAT, -1, -1)
		e.result.Notes = append(e.result.Notes, fmt.Sprintf("the output %q is now a tensor of probabilities instead of a sequence of maps", v.GetName()))
	}
}
