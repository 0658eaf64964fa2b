package heads

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/attach-uncertainty/attach/heads/train"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/rows"
)

// SQROptions says how to fit simultaneous quantile regression. The zero value
// works.
type SQROptions struct {
	// Hidden are the widths of the hidden layers; nil stands for one of 64,
	// an empty slice for a linear model.
	Hidden []int
	// Levels are the quantile levels trained on; nil stands for all of (0,1),
	// as in the paper's text. Two levels, α/2 and 1−α/2, are the variant that
	// the paper's table of intervals uses. They are also the levels that
	// predictions are interpolated between.
	Levels []float64

	Epochs       int     // passes over the rows; 0 stands for DefaultSQREpochs(n, BatchSize)
	BatchSize    int     // 0 stands for 64
	LearningRate float64 // of Adam; 0 stands for 1e-3
	WeightDecay  float64 // added to the gradient, or decoupled from it
	Decoupled    bool
	Dropout      float64 // of hidden units, in [0,1)
	Averaging    float64 // of the weights over epochs; see ModelConfig
	Seed         uint64

	// Validation, if not nil, are rows in the units of x and y by whose
	// pinball loss the weights to keep are chosen.
	Validation *train.Validation

	// Progress, if not nil, is called with steps done and their total.
	Progress func(done, total int)
}

// DefaultSQREpochs is the number of passes over n rows that make about
// 10 000 steps, within [10, 500].
func DefaultSQREpochs(n, batch int) int {
	steps := (n + batch - 1) / batch
	return min(max(10_000/max(steps, 1), 10), 500)
}

// SQR predicts every quantile of one or several targets.
//
// Predictions come from the networks' values on the levels of Grid, sorted
// per row and interpolated between. They never cross, and a quantile does not
// depend on which others are asked.
//
// References: Tagasovska & Lopez-Paz (2019), section 2; Chernozhukov,
// Fernández-Val & Galichon (2010), Quantile and Probability Curves Without
// Crossing, for the sorting.
type SQR struct {
	// RegressionNetworks has one network per target, of one architecture. It reads a
	// standardised row and the level as (τ−0.5)·12, and makes a standardised
	// target.
	RegressionNetworks
	Grid []float64 `state:"grid[l]"` // increasing levels in (0,1)
}

// FitSQR fits simultaneous quantile regression of the targets y, n×t, on the
// rows of x, n×d: features, or inputs. Targets are learnt by separate
// networks that are trained together. Columns of x that are constant are
// ignored in prediction.
func FitSQR(ctx context.Context, x, y blas32.General, tr train.Trainer, o SQROptions) (*SQR, error) {
	fitted, err := FitSQRGrid(ctx, x, y, tr, []SQROptions{o})
	if err != nil {
		return nil, err
	}
	return fitted[0], nil
}

// FitSQRGrid fits several configurations to the same rows, in order. Those
// that differ in seed, learning rate, weight decay, dropout or averaging alone
// are trained together, at less cost than one by one.
//
// Progress of the first configuration of each group is called, with the
// group's steps.
func FitSQRGrid(ctx context.Context, x, y blas32.General, tr train.Trainer, grid []SQROptions) ([]*SQR, error) {
	groups := map[string][]int{}
	var keys []string
	resolved := make([]SQROptions, len(grid))
	for i, o := range grid {
		o, err := o.resolve(x, y)
		if err != nil {
			return nil, err
		}
		resolved[i] = o
		key := fmt.Sprintf("%v %v %v %v %p", o.Hidden, o.Levels, o.Epochs, o.BatchSize, o.Validation)
		if groups[key] == nil {
			keys = append(keys, key)
		}
		groups[key] = append(groups[key], i)
	}
	fitted := make([]*SQR, len(grid))
	for _, key := range keys {
		o := resolved[groups[key][0]]
		p := train.Problem{
			Hidden: o.Hidden, Outputs: 1, Loss: train.Pinball, Conditional: true, Levels: o.Levels,
			Epochs: o.Epochs, BatchSize: o.BatchSize, Validation: o.Validation, Progress: o.Progress,
		}
		for _, i := range groups[key] {
			o := resolved[i]
			p.Models = append(p.Models, train.ModelConfig{
				Seed: o.Seed, LearningRate: o.LearningRate, WeightDecay: o.WeightDecay,
				Decoupled: o.Decoupled, Dropout: o.Dropout, Averaging: o.Averaging,
			})
		}
		networks, err := FitRegressionNetworks(ctx, x, y, tr, p)
		if err != nil {
			return nil, err
		}
		for j, i := range groups[key] {
			n := networks[j]
			s := &SQR{RegressionNetworks: n, Grid: resolved[i].Levels}
			if s.Grid == nil {
				s.Grid = defaultGrid()
			}
			fitted[i] = s
		}
	}
	return fitted, nil
}

func (o SQROptions) resolve(x, y blas32.General) (SQROptions, error) {
	if err := checkRegression(x, y); err != nil {
		return o, err
	}
	if o.Hidden == nil {
		o.Hidden = []int{64}
	}
	if o.BatchSize == 0 {
		o.BatchSize = 64
	}
	if o.BatchSize > 0 && o.Epochs == 0 {
		o.Epochs = DefaultSQREpochs(x.Rows, o.BatchSize)
	}
	if o.LearningRate == 0 {
		o.LearningRate = 1e-3
	}
	switch {
	case slices.ContainsFunc(o.Hidden, func(w int) bool { return w < 1 }):
		return o, fmt.Errorf("hidden layers %v: widths must be positive", o.Hidden)
	case o.Epochs < 0 || o.BatchSize < 0 || !(o.LearningRate > 0):
		return o, fmt.Errorf("epochs %d, batch size %d, learning rate %v: all must be positive", o.Epochs, o.BatchSize, o.LearningRate)
	case !(o.WeightDecay >= 0) || math.IsInf(o.WeightDecay, 0):
		return o, fmt.Errorf("weight decay is %v: it must be zero or positive", o.WeightDecay)
	case !(o.Dropout >= 0 && o.Dropout < 1):
		return o, fmt.Errorf("dropout is %v: it must lie in [0,1)", o.Dropout)
	case !(o.Averaging >= 0 && o.Averaging < 1):
		return o, fmt.Errorf("averaging is %v: it must lie in [0,1)", o.Averaging)
	}
	if o.Levels != nil {
		o.Levels = slices.Clone(o.Levels)
		slices.Sort(o.Levels)
		if err := checkLevels(o.Levels); err != nil {
			return o, err
		}
	}
	return o, nil
}

// checkLevels returns an error unless levels are increasing in (0,1) and there
// is at least one.
func checkLevels(levels []float64) error {
	if len(levels) == 0 {
		return errors.New("no quantile levels")
	}
	for i, l := range levels {
		if !(l > 0 && l < 1) {
			return fmt.Errorf("quantile level %v does not lie between 0 and 1", l)
		}
		if i > 0 && l <= levels[i-1] {
			return fmt.Errorf("quantile level %v is given twice, or out of order", l)
		}
	}
	return nil
}

// defaultGrid is 0.005, 0.01, …, 0.995 and .001, .0025, .9975, .999 in the
// tails: 203 levels.
func defaultGrid() []float64 {
	grid := []float64{0.001, 0.0025}
	for i := 1; i < 200; i++ {
		grid = append(grid, float64(i)/200)
	}
	return append(grid, 0.9975, 0.999)
}

// State implements Stater.
func (s *SQR) State() rows.State { return rows.Save(s) }

// Restored implements rows.Restored.
func (s *SQR) Restored() error {
	if err := checkLevels(s.Grid); err != nil {
		return err
	}
	return s.Validate(1, 1)
}

func (s Standard) validate() error {
	if len(s.Mean) != len(s.Scale) {
		return fmt.Errorf("%d means and %d scales", len(s.Mean), len(s.Scale))
	}
	for j := range s.Mean {
		if math.IsNaN(s.Mean[j]) || math.IsInf(s.Mean[j], 0) || !(s.Scale[j] > 0) || math.IsInf(s.Scale[j], 0) {
			return fmt.Errorf("column %d has mean %v and scale %v", j, s.Mean[j], s.Scale[j])
		}
	}
	return nil
}
