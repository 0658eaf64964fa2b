package baselines_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/rows"
	"github.com/attach-uncertainty/attach/internal/train"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/measure"
)

var detectors = slices.DeleteFunc(attach.Methods(), ood.Method.Intervals)

var background = context.Background()

// TestConformance holds every method to the contract of ood.Method.
func TestConformance(t *testing.T) {
	data := newToy()
	c := conformance{training: data.training(60), in: data.in(90), out: data.out(80)}
	for _, all := range [][]ood.Method{baselines.All, heads.All} {
		if !slices.IsSortedFunc(all, func(a, b ood.Method) int { return strings.Compare(a.Name, b.Name) }) {
			t.Error("All is not in order")
		}
	}
	for _, m := range detectors {
		t.Run(m.Name, func(t *testing.T) {
			for _, check := range []struct {
				name string
				run  func(*testing.T, ood.Method)
			}{
				{"description", c.description},
				{"finite", c.finite},
				{"row order", c.rowOrder},
				{"seed", c.seed},
				{"better than chance", c.betterThanChance},
				{"needs", c.needs},
				{"grid", c.grid},
				{"state", c.state},
				{"damaged state", c.damagedState},
				{"concurrent", c.concurrent},
				{"sizes", c.sizes},
				{"cancelled", c.cancelled},
				{"parameters", c.parameters},
				{"input untouched", c.untouched},
				{"not finite", c.notFinite},
				{"huge", c.huge},
				{"wide", c.wide},
			} {
				t.Run(check.name, func(t *testing.T) { check.run(t, m) })
			}
		})
	}
}

type conformance struct {
	training ood.Training
	in, out  ood.Batch
}

func (c conformance) fit(t *testing.T, m ood.Method, p ood.Params) *ood.Scorer {
	t.Helper()
	s, err := ood.Fit(background, m, c.training, p)
	if err != nil {
		t.Fatalf("fit %v: %v", p, err)
	}
	return s
}

func score(t *testing.T, s *ood.Scorer, b ood.Batch) []float64 {
	t.Helper()
	got, err := s.Score(background, nil, b)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != b.Len() {
		t.Fatalf("%d scores of %d rows", len(got), b.Len())
	}
	return got
}

func configurations(m ood.Method) []ood.Params {
	return append([]ood.Params{m.Default()}, m.Grid()...)
}

func near(a, b []float64, tolerance float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool {
		return math.Abs(x-y) <= tolerance*max(math.Abs(x), math.Abs(y), 1e-3)
	})
}

var methodName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

func (c conformance) description(t *testing.T, m ood.Method) {
	if !methodName.MatchString(m.Name) {
		t.Errorf("name %q", m.Name)
	}
	if found, ok := attach.MethodByName(m.Name); !ok || found.Doc != m.Doc {
		t.Error("MethodByName finds another method")
	}
	if !strings.HasSuffix(m.Doc, ".") || len(m.Doc) < 20 {
		t.Errorf("doc %q", m.Doc)
	}
	if m.Ref == "" {
		t.Error("no reference")
	}
	if m.Fit == nil || m.New == nil {
		t.Error("no Fit or no New")
	}
	seen := map[string]bool{}
	for _, p := range m.Grid() {
		if seen[p.String()] {
			t.Errorf("%v is twice in the grid", p)
		}
		seen[p.String()] = true
		if _, err := m.With(p); err != nil {
			t.Error(err)
		}
	}
	b, err := json.Marshal(m.Grid())
	if err != nil {
		t.Fatal(err)
	}
	var back []ood.Params
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	for i, p := range back {
		if p.String() != m.Grid()[i].String() {
			t.Errorf("%v is %v after JSON", m.Grid()[i], p)
		}
	}
}

func (c conformance) finite(t *testing.T, m ood.Method) {
	for _, p := range configurations(m) {
		s := c.fit(t, m, p)
		for _, b := range []ood.Batch{c.training.Batch, c.in, c.out} {
			for i, v := range score(t, s, b) {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					t.Fatalf("%v: score %d is %v", p, i, v)
				}
			}
		}
	}
}

func (c conformance) rowOrder(t *testing.T, m ood.Method) {
	n := c.out.Len()
	turned := ood.Batch{
		Features: strided(c.out.Features), Logits: strided(c.out.Logits), Labels: slices.Clone(c.out.Labels), Layers: stridedLayers(c.out.Layers),
	}
	for i := range n / 2 {
		swap(turned.Features, i, n-1-i)
		swap(turned.Logits, i, n-1-i)
		for _, m := range turned.Layers {
			swap(m, i, n-1-i)
		}
		turned.Labels[i], turned.Labels[n-1-i] = turned.Labels[n-1-i], turned.Labels[i]
	}
	backwards := make([]int, n)
	for i := range backwards {
		backwards[i] = n - 1 - i
	}
	turned.Inputs = c.out.Inputs.Select(backwards)
	for _, p := range configurations(m) {
		s := c.fit(t, m, p)
		want := score(t, s, c.out)
		got := score(t, s, turned)
		slices.Reverse(got)
		if !near(got, want, 1e-6) {
			t.Errorf("%v: scores depend on the order of rows or on the stride", p)
		}
		for i := range 5 {
			if got := score(t, s, c.out.Slice(i, i+1)); !near(got, want[i:i+1], 1e-6) {
				t.Errorf("%v: row %d alone scores %v, with others %v", p, i, got[0], want[i])
			}
		}
	}
}

func stridedLayers(layers []blas32.General) []blas32.General {
	var all []blas32.General
	for _, m := range layers {
		all = append(all, strided(m))
	}
	return all
}

// strided returns a copy of m with room between its rows.
func strided(m blas32.General) blas32.General {
	s := blas32.General{Rows: m.Rows, Cols: m.Cols, Stride: m.Cols + 3}
	s.Data = slices.Repeat([]float32{float32(math.NaN())}, m.Rows*s.Stride)
	for i := range m.Rows {
		copy(s.Data[i*s.Stride:], m.Data[i*m.Stride:i*m.Stride+m.Cols])
	}
	return s
}

// withNaN returns a copy of inputs with NaN in a row.
func withNaN(t *testing.T, in ood.Inputs, r int) ood.Inputs {
	t.Helper()
	for x, err := range in.Blocks(background, in.Len()) {
		if err != nil {
			t.Fatal(err)
		}
		data := slices.Clone(x.Data)
		data[r*len(data)/x.Rows()] = float32(math.NaN())
		return ood.InputsOf(x.Shape, data)
	}
	return nil
}

func swap(m blas32.General, i, j int) {
	for c := range m.Cols {
		a, b := i*m.Stride+c, j*m.Stride+c
		m.Data[a], m.Data[b] = m.Data[b], m.Data[a]
	}
}

func (c conformance) seed(t *testing.T, m ood.Method) {
	for _, p := range configurations(m) {
		if a, b := score(t, c.fit(t, m, p), c.out), score(t, c.fit(t, m, p), c.out); !slices.Equal(a, b) {
			t.Errorf("%v: two fits with one seed differ", p)
		}
	}
	if m.Name == baselines.Random.Name {
		want := score(t, c.fit(t, m, nil), c.out)
		c.training.Seed++
		if slices.Equal(score(t, c.fit(t, m, nil), c.out), want) {
			t.Error("the seed does not matter")
		}
	}
}

// shapers work on activations, which are not below zero.
var shapers = []string{"ash-b", "ash-s", "scale"}

func (c conformance) betterThanChance(t *testing.T, m ood.Method) {
	if slices.Contains(shapers, m.Name) {
		c = rectifiedConformance()
	}
	if m.Name == baselines.OpenMax.Name || m.Name == baselines.LOF.Name {
		// A tail of 20, and 20 neighbours, are to be less than a class, which
		// has 20 rows else.
		data := newToy()
		c = conformance{training: data.training(600), in: data.in(90), out: data.out(80)}
	}
	s := c.fit(t, m, m.Default())
	auroc, err := measure.AUROC(score(t, s, c.in), score(t, s, c.out))
	if err != nil {
		t.Fatal(err)
	}
	if m.Control && m.Needs&ood.NeedOutliers == 0 {
		if auroc < .35 || auroc > .65 {
			t.Errorf("AUROC of a control is %.3f", auroc)
		}
		return
	}
	want := .75
	if _, ok := m.Default()["dropout"]; ok {
		want = .6 // half of a dozen features is little to see by
	}
	if auroc < want {
		t.Errorf("AUROC %.3f", auroc)
	}
}

func (c conformance) needs(t *testing.T, m ood.Method) {
	if err := m.CheckTraining(c.training); err != nil {
		t.Error(err)
	}
	for need, remove := range map[ood.Needs]func(*ood.Training){
		ood.NeedFeatures: func(t *ood.Training) { t.Features = blas32.General{} },
		ood.NeedLogits:   func(t *ood.Training) { t.Logits = blas32.General{} },
		ood.NeedLabels:   func(t *ood.Training) { t.Labels = nil },
		ood.NeedWeights:  func(t *ood.Training) { t.Last = nil },
		ood.NeedTrainer:  func(t *ood.Training) { t.Trainer = nil },
		ood.NeedOutliers: func(t *ood.Training) { t.Outliers = ood.Batch{} },
		ood.NeedInputs:   func(t *ood.Training) { t.Inputs = nil },
		ood.NeedLayers:   func(t *ood.Training) { t.Layers = nil },

		ood.NeedNetwork | ood.NeedDropout: func(t *ood.Training) { t.Network = nil },
	} {
		training := c.training
		remove(&training)
		_, fitErr := ood.Fit(background, m, training, m.Default())
		if need &= m.Needs &^ ood.NeedInputs; need == 0 {
			if fitErr != nil {
				t.Errorf("does without %v by its Needs, but: %v", need, fitErr)
			}
			continue
		}
		if fitErr == nil {
			t.Errorf("fit succeeds without %v", need)
		}
		err := m.CheckTraining(training)
		var absent *ood.NeedError
		if !errors.As(err, &absent) || absent.Need != need || !strings.Contains(err.Error(), `"`+m.Name+`" needs `+need.String()) {
			t.Errorf("without %v: %v", need, err)
		}
	}
	s := c.fit(t, m, m.Default())
	if _, err := s.Score(background, nil, ood.Batch{}); err == nil && m.Needs != 0 {
		t.Error("scores a batch without anything in it")
	}
	if m.Needs&ood.NeedInputs == 0 {
		return
	}
	bare := c.out
	bare.Inputs = nil
	var absent *ood.NeedError
	if err := m.CheckBatch(bare, "the rows to score"); !errors.As(err, &absent) || absent.Need != ood.NeedInputs {
		t.Errorf("without inputs: %v", err)
	}
	if s.RunsNetwork() {
		if _, err := s.Score(background, nil, bare); !errors.As(err, &absent) || absent.Need != ood.NeedInputs {
			t.Errorf("without inputs it scores (%v)", err)
		}
	}
}

func (c conformance) concurrent(t *testing.T, m ood.Method) {
	s := c.fit(t, m, m.Default())
	want := score(t, s, c.out)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if got, err := s.Score(background, nil, c.out); err != nil || !slices.Equal(got, want) {
				t.Errorf("at the same time as others it scores otherwise (%v)", err)
			}
		})
	}
	wg.Wait()
}

func (c conformance) sizes(t *testing.T, m ood.Method) {
	s := c.fit(t, m, m.Default())
	if got := score(t, s, c.out.Slice(0, 0)); len(got) != 0 {
		t.Errorf("no rows have scores %v", got)
	}
	dst := slices.Repeat([]float64{math.NaN()}, c.out.Len())
	got, err := s.Score(background, dst, c.out)
	if err != nil {
		t.Fatal(err)
	}
	if &got[0] != &dst[0] || !slices.Equal(got, score(t, s, c.out)) {
		t.Error("the scores are not in dst")
	}
	for _, cols := range []int{1, toyWidth - 1, toyWidth + 1} {
		b := ood.Batch{Features: zeros(4, cols), Logits: zeros(4, cols+20)}
		if _, err := s.Score(background, nil, b); err == nil && m.Needs != 0 {
			t.Errorf("scores rows of %d features and %d logits", cols, cols+20)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic at a dst of the wrong length")
		}
	}()
	_, _ = s.Score(background, make([]float64, 3), c.out)
}

func (c conformance) cancelled(t *testing.T, m ood.Method) {
	ctx, cancel := context.WithCancel(background)
	s := c.fit(t, m, m.Default())
	cancel()
	if _, err := s.Score(ctx, nil, c.out); !errors.Is(err, context.Canceled) {
		t.Errorf("score: %v", err)
	}
	if _, err := ood.Fit(ctx, m, c.training, m.Default()); !errors.Is(err, context.Canceled) {
		t.Errorf("fit: %v", err)
	}
}

func (c conformance) parameters(t *testing.T, m ood.Method) {
	if _, err := ood.Fit(background, m, c.training, ood.Params{"nonsense": 1.}); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("unknown parameter: %v", err)
	}
	// Where nothing is said the default holds.
	if !slices.Equal(score(t, c.fit(t, m, nil), c.out), score(t, c.fit(t, m, m.Default()), c.out)) {
		t.Error("without parameters it does not do what Default says")
	}
	for name := range m.Default() {
		for _, v := range []any{"nonsense", -3., math.NaN(), math.Inf(1), []int{1}, nil} {
			if _, err := ood.Fit(background, m, c.training, ood.Params{name: v}); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s = %v: %v", name, v, err)
			}
		}
	}
}

func (c conformance) untouched(t *testing.T, m ood.Method) {
	snapshot := func() []byte {
		b, err := json.Marshal([]ood.Batch{c.training.Batch, c.in})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	before := snapshot()
	score(t, c.fit(t, m, m.Default()), c.in)
	if !bytes.Equal(before, snapshot()) {
		t.Error("fit or score changes its input")
	}
	// What was fitted does not follow what becomes of the training rows.
	copied := c.training
	copied.Features = strided(copied.Features)
	copied.Logits = strided(copied.Logits)
	copied.Layers = stridedLayers(copied.Layers)
	s, err := ood.Fit(background, m, copied, m.Default())
	if err != nil {
		t.Fatal(err)
	}
	want := score(t, s, c.in)
	clear(copied.Features.Data)
	clear(copied.Logits.Data)
	for _, m := range copied.Layers {
		clear(m.Data)
	}
	if !slices.Equal(score(t, s, c.in), want) {
		t.Error("the scorer shares memory with the training rows")
	}
}

func (c conformance) notFinite(t *testing.T, m ood.Method) {
	for _, v := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
		training := c.training
		training.Features = strided(training.Features)
		training.Features.Data[17*training.Features.Stride+4] = v
		var broken *rows.NotFiniteError
		_, err := ood.Fit(background, m, training, m.Default())
		if m.Needs&ood.NeedFeatures != 0 && (!errors.As(err, &broken) || broken.Row != 17) {
			t.Errorf("%v in row 17 of the features to fit with: %v", v, err)
		}
		training = c.training
		training.Layers = stridedLayers(training.Layers)
		training.Layers[1].Data[17*training.Layers[1].Stride+4] = v
		_, err = ood.Fit(background, m, training, m.Default())
		if m.Needs&ood.NeedLayers != 0 && (!errors.As(err, &broken) || broken.Row != 17) {
			t.Errorf("%v in row 17 of a layer to fit with: %v", v, err)
		}
	}
	if m.Needs&ood.NeedOutliers != 0 {
		training := c.training
		training.Outliers.Features = strided(training.Outliers.Features)
		training.Outliers.Features.Data[9*training.Outliers.Features.Stride+2] = float32(math.Inf(-1))
		var broken *rows.NotFiniteError
		if _, err := ood.Fit(background, m, training, m.Default()); !errors.As(err, &broken) || broken.Row != 9 {
			t.Errorf("-Inf in row 9 of the out-of-domain features to fit with: %v", err)
		}
	}
	b := ood.Batch{
		Features: strided(c.in.Features), Logits: strided(c.in.Logits), Inputs: withNaN(t, c.in.Inputs, 3), Layers: stridedLayers(c.in.Layers),
	}
	b.Layers[1].Data[3*b.Layers[1].Stride+1] = float32(math.NaN())
	b.Features.Data[3*b.Features.Stride+1] = float32(math.NaN())
	b.Logits.Data[3*b.Logits.Stride+1] = float32(math.NaN())
	s := c.fit(t, m, m.Default())
	want := score(t, s, c.in)
	if m.Needs&ood.NeedLayers != 0 {
		layer := c.in
		layer.Layers = b.Layers
		if v := score(t, s, layer)[3]; !math.IsNaN(v) {
			t.Errorf("a row with NaN in a layer alone scores %v", v)
		}
	}
	for i, v := range score(t, s, b) {
		if i == 3 {
			if m.Name != baselines.Random.Name && !math.IsNaN(v) {
				t.Errorf("a row with NaN scores %v", v)
			}
		} else if !near([]float64{v}, want[i:i+1], 1e-6) {
			t.Errorf("NaN in row 3 changes the score of row %d", i)
		}
	}
}

// huge holds rows of any finite size to a score that is not −Inf: where
// arithmetic overflows, it is NaN, which package attach flags.
func (c conformance) huge(t *testing.T, m ood.Method) {
	shapes := map[string]func(v float32, i, j int) float32{
		"all":         func(v float32, _, _ int) float32 { return v },
		"alternating": func(v float32, i, j int) float32 { return v * float32(1-(i+j)%2*2) },
		"one": func(v float32, i, j int) float32 {
			if i == j {
				return v
			}
			return 0
		},
	}
	for _, p := range configurations(m) {
		s := c.fit(t, m, p)
		for _, v := range []float32{1e-38, 1e20, 3e38, -3e38} {
			for name, of := range shapes {
				set := func(m blas32.General) blas32.General {
					to := strided(m)
					for i := range to.Rows {
						for j := range to.Cols {
							to.Data[i*to.Stride+j] = of(v, i, j)
						}
					}
					return to
				}
				b := c.in.Slice(0, 3)
				b.Features = set(b.Features)
				for i, l := range b.Layers {
					b.Layers[i] = set(l)
				}
				both := b
				both.Logits = set(b.Logits)
				for _, b := range []ood.Batch{b, both} {
					for i, got := range score(t, s, b) {
						if math.IsInf(got, -1) {
							t.Errorf("%v: row %d of %v (%s) scores %v", p, i, v, name, got)
						}
					}
				}
			}
		}
	}
}

// wide holds a method to say in Memory if it makes a matrix of the features by
// the features.
func (c conformance) wide(t *testing.T, m ood.Method) {
	const width, rows = 9000, 12
	rng := rand.New(rand.NewPCG(3, 3))
	draw := func(n int) blas32.General {
		x := zeros(n, width)
		for i := range x.Data {
			x.Data[i] = rng.Float32()
		}
		return x
	}
	wide := c.training
	wide.Batch = wide.Batch.Slice(0, rows)
	wide.Features, wide.Layers, wide.Outliers.Features = draw(rows), []blas32.General{draw(rows)}, draw(wide.Outliers.Len())
	wide.Last = &ood.Linear{Weight: draw(toyClasses), Bias: make([]float32, toyClasses)}
	wide.Trainer = idleTrainer{}
	var refused *ood.MemoryError
	if err := m.CheckMemory(wide, m.Default()); err != nil {
		if !errors.As(err, &refused) || refused.Method != m.Name {
			t.Error(err)
		}
		return
	}
	if m.MemoryFor(wide, nil) > width*width {
		return // it does, if not that much
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := ood.Fit(background, m, wide, m.Default()); err != nil {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 8*width*width {
		t.Errorf("%d rows of %d features take %d MB, and Memory is silent", rows, width, used>>20)
	}
}

// idleTrainer gives back networks as they begin.
type idleTrainer struct{}

func (idleTrainer) Train(_ context.Context, p train.Problem) ([]train.Network, error) {
	var n train.Network
	in := p.X.Cols
	for _, out := range append(slices.Clone(p.Hidden), p.Outputs) {
		n.Layers = append(n.Layers, train.Layer{W: zeros(in, out)})
		in = out
	}
	return slices.Repeat([]train.Network{n}, len(p.Models)), nil
}

// One that runs the network is bound to it, and says what it lacks until then.
func TestFusedBindsItsComponents(t *testing.T) {
	data := newToy()
	c := conformance{training: data.training(60), in: data.in(30), out: data.out(30)}
	m := heads.Fused("with-network", "fisher", heads.Component{Method: baselines.Geometrical}, heads.Component{Method: heads.Certificates})
	if m.Needs != baselines.Geometrical.Needs|ood.NeedFeatures {
		t.Errorf("needs %v", m.Needs)
	}
	t.Run("state", func(t *testing.T) { c.state(t, m) })
	if c.fit(t, heads.FusedPValues, nil).RunsNetwork() {
		t.Error("bound to a network that it does not run")
	}
}
