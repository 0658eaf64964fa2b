package trees

import (
	"math"

	"github.com/attach-uncertainty/attach/internal/graph"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// mostLevels bounds how deep trees of a graph are, which has nodes for each level.
const mostLevels = 100

// Graph writes what the leaves hold that the rows of x fall in, n×trees, by tree
// and leaf.
func (t Trees) Graph(x graph.Tensor, values []float64) (graph.Tensor, error) {
	var roots, feature, left []int64
	var threshold []float32
	var held []float64
	levels := 0
	for _, tree := range t {
		root := len(feature)
		roots = append(roots, int64(root))
		depth := make([]int, len(tree.Feature))
		for i, f := range tree.Feature {
			if f < 0 { // a leaf, which a row stays in
				feature, threshold, left = append(feature, 0), append(threshold, float32(math.Inf(1))), append(left, int64(root+i))
				held = append(held, values[tree.Left[i]])
				levels = max(levels, depth[i])
				continue
			}
			l := tree.Left[i]
			depth[l], depth[l+1] = depth[i]+1, depth[i]+1
			feature, threshold, left = append(feature, int64(f)), append(threshold, tree.Threshold[i]), append(left, int64(root)+int64(l))
			held = append(held, 0)
		}
		values = values[tree.Leaves:]
	}
	if levels > mostLevels {
		return graph.Tensor{}, graph.Refuse("its trees have %d levels, and a graph holds %d at most: fit it with a max_depth", levels, mostLevels)
	}
	if size := 28 * len(feature); size > graph.MostBank {
		return graph.Tensor{}, graph.Refuse("its trees are %d MB, and a graph holds %d MB at most: fit it with fewer trees", size>>20, graph.MostBank>>20)
	}
	row := x.RowNumbers()
	at, start, flat := row.Mul(0.).Add(x.Constant(roots)), row.Mul(float64(x.Cols())), x.Reshape(-1)
	features, thresholds, lefts := x.Constant(feature), x.Constant(threshold), x.Constant(left)
	for range levels {
		v := at.Look(features).Add(start).Look(flat)
		at = at.Look(lefts).Add(at.Look(thresholds).Less(v).To(pb.TensorProto_INT64))
	}
	return at.Look(held), nil
}
