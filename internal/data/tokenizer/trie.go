package tokenizer

import (
	"bytes"
	"slices"
)

// trie maps keys to values, and is walked byte by byte. Node 0 is the root. The children of
// a node have consecutive numbers.
type trie struct {
	first []int32 // the children of node n are first[n] to first[n+1]−1
	label []byte  // byte that leads to a node
	value []int32 // value of the key that ends at the node, or −1
	root  [256]int32
}

// newTrie returns the trie of a vocabulary, but leaves out an empty key.
func newTrie(vocab map[string]int32) *trie {
	keys := make([]string, 0, len(vocab))
	for k := range vocab {
		if k != "" {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	t := &trie{label: []byte{0}, value: []int32{-1}}
	type part struct{ lo, hi, depth int32 }
	parts := []part{{0, int32(len(keys)), 0}}
	for n := 0; n < len(parts); n++ { // breadth first, so that children have consecutive numbers
		p := parts[n]
		parts[n] = part{}
		t.first = append(t.first, int32(len(parts)))
		i := p.lo
		if i < p.hi && len(keys[i]) == int(p.depth) {
			t.value[n] = vocab[keys[i]]
			i++
		}
		for i < p.hi {
			j, b := i, keys[i][p.depth]
			for j < p.hi && keys[j][p.depth] == b {
				j++
			}
			if n == 0 {
				t.root[b] = int32(len(parts))
			}
			t.label = append(t.label, b)
			t.value = append(t.value, -1)
			parts = append(parts, part{i, j, p.depth + 1})
			i = j
		}
	}
	t.first = append(t.first, int32(len(parts)))
	return t
}

// step returns the child of a node for a byte, or 0 if there is none.
func (t *trie) step(node int32, b byte) int32 {
	if node == 0 {
		return t.root[b]
	}
	lo, hi := t.first[node], t.first[node+1]
	if i := bytes.IndexByte(t.label[lo:hi], b); i >= 0 {
		return lo + int32(i)
	}
	return 0
}

// find returns the node of a key, or 0 if no key begins with it.
func (t *trie) find(key string) int32 {
	node := int32(0)
	for i := range len(key) {
		if node = t.step(node, key[i]); node == 0 {
			return 0
		}
	}
	return node
}

// get returns the value of a key, or −1 if there is none.
func (t *trie) get(key string) int32 { return t.value[t.find(key)] }

// longest returns the value and the length of the longest key that s begins with. It starts
// at the given node.
func (t *trie) longest(node int32, s string) (value int32, n int) {
	value = -1
	for i := range len(s) {
		if node = t.step(node, s[i]); node == 0 {
			break
		}
		if t.value[node] >= 0 {
			value, n = t.value[node], i+1
		}
	}
	return value, n
}
