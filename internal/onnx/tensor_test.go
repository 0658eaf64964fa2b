package onnx

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

func entry(k, v string) *pb.StringStringEntryProto {
	return &pb.StringStringEntryProto{Key: proto.String(k), Value: proto.String(v)}
}

func externalTensor(location, offset, length string) *pb.TensorProto {
	return &pb.TensorProto{
		Name: proto.String("w"), DataType: proto.Int32(int32(pb.TensorProto_FLOAT)), Dims: []int64{2},
		DataLocation: pb.TensorProto_EXTERNAL.Enum(),
		ExternalData: []*pb.StringStringEntryProto{entry("location", location), entry("offset", offset), entry("length", length)},
	}
}

func TestDecode(t *testing.T) {
	raw := func(k pb.TensorProto_DataType, b ...byte) *pb.TensorProto {
		return &pb.TensorProto{DataType: proto.Int32(int32(k)), Dims: []int64{2}, RawData: b}
	}
	typed := func(k pb.TensorProto_DataType, v ...int32) *pb.TensorProto {
		return &pb.TensorProto{DataType: proto.Int32(int32(k)), Dims: []int64{2}, Int32Data: v}
	}
	f32 := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, math.Float32bits(1.5)), math.Float32bits(-2))
	f64 := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, math.Float64bits(1.5)), math.Float64bits(-2))
	for name, c := range map[string]struct {
		t    *pb.TensorProto
		want []float32
	}{
		"float raw":      {raw(pb.TensorProto_FLOAT, f32...), []float32{1.5, -2}},
		"double raw":     {raw(pb.TensorProto_DOUBLE, f64...), []float32{1.5, -2}},
		"half raw":       {raw(pb.TensorProto_FLOAT16, 0x00, 0x3e, 0x00, 0xc0), []float32{1.5, -2}},
		"bfloat raw":     {raw(pb.TensorProto_BFLOAT16, 0xc0, 0x3f, 0x00, 0xc0), []float32{1.5, -2}},
		"uint8 raw":      {raw(pb.TensorProto_UINT8, 200, 3), []float32{200, 3}},
		"int8 raw":       {raw(pb.TensorProto_INT8, 200, 3), []float32{-56, 3}},
		"uint16 raw":     {raw(pb.TensorProto_UINT16, 0xff, 0xff, 1, 0), []float32{65535, 1}},
		"int16 raw":      {raw(pb.TensorProto_INT16, 0xff, 0xff, 1, 0), []float32{-1, 1}},
		"int32 raw":      {raw(pb.TensorProto_INT32, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0), []float32{-1, 1}},
		"uint32 raw":     {raw(pb.TensorProto_UINT32, 0, 0, 0, 0x80, 1, 0, 0, 0), []float32{1 << 31, 1}},
		"bool raw":       {raw(pb.TensorProto_BOOL, 1, 0), []float32{1, 0}},
		"int64 raw":      {Tensor([]int64{-3, 9}), []float32{-3, 9}},
		"float typed":    {&pb.TensorProto{DataType: proto.Int32(1), Dims: []int64{2}, FloatData: []float32{1.5, -2}}, []float32{1.5, -2}},
		"double typed":   {&pb.TensorProto{DataType: proto.Int32(11), Dims: []int64{2}, DoubleData: []float64{1.5, -2}}, []float32{1.5, -2}},
		"half typed":     {typed(pb.TensorProto_FLOAT16, 0x3e00, 0xc000), []float32{1.5, -2}},
		"bfloat typed":   {typed(pb.TensorProto_BFLOAT16, 0x3fc0, 0xc000), []float32{1.5, -2}},
		"int8 typed":     {typed(pb.TensorProto_INT8, -56, 3), []float32{-56, 3}},
		"int64 typed":    {&pb.TensorProto{DataType: proto.Int32(7), Dims: []int64{2}, Int64Data: []int64{-3, 9}}, []float32{-3, 9}},
		"uint64 typed":   {&pb.TensorProto{DataType: proto.Int32(13), Dims: []int64{2}, Uint64Data: []uint64{3, 9}}, []float32{3, 9}},
		"scalar":         {Tensor(float32(4)), []float32{4}},
		"nothing at all": {&pb.TensorProto{DataType: proto.Int32(1), Dims: []int64{0, 5}}, []float32{}},
	} {
		got, shape, err := Float32s(c.t, "")
		if err != nil || !slices.Equal(got, c.want) || !slices.Equal(shape, c.t.Dims) {
			t.Errorf("%s: %v of shape %v (%v), want %v", name, got, shape, err, c.want)
		}
	}
	for name, bad := range map[string]*pb.TensorProto{
		"too few bytes":    raw(pb.TensorProto_FLOAT, 1, 2, 3),
		"negative shape":   {DataType: proto.Int32(1), Dims: []int64{-1}, FloatData: []float32{1}},
		"huge shape":       {DataType: proto.Int32(1), Dims: []int64{1 << 40, 1 << 40}, FloatData: []float32{1}},
		"huge, no data":    {DataType: proto.Int32(1), Dims: []int64{1 << 62}},
		"too many values":  typed(pb.TensorProto_INT8, 1, 2, 3),
		"strings":          {DataType: proto.Int32(8), Dims: []int64{1}, StringData: [][]byte{{1}}},
		"type to come":     {DataType: proto.Int32(99), Dims: []int64{1}, RawData: []byte{1}},
		"floats as Int64s": nil,
	} {
		var err error
		if bad == nil {
			_, _, err = Int64s(Tensor([]float32{1}), "")
		} else {
			_, _, err = Float32s(bad, "")
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestExternalData(t *testing.T) {
	dir := t.TempDir()
	data := binary.LittleEndian.AppendUint32(make([]byte, 8), math.Float32bits(3))
	data = binary.LittleEndian.AppendUint32(data, math.Float32bits(4))
	if err := os.WriteFile(filepath.Join(dir, "w.bin"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, w := range []*pb.TensorProto{externalTensor("w.bin", "8", "8"), externalTensor("./w.bin", "8", "8")} {
		got, _, err := Float32s(w, dir)
		if err != nil || !slices.Equal(got, []float32{3, 4}) {
			t.Errorf("read %v (%v)", got, err)
		}
	}
	for _, c := range []struct {
		t        *pb.TensorProto
		contains string
	}{
		{externalTensor("absent.bin", "0", "8"), "absent.bin"},
		{externalTensor("w.bin", "12", "8"), "too short"},
		{externalTensor("w.bin", "9223372036854775807", "8"), "too short"},
		{externalTensor("w.bin", "0", "12"), "12 bytes"},
		{externalTensor("w.bin", "-8", "8"), "offset"},
		{externalTensor("w.bin", "x", "8"), "offset"},
		{externalTensor("../w.bin", "0", "8"), "outside"},
		{externalTensor("a/../../w.bin", "0", "8"), "outside"},
		{externalTensor("/etc/passwd", "0", "8"), "outside"},
		{externalTensor("*/_ORT_MEM_ADDR_/*", "0", "8"), "outside"},
		{externalTensor("w.bin\x00", "0", "8"), "cannot be read"},
		{externalTensor("C:\\w.bin", "0", "8"), "w.bin"},
		{externalTensor("w.bin", "0", "9223372036854775807"), "9223372036854775807 bytes"},
		{externalTensor("", "0", "8"), "names no file"},
	} {
		_, _, err := Float32s(c.t, dir)
		if !errors.Is(err, ErrExternalData) || !strings.Contains(err.Error(), c.contains) {
			t.Errorf("error %v, want one that says %q", err, c.contains)
		}
		g := indexGraph(t, 8, &pb.GraphProto{Node: []*pb.NodeProto{newNode("If", []string{"c"}, []string{"y"}, Attr("then_branch", &pb.GraphProto{Initializer: []*pb.TensorProto{c.t}}))}})
		sparse := &pb.AttributeProto{Name: proto.String("sparse_value"), SparseTensor: &pb.SparseTensorProto{Values: c.t}}
		s := indexGraph(t, 8, &pb.GraphProto{Node: []*pb.NodeProto{newNode("Constant", nil, []string{"y"}, sparse)}})
		for _, g := range []*Graph{g, s} {
			if err := CheckExternal(g.Model, dir); c.contains != "12 bytes" && !errors.Is(err, ErrExternalData) {
				t.Errorf("CheckExternal of %v: %v", c.t.ExternalData, err)
			}
		}
	}
}

// TestHugeExternalData checks that a tensor above maxTensorBytes is an error. Its external
// file is sparse, so that it takes no disk space.
func TestHugeExternalData(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "w.bin")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 40<<30); err != nil {
		t.Skip(err)
	}
	w := externalTensor("w.bin", "0", strconv.Itoa(40<<30))
	w.Dims = []int64{10 << 30}
	if _, _, err := Float32s(w, dir); err == nil || !strings.Contains(err.Error(), "4 GiB") {
		t.Errorf("40 GiB of weights: %v", err)
	}
}

func TestSHA256(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.onnx")
	for name, s := range map[string]string{"m.onnx": "model", "a.bin": "aa", "b.bin": "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		files []string
		bytes string
	}{
		{nil, "model"},
		{[]string{"a.bin", "b.bin"}, "modela.bin\x00\x02\x00\x00\x00\x00\x00\x00\x00aab.bin\x00\x01\x00\x00\x00\x00\x00\x00\x00b"},
	} {
		sum := sha256.Sum256([]byte(c.bytes))
		got, err := SHA256(t.Context(), path, c.files)
		if err != nil || got != hex.EncodeToString(sum[:]) {
			t.Errorf("digest with %v is %s (%v)", c.files, got, err)
		}
	}
	if _, err := SHA256(t.Context(), path, []string{"gone.bin"}); err == nil || !strings.Contains(err.Error(), "gone.bin") {
		t.Errorf("error %v does not name the missing file", err)
	}
}
