package report

import (
	"html"
	"image"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/audit"
)

func audited(t *testing.T, name string) *audit.Audit {
	t.Helper()
	picture, err := Encode(image.NewGray(image.Rect(0, 0, 24, 24)))
	if err != nil {
		t.Fatal(err)
	}
	class, confidence := 1, audit.JSONFloat(.5)
	a := &audit.Audit{
		Inputs: 9, Discoveries: 2, Outliers: 1, FDP: .25, PValues: make([]int, 20), Notes: []string{name},
		Thresholds: []audit.Threshold{{PValue: .01, Inputs: 2, FDP: .25}},
		Groups:     []audit.Group{{Kind: "shard", Name: name, Inputs: 9, Discoveries: 2, Outliers: 1}, {Kind: "class", Name: name, Inputs: 9}},
		Classes:    []audit.Class{{Class: 1, Name: name, Audited: .75, PValue: .01}},
		Worst: []audit.Row{
			{Key: name, Score: audit.JSONFloat(math.Inf(1)), Class: &class, ClassName: name, Confidence: &confidence, Folder: name, Discovery: true, Shown: &audit.Shown{Picture: picture}},
			{Key: "b", Class: &class, Confidence: &confidence, Shown: &audit.Shown{Text: name}},
		},
		Duplicates: [][]string{{name, "b"}},
	}
	a.Task, a.FDR, a.Delta, a.Calibration, a.Bundle = attach.Classification, .1, .05, 100, "0123456789abcdef"
	return a
}

func TestAudit(t *testing.T) {
	page := written(t, Audit(audited(t, "photos/7.jpg")))
	sound(t, page)
	for _, want := range []string{"<h1>What does not belong</h1>", "outliers at least, 11.1 % of the inputs", "9 inputs of 0 files, compared with 100 calibration rows.", `src="data:image/png;base64,`, "By file", "How often classes are predicted", "Nearly the same", "--fdr 0.1 --delta 0.05", "75.0 %"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	harmless(t, written(t, Audit(audited(t, hostile))))
}

// TestAuditOfRegressor: intervals that stand out, and targets within theirs.
func TestAuditOfRegressor(t *testing.T) {
	a := audited(t, "a")
	a.Task, a.Classes, a.Targets, a.Level = attach.Regression, nil, []string{"hours"}, .9
	for i := range a.Worst {
		a.Worst[i].Prediction, a.Worst[i].Lower, a.Worst[i].Upper = []audit.JSONFloat{1}, []audit.JSONFloat{0}, []audit.JSONFloat{7.25}
	}
	a.Intervals = []audit.Interval{{Name: "hours", Wide: 3, Known: 8, Covered: 6, Widest: a.Worst}}
	n := 2
	a.LikeFitted, a.Groups[0].LikeFitted, a.Worst[1].LikeFitted = &n, 2, "train.npz:17"
	page := written(t, Audit(a))
	sound(t, page)
	for _, want := range []string{"The widest", "7.25", "75.0 %", "nearly the same as a row fitted on", "train.npz:17"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// script uses a page as one would without a mouse, and writes what was wrong to the
// page's title.
const script = `<script>
{
  const wrong = [];
  const want = (is, says) => { if (!is) wrong.push(says); };
  onerror = (message) => { wrong.push(message); };
  const table = [...document.querySelectorAll('table')].find((t) => t.tHead.textContent.includes('input') && t.tHead.textContent.includes('score'));
  const first = () => table.tBodies[0].rows[0].cells[0].textContent;
  const before = first();
  const button = table.querySelector('button');
  button.focus();
  want(document.activeElement === button && button.tabIndex === 0, 'a head of a column cannot be reached');
  want(button.textContent === 'input', 'the button is called ' + button.textContent);
  button.click(); // as Enter does
  want(first() === 'b', 'sorted by input, ' + first() + ' is first');
  want(button.closest('th').getAttribute('aria-sort') === 'ascending', 'the order is not said');
  button.click();
  want(first() === before, 'sorted the other way, ' + first() + ' is first');
  const box = document.querySelector('.filter input');
  want(box.offsetParent !== null && box.closest('label').textContent.trim() !== '', 'the filter is not shown, or has no name');
  box.value = 'photos YES';
  box.dispatchEvent(new Event('input'));
  const shown = [...table.tBodies[0].rows].filter((r) => r.offsetParent !== null);
  want(shown.length === 1 && shown[0].cells[0].textContent === before, shown.length + ' rows are shown');
  want(document.querySelector('.filter output').textContent === '1 of 3', 'the filter says ' + document.querySelector('.filter output').textContent);
  for (const image of document.images) want(image.complete && image.naturalWidth > 0 && image.alt, 'a picture is not shown');
  for (const svg of document.querySelectorAll('svg')) want(svg.getAttribute('aria-label'), 'a chart has no name');
  want(performance.getEntriesByType('resource').every((r) => r.name.startsWith('data:')), 'something is fetched');
  want(document.documentElement.scrollWidth <= innerWidth, 'the page is wider than the window');
  document.title = wrong.length ? wrong.join('; ') : 'sound';
}
</script>`

// TestAuditInBrowser: the page opens, sorts and filters in Chromium, which says nothing
// of errors.
func TestAuditInBrowser(t *testing.T) {
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("there is no Chromium")
	}
	path := filepath.Join(t.TempDir(), "report.html")
	page := strings.Replace(written(t, Audit(audited(t, "photos/7.jpg"))), "</body>", script+"</body>", 1)
	if err := os.WriteFile(path, []byte(page), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--user-data-dir="+t.TempDir(), "--window-size=500,900", "--dump-dom", "file://"+path)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &said)
	}
	_, title, _ := strings.Cut(string(out), "<title>")
	title, _, _ = strings.Cut(title, "</title>")
	if title = html.UnescapeString(title); title != "sound" {
		t.Error(title)
	}
	for line := range strings.Lines(said.String()) {
		if strings.Contains(line, "CONSOLE") {
			t.Error(line)
		}
	}
}
