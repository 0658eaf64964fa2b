package audit

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
)

const (
	// MaxWorst is the largest number of rows that are retained for their high scores.
	MaxWorst = 200
	// maxOfShard is the largest number of these rows of one shard, unless the other shards have
	// too few.
	maxOfShard = MaxWorst / 3
	// maxSample is the largest number of rows that are retained as a random sample.
	maxSample = 300
	// maxReasons is the largest number of reasons that are retained for a row.
	maxReasons = 20
)

// retainedRow is a row that is stored together with its features.
type retainedRow struct {
	Key   string `json:"key"`
	Shard string `json:"shard"`
	At    int    `json:"at"` // index among the audited rows of the shard
	// Digest is the digest of the whole shard, or 0 until all rows of the shard are scored.
	// It distinguishes shards with the same name.
	Digest uint64    `json:"digest,omitempty,string"`
	Score  floatBits `json:"score"`
	// LabelP and LabelScore are the p-value and the score of the label, or 0.
	LabelP     floatBits `json:"label_p,omitempty"`
	LabelScore floatBits `json:"label_score,omitempty"`
	SampleHash uint64    `json:"drawn"` // hash of the key; the sample keeps the smallest hashes
	// Features are the features that the model computes from the row.
	Features floatList `json:"features"`
	// Shown is the picture or text of the row, or nil.
	Shown *Shown `json:"shown,omitempty"`
	// Reasons are the first reasons of a row with a high score. Numbers are the numbers of the
	// columns of a row of the sample.
	Reasons []string  `json:"reasons,omitempty"`
	Numbers floatList `json:"numbers,omitempty"`
}

// explanation returns the reasons of the row, with what raised its score, and the key of the
// fit row with the nearest features. Both are empty if they were not asked for.
func (r *retainedRow) explanation() (reasons []string, nearest string) {
	reasons = slices.Clone(r.Reasons)
	if r.Shown == nil {
		return reasons, ""
	}
	return append(reasons, r.Shown.Explained...), r.Shown.Nearest
}

// retainedRows holds the rows with the highest scores, those with the most suspicious labels,
// and a sample of all rows that is drawn by hashes of keys. No list depends on how rows were
// divided into parts. All are sorted.
type retainedRows struct {
	Worst  []retainedRow `json:"worst"`
	Labels []retainedRow `json:"labels,omitempty"`
	Sample []retainedRow `json:"drawn"`
	// perShard counts the rows of Worst, and crowded the shards with more than maxOfShard.
	// perShard is nil until a row is added.
	perShard map[shardID]int
	crowded  int
}

// shardID identifies a shard. Shards with equal names have different digests.
type shardID struct {
	shard  string
	digest uint64
}

func (r *retainedRow) shardID() shardID { return shardID{r.Shard, r.Digest} }

func (r Range) id() shardID { return shardID{r.Shard, r.Digest} }

// width returns the number of features, or -1 if no row is retained.
func (k *retainedRows) width() int {
	for _, rows := range [][]retainedRow{k.Worst, k.Sample} {
		if len(rows) > 0 {
			return len(rows[0].Features)
		}
	}
	return -1
}

// compare orders rows by shard, then by their position in the shard. Shards with the same
// name are in the order of their digests.
func (r retainedRow) compare(o retainedRow) int {
	return cmp.Or(cmp.Compare(r.Shard, o.Shard), cmp.Compare(r.Digest, o.Digest), cmp.Compare(r.At, o.At))
}

// compareScores orders rows by falling score.
func compareScores(a, b retainedRow) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), a.compare(b))
}

// compareLabels orders rows by how suspicious their labels are.
func compareLabels(a, b retainedRow) int {
	return cmp.Or(cmp.Compare(a.LabelP, b.LabelP), cmp.Compare(b.LabelScore, a.LabelScore), a.compare(b))
}

// compareSampleHashes orders rows by the hashes of their keys.
func compareSampleHashes(a, b retainedRow) int {
	return cmp.Or(cmp.Compare(a.SampleHash, b.SampleHash), a.compare(b))
}

// add inserts a row into each list that it belongs to. It calls features and numbers only if
// the row belongs to a list that stores them.
func (k *retainedRows) add(r retainedRow, features, numbers func() floatList) {
	k.addWorst(&r, func() { r.Features = features() })
	r.Reasons = nil // other lists have no reasons
	if r.LabelP > 0 {
		k.Labels = insertSorted(k.Labels, &r, maxSuspicious, compareLabels, func() {
			if r.Features == nil {
				r.Features = features()
			}
		})
	}
	k.Sample = insertSorted(k.Sample, &r, maxSample, compareSampleHashes, func() {
		if r.Features == nil {
			r.Features = features()
		}
		r.Numbers = numbers()
	})
}

// addWorst inserts a row into Worst, and calls complete before unless it is nil. If Worst is
// full, the row with the lowest score is left out among the rows beyond the first maxOfShard of
// their shard or, if there are none, among all rows. What remains does not depend on the order
// in which rows are added, because adding rows only moves a row further back.
func (k *retainedRows) addWorst(r *retainedRow, complete func()) {
	if k.perShard == nil {
		k.perShard = map[shardID]int{}
		for i := range k.Worst {
			k.count(&k.Worst[i], 1)
		}
	}
	if len(k.Worst) == MaxWorst && compareScores(k.Worst[MaxWorst-1], *r) <= 0 && (k.crowded == 0 || k.perShard[r.shardID()] >= maxOfShard) {
		return
	}
	at, _ := slices.BinarySearchFunc(k.Worst, *r, compareScores)
	if complete != nil {
		complete()
	}
	k.Worst = slices.Insert(k.Worst, at, *r)
	k.count(r, 1)
	last := len(k.Worst) - 1
	if last < MaxWorst {
		return
	}
	for k.crowded > 0 && k.perShard[k.Worst[last].shardID()] <= maxOfShard {
		last--
	}
	k.count(&k.Worst[last], -1)
	k.Worst = slices.Delete(k.Worst, last, last+1)
}

// count adds to the number of rows of the shard of a row.
func (k *retainedRows) count(r *retainedRow, change int) {
	before := k.perShard[r.shardID()]
	after := before + change
	switch {
	case before <= maxOfShard && after > maxOfShard:
		k.crowded++
	case before > maxOfShard && after <= maxOfShard:
		k.crowded--
	}
	if k.perShard[r.shardID()] = after; after == 0 {
		delete(k.perShard, r.shardID())
	}
}

// insertSorted inserts a row into a sorted list and keeps the first limit rows. It calls
// complete before it inserts the row, unless complete is nil.
func insertSorted(list []retainedRow, r *retainedRow, limit int, order func(a, b retainedRow) int, complete func()) []retainedRow {
	if len(list) == limit && order(list[limit-1], *r) <= 0 {
		return list
	}
	at, _ := slices.BinarySearchFunc(list, *r, order)
	if complete != nil {
		complete()
	}
	return slices.Insert(list, at, *r)[:min(len(list)+1, limit)]
}

// merge adds the rows of the lists in others, and keeps only the first rows of each list.
func (k *retainedRows) merge(others retainedRows) {
	for _, r := range others.Worst {
		k.addWorst(&r, nil)
	}
	for _, r := range others.Labels {
		k.Labels = insertSorted(k.Labels, &r, maxSuspicious, compareLabels, nil)
	}
	for _, r := range others.Sample {
		k.Sample = insertSorted(k.Sample, &r, maxSample, compareSampleHashes, nil)
	}
}

// sampleHash returns the hash of a key. The sample consists of the rows with the smallest
// hashes.
func sampleHash(key string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	return mixBits(h.Sum64()) // FNV hashes of short keys share their first bits
}

// rowDigest returns a digest of the features of a row and of at, the row's index among the
// audited rows of the shard.
func rowDigest(at int, features []float32) uint64 {
	h := mixBits(uint64(at) + 1)
	for _, v := range features {
		h = (h ^ uint64(math.Float32bits(v))) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return mixBits(h)
}

// mixBits returns a hash of x in which every bit depends on all bits of x (the finaliser of
// MurmurHash3).
func mixBits(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
