package ort

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"

	"github.com/yalue/onnxruntime_go"
	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// tryCUDA checks that CUDA works: it loads the CUDA provider and its libraries and creates
// a session on the device, but runs no model.
func (r *Runtime) tryCUDA() error {
	if !r.lib.GPU {
		return noGPULibrary(r.lib.Path)
	}
	environment.Lock()
	defer environment.Unlock()
	return preserveSignals(r.startCUDA)
}

func (r *Runtime) startCUDA() error {
	if err := checkDevice(r.opts.Device); err != nil {
		return err
	}
	if err := r.lib.checkProviders(); err != nil {
		return err
	}
	so, err := r.newSessionOptions("cuda")
	if err != nil {
		return cudaError(err)
	}
	defer so.Destroy()
	s, err := newSession(Model{Proto: identity()}, nil, nil, so)
	if err != nil {
		return cudaError(err)
	}
	if err := s.Close(); err != nil {
		return err
	}
	if !hasCuDNN() {
		return fmt.Errorf("%w: cuDNN 9 was not found: install it, or put the folder of the nvidia-cudnn wheel's libraries on %s", ErrNoCUDA, libraryPathVariable)
	}
	return nil
}

// checkProviders verifies, once per process, the cached files that the runtime loads for
// CUDA. The caller must hold the environment's lock.
func (lib Library) checkProviders() error {
	if lib.pin == nil || environment.checkedCUDA == lib.Path {
		return nil
	}
	if err := lib.pin.verify(filepath.Dir(lib.Path), lib.pin.providerFiles()); err != nil {
		return fmt.Errorf("%w; install it again", err)
	}
	environment.checkedCUDA = lib.Path
	return nil
}

// noGPULibrary returns an ErrNoGPULibrary for the library path, or for no library if path
// is "".
func noGPULibrary(path string) error {
	if _, ok := pinFor(pins, sourcePip, true); !ok {
		return fmt.Errorf("%w: %w: %s/%s", ErrNoGPULibrary, ErrUnsupported, runtime.GOOS, runtime.GOARCH)
	}
	if path == "" {
		return fmt.Errorf("%w: none was found", ErrNoGPULibrary)
	}
	return fmt.Errorf("%w: %s has no CUDA provider beside it", ErrNoGPULibrary, path)
}

// checkDevice returns an error if there is no CUDA device with the index.
func checkDevice(index int) error {
	switch n := cudaDevices(); {
	case n < 0:
		return fmt.Errorf("%w: no NVIDIA driver is loaded", ErrNoDevice)
	case n == 0:
		return fmt.Errorf("%w: the NVIDIA driver sees no device", ErrNoDevice)
	case index >= n:
		return fmt.Errorf("%w: device %d was requested, but there are %d devices, counted from 0", ErrNoDevice, index, n)
	}
	return nil
}

// missingCUDA matches the names of the libraries that the CUDA provider needs. On Windows
// they have version suffixes, for example cublas64_13.dll.
var missingCUDA = regexp.MustCompile(`lib(?:cublas|cublasLt|cudart|curand|cufft|cudnn|nvrtc)\w*\.so(?:\.(\d+))?|(?:cublas|cublasLt|cudart|curand|cufft|cudnn)64_(\d+)\.dll`)

// cudaError wraps an error of starting CUDA in ErrNoCUDA if a library is missing, and in
// ErrNoDevice otherwise.
func cudaError(err error) error {
	if m := missingCUDA.FindStringSubmatch(err.Error()); m != nil {
		version := m[1] + m[2]
		if version == "" || version == "10" { // 10 is a version of cuRAND, not of CUDA
			version = "the toolkit's version that this library was built for"
		}
		return fmt.Errorf("%w: %s does not load: install CUDA %s and cuDNN 9, or put the folders of the nvidia-* wheels' libraries on %s (%w)",
			ErrNoCUDA, m[0], version, libraryPathVariable, err)
	}
	if runtime.GOOS == "windows" { // Windows' loader does not name the missing library
		if re, ok := errors.AsType[*RuntimeError](err); ok && regexp.MustCompile(`(?i)LoadLibrary|error 126`).MatchString(re.Msg) {
			return fmt.Errorf("%w: install CUDA 13 and cuDNN 9 and put their bin folders on PATH (%w)", ErrNoCUDA, err)
		}
	}
	return fmt.Errorf("%w: the device does not work with this library, update its driver (%w)", ErrNoDevice, err)
}

// appendCUDA configures sessions to run on a CUDA device.
func appendCUDA(so *onnxruntime_go.SessionOptions, device int) error {
	co, err := onnxruntime_go.NewCUDAProviderOptions()
	if err != nil {
		return err
	}
	defer co.Destroy()
	// TF32 has only 10 bits of mantissa. The results would differ too much from those of
	// the CPU.
	if err := co.Update(map[string]string{"device_id": strconv.Itoa(device), "use_tf32": "0"}); err != nil {
		return err
	}
	return so.AppendExecutionProviderCUDA(co)
}

// identity returns a model that copies a float32 vector.
func identity() *pb.ModelProto {
	return modelOf(&pb.GraphProto{
		Input:  []*pb.ValueInfoProto{onnx.ValueInfo("x", pb.TensorProto_FLOAT, -1)},
		Output: []*pb.ValueInfoProto{onnx.ValueInfo("y", pb.TensorProto_FLOAT, -1)},
		Node:   []*pb.NodeProto{{OpType: proto.String("Identity"), Input: []string{"x"}, Output: []string{"y"}}},
	})
}

// modelOf returns a model of the graph g for an operator set that all recent runtimes
// support.
func modelOf(g *pb.GraphProto) *pb.ModelProto {
	g.Name = proto.String("attach")
	return &pb.ModelProto{IrVersion: proto.Int64(8), Graph: g, OpsetImport: []*pb.OperatorSetIdProto{{Domain: proto.String(""), Version: proto.Int64(13)}}}
}
