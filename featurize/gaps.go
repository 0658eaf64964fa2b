package featurize

import (
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// cellInputs returns the indexes of the inputs whose rows are cells of a table: required inputs
// of numbers or texts, but not of tokens. It returns nil if no cell can be empty.
func (list inputs) cellInputs() (cells []int) {
	nullable := false
	for i, in := range list {
		_, _, integers := in.limits()
		tokens := integers && len(in.dims) == 2 && in.dims[1] < 0
		if in.isOptional() || in.dims == nil || len(in.dims) > 2 || tokens {
			continue
		}
		cells, nullable = append(cells, i), nullable || in.acceptsNaN || in.takesText()
	}
	if !nullable {
		return nil
	}
	return cells
}

// emptyCells marks the empty cells of a chunk's rows with 1. A cell is empty if it holds NaN or
// an empty text. The result has one column for each cell, in the order of the inputs.
func (list inputs) emptyCells(c chunk) blas32.General {
	cells, k := list.cellInputs(), 0
	for _, i := range cells {
		k += product(c.tensors[i].Shape[1:])
	}
	if k == 0 {
		return blas32.General{}
	}
	m, first := rows.New(c.n, k), 0
	for _, i := range cells {
		in, t, w := list[i], c.tensors[i], product(c.tensors[i].Shape[1:])
		if in.acceptsNaN || in.takesText() {
			for j := range c.n * w {
				if in.takesText() && t.Strings[j] == "" || in.acceptsNaN && t.Data[j] != t.Data[j] {
					m.Data[j/w*k+first+j%w] = 1
				}
			}
		}
		first += w
	}
	return m
}

// writeGaps appends nodes to a graph that compute the same as emptyCells. The graph must
// contain the inputs in list. version is the graph's version of the classical operators, or
// 0 if it has none. If no cell can be empty, writeGaps returns the zero Tensor.
func (list inputs) writeGaps(to *onnx.Builder, version int64) graph.Tensor {
	var columns []graph.Tensor
	for _, i := range list.cellInputs() {
		in := list[i]
		x := graph.Wrap(to, in.name, pb.TensorProto_DataType(in.elemType), 1)
		if in.takesText() {
			// The LabelEncoder maps an empty text to 0 and any other text to −1. Adding 1
			// yields 1 or 0.
			n := onnx.Node{Op: "LabelEncoder", Domain: mlDomain, Inputs: []string{in.name}, Attrs: []*pb.AttributeProto{onnx.Attr("default_int64", -1)}}
			if version == 1 {
				n.Attrs = append(n.Attrs, onnx.Attr("classes_strings", []string{""}))
			} else {
				n.Attrs = append(n.Attrs, onnx.Attr("keys_strings", []string{""}), onnx.Attr("values_int64s", []int64{0}))
			}
			to.Import(mlDomain, 2)
			x = graph.Wrap(to, to.Append(n)[0], pb.TensorProto_INT64, 1).Single().Add(1.)
		} else {
			x = x.Single().IsNaN().Single()
		}
		columns = append(columns, x.Reshape(0, -1))
	}
	if columns == nil {
		return graph.Tensor{}
	}
	return columns[0].Concat(columns[1:]...).Named(rowsPrefix + "gaps")
}
