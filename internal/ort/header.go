package ort

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// header is what a session needs to know of a serialized ModelProto. It is read without unmarshalling the weights.
type header struct {
	inputs   []ValueInfo
	outputs  []ValueInfo
	inner    map[string]ValueInfo // value_info: types of inner tensors, for outputs that declare none
	defaults map[string]bool      // initializers, which below IR version 4 are inputs too
	external []externalRef
}

type externalRef struct {
	tensor, location string
	end              int64 // bytes of the file that are needed, 0 = unknown
}

// Field numbers of onnx.proto.
const (
	modelGraph        = 7
	graphInitializer  = 5
	graphInput        = 11
	graphOutput       = 12
	graphValueInfo    = 13
	tensorName        = 8
	tensorExternal    = 13
	tensorLocation    = 14
	tensorIsExternal  = 1
	externalEntryKey  = 1
	externalEntryItem = 2
)

func readHeader(model []byte) (*header, error) {
	h := &header{inner: map[string]ValueInfo{}, defaults: map[string]bool{}}
	graphs := 0
	err := fields(model, func(n protowire.Number, v []byte, _ uint64) error {
		if n != modelGraph || v == nil {
			return nil
		}
		graphs++
		return fields(v, h.graphField)
	})
	if err == nil && graphs == 0 {
		err = errors.New("it holds no graph")
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("it is cut off (%w)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotModel, err)
	}
	for i, o := range h.outputs {
		if v, ok := h.inner[o.Name]; ok && o.DType == Undefined {
			h.outputs[i] = v
		}
	}
	return h, nil
}

func (h *header) graphField(n protowire.Number, v []byte, _ uint64) error {
	if v == nil {
		return nil
	}
	switch n {
	case graphInitializer:
		return h.initializer(v)
	case graphInput, graphOutput, graphValueInfo:
		var p pb.ValueInfoProto
		if err := proto.Unmarshal(v, &p); err != nil {
			return err
		}
		info := valueInfo(&p)
		switch n {
		case graphInput:
			h.inputs = append(h.inputs, info)
		case graphOutput:
			h.outputs = append(h.outputs, info)
		default:
			h.inner[info.Name] = info
		}
	}
	return nil
}

func (h *header) initializer(b []byte) error {
	var ref externalRef
	external := false
	var offset, length int64
	err := fields(b, func(n protowire.Number, v []byte, x uint64) error {
		switch n {
		case tensorName:
			ref.tensor = string(v)
		case tensorLocation:
			external = x == tensorIsExternal
		case tensorExternal:
			var key, item string
			err := fields(v, func(n protowire.Number, v []byte, _ uint64) error {
				switch n {
				case externalEntryKey:
					key = string(v)
				case externalEntryItem:
					item = string(v)
				}
				return nil
			})
			if err != nil {
				return err
			}
			switch key {
			case "location":
				ref.location = item
			case "offset":
				offset, _ = strconv.ParseInt(item, 10, 64)
			case "length":
				length, _ = strconv.ParseInt(item, 10, 64)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	h.defaults[ref.tensor] = true
	if external {
		if offset >= 0 && length > 0 && offset <= math.MaxInt64-length {
			ref.end = offset + length
		}
		h.external = append(h.external, ref)
	}
	return nil
}

// checkExternal says which file of weights is missing or too short; dir is the model's folder.
func (h *header) checkExternal(dir string) error {
	need := map[string]externalRef{}
	for _, r := range h.external {
		if old, ok := need[r.location]; !ok || r.end > old.end {
			need[r.location] = r
		}
	}
	locations := make([]string, 0, len(need))
	for l := range need {
		locations = append(locations, l)
	}
	slices.Sort(locations)
	for _, l := range locations {
		if dir == "" {
			return fmt.Errorf("%w: the weights of the model are in %q, but the folder of that file is not known", ErrExternalData, l)
		}
		path := filepath.Join(dir, filepath.FromSlash(l))
		have, err := onnx.ExternalSize(dir, l)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%w: %s, which holds the model's weights, is missing: copy it there (%w)", ErrExternalData, path, fs.ErrNotExist)
		case err != nil:
			return fmt.Errorf("%w: %w", ErrExternalData, err)
		case have < need[l].end:
			return fmt.Errorf("%w: %s holds %d bytes, tensor %q of the model needs %d", ErrExternalData, path, have, need[l].tensor, need[l].end)
		}
	}
	return nil
}

// fields calls f for each field of a serialized message: v is the content of a length-delimited one, x the value of a varint, for
// which v is nil. Fields of other kinds are skipped.
func fields(b []byte, f func(n protowire.Number, v []byte, x uint64) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var v []byte
		var x uint64
		switch typ {
		case protowire.BytesType:
			v, n = protowire.ConsumeBytes(b) // not nil, even if empty
		case protowire.VarintType:
			x, n = protowire.ConsumeVarint(b)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		if typ != protowire.BytesType && typ != protowire.VarintType {
			b = b[n:]
			continue
		}
		if err := f(num, v, x); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func valueInfo(p *pb.ValueInfoProto) ValueInfo {
	v := ValueInfo{Name: p.GetName()}
	t := p.GetType().GetTensorType()
	if t == nil {
		if p.GetType().GetValue() != nil {
			v.kind = strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", p.GetType().GetValue()), "*pb.TypeProto_"), "Type")
		}
		return v
	}
	v.DType = DType(t.GetElemType())
	if t.Shape == nil {
		return v
	}
	v.Shape = make([]int64, len(t.GetShape().GetDim()))
	for i, d := range t.GetShape().GetDim() {
		v.Shape[i] = -1
		if x, ok := d.GetValue().(*pb.TensorShapeProto_Dimension_DimValue); ok && x.DimValue >= 0 {
			v.Shape[i] = x.DimValue
		}
	}
	return v
}
