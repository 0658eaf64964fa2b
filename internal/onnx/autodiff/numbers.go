package autodiff

import (
	"fmt"
	"strconv"
	"strings"
)

// broadcastNumbers applies f element by element. Tensors must have the same length, or length
// 1.
func broadcastNumbers(f func([]number) number, in ...[]number) ([]number, bool) {
	size := 1
	for _, v := range in {
		if len(v) != 1 {
			size = len(v)
		}
	}
	out := make([]number, size)
	for i := range out {
		row := make([]number, len(in))
		for k, v := range in {
			switch len(v) {
			case 1:
				row[k] = v[0]
			case size:
				row[k] = v[i]
			default:
				return nil, false
			}
		}
		out[i] = f(row)
	}
	return out, true
}

func (v number) choose(yes, no number) number {
	switch {
	case v.known && v.n != 0:
		return yes
	case v.known, yes == no:
		return no
	}
	return number{}
}

// combine computes the result, or creates a symbol for the expression.
func combine(op string, a, b number) number {
	if a.known && b.known {
		n, ok := compute(op, a.n, b.n)
		return number{n: n, known: ok}
	}
	switch {
	case op == "Equal" && (a.known && a.n < 0 && b.size || b.known && b.n < 0 && a.size):
		return number{known: true}
	case op == "Equal":
		return number{}
	case (op == "Mul" || op == "Div") && b.known && b.n == 1, (op == "Add" || op == "Sub") && b.known && b.n == 0:
		return a
	case op == "Mul" && a.known && a.n == 1, op == "Add" && a.known && a.n == 0:
		return b
	}
	if a.known && (op == "Mul" || op == "Add") {
		a, b = b, a // equal expressions must have equal symbols
	}
	notNegative := op != "Sub" && a.notNegative() && b.notNegative()
	whole, times := factor(a.symbol)
	switch {
	case op == "Div" && b.known && b.n > 0 && times%b.n == 0:
		return combine("Mul", number{symbol: whole, size: a.size}, number{n: times / b.n, known: true})
	case op == "Mul" && b.known && times > 1:
		return combine("Mul", number{symbol: whole, size: a.size}, number{n: times * b.n, known: true})
	}
	left, right := a.term(), b.term()
	if left == "" || right == "" || len(left)+len(right) > 100 {
		return number{size: notNegative}
	}
	return number{symbol: fmt.Sprintf("%s(%s, %s)", op, left, right), size: notNegative}
}

func (v number) notNegative() bool { return v.size || v.known && v.n >= 0 }

// factor splits the symbol of a product into a symbol and a number.
func factor(symbol string) (rest string, times int64) {
	inner, ok := strings.CutPrefix(strings.TrimSuffix(symbol, ")"), "Mul(")
	if i := strings.LastIndex(inner, ", "); ok && i > 0 {
		if n, err := strconv.ParseInt(inner[i+2:], 10, 64); err == nil && n > 0 {
			return inner[:i], n
		}
	}
	return symbol, 1
}

func (v number) term() string {
	if v.known {
		return fmt.Sprint(v.n)
	}
	return v.symbol
}

func compute(op string, a, b int64) (int64, bool) {
	switch op {
	case "Add":
		return a + b, true
	case "Sub":
		return a - b, true
	case "Mul":
		return a * b, true
	case "Div":
		if b == 0 {
			return 0, false
		}
		return a / b, true
	case "Mod":
		if a < 0 || b <= 0 {
			return 0, false
		}
		return a % b, true
	case "Max":
		return max(a, b), true
	case "Min":
		return min(a, b), true
	case "Equal":
		if a == b {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// knownInts returns the numbers if all are known.
func knownInts(v []number) ([]int64, bool) {
	ints := make([]int64, len(v))
	for i, e := range v {
		if !e.known {
			return nil, false
		}
		ints[i] = e.n
	}
	return ints, v != nil
}
