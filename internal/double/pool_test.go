package double_test

import (
	"testing"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// Pooling over a whole image takes nodes by its sides, not by its area: the
// runtime needs a minute to load ten thousands of them.
func TestLargeWindow(t *testing.T) {
	b := onnx.NewBuilder("case", 17)
	x := b.Input("x", pb.TensorProto_FLOAT, "n", 3, 40, 40)
	b.OutputAs("y", b.Node("AveragePool", []string{x}, onnx.Attr("kernel_shape", []int64{40, 40})), pb.TensorProto_FLOAT, "n", 3, 1, 1)
	if n := len(doubled(t, b).Graph.Node); n > 4*(40+40) {
		t.Errorf("%d nodes", n)
	}
}
