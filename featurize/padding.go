package featurize

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/internal/ort"
	"github.com/attach-uncertainty/attach/ood"
)

// padding is what rows are filled up with in the input of a name.
func (m *Model) padding(name string) float32 {
	if m.texts == nil {
		return 0
	}
	switch {
	case m.texts.ids != nil && m.texts.ids.Name == name:
		return float32(m.texts.PadID)
	case m.texts.types != nil && m.texts.types.Name == name:
		return float32(m.texts.PadType)
	}
	return 0
}

// padsLeft says that filling stands before a row and not behind it.
func (m *Model) padsLeft() bool { return m.texts != nil && m.texts.PadLeft }

// followMask has means over positions leave out those that the mask of a row says
// are none.
func (s source) followMask(ctx context.Context, views []*view) error {
	i := slices.IndexFunc(s.inputs, input.masks)
	if i < 0 {
		return nil
	}
	mask := s.inputs[i].name
	tensors := []string{mask}
	for _, v := range views {
		if v.tokens && v.rank == 3 {
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
	of := shapes[mask]
	for _, v := range views {
		if shape := shapes[v.tensor]; v.tokens && len(of) == 2 && len(shape) == 3 && shape[1] == of[1] {
			v.mask = mask
		}
	}
	return nil
}

// same is how far two runs may differ, relative to what comes out, to be of the
// same row: rounding alone.
const same = 1e-5

// mayPad says whether rows of tokens can be filled up to one length: in a run on
// random rows, filling behind the mask leaves all that is read of them as it is.
func (m *Model) mayPad(ctx context.Context, s source) bool {
	at := findTokens(m.info.Inputs)
	if at.ids == nil || at.mask == nil || at.length() > 0 {
		return false
	}
	for _, shapes := range s.inputs.shapes(s.g) {
		rows := make([]ood.Tensor, len(s.inputs))
		filled := make([]ood.Tensor, len(s.inputs))
		for i, in := range s.inputs {
			if in.optional() {
				continue
			}
			rows[i] = in.random(s.g, shapes[i])
			if filled[i] = rows[i]; at.has(in.name) && len(shapes[i]) == 2 {
				filled[i] = m.fill(rows[i], 3)
			}
		}
		plain, err := s.run(ctx, m.session, rows)
		if err != nil {
			continue
		}
		padded, err := s.run(ctx, m.session, filled)
		if err != nil {
			return false
		}
		return slices.EqualFunc(plain, padded, asOne)
	}
	return false
}

// scalesTogether says that numbers are rounded to 8 bits by a scale of all rows of a
// run together: what comes out of one depends on the others.
func (s source) scalesTogether() bool {
	return slices.ContainsFunc(s.g.Model.GetGraph().GetNode(), func(n *pb.NodeProto) bool {
		return strings.HasPrefix(n.GetOpType(), "DynamicQuantize")
	})
}

// has says whether an input has a number for each token.
func (t tokens) has(name string) bool {
	return slices.ContainsFunc([]*Value{t.ids, t.mask, t.types, t.positions}, func(v *Value) bool { return v != nil && v.Name == name })
}

// fill adds so many positions to rows of tokens.
func (m *Model) fill(t ood.Tensor, positions int) ood.Tensor {
	n, width := t.Shape[0], t.Shape[1]
	more := slices.Repeat([]float32{m.padding(t.Name)}, positions)
	own := ood.Tensor{Name: t.Name, Shape: []int{n, width + positions}}
	for row := range n {
		is := t.Data[row*width : (row+1)*width]
		if m.padsLeft() {
			own.Data = append(append(own.Data, more...), is...)
		} else {
			own.Data = append(append(own.Data, is...), more...)
		}
	}
	return own
}

// run is what a session gives for tensors.
func (s source) run(ctx context.Context, session *ort.Session, tensors []ood.Tensor) ([][]float32, error) {
	x, err := s.inputs.wrap(tensors)
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
		list = append(list, t.AppendFloat32s(nil))
	}
	return list, nil
}

// asOne says whether numbers are the same but for rounding.
func asOne(a, b []float32) bool {
	if len(a) != len(b) {
		return false
	}
	var apart, size float64
	for i, v := range a {
		apart = max(apart, math.Abs(float64(v)-float64(b[i])))
		size = max(size, math.Abs(float64(v)))
	}
	return apart <= same*size
}
