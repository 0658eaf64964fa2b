package compare_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
)

// oracleMethod returns an oracle that stores the outliers it is fitted on in fitted.
func oracleMethod(fitted *[]float32) ood.Method {
	m := normMethod
	m.Name, m.Needs, m.Control = "oracle", ood.Needs{Features: true, Outliers: true}, true
	m.Fit = func(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
		*fitted = slices.Clone(t.Outliers.Features.Data)
		return fitNorm(ctx, t, p)
	}
	return m
}

// TestOutliers checks that an oracle is not measured on rows that it was fitted on, and that
// other methods are measured on all rows.
func TestOutliers(t *testing.T) {
	var seen []float32
	c := comparison(normMethod, oracleMethod(&seen))
	c.OOD = column(3, 4, 5, 6, 7, 8, 9)
	for _, test := range []struct {
		fraction float64
		outliers ood.Batch
		measured int
		fitted   int
	}{
		{0, ood.Batch{}, 3, 4}, {.2, ood.Batch{}, 6, 1}, {.99, ood.Batch{}, 1, 6}, {.2, column(90, 80), 7, 2},
	} {
		c.OutlierFraction, c.Training.Outliers = test.fraction, test.outliers
		r, err := compare.Run(context.Background(), c)
		if err != nil || len(r.Methods) != 2 {
			t.Fatalf("%v, skipped %v", err, r.Skipped)
		}
		plain, oracle := r.Methods[0], r.Methods[1]
		if r.OODRows != 7 || plain.OODRows != 0 || plain.OutliersFitted != 0 || len(slices.Concat(plain.Configs[0].OODScores...)) != 7 {
			t.Errorf("fraction %v: the other method is measured on %d of %d rows", test.fraction, len(slices.Concat(plain.Configs[0].OODScores...)), r.OODRows)
		}
		if oracle.OODRows != test.measured || oracle.OutliersFitted != test.fitted || len(seen) != test.fitted {
			t.Errorf("fraction %v: fitted with %d (%v) and measured on %d", test.fraction, oracle.OutliersFitted, seen, oracle.OODRows)
		}
		var all []float64
		for _, v := range seen {
			all = append(all, float64(v)*float64(v))
		}
		all = slices.Concat(append(oracle.Configs[0].OODScores, all)...)
		slices.Sort(all)
		want := []float64{9, 16, 25, 36, 49, 64, 81}
		if test.outliers.Len() > 0 {
			want = append(want, 6400, 8100)
		}
		if !slices.Equal(all, want) {
			t.Errorf("fraction %v: fitted with %v and measured on %v", test.fraction, seen, oracle.Configs[0].OODScores)
		}
		b, err := json.Marshal(r.Methods)
		if err != nil || strings.Count(string(b), `"ood_rows":`) != 1 || strings.Count(string(b), `"outliers_fitted":`) != 1 {
			t.Errorf("%s, %v", b, err)
		}
	}
	c.OutlierFraction, c.Training.Outliers = 0, ood.Batch{}
	draw := func(seed uint64) []float32 {
		c.Training.Seed = seed
		if _, err := compare.Run(context.Background(), c); err != nil {
			t.Fatal(err)
		}
		return slices.Clone(seen)
	}
	if seed1, again, seed2 := draw(1), draw(1), draw(2); !slices.Equal(seed1, again) || slices.Equal(seed1, seed2) {
		t.Errorf("seed 1 draws %v, then %v, and seed 2 %v", seed1, again, seed2)
	}
}

func TestTooFewOutliers(t *testing.T) {
	var fitted []float32
	c := comparison(normMethod, oracleMethod(&fitted))
	c.OOD = column(3)
	r, err := compare.Run(context.Background(), c)
	if err != nil || len(r.Skipped) != 1 || !strings.Contains(r.Skipped[0].Reason, `method "oracle" needs out-of-`) {
		t.Errorf("%+v, %v", r, err)
	}
	for _, fraction := range []float64{-.1, 1, 2} {
		c.OutlierFraction = fraction
		if _, err := compare.Run(context.Background(), c); err == nil || !strings.Contains(err.Error(), "fraction") {
			t.Errorf("fraction %v: %v", fraction, err)
		}
	}
}
