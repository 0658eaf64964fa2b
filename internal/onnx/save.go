package onnx

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

const (
	// maxInline is the size limit of a model in a single file. The limit of protobuf is 2 GiB.
	maxInline = 1 << 30
	// minSeparate is the minimum size of tensors that a larger model stores in a separate file.
	minSeparate = 1 << 10
	// DataSuffix is the suffix of the name of that file.
	DataSuffix = ".data"
	// dataAlignment is the alignment of tensors in that file, as ONNX recommends.
	dataAlignment = 4096
)

// Save writes a model to path atomically, and changes m. The external data of m is in dir. If
// the model is too large for one file, its weights are written to path.data, and data is that
// path.
func Save(ctx context.Context, m *pb.ModelProto, dir, path string) (data string, err error) {
	return save(ctx, m, dir, path, maxInline)
}

func save(ctx context.Context, m *pb.ModelProto, dir, path string, limit int64) (data string, err error) {
	tensors := externalTensors(m)
	size := int64(proto.Size(m))
	for _, t := range tensors {
		n, err := externalSize(t)
		if err != nil {
			return "", err
		}
		size += n
	}
	var commit func() error
	if size <= limit {
		for _, t := range tensors {
			if t.RawData, err = readExternalBytes(t, dir); err != nil {
				return "", err
			}
			t.ExternalData, t.DataLocation = nil, nil
		}
	} else {
		data = path + DataSuffix
		if commit, err = writeDataFile(ctx, m, dir, data); err != nil {
			return "", err
		}
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return "", err
	}
	if commit != nil {
		if err := commit(); err != nil {
			return "", err
		}
	}
	err = atomicfile.WriteFile(ctx, path, func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	})
	if err != nil && data != "" {
		os.Remove(data)
	}
	return data, err
}

// writeDataFile writes large tensors to a separate file and updates their locations in the model. done
// renames the file to its final name.
func writeDataFile(ctx context.Context, m *pb.ModelProto, dir, path string) (commit func() error, err error) {
	f, err := atomicfile.Create(ctx, path)
	if err != nil {
		return nil, err
	}
	list := externalTensors(m)
	for _, t := range m.GetGraph().GetInitializer() {
		if t.GetDataLocation() != pb.TensorProto_EXTERNAL && len(t.RawData) >= minSeparate {
			list = append(list, t)
		}
	}
	var at int64
	for _, t := range list {
		raw := t.RawData
		if t.GetDataLocation() == pb.TensorProto_EXTERNAL {
			raw, err = readExternalBytes(t, dir)
		}
		if err == nil {
			_, err = f.Write(make([]byte, -at&(dataAlignment-1)))
		}
		at += -at & (dataAlignment - 1)
		if err == nil {
			_, err = f.Write(raw)
		}
		if err != nil {
			f.Abort()
			return nil, err
		}
		entry := func(key, value string) *pb.StringStringEntryProto {
			return &pb.StringStringEntryProto{Key: new(key), Value: new(value)}
		}
		t.RawData, t.DataLocation = nil, pb.TensorProto_EXTERNAL.Enum()
		t.ExternalData = []*pb.StringStringEntryProto{
			entry("location", filepath.Base(path)), entry("offset", strconv.FormatInt(at, 10)), entry("length", strconv.Itoa(len(raw))),
		}
		at += int64(len(raw))
	}
	return f.Commit, nil
}

// externalSize returns the number of bytes of a tensor's external data.
func externalSize(t *pb.TensorProto) (int64, error) {
	e, err := parseExternal(t)
	if err != nil || e.length >= 0 {
		return e.length, err
	}
	n, err := Elements(t)
	if err != nil {
		return 0, err
	}
	size := elementTypes[pb.TensorProto_DataType(t.GetDataType())].bytes
	if size == 0 {
		return 0, fmt.Errorf("%w of tensor %q is of a type without a size, and has no length", ErrExternalData, t.GetName())
	}
	return n * size, nil
}

// readExternalBytes reads the external data of a tensor.
func readExternalBytes(t *pb.TensorProto, dir string) ([]byte, error) {
	n, err := externalSize(t)
	if err != nil {
		return nil, err
	}
	return readExternal(t, dir, n, 1)
}
