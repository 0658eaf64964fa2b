package compare_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/memo"
	"github.com/attach-uncertainty/attach/internal/numeric/measure"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
)

func withSets(methods ...ood.Method) compare.Options {
	c := comparison(methods...)
	c.OOD = ood.Batch{}
	c.OODSets = []compare.OODSet{
		{Name: "a", Group: "near", Batch: column(3.5, 5)},
		{Name: "b", Group: "far", Batch: column(9)},
		{Name: "c", Group: "near", Batch: column(0, 2.5, 3)},
		{Name: "d", Batch: column(2)},
	}
	return c
}

func TestCompareOODSets(t *testing.T) {
	fits := 0
	counted := normMethod
	counted.Fit = func(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
		fits++
		return fitNorm(ctx, t, p)
	}
	c := withSets(counted)
	c.Resamples = 40
	r, err := compare.Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if fits != 1 {
		t.Errorf("%d fits for four sets", fits)
	}
	if r.OODRows != 7 || !slices.Equal(r.OODSets, []compare.Set{{Name: "a", Group: "near", Rows: 2}, {Name: "b", Group: "far", Rows: 1}, {Name: "c", Group: "near", Rows: 3}, {Name: "d", Rows: 1}}) {
		t.Errorf("%d rows in %v", r.OODRows, r.OODSets)
	}
	m, config := r.Methods[0], r.Methods[0].Configs[0]
	var sum float64
	for i, s := range c.OODSets {
		want, err := measure.Evaluate(config.TestScores, config.OODScores[i])
		if err != nil || config.Sets[i].Name != s.Name || config.Sets[i].Metrics != compare.Metrics(want) {
			t.Errorf("set %s: %+v, want %+v, %v", s.Name, config.Sets[i], want, err)
		}
		// A set has the same metrics alone as with other sets. Its intervals are equal only if
		// it is the first set, because later sets use other resamples.
		onlySet := comparison(normMethod)
		onlySet.OOD, onlySet.Resamples = s.Batch, c.Resamples
		single, err := compare.Run(context.Background(), onlySet)
		if err != nil {
			t.Fatal(err)
		}
		if single.Methods[0].AUROC != m.Sets[i].AUROC || i == 0 && *single.Methods[0].CI != *m.Sets[i].CI {
			t.Errorf("set %s alone: %+v, among others %+v", s.Name, single.Methods[0], m.Sets[i])
		}
		sum += want.AUROC
	}
	if math.Abs(m.AUROC.Mean-sum/4) > 1e-15 || config.AUROC != m.AUROC.Mean {
		t.Errorf("mean over sets %v, want %v", m.AUROC.Mean, sum/4)
	}
	if len(m.Groups) != 2 || m.Groups[0].Name != "near" || m.Groups[1].Name != "far" {
		t.Fatalf("groups %+v", m.Groups)
	}
	if want := (m.Sets[0].AUROC.Mean + m.Sets[2].AUROC.Mean) / 2; math.Abs(m.Groups[0].AUROC.Mean-want) > 1e-15 {
		t.Errorf("near %v, want %v", m.Groups[0].AUROC.Mean, want)
	}
	if *m.Groups[1].CI != *m.Sets[1].CI {
		t.Errorf("a group of one set has intervals %v, but the set has %v", m.Groups[1].CI, m.Sets[1].CI)
	}
	if len(slices.Concat(config.OODScores...)) != 7 {
		t.Errorf("scores %v", config.OODScores)
	}
}

// TestCompareIntervals checks that all configurations use the same resamples. Two
// configurations with equally ordered scores must therefore have the same intervals as their
// mean.
func TestCompareIntervals(t *testing.T) {
	proportional := normMethod
	proportional.Sweep = []ood.Params{{"factor": 1.}, {"factor": 2.}}
	c := comparison(proportional)
	c.Sweep, c.Resamples = true, 60
	c.Test, c.OOD = column(1, 2, 3, 4, 5, 6), column(3.5, 5, 7)
	r, err := compare.Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	m := r.Methods[0]
	if m.CI.AUROC[0] >= m.CI.AUROC[1] || *m.CI != *m.Configs[0].CI || *m.Configs[0].CI != *m.Configs[1].CI {
		t.Errorf("together %v, alone %v and %v", m.CI, m.Configs[0].CI, m.Configs[1].CI)
	}
	if r.Resamples != 60 {
		t.Errorf("%d resamples", r.Resamples)
	}
}

func TestCompareErrorRate(t *testing.T) {
	c := comparison(normMethod)
	c.Resamples = 30
	c.Test.Logits = blas32.General{Rows: 4, Cols: 2, Stride: 2, Data: []float32{1, 0, 1, 0, 1, 0, 0, 1}}
	c.Test.Labels = []int{0, 0, 1, 0}
	c.Training.Logits, c.OOD.Logits = rows.New(3, 2), rows.New(2, 2)
	r, err := compare.Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	// The risks at coverage ¼, ½, ¾ and 1 are 0, 0, ⅓ and ½.
	m := r.Methods[0]
	if want := (1./3 + 1./2) / 4; *r.ErrorRate != .5 || math.Abs(m.AURC.Mean-want) > 1e-15 || *m.Configs[0].AURC != m.AURC.Mean {
		t.Errorf("error %v, AURC %v, want %v", *r.ErrorRate, m.AURC, want)
	}
	if m.CI.AURC == nil || *m.CI.AURC != *m.Configs[0].CI.AURC || m.CI.AURC[1] <= m.CI.AURC[0] {
		t.Errorf("interval %v", m.CI.AURC)
	}
}

// TestCompareParallel checks that the number of methods that run at the same time changes only
// the reported times.
func TestCompareParallel(t *testing.T) {
	together := normMethod
	together.Name = "together"
	together.Fit = func(ctx context.Context, t ood.Training, _ ood.Params) (any, error) {
		return memo.OncePerKey(ctx, t, func(ood.Params) bool { return true }, func(same []ood.Params, _ func(float64)) (all []any, err error) {
			for i := range same {
				all = append(all, &norm{float64(1 + i)})
			}
			return all, nil
		})
	}
	var reports []*compare.Report
	for _, n := range []int{0, 1, 3, 16} {
		c := withSets(normMethod, together)
		c.Sweep, c.Parallel, c.Resamples = true, n, 20
		r, err := compare.Run(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Methods {
			r.Methods[i].FitSeconds, r.Methods[i].ScoreMicroseconds = 0, 0
		}
		reports = append(reports, r)
		if !reflect.DeepEqual(r, reports[0]) {
			t.Errorf("%d at a time: %+v, want %+v", n, r, reports[0])
		}
	}
	if m := reports[0].Methods[0]; len(m.Configs) != 2 || len(m.Failed) != 2 {
		t.Errorf("%+v", m)
	}
}

// TestOracleOnSets checks that an oracle is fitted on some rows of the sets and measured on
// the other rows, with at least one row of each set.
func TestOracleOnSets(t *testing.T) {
	var fitted []float32
	c := withSets(oracleMethod(&fitted))
	r, err := compare.Run(context.Background(), c)
	if err != nil || len(r.Methods) != 1 {
		t.Fatalf("%v, %+v", err, r)
	}
	m := r.Methods[0]
	var all []float64
	for _, v := range fitted {
		all = append(all, float64(v)*float64(v))
	}
	if m.OutliersFitted != len(fitted) || m.OODRows+m.OutliersFitted != r.OODRows || m.OODRows != len(slices.Concat(m.Configs[0].OODScores...)) {
		t.Errorf("fitted with %d (%v), measured on %d of %d", m.OutliersFitted, fitted, m.OODRows, r.OODRows)
	}
	all = slices.Concat(append(m.Configs[0].OODScores, all)...)
	slices.Sort(all)
	if !slices.Equal(all, []float64{0, 4, 6.25, 9, 12.25, 25, 81}) {
		t.Errorf("fitted with %v and measured on %v", fitted, m.Configs[0].OODScores)
	}
	for i, want := range []int{1, 1, 1, 1} {
		if got := len(m.Configs[0].OODScores[i]); got < want {
			t.Errorf("set %d is measured on %d rows", i, got)
		}
	}
}

func TestCompareOODSetErrors(t *testing.T) {
	for want, change := range map[string]func(*compare.Options){
		`two sets of out-of-distribution rows are named "a"`:                              func(c *compare.Options) { c.OODSets[1].Name = "a" },
		`one of several sets of out-of-distribution rows has no name`:                     func(c *compare.Options) { c.OODSets[1].Name = "" },
		`out-of-distribution rows are given both as OOD and as OODSets; give one of them`: func(c *compare.Options) { c.OOD = column(1) },
		`out-of-distribution rows "b": there are none`:                                    func(c *compare.Options) { c.OODSets[1].Batch = ood.Batch{} },
		`out-of-distribution rows "c" have 2 features, but the fit rows have 1`:           func(c *compare.Options) { c.OODSets[2].Features = rows.New(2, 2) },
		`out-of-distribution rows "d": 1 rows but 2 labels`:                               func(c *compare.Options) { c.OODSets[3].Labels = []int{0, 1} },
		`out-of-distribution rows "c" have 3 logits, but the fit rows have 2`: func(c *compare.Options) {
			c.Training.Logits, c.OODSets[2].Logits = rows.New(3, 2), rows.New(3, 3)
		},
	} {
		c := withSets(normMethod)
		change(&c)
		if _, err := compare.Run(context.Background(), c); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestCompareNamesIncompleteSet checks that the error names the set whose rows lack something.
func TestCompareNamesIncompleteSet(t *testing.T) {
	m := normMethod
	m.Needs.Logits = true
	c := withSets(m)
	c.Training.Logits, c.Test.Logits = rows.New(c.Training.Len(), 2), rows.New(c.Test.Len(), 2)
	for i := range c.OODSets {
		if c.OODSets[i].Name != "c" {
			c.OODSets[i].Logits = rows.New(c.OODSets[i].Len(), 2)
		}
	}
	r, err := compare.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if want := `method "norm" needs logits: the rows of c have none`; len(r.Skipped) != 1 || r.Skipped[0].Reason != want {
		t.Errorf("%+v, want %s", r.Skipped, want)
	}
}

// TestCompareSetsJSON compares the JSON of a report with testdata/report_sets.json. The report
// has several sets, labels and resamples.
func TestCompareSetsJSON(t *testing.T) {
	c := withSets(normMethod)
	c.OODSets, c.Resamples = c.OODSets[:2], 10
	c.Test.Logits = blas32.General{Rows: 4, Cols: 2, Stride: 2, Data: []float32{1, 0, 1, 0, 1, 0, 0, 1}}
	c.Test.Labels = []int{0, 0, 1, 0}
	r, err := compare.Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	r.ModelSHA256 = "00ff"
	for i := range r.Methods {
		r.Methods[i].FitSeconds, r.Methods[i].ScoreMicroseconds = 0.5, 2
	}
	got, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/report_sets.json")
	if err != nil {
		t.Fatal(err)
	}
	// Compare the texts between the numbers exactly, and the numbers up to rounding.
	number := regexp.MustCompile(`-?\d+(\.\d+)?(e-?\d+)?`)
	equal := number.ReplaceAllString(string(got), "#") == number.ReplaceAllString(strings.TrimSpace(string(want)), "#")
	numbers := number.FindAllString(string(want), -1)
	for i, text := range number.FindAllString(string(got), -1) {
		if !equal {
			break
		}
		a, errA := strconv.ParseFloat(text, 64)
		b, errB := strconv.ParseFloat(numbers[i], 64)
		equal = errA == nil && errB == nil && math.Abs(a-b) <= 1e-12
	}
	if !equal {
		t.Errorf("got\n%s", got)
	}
}
