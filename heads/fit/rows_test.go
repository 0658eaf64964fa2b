package fit

import (
	"context"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/heads/train"
)

// TestRows checks that a model that is trained on selected rows equals a model that gets a
// matrix of only these rows. Some models get row 3 several times. Models trained together
// must each use their own rows.
func TestRows(t *testing.T) {
	e := open(t)
	p := train.Problem{
		X: normal(1, 50, 3), Y: normal(2, 50, 2), Hidden: []int{8}, Outputs: 1,
		Loss: "pinball", Conditional: true, Epochs: 4, BatchSize: 16,
		Models: []train.ModelConfig{
			{Seed: 1, LearningRate: 1e-2}, {Seed: 1, LearningRate: 1e-2},
			{Seed: 1, LearningRate: 2e-2, Target: 1}, {Seed: 2, LearningRate: 1e-2, Dropout: .2},
		},
	}
	rows := [][]int{{3, 49, 3}, {0, 1, 2}, {0, 1, 2}, {3, 49, 3}}
	for m := range rows {
		for i := 3; i < 37; i++ { // 37 rows, so the last batch has 5
			rows[m] = append(rows[m], i+m%2)
		}
		p.Models[m].Rows = rows[m]
	}
	oneSeed := p
	oneSeed.Models = p.Models[:3]
	checkRowsAlone(t, e, oneSeed)
	checkRowsAlone(t, e, p)
}

// checkRowsAlone checks that models trained together equal models trained separately on matrices of
// their own rows.
func checkRowsAlone(t *testing.T, e *Engine, p train.Problem) {
	t.Helper()
	together := trained(t, e, p)
	for m, config := range p.Models {
		alone := p
		alone.X, alone.Y = pickRows(p.X, config.Rows), pickRows(p.Y, config.Rows)
		config.Rows = nil
		alone.Models = []train.ModelConfig{config}
		want := trained(t, e, alone)[0]
		for i, l := range want.Layers {
			compare(t, "weight", i, together[m].Layers[i].W.Data, l.W.Data, 1e-4)
			compare(t, "bias", i, together[m].Layers[i].B, l.B, 1e-4)
		}
	}
}

func pickRows(m blas32.General, rows []int) blas32.General {
	return matrix(len(rows), m.Cols, func(i, j int) float64 { return float64(m.Data[rows[i]*m.Stride+j]) })
}

func TestRowsErrors(t *testing.T) {
	for want, rows := range map[string][2][]int{
		"row 5 of 5":              {{0, 5}, {0, 1}},
		"row -1 of 5":             {{0, -1}, {0, 1}},
		"3 rows and model 0 on 2": {{0, 1}, {0, 1, 2}},
		"all rows":                {{0, 1}, nil},
		"no rows":                 {{}, {}},
	} {
		p := train.Problem{
			X: normal(1, 5, 2), Y: normal(2, 5, 1), Outputs: 1, Loss: "mse", Epochs: 1, BatchSize: 2,
			Models: []train.ModelConfig{{LearningRate: 1, Rows: rows[0]}, {LearningRate: 1, Rows: rows[1]}},
		}
		if _, err := new(Engine).Train(context.Background(), p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("rows %v: error %v, want one that says %q", rows, err, want)
		}
	}
}
