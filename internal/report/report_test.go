package report

import (
	"bytes"
	"encoding/xml"
	"image"
	"image/color"
	"io"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/ood"
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
	one := func(v float64) ood.Summary { return ood.Summarise([]float64{v}) }
	return Page{
		Title: "A & B <c>",
		Lead:  "lead",
		Facts: []Fact{{"5 %", "flagged"}},
		Sets: []Comparison{{
			Title: "first",
			Report: &ood.Report{Methods: []ood.MethodReport{
				{Name: "worse", Summaries: ood.Summaries{AUROC: one(.6), FPR95: one(.9), AUPRIn: one(.5), AUPROut: one(.5)}},
				{Name: "better", Summaries: ood.Summaries{AUROC: one(.9), FPR95: one(.2), AUPRIn: one(.8), AUPROut: one(.8)}},
				{Name: "failed"},
			}},
			Histograms: []Histogram{{Name: "better", In: in, Out: out}},
			Curves:     []Curve{{Name: "better", FPR: []float64{0, .5, 1}, TPR: []float64{0, .9, 1}}},
			Suspicious: []Example{{Image: img, Caption: "p 0.01", Outside: true}, {Image: img, Caption: "p 0.02"}},
		}},
		Band: &Band{
			Title: "band", X: []float64{0, 1, 2}, Median: []float64{0, 1, 2}, Lower: []float64{-1, 0, 1}, Upper: []float64{1, 2, 3},
			Epistemic: []float64{.5, .01, .5}, Alpha: .05, TrainX: []float64{0, 1}, TrainY: []float64{.1, .9}, Level: .9, Coverage: .91, MeanGap: 2,
		},
	}
}

func TestWrite(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, samplePage()); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if n := strings.Count(page, "<svg"); n != 3 {
		t.Errorf("%d drawings, want a histogram, a ROC plot and a band", n)
	}
	for _, want := range []string{"A &amp; B &lt;c&gt;", "data:image/png;base64,", "p 0.01", "91.0 %"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Index(page, "<td>better</td>") > strings.Index(page, "<td>worse</td>") {
		t.Error("methods are not ranked")
	}
	if strings.Contains(page, "<td>failed</td>") {
		t.Error("a method without a result has a row")
	}
	if n := strings.Count(page, `class="outside"`); n != 1 {
		t.Errorf("%d pictures are framed as out-of-domain, want 1", n)
	}
	// Nothing is fetched: neither scripts, nor styles, nor pictures.
	if m := regexp.MustCompile(`(?i)<script|<link|(src|href)="http|url\(http`).FindString(page); m != "" {
		t.Errorf("the page holds %q", m)
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
	p.Sets[0].Histograms[0].In, p.Sets[0].Histograms[0].Out = nil, nil
	if err := Write(io.Discard, p); err == nil {
		t.Error("a histogram without scores is drawn")
	}
}

// TestHistogramGathers holds that bars are shares of their own rows, and that
// outliers do not stretch the axis.
func TestHistogramGathers(t *testing.T) {
	in := make([]float64, 1000)
	for i := range in {
		in[i] = float64(i % 10)
	}
	in[0] = 1e12
	drawn, err := histogram("x", in, []float64{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(drawn), "e+11") || strings.Contains(string(drawn), "e+12") {
		t.Error("one outlier stretches the axis")
	}
}
