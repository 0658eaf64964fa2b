package report

import (
	"fmt"
	"html"
	"image"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/audit/result"
	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/schema"
)

func sampleAudit(t *testing.T, name string) *audit.Audit {
	t.Helper()
	picture, err := Encode(image.NewGray(image.Rect(0, 0, 24, 24)))
	if err != nil {
		t.Fatal(err)
	}
	class, confidence := 1, audit.JSONFloat(.5)
	a := &audit.Audit{Audit: result.Audit{
		Inputs: 9, Discoveries: 2, Outliers: 1, FDP: .25, PValueCounts: make([]int, 20), Notes: []string{name},
		Thresholds: []audit.Threshold{{PValue: .01, Inputs: 2, FDP: .25}},
		Shards:     []audit.Shard{{Name: name}, {Name: "b"}},
		Groups:     []audit.Group{{Kind: "shard", Name: "b", Inputs: 5}, {Kind: "shard", Name: name, Inputs: 4, Discoveries: 2, Outliers: 1}, {Kind: "class", Name: name, Inputs: 9}},
		Classes:    []audit.Class{{Class: 1, Name: name, Audited: .75, PValue: .01}},
		HighestScoring: []audit.Row{
			{Key: name, Score: audit.JSONFloat(math.Inf(1)), Class: &class, ClassName: name, Confidence: &confidence, Folder: name, Discovery: true, Shown: &audit.Shown{Picture: picture}},
			{Key: "b", Class: &class, Confidence: &confidence, Shown: &audit.Shown{Cells: []audit.Cell{{Column: name, Text: name}}}},
		},
	}}
	a.Task, a.FDR, a.Delta, a.Calibration, a.Bundle = attach.Classification, .1, .05, 100, "0123456789abcdef"
	return a
}

func TestAudit(t *testing.T) {
	page := renderPage(t, Audit(sampleAudit(t, "photos/7.jpg")))
	checkPage(t, page)
	for _, want := range []string{"<h1>Outliers among photos/7.jpg and 1 more</h1>", "outlier at least (11.1 % of the inputs)", "At least 1 of 9 inputs (11.1 %) differ from the 100 calibration rows. 2 inputs are named as outliers, on average at most 10 % of them by mistake. There are at least 1 of 4 in photos/7.jpg.", `src="data:image/png;base64,`, "<h3>Files</h3>", "Frequency of predicted classes", "with files of these SHA-256", "75.0 %"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	checkEscaped(t, renderPage(t, Audit(sampleAudit(t, hostileName))))
}

// TestAuditOfRegressor checks that the page shows unusually wide intervals, and how many
// targets lie in their intervals.
func TestAuditOfRegressor(t *testing.T) {
	a := sampleAudit(t, "a")
	a.Task, a.Classes, a.Targets, a.Level = attach.Regression, nil, []string{"hours"}, .9
	for i := range a.HighestScoring {
		a.HighestScoring[i].Prediction, a.HighestScoring[i].Lower, a.HighestScoring[i].Upper = []audit.JSONFloat{1}, []audit.JSONFloat{0}, []audit.JSONFloat{7.25}
	}
	a.Intervals = []audit.Interval{{Name: "hours", Wide: 3, WithTarget: 8, Covered: 6, Widest: a.HighestScoring}}
	n := 2
	a.FitDuplicates, a.Groups[0].FitDuplicates, a.HighestScoring[1].FitDuplicateOf = &n, 2, "train.npz:17"
	a.Groups[0].WithTarget, a.Groups[0].Covered = []int{3}, []int{0}
	page := renderPage(t, Audit(a))
	checkPage(t, page)
	for _, want := range []string{"Widest intervals", "7.25", "75.0 %", "with nearly the features of a fit row", "train.npz:17", "2 of 9 inputs are near a row of --fitted.", ">coverage<"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestAuditOfLabels checks that the page shows confused classes, and suspicious labels with
// their pictures.
func TestAuditOfLabels(t *testing.T) {
	labelled := func(name string) *audit.Audit {
		a := sampleAudit(t, name)
		given, suggested := 3, 8
		row := a.HighestScoring[0]
		row.Label, row.LabelName, row.Suggested, row.LabelPValue, row.LabelScore, row.LabelDiscovery = &given, name, &suggested, []audit.JSONFloat{.25}, []audit.JSONFloat{.5}, []bool{true}
		a.LabelErrorsBy = "all"
		a.LabelErrors = []audit.LabelErrors{{Labelled: 1234, Errors: 7, Discoveries: 5, FDP: .625, Confusions: []audit.Confusion{{Label: 3, LabelName: name, Suggested: 8, Discoveries: 4}}, MostSuspicious: []audit.Row{row}}}
		for i := range a.Groups {
			a.Groups[i].Labelled, a.Groups[i].LabelDiscoveries, a.Groups[i].LabelErrors = []int{17}, []int{4321}, []int{1}
		}
		a.Groups = append(a.Groups, audit.Group{Kind: "label", Name: name, Labelled: []int{17}, LabelDiscoveries: []int{4321}, LabelErrors: []int{1}})
		return a
	}
	page := renderPage(t, Audit(labelled("seven")))
	checkPage(t, page)
	for _, want := range []string{"At least 7 of 1,234 labels are wrong; 5 are named, on average at most 10 % of them by mistake.", "Confused classes", ">wrong labels at least<", "By given label", "4,321", "62.5 %"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(page, `src="data:image/png;base64,`); n != 2 {
		t.Errorf("there are %d pictures", n)
	}
	checkEscaped(t, renderPage(t, Audit(labelled(hostileName))))
}

// TestAuditOfCopies checks that copies are the first fact on the page. It also checks that
// the shift test names the folder whose inputs score higher.
func TestAuditOfCopies(t *testing.T) {
	copied := func(name string) *audit.Audit {
		a := sampleAudit(t, name)
		a.Copies = &audit.Copies{Distinct: 5, Repeated: 4, Near: 3, MostCopied: []audit.Copied{{Inputs: 3, Keys: []string{name, "b:7", "b:8"}}}, Between: []audit.FileCopies{{Shard: name + ".npz", Of: "b.npz", Exact: 1, Near: 3}}}
		a.Notes = []string{"4 inputs are copies", "Of the discoveries"}
		a.Delta, a.Shift.Higher, a.Shift.HigherIn = .05, .02, audit.Place{Kind: "folder", Name: name}
		return a
	}
	p := Audit(copied("photos"))
	page := renderPage(t, p)
	checkPage(t, page)
	for _, want := range []string{"<h2>Copies", "photos, b:7, b:8", ">photos.npz<", ">copies inputs of<", "4 of 9 inputs are copies of an earlier one (1 exact, 3 near); 5 differ.", "p-value of the shift test: the inputs of folder photos score higher"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if first := p.Facts[0]; first.Value != "4" || !strings.HasPrefix(first.Label, "copies of an earlier input, 3 of them near copies; 5 inputs differ") {
		t.Errorf("the first fact is %+v", first)
	}
	notesOf := func(p Page) (notes []verdict) {
		for _, b := range p.blocks {
			notes = append(notes, b.Notes...)
		}
		return notes
	}
	if notes := notesOf(p); notes[0].Label != "note" || notes[1].Label != "guarantee" {
		t.Errorf("%+v", notes)
	}
	withColumn := copied("photos")
	withColumn.Schema = &schema.Summary{Columns: []schema.ColumnSummary{{Column: "age", NewGaps: 1, Notable: true}}}
	withColumn.Notes = []string{"4 inputs are copies", "age: empty in 1 of 9 rows", "Of the discoveries"}
	if notes := notesOf(Audit(withColumn)); notes[0].Label != "column" || notes[2].Label != "guarantee" {
		t.Errorf("with a column that differs: %+v", notes)
	}
	checkEscaped(t, renderPage(t, Audit(copied(hostileName))))
}

// TestAuditIsBounded checks that the page stays below 5 MB for an audit with many long
// names and pictures.
func TestAuditIsBounded(t *testing.T) {
	a := sampleAudit(t, "a")
	long := strings.Repeat("深い/フォルダ", 500)
	var row audit.Row
	picture := append([]byte("\x89PNG"), make([]byte, 30<<10)...)
	a.HighestScoring[0].Shown, a.Task, a.Classes = &audit.Shown{Picture: picture}, attach.Regression, nil
	for k := range 300 {
		name := fmt.Sprint(k, long)
		a.Targets = append(a.Targets, name)
		for _, kind := range audit.Kinds() {
			a.Groups = append(a.Groups, audit.Group{Kind: kind, Name: name})
		}
		a.Shards = append(a.Shards, audit.Shard{Name: name})
		row = a.HighestScoring[0]
		row.Key, row.Folder, row.FitDuplicateOf, row.Class = name, name, name, nil
		row.Prediction, row.Lower, row.Upper = make([]audit.JSONFloat, 300), make([]audit.JSONFloat, 300), make([]audit.JSONFloat, 300)
		a.HighestScoring = append(a.HighestScoring, row)
	}
	slices.SortStableFunc(a.Groups, func(x, y audit.Group) int { return strings.Compare(x.Kind, y.Kind) })
	a.HighestScoring = a.HighestScoring[2:202]
	for _, name := range a.Targets {
		a.Intervals = append(a.Intervals, audit.Interval{Name: name, Widest: a.HighestScoring[:20]})
	}
	onMap := slices.Repeat([]audit.MapRow{{Row: row, ReasonGroup: long}, {Row: row}}, 250)
	onMap[0].Shard = "a"
	for k := range 6 {
		most := &audit.Majority{Name: long}
		a.Clusters = append(a.Clusters, audit.Cluster{Name: fmt.Sprint("cluster ", k), Keys: []string{long, long, long, long, long}, NearestNormal: []string{long, long, long}, Class: most, Place: most, Reasons: most})
	}
	p := Audit(a)
	p.blocks = append(p.blocks, mapBlocks(a, onMap)...)
	page := renderPage(t, p)
	checkPage(t, page)
	if len(page) > 5_000_000 {
		t.Errorf("the page has %d bytes", len(page))
	}
	if want := "to the byte"; !strings.Contains(page, want) || strings.Contains(page, "attach audit M") {
		t.Errorf("the page lacks %q, or has a command", want)
	}
}

// sampleMap returns four inputs of a map, two of them in clusters.
func sampleMap() []audit.MapRow {
	list := make([]audit.MapRow, 4)
	for i := range list {
		r := &list[i]
		r.Key, r.Shard, r.PValue, r.X, r.Y = fmt.Sprint("m", i), "a", .25, float64(i), float64(i*i)/8
		if r.Discovery = i%2 == 0; r.Discovery {
			r.Cluster = fmt.Sprint("cluster ", 1+i/2)
		}
	}
	return list
}

// TestMapMarkers checks how inputs are marked on a map, with clusters and without.
func TestMapMarkers(t *testing.T) {
	markers := func(c chart) (list []int) {
		for _, p := range c.Points {
			list = append(list, p.Marker)
		}
		return list
	}
	a, list := sampleAudit(t, "a"), sampleMap()
	c := mapChart(a, list)
	if got := markers(c); !slices.Equal(got, []int{0, 0, 1, 1}) || c.Key[1].Name != "discoveries" {
		t.Errorf("without clusters, markers are %v and mean %v", got, c.Key)
	}
	a.Clusters = []audit.Cluster{{Name: "cluster 1"}, {Name: "cluster 2"}}
	list[3].Discovery = true
	c = mapChart(a, list)
	if got := markers(c); !slices.Equal(got, []int{0, 1, 2, 7}) || c.Key[3].Name != "discoveries in no cluster" {
		t.Errorf("markers are %v and mean %v", got, c.Key)
	}
}

// TestAuditWithoutOutliers checks that wrong labels and copies come before anything about
// outliers, and that one sentence stands for tables of zeros.
func TestAuditWithoutOutliers(t *testing.T) {
	a := sampleAudit(t, "a")
	a.Outliers, a.Discoveries, a.Copies = 0, 0, &audit.Copies{Distinct: 8, Repeated: 1}
	for i := range a.Groups {
		a.Groups[i].Outliers, a.Groups[i].Discoveries = 0, 0
	}
	a.LabelErrors = []audit.LabelErrors{{Labelled: 9, Errors: 1, Discoveries: 1}}
	a.Classes[0].PValue = .5
	p := Audit(a)
	var titles []string
	for _, b := range p.blocks {
		titles = append(titles, b.Title)
		for _, g := range b.Tables {
			if slices.ContainsFunc(g.Heads, func(h columnHead) bool { return h.Text == "outliers at least" }) {
				t.Errorf("%s has a table of outliers", b.Title)
			}
		}
	}
	if got := strings.Join(titles[:2], ", "); got != "Wrong labels, Copies" {
		t.Errorf("the page begins with %s", got)
	}
	page := renderPage(t, p)
	for _, want := range []string{"<h1>Audit of a and 1 more</h1>", "<p>At least 1 of 9 labels", "No file or predicted class has a discovery or a proven outlier.", "No class is predicted more or less often"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestOrderOfGroups checks that the page says in which order it lists files.
func TestOrderOfGroups(t *testing.T) {
	a := sampleAudit(t, "a")
	a.Groups = []audit.Group{{Kind: "shard", Name: "a", Inputs: 5, Unusual: 1}, {Kind: "shard", Name: "b", Inputs: 4}}
	order := func() string {
		places, _ := groupBlocks(a)
		return places[0].Lead
	}
	if got := order(); got != "Those with the most outliers come first." {
		t.Errorf("with outliers, the page says %q", got)
	}
	a.Outliers, a.Discoveries = 0, 0
	if got := order(); got != "Those with the most inputs come first." {
		t.Errorf("without outliers and labels, the page says %q", got)
	}
	a.LabelErrors = []audit.LabelErrors{{}}
	if got := order(); got != "Those with the most wrong labels come first." {
		t.Errorf("with labels, the page says %q", got)
	}
}

// browserScript operates a page as a user with a keyboard would. It writes the errors that
// it finds into the title of the page, or "sound" if it finds none.
const browserScript = `<script>
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
  const says = document.querySelector('.filter output');
  want(says.textContent === '1 of the 3 on this page', 'the filter says ' + says.textContent);
  want(document.querySelector('figure').offsetParent !== null, 'the picture of a row that is shown is not');
  const saved = (name) => {
    let file, content;
    HTMLAnchorElement.prototype.click = function () { file = this.download; content = decodeURIComponent(this.href.split(',').slice(1).join()); };
    document.querySelector('[data-save="' + name + '"]').click();
    want(file === name, 'a button saves ' + file);
    return content;
  };
  want(saved('inputs.txt') === before + '\n', 'the names are ' + saved('inputs.txt'));
  want(saved('inputs.csv').startsWith('"input",') && saved('inputs.csv').split('\r\n').length === 3, 'the inputs are ' + saved('inputs.csv'));
  want(saved('files.csv').includes('\r\n"photos/7.jpg","4","2","1"'), 'the files are ' + saved('files.csv'));
  box.value = '';
  const by = document.querySelector('.filter select');
  want(by.closest('label').textContent.startsWith('grouped by') && by.tabIndex === 0, 'the choice of groups has no name or cannot be reached');
  const choose = (name) => {
    by.value = [...by.options].find((o) => o.text === name).value;
    by.dispatchEvent(new Event('change')); // as arrows do
  };
  const groups = () => [...document.querySelectorAll('.group th, .group h3')].filter((h) => h.offsetParent !== null).map((h) => h.textContent).join();
  choose('folder');
  want(groups() === 'photos 1,elsewhere 2,photos 1', 'grouped by folder: ' + groups());
  want(says.textContent === 'in 2 groups', 'groups are said to be ' + says.textContent);
  button.click();
  const names = [...table.querySelectorAll('tr[data-m]')].map((r) => r.cells[0].textContent).join();
  want(names === before + ',b,c', 'sorted within groups: ' + names);
  choose('class');
  want(groups() === 'dog 2,cat 1,dog 1', 'grouped by class: ' + groups());
  box.value = 'elsewhere';
  box.dispatchEvent(new Event('input'));
  want(groups() === 'dog 1,cat 1', 'filtered, groups are ' + groups());
  box.value = '';
  choose('nothing');
  want(groups() === '' && table.tBodies.length === 1 && table.tBodies[0].rows.length === 3 && document.querySelectorAll('.cards').length === 1, 'groups are left');
  const map = document.querySelector('.map svg.chart'), lit = () => [...map.querySelectorAll('.point:not(.dim)')].map((p) => p.dataset.m).sort().join();
  const on = map.closest('section'), show = [...on.querySelectorAll('select')].find((s) => s.closest('label').textContent.startsWith('show'));
  want(lit() === '0,1,2,3', 'lit points are ' + lit());
  show.value = [...show.options].find((o) => o.text === 'cluster 2').value;
  show.dispatchEvent(new Event('change'));
  want(lit() === '2' && on.querySelector('output').textContent === '1 of the 4 on this page', 'with cluster 2, lit points are ' + lit());
  const mapCSV = () => { let content; HTMLAnchorElement.prototype.click = function () { content = decodeURIComponent(this.href); }; on.querySelector('[data-save="inputs.csv"]').click(); return content; };
  want(mapCSV().split('\r\n').length === 3 && mapCSV().includes('"m2"'), 'the map saves ' + mapCSV());
  show.value = '';
  show.dispatchEvent(new Event('change'));
  const spot = on.querySelector('.spot'), arrow = (key) => map.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
  map.focus();
  want(document.activeElement === map && spot.hidden, 'the map cannot be reached');
  arrow('ArrowRight');
  const from = spot.textContent;
  want(/^m\d, p-value 0.25, /.test(from), 'the map shows ' + from);
  for (const key of ['ArrowRight', 'ArrowRight', 'ArrowRight']) arrow(key);
  want(spot.textContent.startsWith('m3'), 'at the right is ' + spot.textContent);
  const target = map.querySelector('.point[data-m="0"]').getBoundingClientRect();
  map.dispatchEvent(new PointerEvent('pointerdown', { clientX: target.x + 3, clientY: target.y + 3 }));
  want(spot.textContent.startsWith('m0') && spot.textContent.includes('cluster 1'), 'a tap shows ' + spot.textContent);
  for (const image of document.images) want(image.complete && image.naturalWidth > 0 && image.alt, 'a picture is not shown');
  for (const svg of document.querySelectorAll('svg')) want(svg.getAttribute('aria-label'), 'a chart has no name');
  want(performance.getEntriesByType('resource').every((r) => r.name.startsWith('data:')), 'something is fetched');
  want(document.documentElement.scrollWidth <= innerWidth, 'the page is wider than the window');
  document.title = wrong.length ? wrong.join('; ') : 'sound';
}
</script>`

// TestAuditInBrowser checks that the page opens, sorts and filters in Chromium without an
// error on the console.
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
	a := sampleAudit(t, "photos/7.jpg")
	a.HighestScoring = append(a.HighestScoring, a.HighestScoring[1])
	for i, names := range [][3]string{{"photos/7.jpg", "photos", "dog"}, {"b", "elsewhere", "cat"}, {"c", "elsewhere", "dog"}} {
		r := &a.HighestScoring[i]
		r.Key, r.Shard, r.Folder, r.ClassName = names[0], names[1], names[1], names[2]
	}
	a.Clusters, a.Clustered = []audit.Cluster{{Name: "cluster 1", Inputs: 1, Keys: []string{"m0"}}, {Name: "cluster 2", Inputs: 1, Keys: []string{"m2"}}}, 2
	p := Audit(a)
	p.blocks = append(p.blocks, mapBlocks(a, sampleMap())...)
	page := strings.Replace(renderPage(t, p), "</body>", browserScript+"</body>", 1)
	if err := os.WriteFile(path, []byte(page), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--user-data-dir="+t.TempDir(), "--window-size=500,900", "--dump-dom", "file://"+path)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	_, title, _ := strings.Cut(string(out), "<title>")
	title, _, _ = strings.Cut(title, "</title>")
	if title = html.UnescapeString(title); title != "sound" {
		t.Error(title)
	}
	for line := range strings.Lines(stderr.String()) {
		if strings.Contains(line, "CONSOLE") {
			t.Error(line)
		}
	}
}
