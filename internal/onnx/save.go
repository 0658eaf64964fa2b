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
	// mostInline is the size limit of a model in a single file. The limit of protobuf is 2 GiB.
	mostInline = 1 << 30
	// leastApart is the minimum size of tensors that a larger model stores in a separate file.
	leastApart = 1 << 10
	// DataSuffix is the suffix of the name of that file.
	DataSuffix = ".data"
	// apartAt is the alignment of tensors in that file, as ONNX recommends.
	apartAt = 4096
)

// Save writes a model to path atomically, and changes m. The external data of m is in dir. If
// the model is too large for one file, its weights are written to path.data, and data is that
// path.
func Save(ctx context.Context, m *pb.ModelProto, dir, path string) (data string, err error) {
	return save(ctx, m, dir, path, mostInline)
}

func save(ctx context.Context, m *pb.ModelProto, dir, path string, most int64) (data string, err error) {
	outside := externals(m)
	size := int64(proto.Size(m))
	for _, t := range outside {
		n, err := bytesOf(t)
		if err != nil {
			return "", err
		}
		size += n
	}
	var done func() error
	if size <= most {
		for _, t := range outside {
			if t.RawData, err = externalBytes(t, dir); err != nil {
				return "", err
			}
			t.ExternalData, t.DataLocation = nil, nil
		}
	} else {
		data = path + DataSuffix
		if done, err = apart(ctx, m, dir, data); err != nil {
			return "", err
		}
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return "", err
	}
	if done != nil {
		if err := done(); err != nil {
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

// apart writes large tensors to a separate file and updates their locations in the model. done
// renames the file to its final name.
func apart(ctx context.Context, m *pb.ModelProto, dir, path string) (done func() error, err error) {
	f, err := atomicfile.Create(ctx, path)
	if err != nil {
		return nil, err
	}
	list := externals(m)
	for _, t := range m.GetGraph().GetInitializer() {
		if t.GetDataLocation() != pb.TensorProto_EXTERNAL && len(t.RawData) >= leastApart {
			list = append(list, t)
		}
	}
	var at int64
	for _, t := range list {
		raw := t.RawData
		if t.GetDataLocation() == pb.TensorProto_EXTERNAL {
			raw, err = externalBytes(t, dir)
		}
		if err == nil {
			_, err = f.Write(make([]byte, -at&(apartAt-1)))
		}
		at += -at & (apartAt - 1)
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

// bytesOf returns the number of bytes of a tensor's external data.
func bytesOf(t *pb.TensorProto) (int64, error) {
	e, err := externalOf(t)
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

// externalBytes reads the external data of a tensor.
func externalBytes(t *pb.TensorProto, dir string) ([]byte, error) {
	n, err := bytesOf(t)
	if err != nil {
		return nil, err
	}
	return readExternal(t, dir, n, 1)
}
