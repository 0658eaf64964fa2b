package attribution

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// tableModel is a model of a table, and the methods that work for it.
type tableModel struct {
	table, kind string
	methods     []string
}

func tableModels() (list []tableModel) {
	for _, table := range []string{"california", "abalone", "concrete", "wine-quality-red", "power-plant", "naval-propulsion-plant", "energy", "kin8nm"} {
		list = append(list, tableModel{table, "forest", []string{"replacement"}}, tableModel{table, "mlp", []string{"gradient", "replacement"}})
	}
	return list
}

// planted is the number of rows with a planted fault. A small table has fewer test rows, so it
// gets several faults for each row.
const planted = 1000

// tables plants a fault into one cell of each row.
func (m *measurement) tables(ctx context.Context, dir string) error {
	for _, t := range tableModels() {
		if err := m.table(ctx, dir, t); err != nil {
			return fmt.Errorf("%s-%s: %w", t.table, t.kind, err)
		}
	}
	return nil
}

func (m *measurement) table(ctx context.Context, dir string, t tableModel) error {
	var data [5]blas32.General
	z, err := npy.OpenNPZ(filepath.Join(dir, t.table+".npz"))
	if err != nil {
		return err
	}
	for i, name := range []string{"x_fit", "y_fit", "x_cal", "y_cal", "x_test"} {
		entry, err := z.Entry(name)
		if err != nil {
			return err
		}
		a, err := entry.Read()
		if err != nil {
			return err
		}
		data[i] = blas32.General{Rows: a.Shape[0], Cols: a.Shape[1], Stride: a.Shape[1], Data: npy.Float32s(a)}
	}
	fit, yFit, cal, yCal, test := data[0], data[1], data[2], data[3], data[4]
	path, options := filepath.Join(dir, t.table+"-"+t.kind+".onnx"), featurize.Options{Runtime: featurize.Runtime{Library: m.plan.Library}}
	info, err := featurize.Inspect(ctx, path, options)
	if err != nil {
		return err
	}
	options.Feature = info.Feature.LastLayer // so that some detectors read columns, and others a layer
	model, err := featurize.Open(ctx, path, options)
	if err != nil {
		return err
	}
	defer model.Close()
	o := attach.FitOptions{Base: model.Base(attach.Regression), Targets: yFit, CalTargets: yCal, Last: model.Last(), SkipIntervals: true}
	for to, x := range map[*ood.Batch]blas32.General{&o.Batch: fit, &o.Cal: cal} {
		if *to, err = model.Network().Forward(ctx, block(x)); err != nil {
			return err
		}
	}
	a, p, err := m.fit(ctx, o)
	if err != nil {
		return err
	}
	defer a.Close()
	for _, fault := range []string{"shift", "extreme", "swap"} {
		f := plantCells(fit, test, fault, m.plan.Seed)
		f.set = t.table + "-" + t.kind + " " + p.Bundle().Detector.Method
		if err := m.measure(ctx, a, p, block(cal), f, t.methods...); err != nil {
			return err
		}
	}
	return nil
}

func block(x blas32.General) ood.InputBlock { return ood.BlockOf([]int{x.Rows, x.Cols}, x.Data) }

// plantCells changes one random cell of each row, in a column that varies. "shift" adds or subtracts 8 standard
// deviations of the column. "extreme" takes the smallest or largest cell of the column in the
// test rows. "swap" takes the cell of another row, which is unusual only beside the other cells.
func plantCells(fit, test blas32.General, fault string, seed uint64) faulty {
	rng := rand.New(rand.NewPCG(seed, 5))
	means, deviations := make([]float64, fit.Cols), make([]float64, fit.Cols)
	for j := range fit.Cols {
		means[j], deviations[j] = stat.MeanStdDev(column(fit, j), nil)
	}
	chosen, order := make([]int, planted), rng.Perm(test.Rows)
	for i := range chosen {
		chosen[i] = order[i%test.Rows]
	}
	x := rows.Select(test, chosen)
	f := faulty{fault: fault, rows: block(x), baseline: "z-score"}
	for i := range x.Rows {
		row := rows.Row(x, i)
		var j int
		for old := row[j]; row[j] == old; { // the new value may equal the old one
			j = rng.IntN(x.Cols)
			old = row[j]
			others := column(test, j)
			sign := float64(2*rng.IntN(2) - 1)
			switch {
			case fault == "shift":
				row[j] += float32(8 * sign * deviations[j])
			case fault == "swap":
				row[j] = float32(others[rng.IntN(len(others))])
			case sign < 0:
				row[j] = float32(slices.Min(others))
			default:
				row[j] = float32(slices.Max(others))
			}
		}
		z := make([]float64, x.Cols)
		for k, v := range row {
			z[k] = math.Abs(float64(v)-means[k]) / max(deviations[k], 1e-12)
		}
		f.places, f.suspicion = append(f.places, []int{j}), append(f.suspicion, z)
	}
	return f
}

func column(x blas32.General, j int) []float64 {
	list := make([]float64, x.Rows)
	for i := range list {
		list[i] = float64(rows.Row(x, i)[j])
	}
	return list
}
