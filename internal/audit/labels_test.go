package audit

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/schema"
)

// TestLabelDiscoveries compares the discoveries and bounds of several parts with the textbook
// form of Benjamini and Hochberg's method on the sorted list of all p-values, and those of one
// part with package calibrate.
func TestLabelDiscoveries(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 200 {
		w := &ScoreSet{Identity: Identity{Task: attach.Classification, FDR: .2, Delta: .1}}
		var parts []calibrate.Ranks
		var p []float64
		for range 1 + r.IntN(3) {
			n := 20 + r.IntN(60)
			ranks := calibrate.NewRanks(n)
			for range 1 + r.IntN(60) {
				k := r.IntN(n + 1)
				if r.IntN(3) == 0 {
					k = 0
				}
				ranks[k]++
				p = append(p, float64(k+1)/float64(n+1))
			}
			parts = append(parts, ranks)
		}
		l, err := w.newLabelTally("", parts, parts, 1, w.Delta)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(p)
		want, threshold := 0, 0.
		for i, v := range p {
			if v <= .2*float64(i+1)/float64(len(p))*(1+1e-12) {
				want, threshold = i+1, v
			}
		}
		a := l.result
		if a.Discoveries != want || a.PValueThreshold != threshold || a.Labelled != len(p) {
			t.Fatalf("%+v, want %d of %d up to %v", a, want, len(p), threshold)
		}
		found += want
		if len(parts) > 1 {
			continue
		}
		d, err := parts[0].Discoveries(calibrate.DiscoveryOptions{FDR: .2})
		if err != nil {
			t.Fatal(err)
		}
		b, err := parts[0].OutlierBounds(.1)
		if err != nil || a.MinDiscoveries != d.Least || a.Errors != b.Outliers(parts[0]) || a.FDP != b.FDP(parts[0], d.PValue) {
			t.Errorf("%+v, want %+v, %v", a, d, err)
		}
	}
	if found < 1000 {
		t.Errorf("%d discoveries", found)
	}
}

// TestLabelNoise checks that no p-value falls below that of the right calibration rows alone,
// wherever the scores of the wrong ones lie, and that one is equal in the worst case.
func TestLabelNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	worst := math.Inf(1)
	for range 300 {
		n := 10 + r.IntN(50)
		noise := float64(r.IntN(40)) / 100
		wrong := n - cleanRows(n, noise)
		if exact := n * int(math.Round(100*noise)) / 100; wrong != exact {
			t.Fatalf("%d of %d rows at %v, want %d", wrong, n, noise, exact)
		}
		var clean, all []float64
		for i := range n {
			if score := r.Float64(); i < wrong {
				all = append(all, score*float64(r.IntN(3))) // low, alike or high
			} else {
				clean, all = append(clean, score), append(all, score)
			}
		}
		slices.Sort(clean)
		slices.Sort(all)
		ranks, score := calibrate.NewRanks(n), r.Float64()
		if err := ranks.Add(calibrate.Conformal{Scores: all}.PValue(score)); err != nil {
			t.Fatal(err)
		}
		folded := withNoise(ranks, noise)
		p := float64(1+slices.Index(folded, 1)) / float64(len(folded))
		excess := p - (calibrate.Conformal{Scores: clean}).PValue(score)
		worst = min(worst, excess)
	}
	if math.Abs(worst) > 1e-12 {
		t.Errorf("a p-value is lower by %v, want 0", -worst)
	}
}

// withWrongLabels returns rows of which every tenth has a wrong label, and every 17th none.
func withWrongLabels(b ood.Batch) ood.Batch {
	b.Labels = slices.Clone(b.Labels)
	for i := range b.Labels {
		switch {
		case i%10 == 3:
			b.Labels[i] = (b.Labels[i] + 1) % 3
		case i%17 == 5:
			b.Labels[i] = math.MinInt
		}
	}
	return b
}

// TestWrongLabels checks the results of an audit with wrong labels against its rows, and that
// its files do not depend on how rows are divided. Half of the rows are copies.
func TestWrongLabels(t *testing.T) {
	b := bundle(t)
	all := map[string]ood.Batch{"a.npz": withWrongLabels(sample(300, 7, 0)), "b.npz": withWrongLabels(sample(200, 8, 0)), "copy.npz": withWrongLabels(sample(300, 7, 0))}
	names := []string{"a.npz", "b.npz", "copy.npz"}
	for _, by := range LabelErrorChoices() {
		s, err := NewScorer(b, Identity{FDR: .2, Delta: .1, LabelErrorsBy: by, LabelNoise: .05})
		if err != nil {
			t.Fatal(err)
		}
		whole := scoreFiles(t, s, all, names, noCuts)
		dir, a := finishAudit(t, whole)
		checkPartitions(t, whole, a)
		list := scoreFiles(t, s, all, names, func(n int) []int { return []int{40, n / 20 * 10} })
		slices.Reverse(list)
		other, _ := finishAudit(t, list)
		for _, name := range []string{"audit.json", Scores} {
			want, _ := os.ReadFile(filepath.Join(dir, name))
			if got, err := os.ReadFile(filepath.Join(other, name)); err != nil || !bytes.Equal(want, got) {
				t.Errorf("by %s: %s differs, %v", by, name, err)
			}
		}
		checkLabels(t, a, dir, b)
		// Half of the wrong labels are copies of the other half.
		if l := a.LabelErrors[0]; l.Discoveries < 30 && by == byAll || l.Errors > 80 || l.Errors < 10 && by == byAll {
			t.Errorf("by %s: %+v", by, l)
		}
	}
}

// checkLabels checks the label errors of a classifier against the rows of its file of scores.
func checkLabels(t *testing.T, a *Audit, dir string, bundle *attach.Bundle) {
	t.Helper()
	f, err := OpenFile(filepath.Join(dir, Scores))
	if err != nil {
		t.Fatal(err)
	}
	w, err := Join([]*File{f})
	if err != nil {
		t.Fatal(err)
	}
	l := a.LabelErrors[0]
	trueClasses, parts := bundle.Calibration.TrueClasses, make([][]float64, len(a.LabelRows))
	for i, label := range trueClasses.Labels {
		parts[a.LabelParts[label]] = append(parts[a.LabelParts[label]], 1-trueClasses.True[i])
	}
	labelled, discoveries := 0, 0
	confusions, byGroup := map[[2]int]int{}, map[string][2]int{}
	best := 1.
	err = w.eachBlock(context.Background(), w.columns(), func(b block) error {
		for i := range b.n {
			get := func(name string) float64 { return b.numbers(name)[i] }
			label, p := int(get("label")), get("label_p_value")
			if label < 0 {
				if !math.IsNaN(p) || !math.IsNaN(get("label_score")) || get("suggested_label") >= 0 || get("label_discovery") != 0 {
					t.Errorf("row %d has no label and the p-value %v", i, p)
				}
				continue
			}
			labelled++
			part := a.LabelParts[label]
			n := float64(a.LabelRows[part])
			atLeast := 1.
			for _, s := range parts[part] {
				if s >= get("label_score") {
					atLeast++
				}
			}
			if want := atLeast / (n + 1); a.LabelErrorsBy != byCluster && p != want { // some rows choose the clusters
				t.Errorf("row %d has the p-value %v, want %v", i, p, want)
			}
			noisy := min(1, p*(n+1)/(n+1-math.Floor(.05*n)))
			found := noisy <= l.PValueThreshold*(1+1e-9)
			best = min(best, noisy)
			if found != (get("label_discovery") == 1) {
				t.Errorf("row %d with p-value %v is a discovery: %v", i, noisy, !found)
			}
			for _, group := range []string{"shard " + b.name, "label " + string(b.texts("label_name")[i])} {
				c := byGroup[group]
				if c[0]++; found {
					c[1]++
				}
				byGroup[group] = c
			}
			if found {
				discoveries++
				confusions[[2]int{label, int(get("suggested_label"))}]++
			}
			if class := int(get("class")); class != label && class != int(get("suggested_label")) || label == int(get("suggested_label")) {
				t.Errorf("row %d: class %d, label %d, suggested %v", i, class, label, get("suggested_label"))
			}
		}
		return nil
	})
	if err != nil || l.Labelled != labelled || l.Discoveries != discoveries || len(l.Confusions) != len(confusions) {
		t.Errorf("%+v; want %d discoveries of %d, %v, %v", l, discoveries, labelled, confusions, err)
	}
	for i, c := range l.Confusions {
		if confusions[[2]int{c.Label, c.Suggested}] != c.Discoveries || i > 0 && c.Discoveries > l.Confusions[i-1].Discoveries || c.LabelName != string(rune('a'+c.Label)) {
			t.Errorf("%+v, want %v", c, confusions)
		}
	}
	groups := 0
	for _, g := range a.Groups {
		if want, ok := byGroup[g.Kind+" "+g.Name]; ok {
			groups++
			if g.Labelled[0] != want[0] || g.LabelDiscoveries[0] != want[1] || g.LabelErrors[0] > l.Errors {
				t.Errorf("%+v, want %v", g, want)
			}
		}
	}
	if groups != 3+3 {
		t.Errorf("%d groups", groups)
	}
	if r := l.MostSuspicious; len(r) != maxSuspicious || r[0].LabelDiscovery[0] != (best <= l.PValueThreshold) || !slices.IsSortedFunc(r, func(a, b Row) int {
		if a.LabelPValue[0] == b.LabelPValue[0] {
			return cmp.Compare(b.LabelScore[0], a.LabelScore[0])
		}
		return 0
	}) {
		t.Errorf("%d rows are shown, the first is %+v", len(r), r[0])
	}
}

// TestWrongTargets checks that wrong targets of a regressor are found.
func TestWrongTargets(t *testing.T) {
	draw := func(n int, seed uint64) (ood.Batch, blas32.General) {
		r := rand.New(rand.NewPCG(seed, 1))
		b, y := ood.Batch{Features: rows.New(n, 2)}, rows.New(n, 1)
		for i := range n {
			x, noise := r.NormFloat64(), float64(1+9*(i%2))
			b.Features.Data[2*i], b.Features.Data[2*i+1] = float32(x), float32(noise)
			y.Data[i] = float32(x + .1*noise*r.NormFloat64())
		}
		return b, y
	}
	fit, y := draw(1500, 1)
	cal, calY := draw(999, 2)
	b, err := attach.Fit(context.Background(), attach.FitOptions{
		Base: attach.Base{Task: attach.Regression, Width: 2, Outputs: 1}, Batch: fit, Targets: y, Cal: cal, CalTargets: calY,
		Detector: method(t, "knn"), IntervalModel: method(t, "quantile-forest"),
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewScorer(b, Identity{FDR: .1, Delta: .1, LabelErrorsBy: byAll})
	if err != nil {
		t.Fatal(err)
	}
	batch, targets := draw(400, 3)
	for i := range 40 {
		targets.Data[10*i] += 8
	}
	targets.Data[1] = float32(math.NaN())
	r := memoryRows("a.npz", batch)
	read := r.Batches
	r.Batches = func(ctx context.Context, from int) iter.Seq2[Batch, error] {
		return func(yield func(Batch, error) bool) {
			for b, err := range read(ctx, from) {
				b.Targets, b.Values = rows.Slice(targets, from, from+b.Len()), schema.Values{}
				from += b.Len()
				if !yield(b, err) {
					return
				}
			}
		}
	}
	var list []*File
	scoring := s.Begin(func(p *Part) error {
		list = append(list, writePart(t, p))
		return nil
	})
	if err := scoring.Rows(context.Background(), "a.npz", r, 0, 400, nil); err != nil {
		t.Fatal(err)
	}
	if err := scoring.Flush(); err != nil {
		t.Fatal(err)
	}
	_, a := finishAudit(t, list)
	checkPartitions(t, list, a)
	l := a.LabelErrors[0]
	if l.Labelled != 399 || l.Discoveries < 35 || l.Discoveries > 50 || l.Errors < 25 || l.Errors > 40 {
		t.Errorf("%d of %d, %d errors at least", l.Discoveries, l.Labelled, l.Errors)
	}
	right := 0
	for _, row := range l.MostSuspicious[:35] {
		if row.Target[0] != JSONFloat(targets.Data[row.At]) {
			t.Errorf("row %d has the target %v", row.At, row.Target)
		}
		if row.At%10 != 0 {
			right++
		}
	}
	if right > 3 || !(targetScore(0, 1, 2) > targetScore(-1, 1, 2)) {
		t.Errorf("%d right targets are among the most suspicious", right)
	}
	if _, err := NewScorer(b, Identity{FDR: .1, Delta: .1, LabelErrorsBy: byClass}); err == nil {
		t.Error("targets have no classes")
	}
}

// TestLabelErrorsNeedLabels checks that a file without labelled calibration rows is refused.
func TestLabelErrorsNeedLabels(t *testing.T) {
	b := bundle(t)
	b.Calibration.TrueClasses = calibrate.ClassCalibration{}
	if _, err := NewScorer(b, Identity{FDR: .1, Delta: .1, LabelErrorsBy: byAll}); err == nil {
		t.Error("there are no labels to compare with")
	}
}
