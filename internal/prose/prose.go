// Package main measures the sentences of Markdown pages.
//
//	go run ./internal/prose README.md docs
//	attach help --markdown | go run ./internal/prose -
//
// It prints, for each page and for all pages, the number of sentences, the mean number of
// words in a sentence, and the fraction of sentences with more than 30 words. Headings, code
// blocks, tables, and HTML tags and comments are left out.
package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// maxWords is the number of words above which a sentence counts as long.
const maxWords = 30

// measure holds the number of sentences, of their words, and of long sentences.
type measure struct{ sentences, words, longSentences int }

func (m *measure) add(o measure) {
	m.sentences += o.sentences
	m.words += o.words
	m.longSentences += o.longSentences
}

func (m measure) mean() float64 { return float64(m.words) / max(1, float64(m.sentences)) }
func (m measure) longFraction() float64 {
	return float64(m.longSentences) / max(1, float64(m.sentences))
}

var (
	inlineCode  = regexp.MustCompile("`[^`]*`")
	link        = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	htmlTag     = regexp.MustCompile(`<[^>]*>`)
	listItem    = regexp.MustCompile(`^\s*(?:[-*+]|\d+\.|:)\s+`)
	sentenceEnd = regexp.MustCompile(`[.!?]["')\]*_]*(?:\s+|$)`)
)

// paragraphs returns the paragraphs and list items of a Markdown page.
func paragraphs(markdown string) []string {
	var list []string
	var current []string
	end := func() {
		if len(current) > 0 {
			list = append(list, strings.Join(current, " "))
		}
		current = nil
	}
	fence := ""
	for line := range strings.Lines(markdown) {
		line = strings.TrimRight(line, "\r\n")
		text := strings.TrimSpace(line)
		switch {
		case fence != "":
			if strings.HasPrefix(text, fence) {
				fence = ""
			}
			continue
		case strings.HasPrefix(text, "```"):
			end()
			fence = "```"
			continue
		case text == "", strings.HasPrefix(text, "#"), strings.HasPrefix(text, "|"), strings.HasPrefix(text, "<!--"):
			end()
			continue
		case len(current) == 0 && strings.HasPrefix(line, "    ") && !listItem.MatchString(line):
			continue // an indented block of code
		case listItem.MatchString(line):
			end()
			line = listItem.ReplaceAllString(line, "")
		}
		current = append(current, strings.TrimSpace(line))
	}
	end()
	return list
}

// measurePage measures a Markdown page.
func measurePage(markdown string) measure {
	var m measure
	for _, p := range paragraphs(markdown) {
		p = inlineCode.ReplaceAllString(p, "code")
		p = link.ReplaceAllString(p, "$1")
		p = htmlTag.ReplaceAllString(p, "")
		for _, s := range sentenceEnd.Split(p, -1) {
			n := 0
			for _, word := range strings.Fields(s) {
				if strings.ContainsFunc(word, func(r rune) bool {
					return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r > 127 && r != '–' && r != '→'
				}) {
					n++
				}
			}
			if n == 0 {
				continue
			}
			m.sentences++
			m.words += n
			if n > maxWords {
				m.longSentences++
			}
		}
	}
	return m
}

// pagesBelow returns the Markdown files in a folder and its subfolders. If path is a file, it
// returns path.
func pagesBelow(path string) (list []string, err error) {
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && (p == path || filepath.Ext(p) == ".md") {
			list = append(list, p)
		}
		return err
	})
	return list, err
}

func main() {
	var total measure
	show := func(name string, m measure) {
		fmt.Printf("%5d sentences  %5.1f words  %5.1f %% above %d  %s\n", m.sentences, m.mean(), 100*m.longFraction(), maxWords, name)
		total.add(m)
	}
	for _, path := range os.Args[1:] {
		if path == "-" {
			content, err := io.ReadAll(os.Stdin)
			if err != nil {
				exitWith(err)
			}
			show("standard input", measurePage(string(content)))
			continue
		}
		list, err := pagesBelow(path)
		if err != nil {
			exitWith(err)
		}
		for _, page := range list {
			content, err := os.ReadFile(page)
			if err != nil {
				exitWith(err)
			}
			show(page, measurePage(string(content)))
		}
	}
	fmt.Printf("%5d sentences  %5.1f words  %5.1f %% above %d  all\n", total.sentences, total.mean(), 100*total.longFraction(), maxWords)
}

func exitWith(err error) {
	fmt.Fprintln(os.Stderr, "prose:", err)
	os.Exit(1)
}
