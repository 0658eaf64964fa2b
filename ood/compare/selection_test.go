package compare_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/classes"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
)

// classRows are n rows of two features, with logits (its features and their sum)
// by a last layer of three classes; class k's features are near centres[k].
func classRows(n int) ood.Training {
	centres := [3][2]float32{{8, 0}, {0, 8}, {-8, -8}}
	weight := blas32.General{Rows: 3, Cols: 2, Stride: 2, Data: []float32{1, 0, 0, 1, -1, -1}}
	last := &ood.Linear{Weight: weight, Bias: []float32{.5, 0, -.5}}
	t := ood.Training{Last: last, Seed: 4}
	t.Features = blas32.General{Rows: n, Cols: 2, Stride: 2, Data: make([]float32, 2*n)}
	for i := range n {
		for j := range 2 {
			t.Features.Data[2*i+j] = centres[i%3][j] + float32((i*(7+j))%601)/601
		}
	}
	t.Logits = rows.Linear(t.Features, last.Weight, last.Bias)
	return t
}

// seen is what a method was given.
type seen struct {
	training ood.Training
	scored   []ood.Batch
}

// probe scores with the norm and remembers.
func probe(all *[]*seen) ood.Method {
	m := normMethod
	m.Name = "probe"
	m.Fit = func(_ context.Context, t ood.Training, _ ood.Params) (any, error) {
		s := &seen{training: t}
		*all = append(*all, s)
		return &probing{norm{1}, s}, nil
	}
	return m
}

type probing struct {
	norm
	*seen
}

func (p *probing) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	p.scored = append(p.scored, b)
	return p.norm.Score(ctx, dst, b)
}

func selected(t *testing.T, s compare.Selection) *compare.Selected {
	t.Helper()
	got, err := compare.Select(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func rowsOf(m blas32.General) [][]float32 {
	var rows [][]float32
	for i := range m.Rows {
		rows = append(rows, m.Data[i*m.Stride:i*m.Stride+m.Cols])
	}
	return rows
}

func has(rows [][]float32, r []float32) bool {
	return slices.ContainsFunc(rows, func(other []float32) bool { return slices.Equal(other, r) })
}

func TestSelectMixes(t *testing.T) {
	var all []*seen
	training := classRows(60)
	selected(t, compare.Selection{Methods: []ood.Method{probe(&all)}, Training: training, Criterion: "mixed"})
	in, out := all[0].scored[0], all[0].scored[1]
	if all[0].training.Len() != 48 || in.Len() != 12 || out.Len() != 12 {
		t.Fatalf("%d rows fitted with, %d in-domain and %d out-of-domain", all[0].training.Len(), in.Len(), out.Len())
	}
	fitted, held := rowsOf(all[0].training.Features), rowsOf(in.Features)
	for _, r := range held {
		if has(fitted, r) {
			t.Errorf("row %v is both fitted with and measured on", r)
		}
	}
	class := func(r []float32) int {
		switch {
		case r[0] >= 8:
			return 0
		case r[1] >= 8:
			return 1
		}
		return 2
	}
	for i, r := range rowsOf(out.Features) {
		other := []float32{2*r[0] - held[i][0], 2*r[1] - held[i][1]}
		near := func(a []float32) bool {
			return math.Abs(float64(a[0]-other[0]))+math.Abs(float64(a[1]-other[1])) < 1e-5
		}
		if k := slices.IndexFunc(held, near); k < 0 || class(held[k]) == class(held[i]) {
			t.Errorf("%v is not half-way from %v to a row of another class", r, held[i])
		}
		if z := out.Logits.Data[3*i : 3*i+3]; math.Abs(float64(z[2]+r[0]+r[1]+.5)) > 1e-5 {
			t.Errorf("logits %v of features %v", z, r)
		}
	}
}

func TestSelectShuffles(t *testing.T) {
	var all []*seen
	training := classRows(600)
	selected(t, compare.Selection{Methods: []ood.Method{probe(&all)}, Training: training, Criterion: "shuffled"})
	in, out := rowsOf(all[0].scored[0].Features), rowsOf(all[0].scored[1].Features)
	for j := range 2 {
		column := func(rows [][]float32) (values []float32) {
			for _, r := range rows {
				values = append(values, r[j])
			}
			return values
		}
		was, is := column(in), column(out)
		same := 0
		for i := range was {
			if was[i] == is[i] {
				same++
			}
		}
		slices.Sort(was)
		slices.Sort(is)
		if !slices.Equal(was, is) || same > 20 {
			t.Errorf("column %d has other values, or %d of %d in their place", j, same, len(in))
		}
	}
	together := 0
	for _, r := range out {
		if has(in, r) {
			together++
		}
	}
	if together > 20 {
		t.Errorf("%d of %d rows are as they were", together, len(in))
	}
}

func TestSelectHoldsClassesOut(t *testing.T) {
	var all []*seen
	training := classRows(60)
	selected(t, compare.Selection{Methods: []ood.Method{probe(&all)}, Training: training, Criterion: "held-out-classes"})
	if len(all) != 3 {
		t.Fatalf("%d folds of 3 classes", len(all))
	}
	total := 0
	for _, s := range all {
		in, out := s.scored[0], s.scored[1]
		total += out.Len()
		for _, b := range []ood.Batch{s.training.Batch, in, out} {
			if b.Logits.Cols != 2 {
				t.Fatalf("%d logits", b.Logits.Cols)
			}
			if z := rows.Linear(b.Features, s.training.Last.Weight, s.training.Last.Bias); !slices.Equal(z.Data, b.Logits.Data) {
				t.Error("the last layer gives other logits")
			}
		}
		gone := out.Features.Data[:2]
		for _, r := range append(rowsOf(s.training.Features), rowsOf(in.Features)...) {
			if math.Abs(float64(r[0]-gone[0]))+math.Abs(float64(r[1]-gone[1])) < 4 {
				t.Errorf("row %v is of the class of %v, which is held out", r, gone)
			}
		}
	}
	if total != 12 {
		t.Errorf("%d rows held out in all", total)
	}
	if training.Last.Weight.Rows != 3 || training.Logits.Cols != 3 {
		t.Error("the training rows were changed")
	}
}

// Half-way between classes the norm is small, so that its negative is chosen.
func TestSelectRanks(t *testing.T) {
	control, running := normMethod, normMethod
	control.Name, control.Control = "control", true
	running.Name, running.Needs = "running", ood.Needs{Network: true}
	var last float64
	s := compare.Selection{
		Methods: []ood.Method{control, normMethod, running}, Training: classRows(60), Criterion: "mixed", Sweep: true,
		Progress: func(_ string, share float64) { last = share },
	}
	got := selected(t, s)
	if got.Method != "norm" || got.Params["factor"] != -1. || got.PseudoAUROC != 1 || got.Rank != 1 {
		t.Errorf("chosen is %+v", got.Candidate)
	}
	if len(got.Candidates) != 2 || got.Candidates[1].PseudoAUROC != 0 || got.Candidates[1].Rank != 2 {
		t.Errorf("candidates %+v", got.Candidates)
	}
	var names []string
	for _, left := range got.Skipped {
		names = append(names, left.Name)
	}
	if !slices.Equal(names, []string{"control", "running", "norm"}) || !strings.Contains(got.Skipped[2].Reason, "factor=0") {
		t.Errorf("skipped %v", got.Skipped)
	}
	if last != 1 {
		t.Errorf("at the end, %v is done", last)
	}

	s.Criterion, s.Sweep = "", false
	twice := normMethod
	twice.Name = "twice"
	s.Methods = append(s.Methods, twice)
	got = selected(t, s)
	if got.Criterion != "mean-rank" || !slices.Equal(got.Criteria, []string{"mixed", "shuffled", "held-out-classes"}) {
		t.Errorf("by default by %v, of %v", got.Criterion, got.Criteria)
	}
	if got.Method != "norm" || got.Rank != 1.5 || got.Candidates[1].Rank != 1.5 {
		t.Errorf("two alike rank %+v", got.Candidates)
	}
	s.Training.Last, s.Training.Logits = nil, blas32.General{}
	if got = selected(t, s); !slices.Equal(got.Criteria, []string{"mixed", "shuffled"}) {
		t.Errorf("without classes by %v", got.Criteria)
	}
}

func TestSelectErrors(t *testing.T) {
	few := classRows(60)
	few.Labels = slices.Repeat([]int{1}, 60)
	two := classRows(60)
	for i := range 60 {
		two.Labels = append(two.Labels, i%2)
	}
	broken := classRows(60)
	broken.Labels = []int{1}
	unlabelled := ood.Training{Batch: line(1, 2, 3, 4, 5, 6)}
	control := normMethod
	control.Control = true
	for _, c := range []struct {
		training  ood.Training
		criterion string
		method    ood.Method
		want      string
	}{
		{classRows(60), "best", normMethod, `no criterion "best"`},
		{few, "mixed", normMethod, "single class"},
		{two, "held-out-classes", normMethod, "2 classes"},
		{unlabelled, "held-out-classes", normMethod, "no classes to hold out of the rows to fit with: " + classes.ErrNoClasses.Error()},
		{broken, "", normMethod, "labels"},
		{ood.Training{Batch: line(1)}, "", normMethod, "1 rows"},
		{classRows(60), "", control, "control"},
	} {
		_, err := compare.Select(context.Background(), compare.Selection{Methods: []ood.Method{c.method}, Training: c.training, Criterion: c.criterion})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.criterion, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := compare.Select(ctx, compare.Selection{Methods: []ood.Method{normMethod}, Training: classRows(60)}); err == nil {
		t.Error("selects when cancelled")
	}
}

func TestChoose(t *testing.T) {
	conf := func(k, auroc float64) compare.Config {
		return compare.Config{Params: ood.Params{"k": k}, Metrics: compare.Metrics{AUROC: auroc}}
	}
	r := compare.Report{Methods: []compare.MethodReport{
		{Name: "a", Configs: []compare.Config{conf(1, .75), conf(2, .5)}},
		{Name: "b", Configs: []compare.Config{conf(1, .875)}},
		{Name: "oracle", Control: true, Configs: []compare.Config{conf(1, 1)}},
	}}
	for _, c := range []struct {
		method string
		k      float64
		want   string
	}{{"a", 2, "0.5 0.375"}, {"b", 1, "0.875 0"}, {"c", 1, "none"}} {
		r.Choose(compare.Selected{Candidate: compare.Candidate{Method: c.method, Params: ood.Params{"k": c.k}}})
		got := "none"
		if r.Regret != nil {
			got = fmt.Sprint(*r.Selected.AUROC, *r.Regret)
		}
		if got != c.want {
			t.Errorf("%s %v: AUROC and regret %s, want %s", c.method, c.k, got, c.want)
		}
	}
	b, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(b), `"selected":{"criterion":"","criteria":null,"method":"c","params":{"k":1},"pseudo_auroc":0,"rank":0`) {
		t.Errorf("%s (%v)", b, err)
	}
}
