// Package report draws a comparison of detectors and a regression band as one
// self-contained HTML page: no scripts, styles or pictures from elsewhere.
package report

import (
	"bytes"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"image"
	"image/png"
	"io"

	"github.com/attach-uncertainty/attach/ood"
)

//go:embed page.html
var page embed.FS

// Page is what a report shows, from top to bottom.
type Page struct {
	Title string
	Lead  string
	Facts []Fact
	Sets  []Comparison
	Band  *Band // nil leaves the regression out
}

// Fact is one figure at the head of the page.
type Fact struct{ Value, Label string }

// Comparison is one model with its in-domain and out-of-domain rows.
type Comparison struct {
	Title, Lead string
	Report      *ood.Report
	Histograms  []Histogram
	Curves      []Curve
	Suspicious  []Example
	// SuspiciousLead says what Suspicious was picked from.
	SuspiciousLead string
}

// Histogram is the scores of one method.
type Histogram struct {
	Name    string
	In, Out []float64
}

// Example is one input that a detector finds suspicious.
type Example struct {
	Image   image.Image
	Caption string
	Outside bool // it is out-of-domain
}

// Write writes the page to w.
func Write(w io.Writer, p Page) error {
	type section struct {
		Comparison
		HistogramPlots []template.HTML
		ROC            template.HTML
		Pictures       []picture
	}
	view := struct {
		Page
		Sections []section
		BandPlot template.HTML
	}{Page: p}
	for _, c := range p.Sets {
		s := section{Comparison: c}
		for _, h := range c.Histograms {
			drawn, err := histogram(h.Name, h.In, h.Out)
			if err != nil {
				return fmt.Errorf("report: %w", err)
			}
			s.HistogramPlots = append(s.HistogramPlots, drawn)
		}
		if len(c.Curves) > 0 {
			drawn, err := rocPlot(c.Curves)
			if err != nil {
				return fmt.Errorf("report: %w", err)
			}
			s.ROC = drawn
		}
		for _, e := range c.Suspicious {
			drawn, err := newPicture(e)
			if err != nil {
				return fmt.Errorf("report: %w", err)
			}
			s.Pictures = append(s.Pictures, drawn)
		}
		view.Sections = append(view.Sections, s)
	}
	if p.Band != nil {
		drawn, err := bandPlot(*p.Band)
		if err != nil {
			return fmt.Errorf("report: %w", err)
		}
		view.BandPlot = drawn
	}
	t, err := template.New("page.html").Funcs(template.FuncMap{
		"percent": func(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) },
		"fixed":   func(x float64) string { return fmt.Sprintf("%.3f", x) },
	}).ParseFS(page, "page.html")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := t.Execute(w, view); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

type picture struct {
	Example
	Source template.URL
}

func newPicture(e Example) (picture, error) {
	var b bytes.Buffer
	if err := png.Encode(&b, e.Image); err != nil {
		return picture{}, fmt.Errorf("picture %q: %w", e.Caption, err)
	}
	return picture{e, template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes()))}, nil
}
