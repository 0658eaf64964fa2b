package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image"
	"image/color"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
)

func samplePage() Page {
	rng := rand.New(rand.NewPCG(1, 1))
	in, out := make([]float64, 300), make([]float64, 200)
	for i := range in {
		in[i] = rng.NormFloat64()
	}
	for i := range out {
		out[i] = 2 + rng.NormFloat64()
	}
	img := image.NewGray(image.Rect(0, 0, 8, 8))
	img.SetGray(3, 3, color.Gray{200})
	single := func(v float64) compare.Summary { return compare.Summary{Mean: v, Max: v, N: 1} }
	method := func(name string, auroc float64) compare.MethodReport {
		m := compare.Metrics{AUROC: auroc, FPR95: .2, FPR95In: .3, AUPRIn: auroc, AUPROut: auroc, DetectionError: .1}
		return compare.MethodReport{
			Name:      name,
			Summaries: compare.Summaries{AUROC: single(auroc), FPR95: single(.2), FPR95In: single(.3), AUPRIn: single(auroc), AUPROut: single(auroc), DetectionError: single((1 - auroc) / 2)},
			CI:        &compare.Intervals{AUROC: [2]float64{auroc - .02, auroc + .03}},
			Configs:   []compare.Config{{Params: ood.Params{"k": 1.}, Metrics: m, TestScores: in, OODScores: [][]float64{out}}},
		}
	}
	return Page{
		Title: "A & B <c>",
		Lead:  "lead",
		Facts: []Fact{{"5 %", "flagged"}},
		Sets: []Comparison{{
			Title: "first",
			Report: &compare.Report{
				Model: "m.onnx", ModelSHA256: "0123456789abcdef", FitRows: 11, TestRows: 300, OODRows: 200, Seed: 42, Resamples: 700,
				Methods: []compare.MethodReport{
					method("worse", .6), method("better", .9),
					{Name: "failed", Failed: []compare.Failed{{Params: ood.Params{"k": 2.}, Error: "no <good>"}}},
				},
				Skipped: []compare.Skipped{{Name: "left", Reason: `method "left" needs logits: there are none`}},
			},
			Suspicious: []Example{{Image: img, Caption: "p 0.01", Outside: true}, {Image: img, Caption: "p 0.02"}},
		}},
		Band: &Band{
			Title: "band", X: []float64{0, 1, 2}, Median: []float64{0, 1, 2}, Lower: []float64{-1, 0, 1}, Upper: []float64{1, 2, 3},
			Epistemic: []float64{.5, .01, .5}, Alpha: .05, TrainX: []float64{0, 1}, TrainY: []float64{.1, .9}, Level: .9, Coverage: .91, MeanGap: 2,
		},
	}
}

func renderPage(t *testing.T, p Page) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, p); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const hostileName = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\xff"

// checkEscaped checks that no name on the page closes an attribute or opens a tag. The tests
// use names that try to do so.
func checkEscaped(t *testing.T, page string) {
	t.Helper()
	if m := regexp.MustCompile(`(?i)<script>alert|<img src=x|"'>`).FindString(page); m != "" || !utf8.ValidString(page) {
		t.Errorf("the page holds %q, or is no UTF-8", m)
	}
}

func TestHostileNames(t *testing.T) {
	const name = hostileName
	p := samplePage()
	p.Title, p.Lead, p.Facts = name, name, []Fact{{name, name}}
	c := &p.Sets[0]
	c.Title, c.Lead, c.SuspiciousLead, c.Suspicious[0].Caption = name, name, name, name
	r := c.Report
	for i := range r.Methods[:2] {
		r.Methods[i].Sets = []compare.SetSummaries{{Name: name, Summaries: r.Methods[i].Summaries}}
	}
	r.Model, r.ModelSHA256, r.OODSets = name, name, []compare.Set{{Name: name, Group: name, Rows: 200}}
	r.Methods[0].Name, r.Methods[0].Variant, r.Methods[2].Failed[0].Error, r.Skipped[0].Reason = name, name, name, name
	checkEscaped(t, renderPage(t, p))
}

func TestWrite(t *testing.T) {
	page := renderPage(t, samplePage())
	// Each of the two methods has a small histogram, a large histogram and an interval. The
	// page also has a dot plot, a chart of ROC curves and a band.
	if n := strings.Count(page, "<svg"); n != 2*3+1+1+1 {
		t.Errorf("%d drawings", n)
	}
	for _, want := range []string{
		"A &amp; B &lt;c&gt;", "data:image/png;base64,", "p 0.01", "91.0 %",
		"m.onnx", "0123456789ab", "<dt>fit rows</dt><dd>11</dd>", "<dd>300</dd>", "<dd>200</dd>", "700 bootstrap resamples", "<dd>42</dd>",
		"0.880–0.930", "no &lt;good&gt;", "needs logits: there are none", "k=2",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Index(page, `<td data-v="better">`) > strings.Index(page, `<td data-v="worse">`) {
		t.Error("methods are not ranked")
	}
	// The lower of two detection errors is the better one, and is marked.
	if !strings.Contains(page, "<b>0.0500</b>") {
		t.Error("the best of a column where lower is better is not the lower")
	}
	for _, unwanted := range []string{`<td data-v="failed">`, "AURC</th>"} {
		if strings.Contains(page, unwanted) {
			t.Errorf("the page holds %q", unwanted)
		}
	}
	if n := strings.Count(page, `class="outside"`); n != 1 {
		t.Errorf("%d pictures are framed as out-of-distribution, want 1", n)
	}
	checkPage(t, page)
}

// checkPage checks what holds for every page: the page loads no script, style sheet or
// picture from elsewhere, is valid UTF-8, and has drawings in well-formed XML with finite
// numbers.
func checkPage(t *testing.T, page string) {
	t.Helper()
	lower := strings.ToLower(page)
	for _, forbidden := range []string{"<link", "@import", "src=http", `src="http`, "href=http", `href="http`, "url(", "nan", "zgotmplz", "-inf", "+inf"} {
		if strings.Contains(lower, forbidden) {
			t.Errorf("the page holds %q", forbidden)
		}
	}
	for _, script := range strings.Split(lower, "<script")[1:] {
		if tag, _, _ := strings.Cut(script, ">"); strings.Contains(tag, "src") {
			t.Errorf("the page holds <script%s>", tag)
		}
	}
	if !utf8.ValidString(page) {
		t.Error("the page is no UTF-8")
	}
	for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1) {
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("a drawing is not well formed: %v", err)
			}
		}
	}
}

func TestWriteErrors(t *testing.T) {
	p := samplePage()
	c := &p.Sets[0].Report.Methods[0].Configs[0]
	c.TestScores, c.OODScores = nil, nil
	if err := Write(io.Discard, p); err == nil {
		t.Error("a histogram without scores is drawn")
	}
}

// TestWriteMore checks the parts of a page that depend on its content: errors of the model,
// several sets, and the configurations of a sweep.
func TestWriteMore(t *testing.T) {
	p := samplePage()
	c := &p.Sets[0]
	c.Report.Sweep = true
	c.Report.Methods[1].Control = true
	c.Report.ErrorRate = new(float64)
	*c.Report.ErrorRate = .25
	c.Report.Wrong = make([]bool, 300)
	for i := range 75 {
		c.Report.Wrong[4*i] = true
	}
	c.Report.OODSets = []compare.Set{{Name: "cats", Group: "near", Rows: 120}, {Name: "dogs", Group: "far", Rows: 80}}
	for i := range c.Report.Methods[:2] {
		m := &c.Report.Methods[i]
		m.AURC = compare.Summary{Mean: .05, Max: .05, N: 1}
		m.CI.AURC = &[2]float64{.04, .06}
		m.Sets = []compare.SetSummaries{{Name: "cats", Summaries: m.Summaries}, {Name: "dogs", Summaries: m.Summaries}}
		m.Groups = []compare.SetSummaries{{Name: "near", Summaries: m.Summaries}, {Name: "far", Summaries: m.Summaries}}
		conf := &m.Configs[0]
		conf.OODScores = [][]float64{conf.OODScores[0][:120], conf.OODScores[0][120:]}
		m.Configs = append(m.Configs, m.Configs[0])
	}
	page := renderPage(t, p)
	for _, want := range []string{
		">AURC</th>", "model error 25.0 %", "cats 120", "<small>near</small>",
		"AUROC by OOD set", "near (mean)", `data-panel="dogs"`, "Risk–coverage curves", "better, 2", "0.0400–0.0600",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(page, `<span class="tag">control</span>`); n != 2 {
		t.Errorf("a control is marked as one %d times, want in both tables", n)
	}
}

// TestBandIsThemed checks that the band takes all its colours from the style sheet of the
// page.
func TestBandIsThemed(t *testing.T) {
	p := samplePage()
	p.Sets = nil
	_, band, _ := strings.Cut(renderPage(t, p), `<div class="card band">`)
	// The second of three values is flagged, so the shaded region reaches from its X to the
	// next X.
	for _, want := range []string{`class="area s1" d="M460 340L920 340L920 0L460 0Z"`, `class="area s0"`, `class="dots" d="M0 246.5h0M460 `, `class="curve c c1"`} {
		if !strings.Contains(band, want) {
			t.Errorf("the band lacks %q:\n%.2000s", want, band)
		}
	}
	if colours := regexp.MustCompile(`#[0-9A-Fa-f]{6}`).FindAllString(band, -1); len(colours) > 0 {
		t.Errorf("the band has colours of its own: %v", colours)
	}
}

// TestWriteMany checks that only the scores of the best methods are visible at once.
func TestWriteMany(t *testing.T) {
	p := samplePage()
	p.Band = nil
	m := p.Sets[0].Report.Methods[1]
	p.Sets[0].Report.Methods = nil
	for i := range 45 {
		m.Name = fmt.Sprintf("method%d", i)
		p.Sets[0].Report.Methods = append(p.Sets[0].Report.Methods, m)
	}
	page := renderPage(t, p)
	before, after, ok := strings.Cut(page, "<summary>33 more</summary>")
	if !ok || strings.Count(before, `aria-label="scores of`) != 12 || strings.Count(after, `aria-label="scores of`) != 33 {
		t.Error("33 of 45 methods are not folded")
	}
	if n := strings.Count(page, `<circle class="dot" cx`) - 45; n != maxDots || !strings.Contains(page, "the 15 best of 45 methods") {
		t.Errorf("the dot plot has %d methods", n)
	}
	if n := strings.Count(page, `class="curve c c`); n != maxColours {
		t.Errorf("%d curves have a colour, want %d", n, maxColours)
	}
	if n := strings.Count(page, `<path class="curve"`); n != 45-maxColours {
		t.Errorf("%d curves have none", n)
	}
}

// TestHistogramGathers checks that bars are fractions of the rows of their set. Outliers
// and infinite scores must not stretch the axis.
func TestHistogramGathers(t *testing.T) {
	in := make([]float64, 1000)
	for i := range in {
		in[i] = float64(i % 10)
	}
	in[0], in[1], in[2] = 1e12, math.Inf(1), math.Inf(-1)
	h, err := drawHistogram("x", in, [][]float64{{1, 2}}, histWidth, histHeight)
	if err != nil {
		t.Fatal(err)
	}
	if h.Low != "0" || h.High != "9" {
		t.Errorf("the axis runs from %s to %s", h.Low, h.High)
	}
	if x := binFractions(in, 0, 9, 48); math.Abs(x[0]-.1) > 1e-9 || math.Abs(x[47]-.102) > 1e-9 {
		t.Errorf("the ends hold %v and %v", x[0], x[47])
	}
	if _, err := drawHistogram("x", []float64{math.Inf(1)}, [][]float64{{math.Inf(-1)}}, histWidth, histHeight); err != nil {
		t.Error(err)
	}
}

func TestAxis(t *testing.T) {
	for _, c := range []struct {
		high float64
		want []string
	}{
		{1, []string{"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"}},
		{.02, []string{"0.000", "0.005", "0.010", "0.015", "0.020"}},
	} {
		var got []string
		for _, tick := range newTicks(0, c.high, 100, 5, false) {
			got = append(got, tick.Label)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("axis to %v: %v", c.high, got)
		}
	}
	if ticks := newTicks(0, 1, 100, 5, true); ticks[0].At != 100 || ticks[5].At != 0 {
		t.Errorf("upwards: %v", ticks)
	}
}
