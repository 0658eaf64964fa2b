package main

import (
	"bytes"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/internal/inputs"
	"github.com/attach-uncertainty/attach/internal/npy"
	"github.com/attach-uncertainty/attach/internal/ort/orttest"
	"github.com/attach-uncertainty/attach/ood"
)

// TestPaperTable2 compares the figures with the paper's source, row by row.
func TestPaperTable2(t *testing.T) {
	data := os.Getenv("ATTACH_DATA")
	tex, err := os.ReadFile(filepath.Join(data, "..", "paper", "single-model-uncertainty.tex"))
	if data == "" || err != nil {
		t.Skip("the paper's source is not there: set ATTACH_DATA to a folder with ../paper/single-model-uncertainty.tex")
	}
	_, table, _ := strings.Cut(string(tex), "ROC AUC means and standard deviations")
	table, _, _ = strings.Cut(table, `\end{tabular}`)
	cell := regexp.MustCompile(`([\d.]+) \\pm ([\d.]+)`)
	names := map[string]string{`\textbf{OCs (ours)}`: "certificates-trained", "unregularized OCs": "certificates-unregularised", `BALD$^\dagger$`: "bald"}
	rows := 0
	for line := range strings.Lines(table) {
		name, figures, _ := strings.Cut(line, "&")
		found := cell.FindAllStringSubmatch(figures, -1)
		if len(found) != 4 {
			continue
		}
		rows++
		name = strings.TrimSpace(name)
		method := strings.ToLower(name)
		if known, ok := names[name]; ok {
			method = known
		}
		if _, ok := baselines.ByName(method); !ok {
			t.Errorf("there is no method %q for the row %q", method, name)
		}
		for i, set := range []string{"cifar10", "fashion", "mnist", "svhn"} {
			mean, _ := strconv.ParseFloat(found[i][1], 64)
			std, _ := strconv.ParseFloat(found[i][2], 64)
			if got, ok := paperTable2()[method][set]; !ok || got != (meanStd{mean, std}) {
				t.Errorf("%s on %s: %v, want %v±%v", method, set, got, mean, std)
			}
		}
	}
	if want := len(paperTable2()) - 1; rows != want { // certificates have the row of trained ones
		t.Errorf("%d rows in the paper, %d here", rows, want)
	}
}

// writeImages writes a file of images of one set.
func writeImages(t *testing.T, path string, shape []int, pixels []uint8, labels []uint8) {
	t.Helper()
	arrays := map[string]heads.Array{"images": {Shape: shape, Data: pixels}, "labels": {Shape: []int{len(labels)}, Data: labels}}
	if err := writeFile(path, func(w io.Writer) error { return npy.WriteNPZ(w, arrays, false) }); err != nil {
		t.Fatal(err)
	}
}

// TestForeignImages holds what images of another size and other colors become.
func TestForeignImages(t *testing.T) {
	dir := t.TempDir()
	colors := filepath.Join(dir, "colors.npz")
	writeImages(t, colors, []int{1, 2, 2, 3}, []uint8{255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255}, []uint8{0})
	grey := filepath.Join(dir, "grey.npz")
	writeImages(t, grey, []int{1, 2, 2}, []uint8{51, 102, 153, 255}, []uint8{0})
	for name, text := range map[string]string{
		"gray": `{"do_rescale": true, "rescale_factor": 0.00392156862745098, "do_normalize": true, "image_mean": [0.5], "image_std": [0.5]}`,
		"rgb":  `{"do_rescale": true, "rescale_factor": 0.00392156862745098, "do_normalize": false, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".preprocess.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		what   string
		n      trainedNetwork
		file   string
		layout inputs.Layout
		shape  []int
		want   []float32 // times 255
	}{
		// ITU-R 601: red 76, green 150, blue 29. Padding is black, −1 here.
		{"grey", trainedNetwork{preprocess: "gray"}, colors, inputs.NCHW, []int{1, 2, 2}, []float32{2*76 - 255, 2*150 - 255, 2*29 - 255, 255}},
		{"grey, padded", trainedNetwork{preprocess: "gray"}, colors, inputs.NCHW, []int{1, 4, 4}, []float32{
			-255, -255, -255, -255, -255, 2*76 - 255, 2*150 - 255, -255, -255, 2*29 - 255, 255, -255, -255, -255, -255, -255,
		}},
		{"repeated", trainedNetwork{}, grey, inputs.NCHW, []int{3, 2, 2}, []float32{51, 102, 153, 255, 51, 102, 153, 255, 51, 102, 153, 255}},
		{"repeated, channels last", trainedNetwork{}, grey, inputs.NHWC, []int{2, 2, 3}, []float32{51, 51, 51, 102, 102, 102, 153, 153, 153, 255, 255, 255}},
	} {
		o, err := c.n.reading(dir, c.layout, c.shape)
		if err != nil {
			t.Fatal(err)
		}
		set, err := part{file: c.file}.open(t.Context(), o, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		x, err := set.All(t.Context())
		if err != nil || !slices.Equal(set.Shape(), c.shape) || len(x.Data) != len(c.want) {
			t.Fatalf("%s: shape %v and %d numbers (%v), want shape %v", c.what, set.Shape(), len(x.Data), err, c.shape)
		}
		for i, v := range x.Data {
			if d := 255*v - c.want[i]; d > 1e-3 || d < -1e-3 {
				t.Errorf("%s: number %d is %v, want %v", c.what, i, 255*v, c.want[i])
			}
		}
	}
	o, err := trainedNetwork{}.reading(dir, inputs.NCHW, []int{3, 1, 1})
	if err == nil {
		_, err = part{file: grey}.open(t.Context(), o, 0, 0)
	}
	if err == nil || !strings.Contains(err.Error(), "grey.npz") {
		t.Errorf("error %v for images larger than the network's, want one that names the file", err)
	}
}

// TestDrawnRows holds that rows are of the classes asked for, numbered in their
// order, no more than asked for, and settled by the seed.
func TestDrawnRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "set.npz")
	pixels, labels := make([]uint8, 100), make([]uint8, 100)
	for i := range pixels {
		pixels[i], labels[i] = uint8(i), uint8(i%10)
	}
	writeImages(t, path, []int{100, 1, 1}, pixels, labels)
	o := inputs.Options{Preprocess: &inputs.Preprocess{}}
	draw := func(limit int, seed uint64) *inputs.Set {
		set, err := part{file: path, classes: fiveIn()}.open(t.Context(), o, limit, seed)
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	for _, c := range []struct{ limit, want int }{{0, 50}, {50, 50}, {99, 50}, {12, 12}} {
		if got := draw(c.limit, 0).Len(); got != c.want {
			t.Errorf("%d rows within %d, want %d", got, c.limit, c.want)
		}
	}
	set := draw(12, 0)
	x, err := set.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, y := range set.Labels() {
		if want := int(x.Data[i]) % 10; fiveIn()[y] != want {
			t.Errorf("row %d is of class %d, and its label is %d", i, want, y)
		}
	}
	again, _ := draw(12, 0).All(t.Context())
	other, _ := draw(12, 1).All(t.Context())
	if !slices.Equal(x.Data, again.Data) || slices.Equal(x.Data, other.Data) {
		t.Errorf("rows %v, again %v, by another seed %v", x.Data, again.Data, other.Data)
	}
	few, err := some(t.Context(), ood.Batch{Labels: set.Labels()}, set, 5)
	if err != nil || few.Len() != 5 || few.Inputs.Len() != 5 {
		t.Fatalf("%d labels (%v), want 5", few.Len(), err)
	}
	for b, err := range few.Inputs.Blocks(t.Context(), 9) {
		for i, y := range few.Labels {
			if err != nil || fiveIn()[y] != int(b.Data[i])%10 {
				t.Errorf("input %d is %v (%v), and its label is %d", i, b.Data[i], err, y)
			}
		}
	}
	for text, want := range map[string][3]int{"7": {7, 7, 7}, "1,0,3": {1, 0, 3}} {
		if got, err := rowLimits(text); err != nil || got != want {
			t.Errorf("--rows %s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "1,2", "1,2,x", "1,-2,3"} {
		if _, err := rowLimits(text); err == nil {
			t.Errorf("--rows %q is accepted", text)
		}
	}
}

// TestStandings reckons ranks and gaps of methods on two pairs by hand.
func TestStandings(t *testing.T) {
	one := func(auroc float64) detectionCell {
		return cellOf([]detectionRecord{{Metrics: ood.Metrics{AUROC: auroc}}})
	}
	n := measuredNetwork{trainedNetwork: trainedNetwork{name: "net"}}
	pairs := []pair{
		{network: n, out: otherClasses, cells: map[string]detectionCell{
			"certificates": one(.8), "knn": one(.9), "energy": one(.7), "oracle": one(1), "largest": {},
		}},
		{network: n, out: "far", cells: map[string]detectionCell{
			"certificates": one(.95), "knn": one(.75), "energy": one(.9), "oracle": one(1), "largest": one(.99),
		}},
	}
	methods := []ood.Method{{Name: "certificates"}, {Name: "knn"}, {Name: "energy"}, {Name: "oracle", Control: true}, {Name: "largest"}}
	all := standings(methods, pairs)
	got := map[string]standing{}
	for _, s := range all {
		got[s.method] = s
	}
	near := func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }
	c := got["certificates"]
	if !near(c.mean, .875) || c.byMean != 1 || !near(c.rank, 2) || !near(c.worst().auroc, .1) || c.worst().on != "net / other-classes" || c.worst().to != "knn" || len(c.gaps) != 2 || c.first != 0 {
		t.Errorf("certificates stand at %+v", c)
	}
	k := got["knn"]
	if !near(k.mean, .825) || k.byMean != 2 || !near(k.rank, 2.5) || !near(k.worst().auroc, .24) || k.first != 1 || !near(k.classes.Mean, .9) || !near(k.sets.Mean, .75) {
		t.Errorf("knn stands at %+v", k)
	}
	if o := got["oracle"]; o.byMean != 0 || o.rank != 0 {
		t.Errorf("a control is ranked: %+v", o)
	}
	if l := got["largest"]; l.pairs != 1 || l.byMean != 0 || l.first != 1 {
		t.Errorf("a method with one pair stands at %+v", l)
	}
	// What fuses several is no single method, and so not what others are held to.
	fused := one(.975)
	for _, p := range pairs {
		p.cells["fused"] = fused
	}
	with := standings(append(methods, ood.Method{Name: "fused"}), pairs)
	for name, want := range map[string]string{
		"certificates": "certificates: mean AUROC .8750, best single .8250 (knn), worst gap .1750 (net / other-classes, to fused), over 2 pairs\n" +
			"  more than .02 below the best: .1750 (net / other-classes, to fused)\n  more than .02 below the best: .0400 (net / far, to largest)",
		"fused": "fused: mean AUROC .9750, best single .8750 (certificates), worst gap .0150 (net / far, to largest), over 2 pairs",
		"vim":   "",
	} {
		if line := verdict(name, with); line != want {
			t.Errorf("%q, want %q", line, want)
		}
	}
	want := "certificates: mean AUROC .8750, best single .8250 (knn), worst gap .1000 (net / other-classes, to knn), over 2 pairs\n" +
		"  more than .02 below the best: .1000 (net / other-classes, to knn)\n  more than .02 below the best: .0400 (net / far, to largest)"
	if line := verdict("certificates", all); line != want {
		t.Errorf("%q, want %q", line, want)
	}
}

// TestNetworkError holds that a network's error is that on most rows.
func TestNetworkError(t *testing.T) {
	p := detectionPlan{
		networks: []measuredNetwork{{trainedNetwork: trainedNetwork{name: "net", others: []string{"far"}}}},
		methods:  []ood.Method{{Name: "few"}, {Name: "many"}, {Name: "fewer"}},
	}
	results := &store[detectionKey, detectionRecord]{records: map[detectionKey]detectionRecord{}}
	for i, in := range []int{20, 2000, 10} {
		k := detectionJob{network: p.networks[0], method: p.methods[i]}.keyOf("far", nil)
		results.records[k] = detectionRecord{detectionKey: k, In: in, Error: float64(in)}
	}
	if pairs := p.pairs(results); len(pairs) != 1 || pairs[0].error != 2000 {
		t.Errorf("pairs %+v, want the error of 2000 rows", pairs)
	}
}

// TestTable2 measures a network on images drawn here, twice: the second run
// measures nothing, and one with a further method that alone.
func TestTable2(t *testing.T) {
	orttest.Open(t)
	data, models, out := t.TempDir(), t.TempDir(), t.TempDir()
	writeDigits(t, data, models)
	var stdout, stderr bytes.Buffer
	args := []string{
		"table2", "--data", data, "--models", models, "--out", out, "--rows", "80,40,40", "--network-rows", "10", "--methods", "certificates,entropy,odin,oracle,random",
	}
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit status %d: %s", code, stderr.String())
	}
	first := stdout.String()
	for _, want := range []string{
		"mnist_cnn, trained on mnist; accuracy in-domain", "svhn_preact18: not run", "odin*", "random†", "paper's figure",
		"certificates: rank ", "certificates: mean AUROC .", "best single .",
	} {
		if !strings.Contains(first, want) {
			t.Errorf("the output lacks %q:\n%s", want, first)
		}
	}
	records := readDetections(t, out)
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
	for _, name := range []string{"table2.csv", "table2-summary.csv", "table2.txt", "table2.png", "table2.svg"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	stdout.Reset()
	stderr.Reset()
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 || stderr.Len() > 0 || stdout.String() != first {
		t.Fatalf("a second run exits with %d, says %q and prints\n%s\nwant\n%s", code, stderr.String(), stdout.String(), first)
	}
	report := append(slices.Clone(args), "--report")
	stdout.Reset()
	if code := run(t.Context(), report, &stdout, io.Discard); code != 0 || stdout.String() != first {
		t.Errorf("--report: exit status %d, prints\n%s\nwant\n%s", code, stdout.String(), first)
	}
	for _, other := range [][]string{{"--rows", "70"}, {"--out", t.TempDir()}} {
		stdout.Reset()
		stderr.Reset()
		if code := run(t.Context(), append(slices.Clone(report), other...), &stdout, &stderr); code != 1 || stdout.Len() > 0 || !strings.Contains(stderr.String(), "has no results") {
			t.Errorf("--report %v, which has no results: exit status %d, %q", other, code, stderr.String())
		}
	}
	if kept, err := os.ReadFile(filepath.Join(out, "table2.txt")); err != nil || string(kept) != first {
		t.Errorf("a report of no results leaves a table of\n%s\n%v", kept, err)
	}
	before := features(t, out)
	args[len(args)-1] += ",energy"
	stderr.Reset()
	if code := run(t.Context(), args, io.Discard, &stderr); code != 0 || !strings.Contains(stderr.String(), "energy") || strings.Contains(stderr.String(), "entropy") {
		t.Errorf("a further method: exit status %d, %q", code, stderr.String())
	}
	if again := readDetections(t, out); len(again) != 6 {
		t.Errorf("%d records after a further method, want 6", len(again))
	}
	if after := features(t, out); len(before) != 3 || !maps.Equal(before, after) {
		t.Errorf("features written at %v, and after a further method at %v", before, after)
	}
}

// writeDigits writes a network under the name of one of the table's, and images for
// it: digits, and letters out-of-domain.
func writeDigits(t *testing.T, data, models string) {
	t.Helper()
	for from, to := range map[string]string{
		"digits_resnet.onnx": "mnist_cnn.onnx", "digits.preprocess.json": "mnist_cnn.preprocess.json",
	} {
		content, err := os.ReadFile(filepath.Join("..", "..", "testmodels", from))
		if err == nil {
			err = os.WriteFile(filepath.Join(models, to), content, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{
		"digits_fit.npz": "mnist_train.npz", "digits_test.npz": "mnist_test.npz", "letters.npz": "fashion_test.npz",
	} {
		content, err := os.ReadFile(filepath.Join("..", "..", "testmodels", from))
		if err == nil {
			err = os.WriteFile(filepath.Join(data, to), content, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// features are when each file of features was written.
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

func readDetections(t *testing.T, out string) []detectionRecord {
	t.Helper()
	results, err := openStore[detectionKey, detectionRecord](filepath.Join(out, "table2.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer results.close()
	return slices.Collect(maps.Values(results.records))
}

// A reason that several methods share is told once for each network.
func TestTable2Notes(t *testing.T) {
	p := detectionPlan{methods: []ood.Method{{Name: "knn"}, {Name: "odin"}, {Name: "vim"}, {Name: "bald"}}}
	one := func(network, out string) pair {
		q := pair{out: out, cells: map[string]detectionCell{
			"knn":  {failed: "too few rows", failures: 4},
			"odin": {failed: `method "odin" needs logits`, failures: 1},
			"vim":  {failed: `method "vim" needs logits`, failures: 1},
			"bald": {variant: "inserted dropout"},
		}}
		q.network.name = network
		return q
	}
	var text strings.Builder
	p.printNotes(&text, []pair{one("a", "x"), one("a", "y"), one("b", "x")})
	want := ""
	for _, n := range []string{"a", "b"} {
		want += n + ", failed (too few rows): knn (4 configurations)\n" + n + ", failed (needs logits): odin, vim\n" + n + ", stood in (inserted dropout): bald\n"
	}
	if text.String() != want {
		t.Errorf("notes:\n%swant:\n%s", &text, want)
	}
}

func TestTable2Usage(t *testing.T) {
	for want, args := range map[string][]string{
		"--grid is default or full":    {"--grid", "small"},
		"--rows is N or FIT,IN,OUT":    {"--rows", "1,2"},
		`no method "magic"`:            {"--methods", "magic"},
		`no network "alexnet"`:         {"--sets", "alexnet"},
		"only methods that run the ne": {"--methods", "odin", "--network-methods=false"},
		"--network-rows":               {"--network-rows", "-1"},
		"names knn twice":              {"--methods", "knn,lof,knn"},
		"names mnist_cnn twice":        {"--sets", "mnist_cnn,mnist_cnn"},
	} {
		p := append([]string{"table2", "--data", t.TempDir()}, args...)
		var stderr bytes.Buffer
		if code := run(t.Context(), p, io.Discard, &stderr); code != 2 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: exit status %d, %q", args, code, stderr.String())
		}
	}
}
