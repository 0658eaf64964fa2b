package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestMeasure compares the measures of a page with a count by hand.
func TestMeasure(t *testing.T) {
	page := "# Title\n\nOne two three. Four `five six`, [seven](x.md)!\n\n    code is left out\n\n- An item of\n  five words\n\n| a | table |\n\n```sh\nmore code\n```\n" +
		strings.Repeat("word ", 31) + "\n"
	if got, want := measurePage(page), (measure{sentences: 4, words: 3 + 3 + 5 + 31, longSentences: 1}); got != want {
		t.Errorf("measured %+v, want %+v", got, want)
	}
}

// TestSentences checks that the sentences of the docs are short: at most 16 words on
// average, and at most 6 % of them above 30 words. A single page with more than 20 sentences
// may reach 18 words on average, and 10 % above 30.
func TestSentences(t *testing.T) {
	var total measure
	for _, page := range userPages(t) {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		m := measurePage(string(content))
		total.add(m)
		if m.sentences > 20 && (m.mean() > 18 || m.longFraction() > .1) {
			t.Errorf("%s: %.1f words a sentence, %.1f %% of sentences above %d words", page, m.mean(), 100*m.longFraction(), maxWords)
		}
	}
	if total.sentences < 500 || total.mean() > 16 || total.longFraction() > .06 {
		t.Errorf("%d sentences with %.1f words on average, %.1f %% above %d", total.sentences, total.mean(), 100*total.longFraction(), maxWords)
	}
}

// userPages returns the pages that users read.
func userPages(t *testing.T) []string {
	t.Helper()
	list := []string{"../../README.md", "../../SECURITY.md", "../../CONTRIBUTING.md", "../../CHANGELOG.md"}
	docs, err := pagesBelow("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	return append(list, docs...)
}

// forbiddenTerm is a term that the docs must not use, and the term to use instead.
type forbiddenTerm struct {
	pattern, instead string
	pagesOnly        bool // only pages are checked, not strings in Go code
	exceptions       []string
}

// forbiddenTerms lists the forbidden terms. An exception is a text in which the term is
// right. The reason stands beside it.
var forbiddenTerms = []forbiddenTerm{
	{pattern: `promis(e|es|ed|ing)\b`, instead: "guarantee"},
	{pattern: `in-domain`, instead: "in-distribution"},
	{pattern: `out-of-domain`, instead: "out-of-distribution (OOD)"},
	{pattern: `endless`, instead: "infinite, unbounded"},
	{pattern: `sets? of classes`, instead: "prediction set", exceptions: []string{
		"A set of classes that contains the true class", // the definition in the glossary
	}},
	{pattern: `from elsewhere`, instead: "out-of-distribution"},
	{pattern: `surest`, instead: "most confident"},
	{pattern: `nobody`, instead: "name who does what"},
	{pattern: `quantile head`, instead: "interval model"},
	{pattern: `bundles?\b`, instead: ".attach file", pagesOnly: true},
	{pattern: `by tenths?\b|worst tenth|tenth of the predictions?`, instead: "decile"},
}

// TestWords checks that no forbidden term appears in what users read. It checks the pages,
// and the strings of the packages that talk to users.
func TestWords(t *testing.T) {
	texts := map[string]string{}
	for _, page := range userPages(t) {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		texts[page] = withoutCode(string(content))
	}
	for path, text := range stringLiterals(t) {
		texts[path] = text
	}
	for _, w := range forbiddenTerms {
		pattern := regexp.MustCompile(`(?i)\b(?:` + w.pattern + `)`)
		for path, text := range texts {
			if w.pagesOnly && strings.HasSuffix(path, ".go") {
				continue
			}
			for i, line := range strings.Split(text, "\n") {
				found := pattern.FindString(line)
				if found == "" || slices.ContainsFunc(w.exceptions, func(e string) bool { return strings.Contains(line, e) }) {
					continue
				}
				t.Errorf("%s:%d: %q: say %s: %.160s", path, i+1, found, w.instead, strings.TrimSpace(line))
			}
		}
	}
}

// withoutCode blanks the lines of code blocks and replaces inline code by a placeholder,
// because identifiers are checked elsewhere.
func withoutCode(markdown string) string {
	var out []string
	code := false
	for line := range strings.Lines(markdown) {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if code || fence {
			line = "\n"
		}
		if fence {
			code = !code
		}
		out = append(out, inlineCode.ReplaceAllString(line, "`code`"))
	}
	return strings.Join(out, "")
}

// userFacingPackages lists the packages with strings that users see.
var userFacingPackages = []string{
	".", "baselines", "calibrate", "evaluate", "featurize", "featurize/serve", "heads", "heads/fit", "internal/audit", "internal/audit/engine", "internal/command",
	"internal/data/inputs", "internal/data/tokenizer", "internal/display", "internal/fitting", "internal/modelrows", "internal/numeric/hypothesis", "internal/report", "ood", "ood/compare", "preprocess", "tables",
}

// stringLiterals returns the string literals of the packages, by file. Each literal stays
// on its line. For HTML and JavaScript files, it returns the whole content.
func stringLiterals(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pkg := range userFacingPackages {
		entries, err := os.ReadDir(filepath.Join("../..", pkg))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			path := filepath.Join("../..", pkg, e.Name())
			switch filepath.Ext(path) {
			case ".html", ".js":
				content, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				texts[path] = string(content)
				continue
			case ".go":
			default:
				continue
			}
			if strings.HasSuffix(path, "_test.go") || e.Type()&fs.ModeType != 0 {
				continue
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			lines := map[int][]string{}
			last := 0
			ast.Inspect(file, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					if text, err := strconv.Unquote(l.Value); err == nil {
						at := files.Position(l.Pos()).Line
						lines[at] = append(lines[at], strings.ReplaceAll(text, "\n", " "))
						last = max(last, at)
					}
				}
				return true
			})
			all := make([]string, last)
			for at, list := range lines {
				all[at-1] = strings.Join(list, " ")
			}
			texts[path] = strings.Join(all, "\n")
		}
	}
	return texts
}
