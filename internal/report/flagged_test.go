package report

import (
	"fmt"
	"image"
	"math"
	"strconv"
	"strings"
	"testing"
)

func sampleFlags() Flags {
	return Flags{
		Bundle: "m.attach", Rows: "x.npz", Summary: "3 of 9 flagged", Guarantee: "at most 5 %", Caution: "split off", PValues: newHistogram(3, 2, 2, 2),
		Total: 9, RowName: strconv.Itoa, Flagged: []FlaggedRow{{Position: 2}, {Position: 5}, {Position: 8}}, Others: "See out.csv.",
		Columns: []Column{{Name: "input", Text: []string{"b.png", "a.png"}}, {Name: "p_value", Numbers: []float64{.001, .0123456}}, {Name: "ood_score", Numbers: []float64{math.Inf(1), 7}}},
	}
}

func TestFlagged(t *testing.T) {
	f := sampleFlags()
	page := renderPage(t, Flagged(f))
	checkPage(t, page)
	for _, want := range []string{
		"<h1>Rows of x.npz flagged by m.attach</h1>", "<p>3 of 9 flagged.</p>", "at most 5 %", "Split off.", "The first 2 of 3. See out.csv. A score of inf is infinite: ", `<td class="words">b.png</td>`, `<td data-v="&#43;Infinity">inf</td>`, `<td data-v="0.0123456">0.01235</td>`,
		`d="M0 340V0H115V113.3H230V113.3H345V113.3H460V340Z"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Index(page, "b.png") > strings.Index(page, "a.png") {
		t.Error("the rows are in another order")
	}

	// Small pictures are encoded as PNG, and large ones as JPEG.
	f.Images = []image.Image{image.NewGray(image.Rect(0, 0, 24, 24)), image.NewGray(image.Rect(0, 0, 192, 128))}
	page = renderPage(t, Flagged(f))
	for _, want := range []string{`src="data:image/png;base64,`, `alt="b.png" class="small">`, `src="data:image/jpeg;base64,`, `alt="a.png">`, "<dt>p_value</dt><dd>0.01235</dd>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}

	f.Flagged, f.Columns, f.Images = nil, nil, nil
	if page = renderPage(t, Flagged(f)); strings.Count(page, "<table") > 1 || strings.Contains(page, "<figure") || strings.Contains(page, "Flagged rows, ") {
		t.Error("a page without flagged rows shows some")
	}
}

// TestFlaggedWholes checks that whole numbers keep their digits if all numbers of their
// column are whole.
func TestFlaggedWholes(t *testing.T) {
	f := sampleFlags()
	f.Columns = append(f.Columns, Column{Name: "order", Numbers: []float64{1234567, 12}}, Column{Name: "price", Numbers: []float64{269345, 1093.25}})
	page := renderPage(t, Flagged(f))
	for _, want := range []string{">1,234,567<", ">12<", ">269,300<", ">1,093<"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestFlaggedReasons checks that unusual cells are marked, and that reasons and changed columns
// are listed.
func TestFlaggedReasons(t *testing.T) {
	f := sampleFlags()
	f.Columns = append(f.Columns, Column{Name: "ram", Numbers: []float64{4, 512}, Marked: map[int]bool{1: true}})
	f.Changes = []string{"ram: empty in 8 of 9 rows"}
	add := func(n int, reasons string) {
		for range n {
			f.Flagged = append(f.Flagged, FlaggedRow{Position: len(f.Flagged), Reasons: reasons})
		}
	}
	f.Flagged, f.Total = nil, 1243
	add(1200, "ram is out of range")
	add(3, "")
	for i := range 20 {
		add(2, fmt.Sprintf("c%02d is empty", i))
	}
	page := renderPage(t, Flagged(f))
	for _, want := range []string{
		`class="marked " title="unusual for the rows of the fit" data-v="512"`, "ram: empty in 8 of 9 rows.", ">1,200<", "no single value is unusual", "c09 is empty", "10 other combinations", ">20<",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, `class="marked " title="unusual for the rows of the fit" data-v="4"`) || strings.Contains(page, "c10 is empty") {
		t.Error("a usual cell is marked, or too many reasons are listed")
	}
}

func TestFlaggedHostile(t *testing.T) {
	f := sampleFlags()
	f.Bundle, f.Rows, f.Summary, f.Guarantee = hostileName, hostileName, hostileName, hostileName
	for i := range f.Columns {
		f.Columns[i].Name = hostileName
	}
	f.Columns[0].Text = []string{hostileName, hostileName}
	f.Changes, f.Others, f.RowName = []string{hostileName}, hostileName, func(int) string { return hostileName }
	f.Total, f.Flagged = 1000, nil
	for i := range 50 { // a cluster
		f.Flagged = append(f.Flagged, FlaggedRow{Position: 200 + i, Reasons: hostileName, Explained: true, Top: hostileName})
	}
	checkEscaped(t, renderPage(t, Flagged(f)))
	f.Images = []image.Image{image.NewGray(image.Rect(0, 0, 4, 4)), image.NewGray(image.Rect(0, 0, 4, 4))}
	checkEscaped(t, renderPage(t, Flagged(f)))
}

// TestFlaggedWords checks how words of texts are marked, and that a legend explains it.
func TestFlaggedWords(t *testing.T) {
	f := sampleFlags()
	text := Column{Name: "text", Text: []string{"the slithy toves", "the owl"}}
	text.AddWords(0, [][2]int{{0, 3}, {4, 10}, {11, 16}}, []float64{0, 0.04, 0.96}, []bool{false, true, true})
	text.AddWords(1, [][2]int{{0, 3}, {4, 7}}, []float64{0.3, 0}, nil)
	f.Columns = append(f.Columns, text)
	page := renderPage(t, Flagged(f))
	for _, want := range []string{
		`>the <u title="in no fit row, or hardly any">slithy</u> <mark style="--share: 96%" title="96 % of the score"><u title="in no fit row, or hardly any">toves</u></mark><`,
		`><mark style="--share: 30%" title="30 % of the score">the</mark> owl<`,
		"hardly ever were in the fit rows. Coloured words raised the score. Underlined words are in no fit row, or hardly any.",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	f.Columns[len(f.Columns)-1].Words[0] = nil
	if page = renderPage(t, Flagged(f)); strings.Contains(page, "Underlined") || !strings.Contains(page, "Coloured words") {
		t.Error("the legend explains words that are not marked, or lacks words that are")
	}
}
