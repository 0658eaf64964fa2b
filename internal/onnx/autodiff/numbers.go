package autodiff

import (
	"fmt"
	"strconv"
	"strings"
)

// evaluateBroadcast applies f element by element to tensors of the same length. Tensors of
// length 1 are repeated.
func evaluateBroadcast(f func([]symbolicInt) symbolicInt, in ...[]symbolicInt) ([]symbolicInt, bool) {
	size := 1
	for _, v := range in {
		if len(v) != 1 {
			size = len(v)
		}
	}
	out := make([]symbolicInt, size)
	for i := range out {
		row := make([]symbolicInt, len(in))
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

// choose returns yes if the condition v is true and no if it is false. If v is unknown and
// yes differs from no, the result is unknown.
func (v symbolicInt) choose(yes, no symbolicInt) symbolicInt {
	switch {
	case v.known && v.n != 0:
		return yes
	case v.known, yes == no:
		return no
	}
	return symbolicInt{}
}

// combine returns the result of an operator for a and b. If it is unknown, the result may
// have a symbol that contains the expression, so that equal expressions are known to be
// equal.
func combine(op string, a, b symbolicInt) symbolicInt {
	if a.known && b.known {
		n, ok := computeInts(op, a.n, b.n)
		return symbolicInt{n: n, known: ok}
	}
	switch {
	case op == "Equal" && (a.known && a.n < 0 && b.nonNegative || b.known && b.n < 0 && a.nonNegative):
		return symbolicInt{known: true}
	case op == "Equal":
		return symbolicInt{}
	case (op == "Mul" || op == "Div") && b.known && b.n == 1, (op == "Add" || op == "Sub") && b.known && b.n == 0:
		return a
	case op == "Mul" && a.known && a.n == 1, op == "Add" && a.known && a.n == 0:
		return b
	}
	if a.known && (op == "Mul" || op == "Add") {
		a, b = b, a // put known numbers second, because equal expressions must have equal symbols
	}
	notNegative := op != "Sub" && a.isNonNegative() && b.isNonNegative()
	base, multiple := splitFactor(a.symbol)
	switch {
	case op == "Div" && b.known && b.n > 0 && multiple%b.n == 0:
		return combine("Mul", symbolicInt{symbol: base, nonNegative: a.nonNegative}, symbolicInt{n: multiple / b.n, known: true})
	case op == "Mul" && b.known && multiple > 1:
		return combine("Mul", symbolicInt{symbol: base, nonNegative: a.nonNegative}, symbolicInt{n: multiple * b.n, known: true})
	}
	left, right := a.term(), b.term()
	if left == "" || right == "" || len(left)+len(right) > 100 {
		return symbolicInt{nonNegative: notNegative}
	}
	return symbolicInt{symbol: fmt.Sprintf("%s(%s, %s)", op, left, right), nonNegative: notNegative}
}

// isNonNegative reports whether v is known to be at least 0.
func (v symbolicInt) isNonNegative() bool { return v.nonNegative || v.known && v.n >= 0 }

// splitFactor splits the symbol of a product into its factors, a symbol and a positive
// number: "Mul(n, 3)" becomes "n" and 3. Any other symbol stays whole, with the number 1.
func splitFactor(symbol string) (rest string, times int64) {
	inner, ok := strings.CutPrefix(strings.TrimSuffix(symbol, ")"), "Mul(")
	if i := strings.LastIndex(inner, ", "); ok && i > 0 {
		if n, err := strconv.ParseInt(inner[i+2:], 10, 64); err == nil && n > 0 {
			return inner[:i], n
		}
	}
	return symbol, 1
}

// term returns v as a part of an expression, or "" if v has neither a value nor a symbol.
func (v symbolicInt) term() string {
	if v.known {
		return fmt.Sprint(v.n)
	}
	return v.symbol
}

// computeInts returns the result of an operator for known integers. It returns false for a
// division by 0, for Mod if a is negative or b is not positive, and for other operators.
func computeInts(op string, a, b int64) (int64, bool) {
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

// knownInts returns the values of v. It returns false if one of them is unknown, or if v is
// nil.
func knownInts(v []symbolicInt) ([]int64, bool) {
	ints := make([]int64, len(v))
	for i, e := range v {
		if !e.known {
			return nil, false
		}
		ints[i] = e.n
	}
	return ints, v != nil
}
