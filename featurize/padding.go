package featurize

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/ood"
)

// padValue returns the number that pads rows of the named input.
func (m *Model) padValue(name string) float32 {
	switch role := roleOf(name); {
	case m.tokenizer != nil && role == tokenIDs:
		return float32(m.tokenizer.PadID)
	case m.tokenizer != nil && role == tokenTypes:
		return float32(m.tokenizer.PadType)
	}
	return 0
}

// padsLeft reports whether padding comes before a row and not after it.
func (m *Model) padsLeft() bool { return m.tokenizer != nil && m.tokenizer.PadLeft }

// setMasks sets the mask of views that average over tokens, so that padding does not count.
func (s modelBuilder) setMasks(ctx context.Context, views []*view) error {
	in := s.inputs.byRole(tokenMask)
	if in == nil {
		return nil
	}
	mask := in.name
	tensors := []string{mask}
	for _, v := range views {
		if v.meanOverTokens && v.rank == 3 {
			tensors = append(tensors, v.tensor)
		}
	}
	if len(tensors) == 1 {
		return nil
	}
	shapes, err := s.probeShapes(ctx, tensors)
	if ctx.Err() != nil || shapes == nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	maskShape := shapes[mask]
	for _, v := range views {
		if shape := shapes[v.tensor]; v.meanOverTokens && len(maskShape) == 2 && len(shape) == 3 && shape[1] == maskShape[1] {
			v.mask = mask
		}
	}
	return nil
}

// roundingError bounds the difference between two runs of the same row, relative to the
// largest number.
const roundingError = 1e-5

// testPadding reports whether rows of tokens may be padded to a common length. It checks on
// random rows that masked padding does not change the outputs.
func (m *Model) testPadding(ctx context.Context, s modelBuilder) bool {
	ids := s.inputs.byRole(tokenIDs)
	if ids == nil || s.inputs.byRole(tokenMask) == nil || len(ids.dims) == 2 && ids.dims[1] > 0 {
		return false
	}
	for _, shapes := range s.inputs.trialShapes(s.graph) {
		rows := s.inputs.randomRows(s.graph, shapes)
		plain, err := s.runSession(ctx, m.session, rows)
		if err != nil {
			continue
		}
		for i, t := range rows {
			if roleOf(t.Name) != noRole && len(t.Shape) == 2 {
				rows[i] = m.addPadding(t, 3)
			}
		}
		padded, err := s.runSession(ctx, m.session, rows)
		return err == nil && slices.EqualFunc(plain, padded, equalUpToRounding)
	}
	return false
}

// sharesScale reports whether all rows of a run share one scale when numbers are rounded
// to 8 bits. If so, the outputs of a row depend on the other rows.
func (s modelBuilder) sharesScale() bool {
	return slices.ContainsFunc(s.graph.Model.GetGraph().GetNode(), func(n *pb.NodeProto) bool {
		return strings.HasPrefix(n.GetOpType(), "DynamicQuantize")
	})
}

// addPadding adds the given number of padding positions to each row of tokens.
func (m *Model) addPadding(t ood.Tensor, positions int) ood.Tensor {
	n, width := t.Shape[0], t.Shape[1]
	filled := ood.Tensor{Name: t.Name, Shape: []int{n, width + positions}}
	for row := range n {
		m.appendPadded(&filled, t, row*width, (row+1)*width, width+positions)
	}
	return filled
}

// appendPadded appends the elements i to j−1 of t, padded to n elements.
func (m *Model) appendPadded(to *ood.Tensor, t ood.Tensor, i, j, n int) {
	pad := func() {
		for range n - (j - i) {
			if t.Strings != nil {
				to.Strings = append(to.Strings, "")
			} else {
				to.Data = append(to.Data, m.padValue(t.Name))
			}
		}
	}
	if m.padsLeft() {
		pad()
	}
	appendElements(to, t, i, j)
	if !m.padsLeft() {
		pad()
	}
}

// runSession runs a session on tensors and returns its outputs.
func (s modelBuilder) runSession(ctx context.Context, session *ort.Session, tensors []ood.Tensor) ([][]float32, error) {
	x, err := s.inputs.newTensors(tensors)
	if err != nil {
		return nil, err
	}
	defer closeAll(x)
	out, err := session.Run(ctx, x)
	if err != nil {
		return nil, err
	}
	defer closeAll(out)
	var list [][]float32
	for _, t := range out {
		list = append(list, t.Float32s())
	}
	return list, nil
}

// equalUpToRounding reports whether a and b differ by no more than rounding.
func equalUpToRounding(a, b []float32) bool {
	if len(a) != len(b) {
		return false
	}
	var maxDiff, largest float64
	for i, v := range a {
		maxDiff = max(maxDiff, math.Abs(float64(v)-float64(b[i])))
		largest = max(largest, math.Abs(float64(v)))
	}
	return maxDiff <= roundingError*largest
}
