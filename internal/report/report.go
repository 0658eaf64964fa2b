// Package report writes a self-contained HTML page about a comparison of detectors, an
// evaluation, an audit, flagged rows or a regression band. The page loads no other file. It
// shows everything without scripts. With scripts, readers can sort and filter tables and
// highlight curves.
// [EvaluationText] and [ComparisonText] return the same verdicts and tables as text.
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
var templates embed.FS

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

// Page is the content of a report, from top to bottom.
type Page struct {
	Title string
	Lead  string
	Facts []Fact
	Sets  []Comparison
	Band  *Band // nil if the page has no band

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
	Rows           []methodRow
	ROC            []chart
	Risk           *chart
	SetKey         []legendEntry
	Facts          []Fact
	Dots           dotplot
	Missing        []missingMethods
}

// maxShown is the largest number of methods whose scores are visible before the reader
// opens the others.
const maxShown = 12

// Shown returns the rows whose scores are visible at once.
func (s *section) Shown() []methodRow { return s.Rows[:min(maxShown, len(s.Rows))] }

// Folded returns the rows whose scores are hidden until the reader opens them.
func (s *section) Folded() []methodRow { return s.Rows[min(maxShown, len(s.Rows)):] }

// More reports whether the dot plot leaves out methods.
func (s *section) More() bool { return len(s.Dots.Rows) < len(s.Rows) }

// Listed returns the maximum number of methods in the dot plot, without controls.
func (s *section) Listed() int { return maxDots }

// Hollow reports whether the dot plot has a method below 0.5.
func (s *section) Hollow() bool {
	return slices.ContainsFunc(s.Dots.Rows, func(r dotRow) bool { return r.Below })
}

// missingMethods names methods that have no result, and the reason.
type missingMethods struct{ Names, What, Why string }

func listMissing(r *compare.Report) []missingMethods {
	var list []missingMethods
	appendAll := func(what string, all []compare.Skipped) {
		for _, a := range all {
			list = append(list, missingMethods{a.Name, what, a.Reason})
		}
	}
	appendAll("failed", failures(r))
	appendAll("skipped", Together(r.Skipped))
	return list
}

// legendEntry is an entry of a legend.
type legendEntry struct {
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
	}{Page: p, Blocks: p.blocks, CSS: template.CSS(pageCSS), JS: template.JS(pageJS)}
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
		"short":   formatCoordinate,
		"inline":  pictureURL,
		"add":     func(a, b float64) float64 { return a + b },
		"neg":     func(x float64) float64 { return -x },
		"first":   func(s string, n int) string { return s[:min(n, len(s))] },
	}).ParseFS(templates, "page.html", "section.html", "block.html")
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
	s := &section{Comparison: c, Missing: listMissing(c.Report)}
	if err := s.fill(rankedMethods(c.Report)); err != nil {
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
	s.Figures, s.BySet = comparisonTables(r, methods)
	if len(r.OODSets) > 1 {
		for i, set := range r.OODSets {
			s.SetKey = append(s.SetKey, legendEntry{colourOfSet(i + 1), set.Name})
		}
	}
	intervals := aurocGlyphs(methods)
	color := 0
	for i, m := range methods {
		best := bestConfig(m)
		sparkline, err := newSparkline(best.TestScores, best.OODScores)
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		histogram, err := drawHistogram(m.Name, best.TestScores, best.OODScores, histWidth, histHeight)
		if err != nil {
			return err
		}
		newRow := methodRow{
			Method: i, Name: m.Name, Control: m.Control, Note: m.Variant, Spark: sparkline, Forest: intervals[i],
			Histogram: histogram, Configurations: configurationTable(m), NOutliers: m.OutliersFitted, Best: best,
		}
		if !m.Control && color < maxColours {
			color++
			newRow.Color = color
		}
		s.Rows = append(s.Rows, newRow)
	}
	s.Dots, s.Facts = newDotplot(methods, s.Rows), comparisonFacts(r, methods)
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

// pictureURL returns a picture as a data URL.
func pictureURL(m image.Image) (template.URL, error) {
	encoded, err := Encode(m)
	return encodedURL(encoded), err
}

func encodedURL(encoded []byte) template.URL {
	kind := "jpeg"
	if bytes.HasPrefix(encoded, []byte("\x89PNG")) {
		kind = "png"
	}
	return template.URL("data:image/" + kind + ";base64," + base64.StdEncoding.EncodeToString(encoded))
}
