package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/audit/result"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/ood"
)

// shardsWithCopies returns shards that contain copies of their own rows and of rows of
// other shards.
func shardsWithCopies() (all map[string]ood.Batch, names []string) {
	all = map[string]ood.Batch{}
	r := rand.New(rand.NewPCG(8, 8))
	from := sample(60, 77, .5)
	for k := range 6 {
		var idx []int
		for range 40 {
			idx = append(idx, min(r.IntN(60), r.IntN(60)))
		}
		name := fmt.Sprintf("%d/%d.npz", k%2, k)
		all[name], names = from.Select(idx), append(names, name)
	}
	slices.Sort(names)
	return all, names
}

// TestCopies checks the copies that findCopies finds against a simple search with a map. It
// also checks that a different division of the rows into parts gives the same audit.json.
func TestCopies(t *testing.T) {
	s, err := NewScorer(bundle(t), Identity{FDR: .1, Delta: .1})
	if err != nil {
		t.Fatal(err)
	}
	all, names := shardsWithCopies()
	list := scoreFiles(t, s, all, names, func(n int) []int { return []int{10, 30} })
	w, err := Join(list)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	found := newMerge(w, fileRows, dirFiles(dir))
	if err := found.findCopies(t.Context(), found.runHere(dir)); err != nil {
		t.Fatal(err)
	}
	read, err := found.openFlags(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer read.close()
	seen, keys := map[string]bool{}, map[string][]string{}
	firstFile, between := map[string]string{}, map[[2]string]int{}
	distinct, row := calibrate.NewRanks(w.Calibration), 0
	err = w.eachBlock(context.Background(), w.columns(), func(b block) error {
		flags, err := read.of(row, b.n)
		if err != nil {
			return err
		}
		for i := range b.n {
			hash := string(b.texts("input_hash")[i])
			var want byte
			for bit, group := range map[byte]string{copyOfAny: "", copyInKind(shardKind): "s" + b.name, copyInKind(folderKind): "f" + string(b.texts("folder")[i]),
				copyInKind(groupKind): "", copyInKind(labelKind): "", copyInKind(classKind): "c" + string(b.texts("class_name")[i])} {
				if constant := bit == copyInKind(groupKind) || bit == copyInKind(labelKind); seen[hash+group] && !constant || constant && len(keys[hash]) > 0 {
					want |= bit
				}
			}
			for _, group := range []string{"", "s" + b.name, "f" + string(b.texts("folder")[i]), "c" + string(b.texts("class_name")[i])} {
				seen[hash+group] = true
			}
			if of, again := firstFile[hash]; again {
				between[[2]string{b.name, of}]++
			} else {
				firstFile[hash] = b.name
			}
			if len(keys[hash]) == 0 {
				if err := distinct.Add(b.numbers("p_value")[i]); err != nil {
					return err
				}
			}
			keys[hash] = append(keys[hash], string(b.texts("key")[i]))
			if flags[i] != want {
				t.Errorf("row %d has flags %b, want %b", row+i, flags[i], want)
			}
		}
		row += b.n
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(found.copies.Ranks, distinct) || found.copies.Count != row-len(keys) || found.copies.Count < 100 {
		t.Errorf("%d copies, want %d", found.copies.Count, row-len(keys))
	}
	out, a := finishAudit(t, list)
	checkPartitions(t, list, a)
	if a.Copies == nil || a.Copies.Distinct != len(keys) || a.Copies.Repeated != found.copies.Count || len(a.Copies.MostCopied) != maxMostCopied {
		t.Fatalf("%+v", a.Copies)
	}
	most := slices.Max(slices.Collect(func(yield func(int) bool) {
		for k := range maps.Values(keys) {
			if !yield(len(k)) {
				return
			}
		}
	}))
	if first := a.Copies.MostCopied[0]; first.Inputs != most {
		t.Errorf("%+v, want %d inputs", first, most)
	}
	for _, copied := range a.Copies.MostCopied {
		if !slices.ContainsFunc(slices.Collect(maps.Values(keys)), func(k []string) bool {
			return len(k) == copied.Inputs && slices.Equal(k[:min(len(k), MaxCopyKeys)], copied.Keys)
		}) {
			t.Errorf("%+v", copied)
		}
	}
	counts := slices.Sorted(maps.Values(between))
	slices.Reverse(counts)
	if len(a.Copies.Between) != min(len(counts), maxBetween) {
		t.Errorf("%d pairs of files, want %d", len(a.Copies.Between), len(counts))
	}
	for i, pair := range a.Copies.Between {
		if pair.Exact != between[[2]string{pair.Shard, pair.Of}] || pair.Exact != counts[i] || pair.Near+pair.Mirrored > 0 {
			t.Errorf("pair %d is %+v, want %d", i, pair, counts[i])
		}
	}
	again, _ := finishAudit(t, scoreFiles(t, s, all, names, noCuts))
	firstJSON, err1 := os.ReadFile(filepath.Join(out, "audit.json"))
	secondJSON, err2 := os.ReadFile(filepath.Join(again, "audit.json"))
	if err := errors.Join(err1, err2); err != nil || string(firstJSON) != string(secondJSON) {
		t.Errorf("other parts, another audit: %v", err)
	}
	for _, pattern := range []string{filepath.Join(dir, ".attach-*"), filepath.Join(out, ".attach-*")} {
		if leftover, err := filepath.Glob(pattern); err != nil || len(leftover) > 0 {
			t.Errorf("%v is left behind, %v", leftover, err)
		}
	}
}

// TestCopiesCountOnce checks that twenty copies of an outlier count as only one outlier.
func TestCopiesCountOnce(t *testing.T) {
	s, err := NewScorer(bundle(t), Identity{FDR: .1, Delta: .1})
	if err != nil {
		t.Fatal(err)
	}
	outlier, good := sample(1, 5, 6), sample(300, 6, 0)
	idx := make([]int, 20)
	_, once := finishAudit(t, scoreFiles(t, s, map[string]ood.Batch{"a.npz": outlier, "b.npz": good}, []string{"a.npz", "b.npz"}, noCuts))
	_, many := finishAudit(t, scoreFiles(t, s, map[string]ood.Batch{"a.npz": outlier.Select(idx), "b.npz": good}, []string{"a.npz", "b.npz"}, noCuts))
	if once.Copies != nil || many.Copies == nil || many.Copies.Repeated != 19 || many.Copies.MostCopied[0].Inputs != 20 {
		t.Fatalf("%+v and %+v", once.Copies, many.Copies)
	}
	if many.Outliers > once.Outliers || many.Shift.Higher < once.Shift.Higher || many.PValueThreshold > once.PValueThreshold {
		t.Errorf("%d outliers, shift %v, discoveries up to %v; of the input alone %d, %v, %v", many.Outliers, many.Shift, many.PValueThreshold, once.Outliers, once.Shift, once.PValueThreshold)
	}
	if text, _ := json.Marshal(many.Notes[0]); !json.Valid(text) || many.Notes[0][:2] != "19" {
		t.Errorf("the first note is %s", text)
	}
}

// TestSpill checks that records are read back in order, from memory and from the file.
func TestSpill(t *testing.T) {
	dir := t.TempDir()
	s := &spill{dir: dir, size: flagRecordSize}
	const n = 3*chunkRecords + 5
	for i := range n {
		for bin := range 3 {
			if err := s.add(bin, []byte{byte(i), byte(i >> 8), byte(i >> 16), byte(bin), 0, 0, 0, 0, 0}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if leftover, _ := os.ReadDir(dir); len(leftover) != 1 {
		t.Fatal("nothing was written")
	}
	for bin := range 3 {
		var all []byte
		err := s.records(bin)(func(record []byte) error {
			all = append(all, record...)
			return nil
		})
		if err != nil || len(all) != n*flagRecordSize {
			t.Fatalf("%d bytes of %d records, %v", len(all), n, err)
		}
		for i := range n {
			if b := all[i*flagRecordSize:]; int(b[0])+int(b[1])<<8+int(b[2])<<16 != i || int(b[3]) != bin {
				t.Fatalf("%v at %d of %d", b[:flagRecordSize], i, bin)
			}
		}
	}
	s.close()
	if leftover, _ := os.ReadDir(dir); len(leftover) > 0 {
		t.Errorf("%v is left behind", leftover)
	}
	if err := (&spill{dir: filepath.Join(dir, "none"), size: flagRecordSize}).add(0, make([]byte, chunkRecords*flagRecordSize)); err == nil {
		t.Error("a folder that is not there is no error")
	}
}

// TestShiftOfAnyGroup checks that the shift and the outliers of one file among many are
// found. The shift test of all inputs together does not detect them.
func TestShiftOfAnyGroup(t *testing.T) {
	s, err := NewScorer(bundle(t), Identity{FDR: .1, Delta: .05})
	if err != nil {
		t.Fatal(err)
	}
	all, names := map[string]ood.Batch{"bad.npz": sample(25, 4, 4)}, []string{"bad.npz"}
	for k := range 6 {
		name := fmt.Sprintf("good/%d.npz", k)
		all[name], names = sample(300, uint64(20+k), 0), append(names, name)
	}
	_, a := finishAudit(t, scoreFiles(t, s, all, names, noCuts))
	if a.Outliers == 0 || a.Shift.Higher > .05 || a.Shift.HigherIn != (Place{Kind: "shard", Name: "bad.npz"}) || a.Shift.GroupsTested != 8 || a.Shift.AllInputs.Higher < .01 {
		t.Errorf("%d outliers, and of the shift %+v", a.Outliers, a.Shift)
	}
	own, p := a.Groups[0], calibrate.NewRanks(a.Calibration)
	list := scoreFiles(t, s, map[string]ood.Batch{"bad.npz": all["bad.npz"]}, []string{"bad.npz"}, noCuts)
	w, err := Join(list)
	if err != nil {
		t.Fatal(err)
	}
	copy(p, w.ranks)
	if higher, _ := p.Shift(); own.Name != "bad.npz" || math.Abs(a.Shift.Higher/(2*8*higher)-1) > 1e-5 {
		t.Errorf("%v is not 16 times %v of %s", a.Shift.Higher, higher, own.Name)
	}
}

// TestLargerPValue checks that the larger p-value comes with its place, and that a p-value
// of 1 or more names no place.
func TestLargerPValue(t *testing.T) {
	placeA, placeB := Place{Kind: "shard", Name: "a"}, Place{Kind: "shard", Name: "b"}
	if p, in := largerPValue([2]float64{.5, 1.2}, [2]Place{placeA, placeB}); p != 1 || in != (Place{Kind: "all"}) {
		t.Errorf("%v in %v", p, in)
	}
	if p, in := largerPValue([2]float64{.5, .2}, [2]Place{placeA, placeB}); p != .5 || in != placeA {
		t.Errorf("%v in %v", p, in)
	}
}

// TestCopyCounts checks that copies are named by their kinds, and that only the first pairs of
// files are counted if there are too many.
func TestCopyCounts(t *testing.T) {
	for want, text := range map[string]fmt.Stringer{
		"451 of 3,000 inputs are copies of an earlier one (150 exact, 201 near, 100 mirrored); 2,549 differ": &Copies{Distinct: 2549, Repeated: 451, Near: 301, Mirrored: 100},
		"1 of 2 inputs are copies of an earlier one (1 mirrored); 1 differ":                                  &Copies{Distinct: 1, Repeated: 1, Near: 1, Mirrored: 1},
		"b copies a: 150 exact, 1 near":              FileCopies{Shard: "b", Of: "a", Exact: 150, Near: 1},
		"a has copies of its own inputs: 2 mirrored": FileCopies{Shard: "a", Of: "a", Mirrored: 2},
	} {
		if got := text.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	pairs := newPairCounts(nil)
	for row := range maxFilePairs + 2 {
		pairs.files = append(pairs.files, fileStart{row, fmt.Sprint(row)})
		pairs.count(row, mark{first: 0, kind: mirroredCopy})
		pairs.count(row, mark{first: 0, kind: firstOfCopy})
	}
	pairs.count(maxFilePairs+1, mark{first: 0, kind: mirroredCopy}) // the last pair is not counted
	if list := pairs.most(); len(pairs.list) != maxFilePairs || len(list) != maxBetween || list[1] != (FileCopies{Shard: "1", Of: "0", Mirrored: 1}) {
		t.Errorf("%d pairs, %+v", len(pairs.list), list)
	}
}

// TestNotes checks the notes about few discoveries and about copies.
func TestNotes(t *testing.T) {
	ranks := calibrate.NewRanks(999)
	ranks[1], ranks[500] = 20, 980 // no row scores higher than all calibration rows
	d, err := ranks.Discoveries(calibrate.DiscoveryOptions{FDR: .1})
	if err != nil || d.Count != 20 || d.Least != 10 {
		t.Fatalf("%+v, %v", d, err)
	}
	a := &Audit{Audit: result.Audit{Inputs: 1000, MinDiscoveries: d.Least, Thresholds: []Threshold{{Inputs: 3}}, HighestScoring: make([]Row, 4),
		Copies: &Copies{Distinct: 998, Repeated: 2, Near: 1}}}
	a.Calibration, a.FDR = 999, .1
	a.addNotes()
	all := strings.Join(a.Notes, "\n")
	for _, want := range []string{
		"With 999 calibration rows there are at least 10 discoveries among 1,000 inputs, or none; 1 discovery would need at least 9,999 calibration rows. ",
		"2 of 1,000 inputs are copies of an earlier one (1 exact, 1 near); 998 differ. Copies are not independent evidence",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}
}
