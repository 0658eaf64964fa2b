package ort

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// Errors that a caller can branch on.
var (
	// ErrNotFound: there is no usable libonnxruntime, and none was to be installed.
	ErrNotFound = errors.New("no usable libonnxruntime")
	// ErrNoClient: neither npm nor pip is there to install libonnxruntime with.
	ErrNoClient = errors.New("neither npm nor pip found")
	// ErrChecksum: a library is not, byte for byte, the one that was published.
	ErrChecksum = errors.New("sha256 mismatch")
	// ErrUnsupported: there is no published library for this operating system and processor.
	ErrUnsupported = errors.New("no published libonnxruntime for this platform")
	// ErrLibrary: the file is not a libonnxruntime that can be loaded here, or it is too old.
	ErrLibrary = errors.New("not a usable libonnxruntime")

	// ErrNoGPULibrary: CUDA was asked for and the library has no CUDA provider beside it.
	ErrNoGPULibrary = errors.New("no CUDA build of libonnxruntime")
	// ErrNoCUDA: CUDA was asked for and a CUDA or cuDNN library is missing.
	ErrNoCUDA = errors.New("CUDA or cuDNN missing")
	// ErrNoDevice: CUDA was asked for and there is no such device.
	ErrNoDevice = errors.New("no CUDA device")

	// ErrDType: a model's input or output has an element type that is not supported.
	ErrDType = errors.New("unsupported type")
)

// InstallError says that no client could install libonnxruntime, and how it is done by hand.
type InstallError struct{ Err error }

func (e *InstallError) Error() string {
	return e.Err.Error() + "; get version " + pinnedVersion + " for your system from https://github.com/microsoft/onnxruntime/releases, unpack it and name the library in it"
}

// Unwrap returns what the clients said.
func (e *InstallError) Unwrap() error { return e.Err }

// RuntimeError is a failure reported by ONNX Runtime, reduced to its message.
type RuntimeError struct {
	Msg string // one sentence
	Err error  // as the runtime gave it, source positions included
}

func (e *RuntimeError) Error() string { return e.Msg }

// Unwrap returns the unabridged error.
func (e *RuntimeError) Unwrap() error { return e.Err }

// InputError says that a tensor does not fit the input (or preallocated output) of a session.
type InputError struct {
	Kind string    // "input" or "output"
	Want ValueInfo // what the model declares
	Got  ValueInfo // what was passed
}

func (e *InputError) Error() string {
	return fmt.Sprintf("%s %q: want %s, got %s", e.Kind, e.Want.Name, e.Want.typeString(), e.Got.typeString())
}

var (
	bindingPrefix = regexp.MustCompile(`^(?:Error (?:creating C session(?: from file)?|running network|applying ORT environment option|creating ORT environment): |Platform-specific initialization failed: |ORT API error creating tensor: )+`)
	sourceLine    = regexp.MustCompile(`\S*\.(?:cc|cpp|cu|cuh|h|hpp):\d+:? (?:(?:[\w:~<>*&,]+ ){0,6}?[\w:~<>]*::[\w:~<>]*\((?:[^()]|\([^()]*\))*\)(?: const)?(?: \[with [^\]]*\])? )?`)
	statusTag     = regexp.MustCompile(`\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : `)
	loadPrefix    = regexp.MustCompile(`^Load model from .*? failed: ?`)
	failedNode    = regexp.MustCompile(`^Non-zero status code returned while running (\S+) node\. Name:'([^']*)' Status Message: `)
	spaces        = regexp.MustCompile(`\s+`)
)

// sentence turns an error of the binding into one line without source positions; nil stays nil.
func sentence(err error) error {
	if err == nil {
		return nil
	}
	s := spaces.ReplaceAllString(strings.TrimSpace(err.Error()), " ")
	s = bindingPrefix.ReplaceAllString(s, "")
	s = statusTag.ReplaceAllString(s, "")
	s = loadPrefix.ReplaceAllString(s, "")
	s = sourceLine.ReplaceAllString(s, "")
	s = failedNode.ReplaceAllString(s, "node '$2' ($1): ")
	s = strings.TrimRight(s, ". ")
	if r := []rune(s); len(r) > 1 && unicode.IsUpper(r[0]) && unicode.IsLower(r[1]) {
		r[0] = unicode.ToLower(r[0])
		s = string(r)
	}
	return &RuntimeError{Msg: s, Err: err}
}
