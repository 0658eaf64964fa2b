// Package report draws comparisons of detectors, evaluations and a regression band
// as one self-contained HTML page: nothing in it comes from elsewhere. Without scripts
// it shows the same; with them its tables sort and its curves answer the mouse.
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

	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/ood/compare"
)

//go:embed page.html section.html block.html
var files embed.FS

//go:embed page.css
var css string

//go:embed page.js
var js string

// Page is what a report shows, from top to bottom.
type Page struct {
	Title string
	Lead  string
	Facts []Fact
	Sets  []Comparison
	Band  *Band // nil leaves the regression out

	blocks []block
}

// Fact is one figure at the head of the page.
type Fact struct{ Value, Label string }

// Comparison is one model with its in-domain and out-of-domain rows. The scores
// that Report carries are drawn.
type Comparison struct {
	Title, Lead string
	Report      *compare.Report
	Suspicious  []Example
	// SuspiciousLead says what Suspicious was picked from.
	SuspiciousLead string
}

// Example is one input that a detector finds suspicious.
type Example struct {
	Image   image.Image
	Caption string
	Outside bool // it is out-of-domain
}

// section is a comparison with everything drawn.
type section struct {
	Comparison
	Figures, BySet grid // a row for each of Rows, after whose names pictures stand
	Rows           []row
	ROC            []chart
	Risk           *chart
	SetKey         []shapeKey
	Axis           string // the low end of the AUROC axis
	Missing        []missing
}

// shown is how many methods' scores are not folded away.
const shown = 12

// Shown are the rows whose scores are drawn at once.
func (s *section) Shown() []row { return s.Rows[:min(shown, len(s.Rows))] }

// Folded are the rows whose scores are folded away.
func (s *section) Folded() []row { return s.Rows[min(shown, len(s.Rows)):] }

// missing is what has no result, and why.
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

// shapeKey says which set has which colour.
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
	// Names of files may be of any bytes.
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

// fill makes the table's rows.
func (s *section) fill(methods []compare.MethodReport) error {
	r := s.Report
	s.Figures, s.BySet = tables(r, methods)
	if len(r.OODSets) > 1 {
		for i, set := range r.OODSets {
			s.SetKey = append(s.SetKey, shapeKey{setColor(i + 1), set.Name})
		}
	}
	intervals := forest(methods)
	s.Axis = display.Fixed(forestLow(methods), 2)
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
	return nil
}

// Encode writes a picture as PNG or, where that would be large, as JPEG.
func Encode(m image.Image) ([]byte, error) {
	var b bytes.Buffer
	if size := m.Bounds(); size.Dx()*size.Dy() > 1<<12 {
		err := jpeg.Encode(&b, m, &jpeg.Options{Quality: 85})
		return b.Bytes(), err
	}
	err := png.Encode(&b, m)
	return b.Bytes(), err
}

// inline is a picture as part of the page.
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
