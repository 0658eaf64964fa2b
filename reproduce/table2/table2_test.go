package table2

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/experiment/experimenttest"
	"github.com/attach-uncertainty/attach/reproduce/networks"
)

// TestPaperTable2 compares paperRows with the LaTeX source of the paper.
func TestPaperTable2(t *testing.T) {
	data := os.Getenv("ATTACH_DATA")
	tex, err := os.ReadFile(filepath.Join(data, "..", "paper", "single-model-uncertainty.tex"))
	if data == "" || err != nil {
		t.Skip("the paper's source is not there: set ATTACH_DATA to a folder with ../paper/single-model-uncertainty.tex")
	}
	_, table, _ := strings.Cut(string(tex), "ROC AUC means and standard deviations")
	table, _, _ = strings.Cut(table, `\end{tabular}`)
	cell := regexp.MustCompile(`([\d.]+) \\pm ([\d.]+)`)
	rows := 0
	for line := range strings.Lines(table) {
		name, figures, _ := strings.Cut(line, "&")
		found := cell.FindAllStringSubmatch(figures, -1)
		if len(found) != 4 {
			continue
		}
		rows++
		name = strings.NewReplacer(`\textbf{OCs (ours)}`, "certificates, trained", `$^\dagger$`, "", "unregularized OCs", "certificates, unregularised").Replace(strings.TrimSpace(name))
		i := slices.IndexFunc(paperRows(), func(r paperRow) bool { return r.name == name })
		if i < 0 {
			t.Errorf("there is no row %q", name)
			continue
		}
		for j, set := range paperSets() {
			mean, _ := strconv.ParseFloat(found[j][1], 64)
			std, _ := strconv.ParseFloat(found[j][2], 64)
			if got := paperRows()[i].published[j]; got != (meanStd{mean, std}) {
				t.Errorf("%s on %s: %v, want %v±%v", name, set, got, mean, std)
			}
		}
	}
	published := 0
	for _, r := range paperRows() {
		published += int(experiment.Indicator(r.published != nil))
	}
	if rows != published {
		t.Errorf("%d rows in the paper, %d here", rows, published)
	}
}

// TestPaperGrid checks that the grids contain only valid parameters and have the paper's
// numbers of configurations.
func TestPaperGrid(t *testing.T) {
	want := map[string]int{
		"covariance": 4, "distance": 4, "distillation": 4, "entropy": 3, "functional": 6, "geometrical": 6, "largest": 6, "ODIN": 9, "PCA": 6,
		"SVDD": 4, "BALD": 1, "certificates, trained": 3, "certificates, unregularised": 1, "random": 1, "oracle": 1,
	}
	for _, r := range paperRows() {
		m, ok := attach.MethodByName(r.method)
		if !ok {
			t.Fatalf("there is no method %q for the row %q", r.method, r.name)
		}
		configs := r.configs(m)
		for _, c := range configs {
			if _, err := fitting.With(m, c); err != nil {
				t.Errorf("%s: %v", r.name, err)
			}
		}
		if n, ok := want[r.name]; ok && len(configs) != n {
			t.Errorf("%s has %d configurations, want %d", r.name, len(configs), n)
		}
	}
}

// TestStandings compares ranks and gaps of methods on two pairs with values computed by
// hand.
func TestStandings(t *testing.T) {
	cellWith := func(auroc float64) cell {
		return cellOf([]record{{Metrics: compare.Metrics{AUROC: auroc}}})
	}
	n := networks.Measured{Network: networks.Network{Name: "net"}}
	pairs := []pair{
		{network: n, out: networks.OtherClasses, cells: map[string]cell{
			"certificates": cellWith(.8), "knn": cellWith(.9), "energy": cellWith(.7), "oracle": cellWith(1), "largest": {},
		}},
		{network: n, out: "far", cells: map[string]cell{
			"certificates": cellWith(.95), "knn": cellWith(.75), "energy": cellWith(.9), "oracle": cellWith(1), "largest": cellWith(.99),
		}},
	}
	methods := []ood.Method{{Name: "certificates"}, {Name: "knn"}, {Name: "energy"}, {Name: "oracle", Control: true}, {Name: "largest"}}
	summaries := summariseMethods(methods, pairs)
	got := map[string]methodSummary{}
	for _, s := range summaries {
		got[s.method] = s
	}
	approxEqual := func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }
	c := got["certificates"]
	if !approxEqual(c.mean, .875) || c.rankByMean != 1 || !approxEqual(c.rank, 2) || !approxEqual(c.worst().size, .1) || c.worst().pair != "net / other-classes" || c.worst().best != "knn" || len(c.gaps) != 2 || c.wins != 0 {
		t.Errorf("certificates stand at %+v", c)
	}
	k := got["knn"]
	if !approxEqual(k.mean, .825) || k.rankByMean != 2 || !approxEqual(k.rank, 2.5) || !approxEqual(k.worst().size, .24) || k.wins != 1 || !approxEqual(k.otherClasses.Mean, .9) || !approxEqual(k.otherSets.Mean, .75) {
		t.Errorf("knn stands at %+v", k)
	}
	if o := got["oracle"]; o.rankByMean != 0 || o.rank != 0 {
		t.Errorf("a control is ranked: %+v", o)
	}
	if l := got["largest"]; l.pairs != 1 || l.rankByMean != 0 || l.wins != 1 {
		t.Errorf("a method with one pair stands at %+v", l)
	}
	// A fused detector is not a single method, so verdict does not count it as the best
	// single one.
	fused := cellWith(.975)
	for _, p := range pairs {
		p.cells["fused"] = fused
	}
	withFused := summariseMethods(append(methods, ood.Method{Name: "fused"}), pairs)
	for name, want := range map[string]string{
		"certificates": "certificates: mean AUROC .8750, best single .8250 (knn), worst gap .1750 (net / other-classes, to fused), over 2 pairs\n" +
			"  more than .02 below the best: .1750 (net / other-classes, to fused)\n  more than .02 below the best: .0400 (net / far, to largest)",
		"fused": "fused: mean AUROC .9750, best single .8750 (certificates), worst gap .0150 (net / far, to largest), over 2 pairs",
		"vim":   "",
	} {
		if line := verdict(name, withFused); line != want {
			t.Errorf("%q, want %q", line, want)
		}
	}
	want := "certificates: mean AUROC .8750, best single .8250 (knn), worst gap .1000 (net / other-classes, to knn), over 2 pairs\n" +
		"  more than .02 below the best: .1000 (net / other-classes, to knn)\n  more than .02 below the best: .0400 (net / far, to largest)"
	if line := verdict("certificates", summaries); line != want {
		t.Errorf("%q, want %q", line, want)
	}
}

// TestNetworkError checks that a pair reports the network's error from the method with the
// most rows.
func TestNetworkError(t *testing.T) {
	n := networks.Measured{Network: networks.Network{Name: "net", Others: []string{"far"}}}
	s := &settings{Plan: networks.Plan{Networks: []networks.Measured{n}, Methods: []ood.Method{{Name: "few"}, {Name: "many"}, {Name: "fewer"}}}}
	results := &store{Records: map[key]record{}}
	for i, in := range []int{20, 2000, 10} {
		k := fitJob{network: n, method: s.Methods[i]}.keyOf("far", nil)
		results.Records[k] = record{key: k, In: in, Error: float64(in)}
	}
	if pairs := s.pairs(results); len(pairs) != 1 || pairs[0].error != 2000 {
		t.Errorf("pairs %+v, want the error of 2000 rows", pairs)
	}
}

// TestTable2 measures a network on digits twice. The second run measures nothing. A later
// run with an additional method measures only that method.
func TestTable2(t *testing.T) {
	data, models := experimenttest.Digits(t)
	out := t.TempDir()
	run := func(extraArgs ...string) (code int, stdout, stderr string) {
		return experimenttest.Run(t, Experiment, append([]string{
			"--data", data, "--models", models, "--out", out, "--rows", "80,40,40", "--network-rows", "10", "--methods", "certificates,entropy,odin,oracle,random",
		}, extraArgs...)...)
	}
	code, first, stderr := run()
	if code != 0 {
		t.Fatalf("exit status %d: %s", code, stderr)
	}
	for _, want := range []string{
		"mnist_cnn, trained on mnist; in-distribution accuracy", "svhn_preact18: not run", "odin*", "random†",
		"certificates: rank ", "certificates: mean AUROC .", "best single .",
	} {
		if !strings.Contains(first, want) {
			t.Errorf("the output lacks %q:\n%s", want, first)
		}
	}
	records := readRecords(t, out)
	if len(records) != 5 {
		t.Fatalf("%d records, want one per method", len(records))
	}
	for _, r := range records {
		in, n, fit := 40, 40, 80
		switch r.Method {
		case "odin":
			in, n = 10, 10
		}
		if r.In != in || r.N != n || r.Fit != fit || r.Failed != "" || r.AUROC < 0 || r.AUROC > 1 {
			t.Errorf("record %+v, want %d rows in and %d out", r, in, n)
		}
	}
	experimenttest.Written(t, out, 1, "table2.csv", "table2-summary.csv", "table2.txt", "table2.png", "table2.svg")
	if code, again, stderr := run(); code != 0 || stderr != "" || again != first {
		t.Fatalf("a second run exits with %d, says %q and prints\n%s\nwant\n%s", code, stderr, again, first)
	}
	if code, again, _ := run("--report"); code != 0 || again != first {
		t.Errorf("--report: exit status %d, prints\n%s\nwant\n%s", code, again, first)
	}
	for _, other := range [][]string{{"--report", "--rows", "70"}, {"--report", "--out", t.TempDir()}} {
		if code, stdout, stderr := run(other...); code != 1 || stdout != "" || !strings.Contains(stderr, "has no results") {
			t.Errorf("%v, which has no results: exit status %d, %q", other, code, stderr)
		}
	}
	if written, err := os.ReadFile(filepath.Join(out, "table2.txt")); err != nil || string(written) != first {
		t.Errorf("a report of no results leaves a table of\n%s\n%v", written, err)
	}
	before := features(t, out)
	code, _, stderr = run("--methods", "certificates,entropy,odin,oracle,random,energy")
	if code != 0 || !strings.Contains(stderr, "energy") || strings.Contains(stderr, "entropy") {
		t.Errorf("a further method: exit status %d, %q", code, stderr)
	}
	if again := readRecords(t, out); len(again) != 6 {
		t.Errorf("%d records after a further method, want 6", len(again))
	}
	if after := features(t, out); len(before) != 3 || !maps.Equal(before, after) {
		t.Errorf("features written at %v, and after a further method at %v", before, after)
	}
}

// features returns the modification time of each file of features.
func features(t *testing.T, out string) map[string]time.Time {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(out, "features", "*", "*.npz"))
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]time.Time{}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		written[f] = info.ModTime()
	}
	return written
}

func readRecords(t *testing.T, out string) []record {
	t.Helper()
	results, err := experiment.OpenStore[key, record](filepath.Join(out, "table2.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer results.Close()
	return slices.Collect(maps.Values(results.Records))
}

// TestTable2Notes checks that methods with the same reason share one note for each network.
func TestTable2Notes(t *testing.T) {
	p := &settings{Plan: networks.Plan{Methods: []ood.Method{{Name: "knn"}, {Name: "odin"}, {Name: "vim"}, {Name: "bald"}}}}
	newPair := func(network, out string) pair {
		q := pair{out: out, cells: map[string]cell{
			"knn":  {failed: "too few rows", failures: 4},
			"odin": {failed: `method "odin" needs logits`, failures: 1},
			"vim":  {failed: `method "vim" needs logits`, failures: 1},
			"bald": {variant: "inserted dropout"},
		}}
		q.network.Name = network
		return q
	}
	var text strings.Builder
	p.printNotes(&text, []pair{newPair("a", "x"), newPair("a", "y"), newPair("b", "x")})
	want := ""
	for _, n := range []string{"a", "b"} {
		want += n + ", failed (too few rows): knn (4 configurations)\n" + n + ", failed (needs logits): odin, vim\n" + n + ", stood in (inserted dropout): bald\n"
	}
	if text.String() != want {
		t.Errorf("notes:\n%swant:\n%s", &text, want)
	}
}

func TestUsage(t *testing.T) {
	t.Setenv("ATTACH_DATA", t.TempDir())
	experimenttest.Refused(t, Experiment, map[string][]string{
		"--grid is default, full or":   {"--grid", "small"},
		"--rows wants N or FIT,IN,OUT": {"--rows", "1,2"},
		`no method "magic"`:            {"--methods", "magic"},
		`no network "alexnet"`:         {"--sets", "alexnet"},
		"only methods that --network-": {"--methods", "odin", "--network-methods=false", "--sets", "mnist_cnn"},
		"--network-rows":               {"--network-rows", "-1"},
		"names knn twice":              {"--methods", "knn,lof,knn"},
		"names mnist_cnn twice":        {"--sets", "mnist_cnn,mnist_cnn"},
	})
}

// TestPaperTable measures the rows of two methods of the paper's table over their grids. A
// method that is not in the paper must be left out.
func TestPaperTable(t *testing.T) {
	data, models := experimenttest.Digits(t)
	out := t.TempDir()
	code, stdout, stderr := experimenttest.Run(t, Experiment, "--data", data, "--models", models, "--out", out, "--rows", "80,40,40", "--grid", "paper", "--methods", "entropy,knn,certificates-trained")
	if code != 0 {
		t.Fatalf("exit status %d: %s", code, stderr)
	}
	if !strings.Contains(stdout, "| entropy (") || !strings.Contains(stdout, "| certificates, squared errors (") || strings.Contains(stdout, "knn") {
		t.Errorf("prints\n%s", stdout)
	}
	if n := len(readRecords(t, out)); n != 3+3+3+3+3+3 {
		t.Errorf("%d records, want three temperatures and five losses or numbers of epochs by three penalties", n)
	}
	experimenttest.Written(t, out, 1, "table2-paper.csv", "table2-paper.txt")
}
