package heads

import (
	"context"

	"github.com/attach-uncertainty/attach/heads/train"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/rows"
)

// QuantileRegressor is a fitted model of the conditional distribution of one
// or several targets. It is safe for concurrent use.
type QuantileRegressor interface {
	// Quantiles predicts the quantiles at levels, each in (0,1), for the rows
	// of x, n×d. Quantiles of a row never cross, and none depends on which
	// others are asked.
	Quantiles(x blas32.General, levels []float64) Quantiles
}

// Regression is what a QuantileMethod is fitted on.
type Regression struct {
	X, Y    blas32.General // n×d inputs or features, n×t targets
	Trainer train.Trainer  // for networks; nil where none is at hand
	// Levels are the levels that matter, such as α/2 and 1−α/2, for methods
	// that fit each level on its own; methods of all levels ignore it.
	Levels []float64
	Epochs int // of networks; 0 is the method's choice
	// ValidationX and ValidationY, if they have rows, are for networks to
	// choose by which epoch's weights they keep. Nothing is fitted to them,
	// and yet a promise about coverage needs other rows.
	ValidationX, ValidationY blas32.General
	Seed                     uint64
	// Progress, if not nil, is called with the share of the fit that is done.
	Progress func(share float64)
}

// QuantileMethod is one way to predict intervals, as a value.
type QuantileMethod struct {
	Name string // as users type it: lower case, hyphens
	Doc  string // one sentence, then details
	Ref  string // paper or equation
	// NeedsTrainer says that Regression.Trainer must not be nil.
	NeedsTrainer bool
	// LevelsOnly says that a fit knows Regression.Levels alone: quantiles at
	// other levels are interpolated.
	LevelsOnly bool
	// EndsOnly says that Regression.Levels must be the two ends of an interval.
	EndsOnly bool
	// Default is the configuration used without a sweep, by parameter name:
	// float64, string or bool.
	Default map[string]any
	// Grid is the sweep of the paper.
	Grid []map[string]any
	// Fit fits one configuration.
	Fit func(ctx context.Context, r Regression, params map[string]any) (QuantileRegressor, error)
	// FitGrid, if not nil, fits several configurations and seeds at once at
	// less cost than one by one: result[s][g] is seed s with grid[g].
	FitGrid func(ctx context.Context, r Regression, seeds []uint64, grid []map[string]any) ([][]QuantileRegressor, error)
	// Restore rebuilds what Fit returned, which is a Stater, from its State. A
	// state that no fit can have made is an error. It is nil for a method whose
	// fits cannot be saved.
	Restore func(s rows.State) (QuantileRegressor, error)
}
