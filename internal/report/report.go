// Package report writes a self-contained HTML page about a comparison of detectors, an
// evaluation, an audit or a regression band. The page loads no other file. It shows
// everything without scripts. With scripts, tables sort and curves are highlighted.
// [EvaluationText] and [ComparisonText] print the same verdicts and tables as text.
package report

import (
	"bytes"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"slices"

	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/ood/compare"
)

//go:embed page.html section.html block.html
var files embed.FS

//go:embed page.css
var css string

//go:embed page.js
var js string

// Page is the content of a report, from top to bottom.
type Page struct {
	Title string
	Lead  string
	Facts []Fact
	Sets  []Comparison
	Band  *Band // or nil

	blocks []block
}

// Fact is a figure at the top of the page.
type Fact struct{ Value, Label string }

// Comparison compares detectors of one model on in-distribution and out-of-distribution
// rows. The page draws the scores in Report.
type Comparison struct {
	Title, Lead string
	Report      *compare.Report
	Suspicious  []Example
	// SuspiciousLead is a sentence that explains where the Suspicious examples come from.
	SuspiciousLead string
}

// Example is an input with a high score.
type Example struct {
	Image   image.Image
	Caption string
	Outside bool // whether the input is out-of-distribution
}

// section is a comparison with its drawings.
type section struct {
	Comparison
	Figures, BySet grid // tables with one line for each of Rows
	Rows           []row
	ROC            []chart
	Risk           *chart
	SetKey         []shapeKey
	Facts          []Fact
	Dots           dotplot
	Missing        []missing
}

// shown is the number of methods whose scores are visible before the reader opens the
// others.
const shown = 12

// Shown returns the rows whose scores are visible at once.
func (s *section) Shown() []row { return s.Rows[:min(shown, len(s.Rows))] }

// Folded returns the rows whose scores are hidden until the reader opens them.
func (s *section) Folded() []row { return s.Rows[min(shown, len(s.Rows)):] }

// More reports whether the dot plot leaves out methods.
func (s *section) More() bool { return len(s.Dots.Rows) < len(s.Rows) }

// Listed returns the maximum number of methods in the dot plot, without controls.
func (s *section) Listed() int { return mostDots }

// Hollow reports whether the dot plot has a method below 0.5.
func (s *section) Hollow() bool {
	return slices.ContainsFunc(s.Dots.Rows, func(r dotRow) bool { return r.Below })
}

// missing names methods without a result and the reason.
type missing struct{ Names, What, Why string }

func absent(r *compare.Report) []missing {
	var list []missing
	add := func(what string, all []compare.Skipped) {
		for _, a := range all {
			list = append(list, missing{a.Name, what, a.Reason})
		}
	}
	add("failed", failures(r))
	add("skipped", Together(r.Skipped))
	return list
}

// shapeKey is an entry of a legend.
type shapeKey struct {
	Color int
	Name  string
}

// Write writes the page to w.
func Write(w io.Writer, p Page) error {
	if err := write(w, p); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func write(w io.Writer, p Page) error {
	view := struct {
		Page
		Sections []*section
		Blocks   []block
		CSS      template.CSS
		JS       template.JS
	}{Page: p, Blocks: p.blocks, CSS: template.CSS(css), JS: template.JS(js)}
	for _, c := range p.Sets {
		s, err := newSection(c)
		if err != nil {
			return err
		}
		view.Sections = append(view.Sections, s)
	}
	t, err := template.New("page.html").Funcs(template.FuncMap{
		"percent": display.Percent,
		"count":   display.Count,
		"fixed":   func(x float64) string { return display.Fixed(x, 3) },
		"short":   short,
		"inline":  inline,
		"add":     func(a, b float64) float64 { return a + b },
		"neg":     func(x float64) float64 { return -x },
		"first":   func(s string, n int) string { return s[:min(n, len(s))] },
	}).ParseFS(files, "page.html", "section.html", "block.html")
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := t.Execute(&page, view); err != nil {
		return err
	}
	// File names in the page may be invalid UTF-8.
	_, err = w.Write(bytes.ToValidUTF8(page.Bytes(), []byte("\ufffd")))
	return err
}

func newSection(c Comparison) (*section, error) {
	s := &section{Comparison: c, Missing: absent(c.Report)}
	if err := s.fill(ranked(c.Report)); err != nil {
		return nil, err
	}
	var err error
	if s.ROC, err = rocCharts(c.Report, s.Rows); err != nil {
		return nil, err
	}
	s.Risk, err = riskChart(c.Report, s.Rows)
	return s, err
}

// fill makes the tables and rows of the section from the ranked methods.
func (s *section) fill(methods []compare.MethodReport) error {
	r := s.Report
	s.Figures, s.BySet = tables(r, methods)
	if len(r.OODSets) > 1 {
		for i, set := range r.OODSets {
			s.SetKey = append(s.SetKey, shapeKey{setColor(i + 1), set.Name})
		}
	}
	intervals := forest(methods)
	color := 0
	for i, m := range methods {
		best := best(m)
		small, err := spark(best.TestScores, best.OODScores)
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		large, err := drawHistogram(m.Name, best.TestScores, best.OODScores, histWidth, histHeight)
		if err != nil {
			return err
		}
		one := row{
			Method: i, Name: m.Name, Control: m.Control, Note: m.Variant, Spark: small, Forest: intervals[i],
			Histogram: large, Configurations: configurations(m), NOutliers: m.OutliersFitted, Best: best,
		}
		if !m.Control && color < coloured {
			color++
			one.Color = color
		}
		s.Rows = append(s.Rows, one)
	}
	s.Dots, s.Facts = newDotplot(methods, s.Rows), summaryFacts(r, methods)
	return nil
}

// Encode encodes a small picture as PNG and a large one as JPEG.
func Encode(m image.Image) ([]byte, error) {
	var b bytes.Buffer
	if size := m.Bounds(); size.Dx()*size.Dy() > 1<<12 {
		err := jpeg.Encode(&b, m, &jpeg.Options{Quality: 85})
		return b.Bytes(), err
	}
	err := png.Encode(&b, m)
	return b.Bytes(), err
}

// inline returns a picture as a data URL.
func inline(m image.Image) (template.URL, error) {
	encoded, err := Encode(m)
	return inlined(encoded), err
}

func inlined(encoded []byte) template.URL {
	kind := "jpeg"
	if bytes.HasPrefix(encoded, []byte("\x89PNG")) {
		kind = "png"
	}
	return template.URL("data:image/" + kind + ";base64," + base64.StdEncoding.EncodeToString(encoded))
}
