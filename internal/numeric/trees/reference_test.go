package trees

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"
)

type growthOptions struct {
	MaxDepth     int     `json:"max_depth"`
	MinSplit     int     `json:"min_samples_split"`
	MinLeaf      int     `json:"min_samples_leaf"`
	Trees        int     `json:"n_estimators"`
	LearningRate float64 `json:"learning_rate"`
}

func (g growthOptions) options() Options {
	return Options{MaxDepth: g.MaxDepth, MinSplit: g.MinSplit, MinLeaf: g.MinLeaf}
}

type reference struct {
	Levels  []float64
	X, Test [][]float32
	Y       []float32
	Forests []struct {
		Options   growthOptions
		Counts    [][]int32
		Trees     []any // a leaf is its number of rows; an inner node is [feature, threshold, left, right]
		Quantiles [][]float32
	}
	Boosting []struct {
		Options   growthOptions
		Level     float64
		X, Test   [][]float32
		Y         []float32
		Predicted []float64
	}
}

func readReference(t *testing.T) reference {
	b, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var ref reference
	if err := json.Unmarshal(b, &ref); err != nil {
		t.Fatal(err)
	}
	return ref
}

func toGeneral(rows [][]float32) blas32.General {
	m := blas32.General{Rows: len(rows), Cols: len(rows[0]), Stride: len(rows[0])}
	for _, r := range rows {
		m.Data = append(m.Data, r...)
	}
	return m
}

// checkSameTree compares node i of a tree and its descendants with a tree of scikit-learn.
func checkSameTree(t *testing.T, tree *Tree, i int32, want any) {
	t.Helper()
	f := tree.Feature[i]
	node, ok := want.([]any)
	if !ok {
		if f >= 0 {
			t.Fatalf("node %d splits column %d, want a leaf", i, f)
		}
		return
	}
	threshold := node[1].(float64)
	if f != int32(node[0].(float64)) || math.Abs(float64(tree.Threshold[i])-threshold) > 1e-6*math.Abs(threshold) {
		t.Fatalf("node %d splits column %d at %v, want %v at %v", i, f, tree.Threshold[i], node[0], threshold)
	}
	checkSameTree(t, tree, tree.Left[i], node[2])
	checkSameTree(t, tree, tree.Left[i]+1, node[3])
}

func TestForestAgreesWithScikitLearn(t *testing.T) {
	ref := readReference(t)
	test := toGeneral(ref.Test)
	for _, bins := range []int{Exact, maxBins} {
		data, err := NewData(toGeneral(ref.X), bins)
		if err != nil {
			t.Fatal(err)
		}
		targets := newTargets(ref.Y)
		for _, c := range ref.Forests {
			g := newGrower(data, c.Options.options(), 1)
			var grown []baggedTree
			for k, counts := range c.Counts {
				tree := g.grow(targets.centred, counts, 0)
				checkSameTree(t, &tree, 0, c.Trees[k])
				grown = append(grown, targets.baggedTree(tree, g.leaf, counts))
			}
			forest := newForest(targets.values, grown)
			got := make([]float32, test.Rows*len(ref.Levels))
			forest.Quantiles(got, test, ref.Levels)
			for i, row := range c.Quantiles {
				for l, want := range row {
					if got[i*len(ref.Levels)+l] != want {
						t.Errorf("%+v: row %d at %v: %v, want %v", c.Options, i, ref.Levels[l], got[i*len(ref.Levels)+l], want)
					}
				}
			}
		}
	}
}

func TestBoostAgreesWithScikitLearn(t *testing.T) {
	for _, c := range readReference(t).Boosting {
		for _, bins := range []int{Exact, maxBins} {
			data, err := NewData(toGeneral(c.X), bins)
			if err != nil {
				t.Fatal(err)
			}
			b, err := Boost(context.Background(), data, c.Y, BoostOptions{
				Options: c.Options.options(), Level: c.Level, Trees: c.Options.Trees, LearningRate: c.Options.LearningRate,
			})
			if err != nil {
				t.Fatal(err)
			}
			got := make([]float64, len(c.Predicted))
			b.Predict(got, toGeneral(c.Test))
			for i, want := range c.Predicted {
				if !(math.Abs(got[i]-want) <= 1e-9) {
					t.Errorf("%+v at %v, bins %d: row %d: %v, want %v", c.Options, c.Level, bins, i, got[i], want)
				}
			}
		}
	}
}
