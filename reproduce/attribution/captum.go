package attribution

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// writeForCaptum writes the files that with_captum.py reads: one ONNX model that also computes
// the score, and an .npz file with rows, reference rows, places of the faults and attributions.
func (m *measurement) writeForCaptum(ctx context.Context, b *attach.Bundle, name string, x, reference ood.InputBlock, places [][]int, byMethod map[string][]featurize.Attribution) error {
	path := filepath.Join(m.captum, name+".npz")
	arrays := map[string]rows.Array{}
	add := func(name string, data any, shape ...int) { arrays[name] = rows.Array{Shape: shape, Data: data} }
	for name, t := range map[string]ood.Tensor{"rows": x.Tensors[0], "reference": reference.Tensors[0]} {
		add(name, t.Data, t.Shape...)
	}
	// Attribute draws its reference rows in the same way.
	var drawn []int64
	for _, i := range rand.New(rand.NewPCG(m.options.Seed, 0)).Perm(reference.Len())[:min(reference.Len(), m.options.References)] {
		drawn = append(drawn, int64(i))
	}
	add("drawn", drawn, len(drawn))
	var elements int
	for method, list := range byMethod {
		elements = len(list[0].Tensors[0].Values)
		var values, scores []float64
		for _, a := range list {
			values, scores = append(values, a.Tensors[0].Values...), append(scores, a.Score)
		}
		add(method, values, len(list), elements)
		add("scores", scores, len(scores))
		add("baseline", []float64{list[0].Baseline}, 1)
		add("patch", []int64{int64(list[0].Tensors[0].Patch)}, 1)
	}
	faults := make([]bool, len(places)*elements)
	for i, list := range places {
		for _, e := range list {
			faults[i*elements+e] = true
		}
	}
	add("faults", faults, len(places), elements)
	if err := experiment.WriteFile(path, func(w io.Writer) error { return npy.WriteNPZ(w, arrays, false) }); err != nil {
		return err
	}
	if _, err := featurize.Export(ctx, b, filepath.Join(m.captum, name+".onnx"), featurize.ExportOptions{Sets: "none"}); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
