package ort

import (
	"errors"
	"strings"
	"testing"
)

func TestCUDAError(t *testing.T) {
	for _, c := range []struct {
		raw      string
		is       error
		contains []string
	}{
		{"/onnxruntime_src/onnxruntime/core/session/provider_bridge_ort.cc:1988 onnxruntime::Provider& onnxruntime::ProviderLibrary::Get() [ONNXRuntimeError] : 1 : FAIL : " +
			"Failed to load library /x/libonnxruntime_providers_cuda.so with error: libcublasLt.so.13: cannot open shared object file: No such file or directory",
			ErrNoCUDA, []string{"libcublasLt.so.13 does not load", "install CUDA 13 and cuDNN 9"}},
		{"Failed to load library /x/libonnxruntime_providers_cuda.so with error: libcurand.so.10: cannot open shared object file", ErrNoCUDA, []string{"libcurand.so.10", "cuDNN 9"}},
		{"Failed to load library with error: libcudnn.so.9: cannot open shared object file", ErrNoCUDA, []string{"libcudnn.so.9"}},
		{"CUDA failure 100: no CUDA-capable device is detected ; GPU=-1 ; hostname=h", ErrNoDevice, []string{"no CUDA-capable device"}},
		{"CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version", ErrNoDevice, []string{"update its driver"}},
	} {
		err := cudaError(cleanError(errors.New(c.raw)))
		if !errors.Is(err, c.is) {
			t.Errorf("%v is not %v", err, c.is)
		}
		for _, s := range c.contains {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%q does not say %q", err, s)
			}
		}
		for _, s := range []string{".cc", "::", "ONNXRuntimeError"} {
			if strings.Contains(err.Error(), s) {
				t.Errorf("%q says %q", err, s)
			}
		}
	}
}

func TestSentence(t *testing.T) {
	for raw, want := range map[string]string{
		"Error running network: Non-zero status code returned while running MatMul node. Name:'/fc/MatMul' Status Message: matmul_helper.h:145 Compute left_dim == right_dim was false. MatMul dimension mismatch.": "node '/fc/MatMul' (MatMul): Compute left_dim == right_dim was false. MatMul dimension mismatch",
		"Error creating C session: Load model from /a b/m.onnx failed:Protobuf parsing failed.":                                                                                                                     "protobuf parsing failed",
		"/o/graph.cc:12 void onnxruntime::Graph::Check(const std::map<int, f(x)>&) const [with T = int] [ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Node (a)\n has input size 0":                                   "node (a) has input size 0",
		"Exception: a.h:3: Something failed (see log) twice.": "exception: Something failed (see log) twice",
		"ORT went wrong": "ORT went wrong",
	} {
		if got := cleanError(errors.New(raw)).Error(); got != want {
			t.Errorf("%q:\n got %q\nwant %q", raw, got, want)
		}
	}
	if cleanError(nil) != nil {
		t.Error("nil became an error")
	}
}
