package autodiff

import (
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/onnx"
)

// gradEinsum is the rule of Einsum. The gradient of an operand is a product of upstream
// with the other operands, over the same letters.
func gradEinsum(c *call) {
	terms, result, ok := einsumTerms(onnx.AttributeString(c.n, "equation", ""), len(c.n.Input))
	if !ok {
		c.fail("its equation is not understood")
		return
	}
	for i := range terms {
		if !c.needsGradient(i) {
			continue
		}
		inputs, labels := []string{c.upstream(0)}, []string{result}
		for j := range terms {
			if j != i {
				inputs, labels = append(inputs, c.input(j)), append(labels, terms[j])
			}
		}
		if hasRepeats(terms[i]) || hasRepeats(result) {
			c.fail("it takes a diagonal")
			return
		}
		// If a letter occurs only in this operand, Einsum summed over it. The gradient is
		// therefore constant along its axis.
		from, missing := "", []int64(nil)
		for k, l := range letters(terms[i]) {
			if slices.ContainsFunc(labels, func(s string) bool { return strings.Contains(s, l) }) {
				from += l
			} else {
				missing = append(missing, int64(k))
			}
		}
		if missing != nil && strings.Contains(terms[i], "...") {
			c.fail("it sums a letter of one operand that has an ellipsis")
			return
		}
		d := c.nodeWith("Einsum", inputs, onnx.Attr("equation", strings.Join(labels, ",")+"->"+from))
		if missing != nil {
			d = c.expand(c.node("Unsqueeze", d, c.ints(missing...)), c.input(i))
		}
		c.addUnbroadcast(i, d)
	}
}

// einsumTerms splits an equation into the letters of each operand and of the result.
func einsumTerms(equation string, operands int) (terms []string, result string, ok bool) {
	equation = strings.ReplaceAll(equation, " ", "")
	left, result, explicit := strings.Cut(equation, "->")
	terms = strings.Split(left, ",")
	if !explicit {
		// Without "->", the result has the ellipsis, if there is one, and the letters that
		// occur once, sorted.
		var uniqueLetters []string
		for _, l := range letters(left) {
			if l == "..." {
				result = l
			} else if l != "," && strings.Count(left, l) == 1 {
				uniqueLetters = append(uniqueLetters, l)
			}
		}
		slices.Sort(uniqueLetters)
		result += strings.Join(uniqueLetters, "")
	}
	return terms, result, len(terms) == operands
}

// letters splits a term into letters. An ellipsis counts as one letter.
func letters(term string) []string {
	var out []string
	for term != "" {
		n := 1
		if strings.HasPrefix(term, "...") {
			n = 3
		}
		out, term = append(out, term[:n]), term[n:]
	}
	return out
}

// hasRepeats reports whether a letter occurs twice in a term.
func hasRepeats(term string) bool {
	l := letters(term)
	slices.Sort(l)
	return len(slices.Compact(l)) < len(letters(term))
}
