package ort

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// Callers can test for these errors with errors.Is.
var (
	// ErrNotFound means that no usable libonnxruntime was found. Open returns it only if it
	// was not allowed to install one.
	ErrNotFound = errors.New("no usable libonnxruntime")
	// ErrNoClient means that neither npm nor pip is available to install libonnxruntime.
	ErrNoClient = errors.New("neither npm nor pip found")
	// ErrChecksum means that the SHA-256 of a library file differs from the published one.
	ErrChecksum = errors.New("sha256 mismatch")
	// ErrUnsupported means that no library is published for this operating system and
	// processor.
	ErrUnsupported = errors.New("no published libonnxruntime for this platform")
	// ErrLibrary means that a file is not a libonnxruntime, cannot be loaded on this
	// machine, or is too old.
	ErrLibrary = errors.New("not a usable libonnxruntime")

	// ErrNoGPULibrary means that CUDA cannot be used, because there is no library with the
	// CUDA provider in its folder.
	ErrNoGPULibrary = errors.New("no CUDA build of libonnxruntime")
	// ErrNoCUDA means that CUDA cannot be used, because a CUDA or cuDNN library is missing.
	ErrNoCUDA = errors.New("CUDA or cuDNN missing")
	// ErrNoDevice means that CUDA cannot be used, because the device does not exist or does
	// not work.
	ErrNoDevice = errors.New("no CUDA device")

	// ErrDType means that an input or output of a model has an unsupported element type.
	ErrDType = errors.New("unsupported type")
)

// InstallError reports that neither pip nor npm could install libonnxruntime. Its text
// explains how to install the library by hand.
type InstallError struct{ Err error }

func (e *InstallError) Error() string {
	return e.Err.Error() + "; get version " + pinnedVersion + " for your system from https://github.com/microsoft/onnxruntime/releases, unpack it and name the library in it"
}

// Unwrap returns the error of the clients.
func (e *InstallError) Unwrap() error { return e.Err }

// RuntimeError is an error of ONNX Runtime. Its text is only the message, without source
// positions.
type RuntimeError struct {
	Msg string // the message on one line, without a final period
	Err error  // the original error, with source positions
}

func (e *RuntimeError) Error() string { return e.Msg }

// Unwrap returns the original error of ONNX Runtime.
func (e *RuntimeError) Unwrap() error { return e.Err }

// InputError reports that the type or shape of a tensor does not match an input of a
// session, or an output that the caller allocated.
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

// cleanError returns a *RuntimeError with the message of an error of the binding, on one
// line and without source positions. For nil it returns nil.
func cleanError(err error) error {
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
