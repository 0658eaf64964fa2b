package main

import (
	"context"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/heads/fit"
	"github.com/attach-uncertainty/attach/internal/ort"
)

// useRuntimeBLAS runs large matrix products of the whole process in ONNX
// Runtime until stop is called.
func useRuntimeBLAS(ctx context.Context, o featurize.Options) (stop func(), err error) {
	r, err := ort.Open(ctx, ort.Options{Library: o.Library, Provider: o.Provider, Device: o.Device, Threads: o.Threads, Log: o.Log})
	if err != nil {
		return nil, err
	}
	lib := r.Library()
	o.Log.Debug("runtime library", "path", lib.Path, "version", lib.Version, "from", lib.Source, "provider", r.Provider())
	return r.UseBLAS(), nil
}

// newEngine is the trainer of heads, in the runtime that models run in.
func newEngine(ctx context.Context, o featurize.Options) (*fit.Engine, error) {
	return fit.New(ctx, fit.Options{Library: o.Library, Provider: o.Provider, Device: o.Device, Threads: o.Threads, Log: o.Log})
}
