package reasons

import (
	"math"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/ood"
)

// fault changes a column of a block. change returns false if the column cannot have the
// fault.
type fault struct {
	name   string
	change func(t *ood.Tensor, c fittedColumn) bool
}

func faults() []fault {
	numbers := func(f func(x float32) float32) func(*ood.Tensor, fittedColumn) bool {
		return func(t *ood.Tensor, _ fittedColumn) bool {
			for i, x := range t.Data {
				t.Data[i] = f(x)
			}
			return t.Data != nil
		}
	}
	categories := func(f func(s string, common [2]string) string) func(*ood.Tensor, fittedColumn) bool {
		return func(t *ood.Tensor, c fittedColumn) bool {
			for i, s := range t.Strings {
				if s != "" {
					t.Strings[i] = f(s, c.common)
				}
			}
			return t.Strings != nil
		}
	}
	return []fault{
		{"emptied", func(t *ood.Tensor, _ fittedColumn) bool {
			for i := range t.Data {
				t.Data[i] = float32(math.NaN())
			}
			clear(t.Strings)
			return true
		}},
		{"× 1,000", numbers(func(x float32) float32 { return x * 1000 })},
		{"× 10", numbers(func(x float32) float32 { return x * 10 })},
		{"÷ 2.54", numbers(func(x float32) float32 { return x / 2.54 })},
		{"+ 1", numbers(func(x float32) float32 { return x + 1 })},
		{"sign flipped", numbers(func(x float32) float32 { return -x })},
		{"all categories renamed", categories(func(s string, _ [2]string) string { return "new " + s })},
		{"one category renamed", categories(func(s string, common [2]string) string {
			if s == common[0] {
				return strings.ToUpper(s) + " "
			}
			return s
		})},
		{"two categories merged", categories(func(s string, common [2]string) string {
			if s == common[1] {
				return common[0]
			}
			return s
		})},
		{"two categories exchanged", categories(func(s string, common [2]string) string {
			switch s {
			case common[0]:
				return common[1]
			case common[1]:
				return common[0]
			}
			return s
		})},
	}
}

// differs reports whether two columns have different cells.
func differs(a, b ood.Tensor) bool {
	return !slices.Equal(a.Strings, b.Strings) || !slices.EqualFunc(a.Data, b.Data, func(x, y float32) bool { return x == y || x != x && y != y })
}

// clone returns a copy of a column.
func clone(t ood.Tensor) ood.Tensor {
	t.Data, t.Strings = slices.Clone(t.Data), slices.Clone(t.Strings)
	return t
}
