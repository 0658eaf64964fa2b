package audit

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
)

const (
	// mostWorst is the number of rows with the highest scores that are kept.
	mostWorst = 200
	// mostDrawn is the size of the sample of all rows that is kept.
	mostDrawn = 300
)

// keptRow is a row with its features.
type keptRow struct {
	Key   string `json:"key"`
	Shard string `json:"shard"`
	At    int    `json:"at"` // among the audited rows of the shard
	// Digest is that of the shard once all of its rows are known. It tells shards of one
	// name apart.
	Digest uint64    `json:"digest,omitempty,string"`
	Score  floatBits `json:"score"`
	Drawn  uint64    `json:"drawn"` // hash of its key, which the sample is drawn by
	// Features are the features that the model makes from the row.
	Features floats `json:"features"`
	// Hash and Content describe the input itself.
	Hash    string  `json:"hash,omitempty"`
	Content Content `json:"content,omitempty"`
	// Shown is the picture or text of the row, or nil.
	Shown *Shown `json:"shown,omitempty"`
}

// Shown is a small picture of a row, as PNG or JPEG, or the beginning of its text.
type Shown struct {
	Picture []byte `json:"picture,omitempty"`
	Text    string `json:"text,omitempty"`
}

// kept holds the rows with the highest scores, and a sample drawn by hashes of keys. Both do
// not depend on how rows were divided into parts. Each list is sorted.
type kept struct {
	Worst []keptRow `json:"worst"`
	Drawn []keptRow `json:"drawn"`
}

// width is the number of features, or -1 if no row is kept.
func (k *kept) width() int {
	for _, rows := range [][]keptRow{k.Worst, k.Drawn} {
		if len(rows) > 0 {
			return len(rows[0].Features)
		}
	}
	return -1
}

// compare orders rows as in an audit.
func (r keptRow) compare(o keptRow) int {
	return cmp.Or(cmp.Compare(r.Shard, o.Shard), cmp.Compare(r.Digest, o.Digest), cmp.Compare(r.At, o.At))
}

func worse(a, b keptRow) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), a.compare(b))
}

func drawn(a, b keptRow) int {
	return cmp.Or(cmp.Compare(a.Drawn, b.Drawn), a.compare(b))
}

// add adds a row if it belongs to one of the lists. Features is called only then.
func (k *kept) add(r keptRow, features func() floats) {
	k.Worst = insert(k.Worst, &r, mostWorst, worse, features)
	r.Hash, r.Content = "", nil // only the worst rows are compared
	k.Drawn = insert(k.Drawn, &r, mostDrawn, drawn, features)
}

func insert(list []keptRow, r *keptRow, most int, order func(a, b keptRow) int, features func() floats) []keptRow {
	if len(list) == most && order(list[most-1], *r) <= 0 {
		return list
	}
	at, _ := slices.BinarySearchFunc(list, *r, order)
	if r.Features == nil {
		r.Features = features()
	}
	return slices.Insert(list, at, *r)[:min(len(list)+1, most)]
}

// merge adds the rows of others.
func (k *kept) merge(others kept) {
	for _, r := range others.Worst {
		k.Worst = insert(k.Worst, &r, mostWorst, worse, nil)
	}
	for _, r := range others.Drawn {
		k.Drawn = insert(k.Drawn, &r, mostDrawn, drawn, nil)
	}
}

// draw hashes a key for the sample.
func draw(key string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	return mixed(h.Sum64()) // the first bits of FNV are alike for short keys
}

// digest is the digest of a row of a shard.
func digest(at int, features []float32) uint64 {
	h := mixed(uint64(at) + 1)
	for _, v := range features {
		h = (h ^ uint64(math.Float32bits(v))) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return mixed(h)
}

// mixed makes each bit depend on all bits (the finaliser of MurmurHash3).
func mixed(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
