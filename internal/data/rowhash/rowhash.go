// Package rowhash identifies rows by a hash of their content. Equal rows have equal hashes,
// even if they come from different files.
package rowhash

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// Hash is the first half of a SHA-256 digest. It is still infeasible to construct two rows
// with the same hash.
type Hash [16]byte

// String returns 32 hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Inputs returns the hash of each row of b, computed from the values that the model
// receives. The order of tensors does not matter. If there is only one tensor, its name
// does not matter either, because files use different names for it. All NaN (empty cells)
// count as equal, and 0 equals −0.
func Inputs(b ood.InputBlock) []Hash {
	tensors := slices.Clone(b.Tensors)
	slices.SortStableFunc(tensors, func(a, b ood.Tensor) int { return strings.Compare(a.Name, b.Name) })
	list := make([]Hash, b.Len())
	at := make([]int, len(tensors)) // start of the next row
	var scratch []byte
	for i := range list {
		scratch = scratch[:0]
		for k, t := range tensors {
			n := rowLen(t, i)
			if len(tensors) > 1 {
				scratch = appendText(scratch, t.Name)
			}
			scratch = binary.LittleEndian.AppendUint64(scratch, uint64(n))
			if t.Strings != nil {
				for _, s := range t.Strings[at[k] : at[k]+n] {
					scratch = appendText(scratch, s)
				}
			} else {
				scratch = appendNumbers(scratch, t.Data[at[k]:at[k]+n])
			}
			at[k] += n
		}
		list[i] = digest(scratch)
	}
	return list
}

// Features returns the hash of each row across several matrices, such as the features and
// earlier layers of a model. All matrices have the same number of rows.
func Features(matrices ...blas32.General) []Hash {
	list := make([]Hash, matrices[0].Rows)
	var scratch []byte
	for i := range list {
		scratch = scratch[:0]
		for _, m := range matrices {
			scratch = binary.LittleEndian.AppendUint64(scratch, uint64(m.Cols))
			scratch = appendNumbers(scratch, rows.Row(m, i))
		}
		list[i] = digest(scratch)
	}
	return list
}

// With returns a hash of h and additional numbers of the row, such as its targets.
func With(h Hash, numbers ...float32) Hash { return digest(appendNumbers(h[:], numbers)) }

// rowLen returns the number of elements in row i of a tensor.
func rowLen(t ood.Tensor, i int) int {
	if t.Lengths != nil {
		return t.Lengths[i] * rows.Elements(t.Shape[2:])
	}
	return rows.Elements(t.Shape[1:])
}

func appendText(to []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(to, uint64(len(s))), s...)
}

func appendNumbers(to []byte, numbers []float32) []byte {
	to = slices.Grow(to, 4*len(numbers))
	for _, v := range numbers {
		bits := math.Float32bits(v)
		switch {
		case v == 0:
			bits = 0
		case v != v:
			bits = 0x7fc00000
		}
		to = binary.LittleEndian.AppendUint32(to, bits)
	}
	return to
}

func digest(content []byte) Hash {
	full := sha256.Sum256(content)
	return Hash(full[:16])
}
