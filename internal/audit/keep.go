package audit

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
)

const (
	// mostWorst is how many rows are shown, and have their features kept.
	mostWorst = 200
	// mostDrawn is how many rows of all are drawn to be drawn beside them.
	mostDrawn = 300
)

// keptRow is a row whose features are kept.
type keptRow struct {
	Key   string `json:"key"`
	Shard string `json:"shard"`
	At    int    `json:"at"` // among the audited rows of the shard
	// Digest is that of the shard's rows once all are known: others may be called the same.
	Digest uint64    `json:"digest,omitempty,string"`
	Score  floatBits `json:"score"`
	Drawn  uint64    `json:"drawn"` // by its key
	// Features are those that the network makes of the row.
	Features floats `json:"features"`
	// Hash and Content are of what the row holds.
	Hash    string  `json:"hash,omitempty"`
	Content Content `json:"content,omitempty"`
	// Shown is what people see of the row, where it is known.
	Shown *Shown `json:"shown,omitempty"`
}

// Shown is what people see of a row: a small picture, as PNG or JPEG, or the
// beginning of a text.
type Shown struct {
	Picture []byte `json:"picture,omitempty"`
	Text    string `json:"text,omitempty"`
}

// kept are the rows with the highest scores, and rows drawn by their keys: the same
// ones however rows were divided among parts. Each list is sorted.
type kept struct {
	Worst []keptRow `json:"worst"`
	Drawn []keptRow `json:"drawn"`
}

// width is how many features rows have, -1 where none are kept.
func (k *kept) width() int {
	for _, rows := range [][]keptRow{k.Worst, k.Drawn} {
		if len(rows) > 0 {
			return len(rows[0].Features)
		}
	}
	return -1
}

// before is the order of rows in an audit.
func (r keptRow) before(o keptRow) int {
	return cmp.Or(cmp.Compare(r.Shard, o.Shard), cmp.Compare(r.Digest, o.Digest), cmp.Compare(r.At, o.At))
}

func worse(a, b keptRow) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), a.before(b))
}

func drawn(a, b keptRow) int {
	return cmp.Or(cmp.Compare(a.Drawn, b.Drawn), a.before(b))
}

// add keeps a row where it belongs to these; its features are those of row, which is
// asked for them alone where it does.
func (k *kept) add(r keptRow, features func() floats) {
	k.Worst = insert(k.Worst, &r, mostWorst, worse, features)
	r.Hash, r.Content = "", nil // copies are looked for among the worst
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

// merge keeps those of others.
func (k *kept) merge(others kept) {
	for _, r := range others.Worst {
		k.Worst = insert(k.Worst, &r, mostWorst, worse, nil)
	}
	for _, r := range others.Drawn {
		k.Drawn = insert(k.Drawn, &r, mostDrawn, drawn, nil)
	}
}

// draw draws rows by their keys.
func draw(key string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(key))
	return mixed(h.Sum64()) // FNV leaves the first bits of short keys alike
}

// digest is of a row of a shard.
func digest(at int, features []float32) uint64 {
	h := mixed(uint64(at) + 1)
	for _, v := range features {
		h = (h ^ uint64(math.Float32bits(v))) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return mixed(h)
}

// mixed makes each bit depend on all.
func mixed(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
