package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/parquet-go/parquet-go"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/audit/result"
	"github.com/attach-uncertainty/attach/calibrate"
	pq "github.com/attach-uncertainty/attach/internal/data/parquet"
	"github.com/attach-uncertainty/attach/internal/data/rowhash"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/schema"
)

// bundle returns a .attach file that was fitted for a classifier with 6 features.
func bundle(t testing.TB) *attach.Bundle {
	t.Helper()
	fit, cal := sample(600, 1, 0), sample(400, 2, 0)
	b, err := attach.Fit(context.Background(), attach.FitOptions{
		Base: attach.Base{Task: attach.Classification, Width: 6, Outputs: 3, Classes: []string{"a", "b", "c"}}, Batch: fit, Cal: cal, Detector: method(t, "mahalanobis"), Profile: profile(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// profile returns the profile of the fit rows of bundle. The features are the columns.
func profile() *schema.Profile {
	l := schema.NewLearner(schema.LearnOptions{})
	l.Add(inputsOf(sample(600, 1, 0)))
	return l.Profile()
}

// inputsOf returns rows whose columns are the features of b.
func inputsOf(b ood.Batch) ood.InputBlock {
	return ood.InputBlock{Tensors: []ood.Tensor{{Name: "x", Shape: []int{b.Len(), b.Features.Cols}, Data: b.Features.Data}}}
}

func method(t testing.TB, name string) ood.Method {
	m, ok := attach.MethodByName(name)
	if !ok {
		t.Fatal(name)
	}
	return m
}

// sample returns n random rows of three classes, with shift added to each feature.
func sample(n int, seed uint64, shift float64) ood.Batch {
	r := rand.New(rand.NewPCG(seed, 1))
	b := ood.Batch{Features: rows.New(n, 6), Logits: rows.New(n, 3), Labels: make([]int, n)}
	for i := range n {
		b.Labels[i] = r.IntN(3)
		for j := range 6 {
			v := r.NormFloat64() + shift
			if j == b.Labels[i] {
				v += 3
			}
			b.Features.Data[6*i+j] = float32(v)
			if j < 3 {
				b.Logits.Data[3*i+j] = float32(2 * v)
			}
		}
	}
	return b
}

// memoryRows returns the rows of a shard, in batches of 10.
func memoryRows(name string, b ood.Batch) Rows {
	matcher := profile().Matcher()
	return Rows{N: b.Len(), Len: b.Len(), Name: func(i int) (string, string, int) {
		key, folder := Key(name, "", i)
		return key, folder, i
	}, Batches: func(_ context.Context, from int) iter.Seq2[Batch, error] {
		return func(yield func(Batch, error) bool) {
			for ; from < b.Len(); from += 10 {
				idx := []int{}
				for i := from; i < min(from+10, b.Len()); i++ {
					idx = append(idx, i)
				}
				batch := b.Select(idx)
				if !yield(Batch{Rows: attach.Rows{Batch: batch}, Sketches: Sketches(inputsOf(batch)), Values: matcher.Values(inputsOf(batch))}, nil) {
					return
				}
			}
		}
	}}
}

// testShards returns inliers in one folder and outliers in another.
func testShards() map[string]ood.Batch {
	all := map[string]ood.Batch{}
	for k := range 10 {
		all[fmt.Sprintf("good/%d.npz", k)] = sample(40+k, uint64(10+k), 0)
	}
	all["bad/0.npz"] = sample(90, 99, 4)
	return all
}

// scoreFiles scores shards and writes a file for each part. The function cut returns the
// rows at which a shard of n rows is divided.
func scoreFiles(t *testing.T, s *Scorer, shards map[string]ood.Batch, names []string, cut func(n int) []int) []*File {
	t.Helper()
	var list []*File
	scoring := s.Begin(func(p *Part) error {
		list = append(list, writePart(t, p))
		return nil
	})
	for _, name := range names {
		r := memoryRows(name, shards[name])
		from := 0
		for _, to := range append(cut(r.Len), r.Len) {
			err := scoring.Rows(context.Background(), name, r, from, to, nil)
			if err == nil && (to < r.Len || r.Len%2 == 0) { // otherwise the part continues with the next shard
				err = scoring.Flush()
			}
			if err != nil {
				t.Fatal(err)
			}
			from = to
		}
	}
	if err := scoring.Flush(); err != nil {
		t.Fatal(err)
	}
	return list
}

func writePart(t *testing.T, p *Part) *File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "part.parquet")
	var b bytes.Buffer
	if _, err := p.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func finishAudit(t *testing.T, list []*File) (dir string, a *Audit) {
	t.Helper()
	dir = t.TempDir()
	a, err := Finish(context.Background(), list, Output{Dir: dir, Page: func(io.Writer, *Audit) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return dir, a
}

// shownResults returns the results of an audit with those that only its report needs, as text.
func shownResults(t *testing.T, a *Audit) string {
	t.Helper()
	rows := slices.Clone(a.HighestScoring)
	for _, r := range a.mapped {
		rows = append(rows, r.Row)
	}
	for _, l := range a.LabelErrors {
		rows = append(rows, l.MostSuspicious...)
	}
	var shown []any
	for _, r := range rows {
		shown = append(shown, r.Folder, r.Shown)
	}
	text, err := json.Marshal([]any{a.Audit, a.folders, a.mapped, a.cautions, shown})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func noCuts(int) []int { return nil }

// TestAnyDivision checks that audit.json and the file of scores have the same bytes for
// several divisions of rows into parts and audits, and for several orders of merging.
func TestAnyDivision(t *testing.T) {
	b := bundle(t)
	s, err := NewScorer(b, Identity{FDR: .1, Delta: .1})
	if err != nil {
		t.Fatal(err)
	}
	all := testShards()
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	whole := scoreFiles(t, s, all, names, noCuts)
	want, a := finishAudit(t, whole)
	checkPartitions(t, whole, a)
	if a.Inputs != 40*10+45+90 || a.Discoveries < 50 || a.Outliers < 40 || len(a.HighestScoring) != MaxWorst {
		t.Fatalf("%d inputs, %d discoveries, %d outliers, %d worst", a.Inputs, a.Discoveries, a.Outliers, len(a.HighestScoring))
	}
	ofBad := 0
	for _, row := range a.HighestScoring {
		if row.Shard == "bad/0.npz" {
			ofBad++
		}
	}
	if ofBad != MaxWorst/3 {
		t.Errorf("%d of the highest scores are of the file of outliers", ofBad)
	}
	r := rand.New(rand.NewPCG(3, 4))
	checkSame := func(list []*File) {
		t.Helper()
		got, _ := finishAudit(t, list)
		for _, name := range []string{"audit.json", Scores} {
			wantBytes, err1 := os.ReadFile(filepath.Join(want, name))
			gotBytes, err2 := os.ReadFile(filepath.Join(got, name))
			if err := errors.Join(err1, err2); err != nil || !bytes.Equal(wantBytes, gotBytes) {
				t.Errorf("%s differs, %v", name, err)
			}
		}
	}
	for range 5 {
		list := scoreFiles(t, s, all, names, func(n int) (cuts []int) {
			for at := 10 * (1 + r.IntN(2)); at < n; at += 10 * (1 + r.IntN(3)) {
				cuts = append(cuts, at)
			}
			return cuts
		})
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		checkSame(list)
	}
	for _, audits := range []int{2, 7} {
		var list []*File
		for k := range audits {
			var subset []string
			for i, name := range names {
				if i%audits == k {
					subset = append(subset, name)
				}
			}
			dir, _ := finishAudit(t, scoreFiles(t, s, all, subset, noCuts))
			f, err := OpenFile(filepath.Join(dir, Scores))
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, f)
		}
		slices.Reverse(list)
		checkSame(list)
	}
}

// TestCompact checks that compact copies the rows of small files to fewer files, keeps their
// order, and removes these files again.
func TestCompact(t *testing.T) {
	s, err := NewScorer(bundle(t), Identity{FDR: .1, Delta: .1})
	if err != nil {
		t.Fatal(err)
	}
	all := testShards()
	names := slices.Sorted(maps.Keys(all))
	w, err := Join(scoreFiles(t, s, all, names, func(n int) []int { return []int{10, 40} }))
	if err != nil {
		t.Fatal(err)
	}
	keys := func() (list []string) {
		err := w.eachBlock(t.Context(), w.columns(), func(b block) error {
			for i, key := range b.texts("key") {
				list = append(list, fmt.Sprintf("%s of %s, %v", key, b.name, b.numbers("ood_score")[i]))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	files := func() int {
		set := map[*File]bool{}
		for _, s := range w.segments {
			set[s.file] = true
		}
		return len(set)
	}
	want, before, dir := keys(), files(), t.TempDir()
	remove, err := w.compact(t.Context(), dir, compaction{few: 4, small: 20, rows: 30})
	if err != nil {
		t.Fatal(err)
	}
	if got := keys(); !slices.Equal(got, want) {
		t.Errorf("the rows are %v, want %v", got, want)
	}
	copies, _ := filepath.Glob(filepath.Join(dir, "*"))
	if after := files(); len(copies) < 2 || after >= before || after <= len(copies) {
		t.Errorf("%d files before, %d after, with %d copies", before, after, len(copies))
	}
	remove()
	if copies, _ := filepath.Glob(filepath.Join(dir, "*")); copies != nil {
		t.Errorf("copies are left: %v", copies)
	}
}

// TestFolders checks that folders have the counts of their sub-folders, and that lists have the
// same inputs.
func TestFolders(t *testing.T) {
	s, err := NewScorer(bundle(t), Identity{FDR: .1, Delta: .1})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]ood.Batch{"a/b/x.npz": sample(50, 1, 4), "a/c/y.npz": sample(40, 2, 0), "a/z.npz": sample(20, 3, 0), "d/e/w.npz": sample(10, 4, 4), "d/e/v.npz": sample(5, 5, 4)}
	files := scoreFiles(t, s, all, slices.Sorted(maps.Keys(all)), noCuts)
	_, a := finishAudit(t, files)
	checkPartitions(t, files, a)
	var names []string
	byName := map[string]Group{}
	for _, g := range a.GroupsWithSubfolders() {
		if g.Kind == "folder" {
			names, byName[g.Name] = append(names, g.Name), g
		}
	}
	if got := strings.Join(names, " "); got != "a a/b d/e a/c" {
		t.Errorf("folders are %s", got)
	}
	if g := byName["a"]; g.Inputs != 110 || g.Outliers < byName["a/b"].Outliers+byName["a/c"].Outliers || g.Outliers < 30 || g.Discoveries < byName["a/b"].Discoveries+byName["a/c"].Discoveries {
		t.Errorf("%+v, %+v", g, byName)
	}
	w, err := Join(files)
	if err != nil {
		t.Fatal(err)
	}
	list := func(s Selection) (keys []string) {
		t.Helper()
		if err := w.List(context.Background(), a, s, func(row []any) error { keys = append(keys, row[0].(string)); return nil }); err != nil {
			t.Error(err)
		}
		return keys
	}
	yes := true
	for name, g := range byName {
		if n := len(list(Selection{Within: name})); n != g.Inputs {
			t.Errorf("%s: %d inputs are listed, want %d", name, n, g.Inputs)
		}
		if n := len(list(Selection{Within: name, Discovery: &yes})); n != g.Discoveries {
			t.Errorf("%s: %d discoveries are listed, want %d", name, n, g.Discoveries)
		}
	}
	var worst []string
	for _, r := range a.HighestScoring[:20] {
		worst = append(worst, r.Key)
	}
	if got := list(Selection{Top: 20}); !slices.Equal(got, worst) {
		t.Errorf("the highest scores are %v, want %v", got, worst)
	}
}

// TestManyFiles checks that audit.json lists a limited number of files, the worst among them, and
// that it says how many are left out.
func TestManyFiles(t *testing.T) {
	a := &Audit{Audit: result.Audit{Groups: []Group{{Kind: "class", Name: "c"}}}}
	for k := range maxListed + 5 {
		a.Shards = append(a.Shards, Shard{Name: fmt.Sprint(k)})
		a.Groups = append(a.Groups, Group{Kind: "shard", Name: fmt.Sprint(k), Outliers: k})
	}
	b := a.bounded()
	if len(b.Groups) != maxListed+1 || b.GroupsLeftOut != 5 || len(b.Shards) != maxListed || b.ShardsLeftOut != 5 {
		t.Errorf("%d groups and %d left out, %d files and %d left out", len(b.Groups), b.GroupsLeftOut, len(b.Shards), b.ShardsLeftOut)
	}
	if worst := b.Groups[0]; worst.Outliers != maxListed+4 || b.Groups[maxListed].Kind != "class" {
		t.Errorf("the first group is %+v, and the last one %+v", worst, b.Groups[maxListed])
	}
	if len(a.Groups) != maxListed+6 {
		t.Error("the results have fewer groups")
	}
}

// TestCounts checks the counts of an audit against counts computed row by row.
func TestCounts(t *testing.T) {
	b := bundle(t)
	s, err := NewScorer(b, Identity{FDR: .1, Delta: .1})
	if err != nil {
		t.Fatal(err)
	}
	all := testShards()
	names := []string{"bad/0.npz", "good/0.npz", "good/1.npz", "good/2.npz"}
	_, a := finishAudit(t, scoreFiles(t, s, all, names, noCuts))
	p, err := b.Predictor(attach.PredictOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ranks := calibrate.NewRanks(len(b.Calibration.OOD))
	groups := map[string]calibrate.Ranks{}
	found := map[string]int{}
	var ps = map[string]float64{}
	for _, name := range names {
		list, err := p.Predict(context.Background(), attach.Rows{Batch: all[name]})
		if err != nil {
			t.Fatal(err)
		}
		for i, prediction := range list {
			ps[fmt.Sprintf("%s:%d", name, i)] = prediction.PValue
			for _, g := range []string{"shard " + name, "folder " + filepath.Dir(name), "class " + prediction.Name, ""} {
				if groups[g] == nil {
					groups[g] = calibrate.NewRanks(len(ranks) - 1)
				}
				if err := groups[g].Add(prediction.PValue); err != nil {
					t.Fatal(err)
				}
				if prediction.PValue <= a.PValueThreshold {
					found[g]++
				}
			}
		}
	}
	d, err := groups[""].Discoveries(calibrate.DiscoveryOptions{FDR: .1})
	if err != nil || d.Count != a.Discoveries || d.PValue != a.PValueThreshold || found[""] != d.Count {
		t.Errorf("%d discoveries up to %v, want %+v, %v", a.Discoveries, a.PValueThreshold, d, err)
	}
	bounds, err := groups[""].OutlierBounds(.05)
	if err != nil || bounds.FDP(groups[""], d.PValue) != a.FDP {
		t.Errorf("%v false, %v", a.FDP, err)
	}
	if len(a.Groups) != 4+2+3 {
		t.Fatalf("%d groups: %+v", len(a.Groups), a.Groups)
	}
	for _, g := range a.Groups {
		r := groups[g.Kind+" "+g.Name]
		want := bounds.Outliers(r)
		if g.Kind != "class" {
			own, err := r.OutlierBounds(.05 / 6)
			if err != nil {
				t.Fatal(err)
			}
			want = max(want, own.Outliers(r))
		}
		if g.Inputs != r.Rows() || g.Outliers != want || g.Discoveries != found[g.Kind+" "+g.Name] {
			t.Errorf("%+v; want %d inputs, %d outliers, %d discoveries", g, r.Rows(), want, found[g.Kind+" "+g.Name])
		}
	}
	// Only bad/0.npz has outliers, so its bound is the bound for all inputs.
	if badOutliers := a.Groups[0].Outliers; a.Groups[0].Name != "bad/0.npz" || badOutliers <= bounds.Outliers(groups[""]) || a.Outliers != badOutliers {
		t.Errorf("%d outliers, and %d of %+v", a.Outliers, bounds.Outliers(groups[""]), a.Groups[0])
	}
	for i, r := range a.HighestScoring {
		if r.PValue != ps[r.Key] || r.Discovery != (r.PValue <= a.PValueThreshold) || i > 0 && r.Score > a.HighestScoring[i-1].Score {
			t.Errorf("%+v stands at %d", r, i)
		}
	}
	audited := 0.
	for _, c := range a.Classes {
		audited += c.Audited
	}
	if len(a.Classes) != 3 || math.Abs(audited-1) > 1e-9 {
		t.Errorf("%+v", a.Classes)
	}
	onMap, err := a.Map()
	if err != nil || len(onMap) < MaxWorst || len(onMap) > len(a.retained.Worst)+len(a.retained.Sample) {
		t.Fatalf("%d rows on the map, %v", len(onMap), err)
	}
	for _, r := range onMap {
		if r.PValue != ps[r.Key] || r.X == 0 && r.Y == 0 {
			t.Errorf("%+v is on the map", r)
		}
	}
}

// TestLooks checks that bounds computed from groupCounts equal bounds computed from all
// ranks.
func TestLooks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 1 + r.IntN(300)
		w := &ScoreSet{Identity: Identity{Calibration: n, FDR: .1, Delta: .1}, ranks: calibrate.NewRanks(n)}
		tally := &tally{scores: w, looks: hypothesis.Looks(n), scratch: countedRanks{calibrate.NewRanks(n), calibrate.NewRanks(n)}}
		all := calibrate.NewRanks(n)
		c := &groupCounts{LookCounts: [2][]int{make([]int, len(tally.looks)+1), make([]int, len(tally.looks)+1)}}
		power := 1 + 4*r.Float64()
		for range r.IntN(500) {
			k := int(float64(n+1) * math.Pow(r.Float64(), power))
			all[k]++
			c.LookCounts[1][lookIndex(tally.looks, k+1)]++
		}
		coarse := tally.groupRanks(c).distinct
		fromAll, err1 := all.OutlierBounds(.05)
		fromCoarse, err2 := coarse.OutlierBounds(.05)
		if err := errors.Join(err1, err2); err != nil || fromAll.Outliers(all) != fromCoarse.Outliers(coarse) || fromAll.Outliers(all) != fromAll.Outliers(coarse) || all.Rows() != coarse.Rows() {
			t.Fatalf("of %d calibration rows: %d and %d outliers, %v", n, fromAll.Outliers(all), fromCoarse.Outliers(coarse), err)
		}
	}
}

// TestBoundsHoldAtOnce checks by simulation that all bounds on outliers hold at once. Apart
// from chance, at most a fraction Delta of the simulated audits may have a bound above the
// true number of outliers. The bounds of all groups of one kind must not add up to more than
// the bound of all inputs.
//
// An audit counts all rows and, separately, distinct rows. Its bounds must hold if each
// input was copied, and also if inputs repeat by chance as often as calibration rows do. In
// the first case, bounds from all rows alone would fail. In the second, bounds from
// distinct rows alone would fail.
func TestBoundsHoldAtOnce(t *testing.T) {
	const n, files, each, trials, delta = 200, 12, 40, 60, .2
	for _, c := range []struct {
		outliers int  // number of outliers in each of three files
		copies   int  // number of copies of each row
		repeated bool // half of the rows are drawn from 30 inputs with low scores
	}{{0, 1, false}, {30, 1, false}, {0, 20, false}, {30, 20, false}, {0, 1, true}, {30, 1, true}} {
		r := rand.New(rand.NewPCG(5, uint64(c.outliers)))
		draw := func(outlier bool) (score float64, input int) { // input counts from 1, and is 0 if it cannot repeat
			switch {
			case outlier:
				return r.NormFloat64() + 2.5, 0
			case c.repeated && r.IntN(2) == 0:
				input = 1 + r.IntN(30)
				return -1 - float64(input)/30, input
			}
			return r.NormFloat64(), 0
		}
		wrong, sum, found := 0, 0, 0
		failures := [2]int{} // for each of the two ways of counting, number of draws in which it violates a bound
		for range trials {
			w := &ScoreSet{Identity: Identity{Calibration: n, FDR: .1, Delta: delta}, ranks: calibrate.NewRanks(n)}
			at := hypothesis.Looks(n)
			tally := &tally{scores: w, a: &Audit{Audit: result.Audit{Inputs: files * each * c.copies}}, looks: at, groups: map[groupKey]*groupCounts{},
				ranks: countedRanks{w.ranks, calibrate.NewRanks(n)}, scratch: countedRanks{calibrate.NewRanks(n), calibrate.NewRanks(n)}}
			cal := make([]float64, n)
			for i := range cal {
				cal[i], _ = draw(false)
			}
			slices.Sort(cal)
			truth, seen := map[*groupCounts]int{}, map[[2]any]bool{}
			first := func(outliers any, input int) int {
				if input == 0 {
					return 1
				}
				if key := [2]any{outliers, input}; !seen[key] {
					seen[key] = true
					return 1
				}
				return 0
			}
			for f := range files {
				// The first eight files are in two folders, four in each. Each remaining
				// file has rows of two folders.
				shardKey, folder := groupKey{Kind: shardKind, Name: fmt.Sprint(f)}, fmt.Sprint("of ", f/4)
				shard := tally.group(shardKey, "")
				for i := range each {
					if f >= 8 {
						folder = fmt.Sprint(f, "/", i%2)
					}
					outlier := f%4 == 0 && i < c.outliers
					score, input := draw(outlier)
					at, _ := slices.BinarySearch(cal, score)
					rank := 1 + n - at
					w.ranks[rank-1] += c.copies
					tally.ranks.distinct[rank-1] += first(nil, input)
					folderKey := groupKey{Kind: folderKind, Name: folder}
					in := tally.group(folderKey, "")
					shard.addCounterpart(folderKey)
					in.addCounterpart(shardKey)
					for _, g := range []*groupCounts{shard, in, tally.group(groupKey{Kind: groupKind, Name: fmt.Sprint(i % 5)}, ""), tally.group(groupKey{Kind: classKind, Class: rank % 3}, "")} {
						g.Rows += c.copies
						g.LookCounts[0][lookIndex(tally.looks, rank)] += c.copies
						g.LookCounts[1][lookIndex(tally.looks, rank)] += first(g, input)
						if outlier {
							truth[g] += c.copies
						}
					}
				}
			}
			var err error
			if tally.bounds, err = tally.ranks.bounds(delta / 2); err != nil {
				t.Fatal(err)
			}
			outliers := tally.bounds.outliers(tally.ranks)
			sum += min(outliers[0], outliers[1])
			if err := tally.boundOutliers(); err != nil {
				t.Fatal(err)
			}
			found += tally.a.Outliers
			bad := tally.a.Outliers > 3*c.outliers*c.copies
			var sumByKind [classKind + 1]int
			var failed [2]bool
			for key, g := range tally.groups {
				bad = bad || g.outliers > truth[g]
				for way := range failed {
					failed[way] = failed[way] || g.outlierPair[way] > truth[g]
				}
				sumByKind[key.Kind] += g.outliers
			}
			for way := range failed {
				if failed[way] {
					failures[way]++
				}
			}
			if slices.Max(sumByKind[:]) > tally.a.Outliers {
				t.Fatalf("%d outliers, and by kinds of groups %v", tally.a.Outliers, sumByKind)
			}
			if (tally.a.Shift.Higher <= delta) != (tally.a.Outliers > 0) {
				t.Fatalf("%d outliers, and p is %v that any group shifted", tally.a.Outliers, tally.a.Shift)
			}
			if bad {
				wrong++
			}
		}
		t.Logf("%+v: bounds are violated in %d of %d draws, by rows alone in %d, by distinct rows alone in %d; %.1f are found, %.1f by the bound of all", c, wrong, trials, failures[0], failures[1], float64(found)/trials, float64(sum)/trials)
		limit := delta + 2*math.Sqrt(delta*(1-delta)/trials)
		if float64(wrong)/trials > limit {
			t.Errorf("%+v: bounds are violated in %d of %d draws", c, wrong, trials)
		}
		if c.outliers > 0 && found <= sum {
			t.Errorf("%+v: %d outliers are found, %d by the bound of all", c, found, sum)
		}
		if c.outliers == 0 && (c.copies > 1 && float64(failures[0])/trials <= limit || c.repeated && float64(failures[1])/trials <= limit) {
			t.Errorf("%+v: either way would do: %v", c, failures)
		}
	}
}

// TestJoinRefuses checks that Join refuses files with missing, repeated or incompatible
// rows.
func TestJoinRefuses(t *testing.T) {
	b := bundle(t)
	s, err := NewScorer(b, Identity{FDR: .1, Delta: .1})
	if err != nil {
		t.Fatal(err)
	}
	all := testShards()
	parts := scoreFiles(t, s, all, []string{"bad/0.npz"}, func(int) []int { return []int{20, 40} })
	strict, err := NewScorer(b, Identity{FDR: .1, Delta: .1, Alpha: .01})
	if err != nil {
		t.Fatal(err)
	}
	other := scoreFiles(t, strict, all, []string{"good/1.npz"}, noCuts)
	for want, list := range map[string][]*File{
		"both have rows of bad/0.npz":                          {parts[0], parts[1], parts[2], parts[1]},
		"rows of bad/0.npz are missing before row 20":          {parts[1], parts[2]},
		"rows of bad/0.npz are missing from row 40 on":         {parts[0], parts[1]},
		"alpha is 0.05 in one and 0.01 in the other":           {parts[0], parts[1], parts[2], other[0]},
		"rows of bad/0.npz are missing before row 40; audit i": {parts[0], parts[2]},
	} {
		if _, err := Join(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// TestParts checks that a read error ends a shard. All batches before the last one stay, in
// the same part as rows of an earlier shard.
func TestParts(t *testing.T) {
	s, err := NewScorer(bundle(t), Identity{FDR: .1, Delta: .1})
	if err != nil {
		t.Fatal(err)
	}
	bad := memoryRows("x.npz", sample(45, 1, 0))
	good := bad.Batches
	bad.Batches = func(ctx context.Context, from int) iter.Seq2[Batch, error] {
		return func(yield func(Batch, error) bool) {
			for b, err := range good(ctx, from) {
				if !yield(b, err) {
					return
				}
			}
			yield(Batch{}, iotest.ErrTimeout)
		}
	}
	var ranges [][]Range
	scoring := s.Begin(func(p *Part) error {
		ranges = append(ranges, p.Ranges)
		return nil
	})
	if err := scoring.Rows(context.Background(), "w.npz", memoryRows("w.npz", sample(7, 2, 0)), 0, 7, nil); err != nil {
		t.Fatal(err)
	}
	if err := scoring.Rows(context.Background(), "x.npz", bad, 0, 100, nil); !errors.Is(err, iotest.ErrTimeout) {
		t.Error(err)
	}
	if err := scoring.Flush(); err != nil || len(ranges) != 1 || len(ranges[0]) != 2 || ranges[0][0].End != 7 || ranges[0][1].End != 40 {
		t.Errorf("%v, %v", ranges, err)
	}
}

// TestSameName checks merges of files that have the same name on two machines. Files with
// different rows are merged in any order. Files with the same rows are refused.
func TestSameName(t *testing.T) {
	s, err := NewScorer(bundle(t), Identity{FDR: .1, Delta: .1})
	if err != nil {
		t.Fatal(err)
	}
	audit := func(shift float64, seed uint64) *File {
		dir, _ := finishAudit(t, scoreFiles(t, s, map[string]ood.Batch{"a/x.npz": sample(300, seed, shift), "b.npz": sample(20, 7+seed, 0)}, []string{"a/x.npz", "b.npz"}, func(int) []int { return []int{10} }))
		f, err := OpenFile(filepath.Join(dir, Scores))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	inliers, outliers, mixed, outliersAgain := audit(0, 1), audit(4, 2), audit(2, 3), audit(4, 2)
	want, a := finishAudit(t, []*File{inliers, outliers, mixed})
	checkPartitions(t, []*File{inliers, outliers, mixed}, a)
	if a.Inputs != 960 || len(a.Shards) != 6 || a.Shards[0].Name != "a/x.npz" || a.Shards[2].Name != "a/x.npz" || len(a.Groups) != 2+2+3 {
		t.Errorf("%d inputs, %+v, %+v", a.Inputs, a.Shards, a.Groups)
	}
	for i, r := range a.HighestScoring {
		if r.PValue == 0 || i > 0 && r.Score > a.HighestScoring[i-1].Score {
			t.Errorf("%+v stands at %d", r, i)
		}
	}
	mergedDir, _ := finishAudit(t, []*File{mixed, inliers})
	merged, err := OpenFile(filepath.Join(mergedDir, Scores))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]*File{{outliers, mixed, inliers}, {outliers, merged}, {merged, outliers}} {
		got, _ := finishAudit(t, list)
		for _, name := range []string{"audit.json", Scores} {
			wantBytes, err1 := os.ReadFile(filepath.Join(want, name))
			gotBytes, err2 := os.ReadFile(filepath.Join(got, name))
			if err := errors.Join(err1, err2); err != nil || !bytes.Equal(wantBytes, gotBytes) {
				t.Errorf("%s differs, %v", name, err)
			}
		}
	}
	for _, list := range [][]*File{{outliers, outliersAgain}, {inliers, outliers, mixed, outliersAgain}, {merged, outliers, outliersAgain}, {inliers, merged}} {
		if _, err := Join(list); err == nil || !strings.Contains(err.Error(), "both have rows of a/x.npz; audit each input once") {
			t.Error(err)
		}
	}
}

// TestDamage flips 300 random bits of a file of scores, one at a time. It checks that each
// flipped bit is noticed or leaves the results unchanged.
func TestDamage(t *testing.T) {
	s, err := NewScorer(bundle(t), Identity{FDR: .1, Delta: .1})
	if err != nil {
		t.Fatal(err)
	}
	f := scoreFiles(t, s, testShards(), []string{"good/0.npz"}, noCuts)[0]
	content, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	_, a := finishAudit(t, []*File{f})
	a.retained = retainedRows{}
	want, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 6))
	path := filepath.Join(t.TempDir(), "x.parquet")
	noticed := 0
	for range 300 {
		at := r.IntN(len(content))
		changed := bytes.Clone(content)
		changed[at] ^= 1 << r.IntN(8)
		if err := os.WriteFile(path, changed, 0o666); err != nil {
			t.Fatal(err)
		}
		file, err := OpenFile(path)
		if err == nil {
			err = file.Check(context.Background())
		}
		if err != nil {
			if noticed++; !Damaged(err) {
				t.Errorf("byte %d: %v", at, err)
			}
			continue
		}
		_, a := finishAudit(t, []*File{file})
		if got, err := json.Marshal(a); err != nil || !bytes.Equal(got, want) {
			t.Errorf("byte %d was not noticed, %v", at, err)
		}
	}
	if noticed < 200 {
		t.Errorf("%d of 300 were noticed", noticed)
	}
}

// TestOpenFileRefuses checks that OpenFile refuses files with forged contents but correct
// checksums.
func TestOpenFileRefuses(t *testing.T) {
	for _, c := range []struct {
		want  string
		forge func(h *header, c *columns)
	}{
		{"", func(*header, *columns) {}},
		{"rows 0 to 4 of 3", func(h *header, _ *columns) { h.Ranges[0].Audited = 3 }},
		{"rows do not match", func(h *header, _ *columns) { h.Ranges[0].End = 3 }},
		{"rows do not match", func(h *header, _ *columns) { h.Ranges = nil }},
		{"rows do not match", func(h *header, _ *columns) { h.Calibration = -99 }},
		{"rows do not match", func(h *header, _ *columns) { h.Calibration = 1 << 60 }},
		{"it has 14 columns where this version of attach writes 11", func(h *header, _ *columns) { h.Task = "regression" }},
		{"rows do not match", func(h *header, _ *columns) { h.Widths = []sparseRanks{{}} }},
		{"ranks do not match its 4 rows", func(h *header, _ *columns) { h.Ranks = sparseRanks{{1, 3}} }},
		{"ranks do not match its 4 rows", func(h *header, _ *columns) { h.Ranks = sparseRanks{{10, 4}} }},
		{"ranks do not match its 4 rows", func(h *header, _ *columns) { h.Ranks = sparseRanks{{1, 5}, {2, -1}} }},
		{"ranks do not match its 4 rows", func(h *header, _ *columns) { h.Ranks = sparseRanks{{1, math.MaxInt}, {2, math.MaxInt}, {3, 6}} }},
		{`column "key"`, func(_ *header, c *columns) { c.nodes[0] = parquet.Int(64) }},
		{`column "row"`, func(_ *header, c *columns) { c.nodes[2] = parquet.Repeated(parquet.Int(64)) }},
		{`column "keys"`, func(_ *header, c *columns) { c.names[0] = "keys" }},
		{"it lists row 4 of a", func(h *header, _ *columns) { h.Retained.Worst[0].At = 4 }},
		{"it lists row -1 of a", func(h *header, _ *columns) { h.Retained.Sample[0].At = -1 }},
		{"it lists row 0 of b", func(h *header, _ *columns) { h.Retained.Worst[0].Shard = "b" }},
		{"counts of used rows do not match its 4 rows", func(h *header, _ *columns) { h.Used[0] = rowhash.Matches{Rows: 4, Compared: 4, Found: 5, Sampled: 9} }},
		{"counts of used rows do not match its 4 rows", func(h *header, _ *columns) { h.Used[0] = rowhash.Matches{Rows: 4, Compared: 4, Found: -1, Sampled: 9} }},
		{"counts of used rows do not match its 4 rows", func(h *header, _ *columns) { h.Used[1] = rowhash.Matches{Rows: 4, Compared: 5, Sampled: 9} }},
		{"counts of used rows do not match its 4 rows", func(h *header, _ *columns) { h.Used[1] = rowhash.Matches{Rows: 5, Compared: 4, Sampled: 9} }},
		{"counts of used rows do not match its 4 rows", func(h *header, _ *columns) { h.Used[1] = rowhash.Matches{Rows: 4, Sampled: 9, Repeated: 10} }},
		{"counts of used rows do not match its 4 rows", func(h *header, _ *columns) { h.Used[1] = rowhash.Matches{Rows: 4, Sampled: 1 << 60, Repeated: -1} }},
		{"its rows have different numbers of features", func(h *header, _ *columns) { h.Retained.Worst[0].Features = floatList{1} }},
		{"its rows have different numbers of columns", func(h *header, _ *columns) { h.Retained.Sample[0].Numbers = floatList{1} }},
		{"its columns do not match its header", func(h *header, _ *columns) { h.Profile = nil }},
		{"its columns do not match its header", func(h *header, _ *columns) { h.Counts = nil }},
		{"it has 14 columns where this version of attach writes 13", func(h *header, _ *columns) { h.Profiled = false }},
		{"counts of values do not match its 4 rows", func(h *header, _ *columns) { h.Counts.Rows = 3 }},
		{"counts of values do not match its 4 rows", func(h *header, _ *columns) { h.Counts.Columns[0].Slots[0] = 5 }},
		{"counts of values do not match its 4 rows", func(h *header, _ *columns) { h.Counts.Columns = h.Counts.Columns[1:] }},
		{"counts of values do not match its 4 rows", func(h *header, _ *columns) { h.Profile.Rows = 0 }},
	} {
		kept := retainedRows{Worst: []retainedRow{{Shard: "a", Features: floatList{1, 2}}}, Sample: []retainedRow{{Shard: "a", Features: floatList{1, 2}, Numbers: make(floatList, 6)}}}
		p := profile()
		counts := p.NewCounts()
		counts.Add(p.Matcher(), p.Matcher().Values(inputsOf(sample(4, 1, 0))))
		h := header{Identity: Identity{Task: attach.Classification, Calibration: 9, FDR: .1, Delta: .1, Profiled: true}, Profile: p, Counts: counts, Ranges: []Range{{Shard: "a", Rows: 4, Audited: 4, End: 4}}, Ranks: sparseRanks{{1, 4}}, Retained: kept}
		columns := h.columns()
		c.forge(&h, columns)
		var b bytes.Buffer
		w := newWriter(&b, columns)
		for range 4 {
			for i, node := range columns.nodes {
				switch columns.names[i] {
				case "input_hash":
					w.addText(strings.Repeat("a", 32))
					continue
				case "input_sketch":
					w.addText("")
					continue
				}
				switch node.Type().Kind() {
				case parquet.ByteArray:
					w.addText("a")
				case parquet.Int64:
					w.addInteger(0)
				case parquet.Double:
					w.addNumber(.2)
				default:
					w.add(parquet.BooleanValue(false))
				}
			}
		}
		encoded, err := json.Marshal(h)
		if err == nil {
			err = w.close(encoded, checksum(encoded))
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "x.parquet")
		if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
		f, err := OpenFile(path)
		if err == nil && c.want == "" {
			finishAudit(t, []*File{f})
		} else if !errors.Is(err, ErrNotScores) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.want, err)
		}
	}
}

// TestNumbers checks that features and scores survive encoding exactly, and that malformed
// numbers are refused.
func TestNumbers(t *testing.T) {
	r := retainedRow{Key: "a", Score: floatBits(math.Inf(1)), Features: floatList{1, float32(math.Inf(-1)), 1e-40}}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back retainedRow
	if err := json.Unmarshal(text, &back); err != nil || back.Score != r.Score || !slices.Equal(back.Features, r.Features) {
		t.Errorf("%+v, %v", back, err)
	}
	for _, bad := range []string{`{"score":"1"}`, `{"score":"000000000000000g"}`, `{"features":"AAAA"}`, `{"features":"?"}`} {
		if err := json.Unmarshal([]byte(bad), &back); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}

// TestKey checks the keys and folders of rows, and the gaps between ranges.
func TestKey(t *testing.T) {
	for _, c := range []struct{ shard, file, key, folder string }{
		{"a/b.npz", "", "a/b.npz:7", "a"}, {"b.npz", "", "b.npz:7", "."}, {"photos", "north/7.jpg", "photos/north/7.jpg", "photos/north"},
		{"photos/7.jpg", "7.jpg", "photos/7.jpg", "photos"}, {"s/x-0.tar", "x-0.tar/7.jpg", "s/x-0.tar/7.jpg", "s/x-0.tar"}, {"s3://b/x.tar", "x.tar/d/7.jpg", "s3://b/x.tar/d/7.jpg", "s3://b/x.tar/d"},
	} {
		if key, folder := Key(c.shard, c.file, 7); key != c.key || folder != c.folder {
			t.Errorf("%s %s: %s in %s", c.shard, c.file, key, folder)
		}
	}
	if gaps := Gaps("a", 50, []Range{{Shard: "a", Start: 30, End: 40}, {Shard: "b", Start: 0, End: 50}, {Shard: "a", Start: 0, End: 10}}); fmt.Sprint(gaps) != "[[10 30] [40 50]]" {
		t.Error(gaps)
	}
}

// TestReasonPlaces checks that a reason group keeps the files with the most inputs, and the
// earlier one of two with as many, wherever its rows are divided into partitions.
func TestReasonPlaces(t *testing.T) {
	w := &ScoreSet{}
	files := []int{2, 7, 1, 7, 3} // numbers of inputs
	rows := 0
	for _, n := range files {
		rows += n
	}
	count := func(from, to int) *reasonCounts {
		counts, at := &tally{scores: w, reasonGroups: map[string]*reasonCounts{}}, 0
		for shard, n := range files {
			for row := range n {
				if at >= from && at < to {
					b := block{columns: &columns{index: map[string]int{"row": 0}}, cells: []pq.Values{{Numbers: []float64{float64(4 + row)}}}, shard: shard, name: fmt.Sprint(shard)}
					counts.countReasons([]byte("a"), b, 0, at%2 == 0)
				}
				at++
			}
		}
		return counts.reasonGroups["a"]
	}
	for first := 1; first < rows; first++ {
		for second := first; second < rows; second++ {
			c := count(0, first)
			for _, cut := range [][2]int{{first, second}, {second, rows}} {
				if later := count(cut[0], cut[1]); later != nil {
					c.merge(later)
				}
			}
			g := c.finish()
			if got := fmt.Sprint(g.Inputs, g.Discoveries, g.Places); got != "20 10 [1: 7 in rows 4–10 3: 7 in rows 4–10 4: 3 in rows 4–6]" {
				t.Fatalf("cut at %d and %d: %s", first, second, got)
			}
		}
	}
}
