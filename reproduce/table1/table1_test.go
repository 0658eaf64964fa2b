package table1

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/reproduce/experiment/experimenttest"
	"github.com/attach-uncertainty/attach/reproduce/intervals"
	"github.com/attach-uncertainty/attach/reproduce/uci"
)

// newRecord returns a record with the given validation and test intervals.
func newRecord(seed int, config string, val, valWidth, test, testWidth float64) record {
	return record{
		Case:       intervals.Case{Set: "s", Seed: seed, Method: "m", Config: config, Coverage: .95},
		Validation: intervals.Measured{PICP: val, MPIW: valWidth}, Test: intervals.Measured{PICP: test, MPIW: testWidth},
		Choosing: intervals.Measured{PICP: 1, MPIW: valWidth / 2}, Honest: intervals.Measured{PICP: test, MPIW: 2 * testWidth}, NCal: 39,
	}
}

func TestRules(t *testing.T) {
	records := []record{
		newRecord(0, "a", .95, .4, .94, .41),
		newRecord(0, "b", .975, .3, .96, .29), // coverage exactly at the end of the range is in range
		newRecord(0, "c", .98, .1, .99, .11),  // coverage too high
		newRecord(1, "a", .925, .5, .90, .6),
		newRecord(1, "b", .92, .2, .91, .2), // coverage too low
		newRecord(2, "a", .5, .2, .4, .2),
	}
	for name, tt := range map[string]struct {
		got                               cell
		models, seeds                     int
		picp, picpStd, mpiw, mpiwStd, exp float64
	}{
		"text": {everyModel(records), 3, 2, 2.8 / 3, math.Sqrt((.94*.94+.96*.96+.9*.9)/3 - 2.8*2.8/9), 1.3 / 3,
			math.Sqrt((.41*.41+.29*.29+.36)/3 - 1.3*1.3/9), 0},
		"scripts":       {narrowest(records), 2, 2, .93, .03, .445, .155, 0},
		"conformalized": {conformalized(records, 10), 3, 3, (.99 + .91 + .4) / 3, -1, 2 * (.11 + .2 + .2) / 3, -1, .95},
		"none":          {narrowest(records[5:]), 0, 0, 0, 0, 0, 0, 0},
	} {
		c := tt.got
		if c.models != tt.models || c.seeds != tt.seeds || c.none() != (tt.models == 0) {
			t.Errorf("%s: %d models of %d seeds, want %d of %d", name, c.models, c.seeds, tt.models, tt.seeds)
		}
		for _, v := range []struct {
			label     string
			got, want float64
		}{{"coverage", c.picp, tt.picp}, {"its deviation", c.picpStd, tt.picpStd}, {"width", c.mpiw, tt.mpiw}, {"its deviation", c.mpiwStd, tt.mpiwStd}, {"guarantee", c.expected, tt.exp}} {
			if v.want >= 0 && math.Abs(v.got-v.want) > 1e-9 {
				t.Errorf("%s: %s %v, want %v", name, v.label, v.got, v.want)
			}
		}
	}
}

func TestUnbounded(t *testing.T) {
	r := newRecord(0, "a", .95, .4, 1, 0)
	r.Honest = intervals.Measured{PICP: 1, Unbounded: true}
	c := conformalized([]record{r}, 10)
	if !math.IsInf(c.mpiw, 1) || !strings.Contains(c.String(), "∞") {
		t.Errorf("intervals that too few rows calibrate: %v", c)
	}
}

func TestPaperTable(t *testing.T) {
	none := 0
	for _, set := range uci.Sets() {
		cells := paperTable1()[set.Name]
		if len(cells) != 6 {
			t.Errorf("%s has %d methods, want 6", set.Name, len(cells))
		}
		for name, c := range cells {
			if _, ok := attach.MethodByName(name); !ok {
				t.Errorf("no method has the name %q of the paper's table", name)
			}
			if c == (published{}) {
				none++
			}
		}
	}
	if none != 14 {
		t.Errorf("%d cells without a model, the paper has 14", none)
	}
	if c, ok := paperCell("boston", "sqr-two-level"); !ok || c.mpiw != .36 {
		t.Errorf("SQR on boston: %v", c)
	}
}

func TestMarkdownTable(t *testing.T) {
	raw := tableRow{set: "concrete", method: "sqr", coverage: .95, published: true, paper: published{.94, .03, .31, .06}}
	raw.selected = cell{models: 2, seeds: 2, picp: .9412, mpiw: .2871}
	cqr := raw
	cqr.cqr, cqr.published, cqr.selected = true, false, cell{models: 3, seeds: 3, picp: .952, mpiw: math.Inf(1)}
	empty := tableRow{set: "yacht", method: "sqr", coverage: .95, published: true}
	got := markdownTable([]tableRow{raw, cqr, empty}, 3)
	for _, want := range []string{
		"| method | concrete | yacht |\n|---|---|---|\n", "| sqr, the paper's | .94±.03 (.31±.06) | none |\n",
		"| sqr | .941 (.287) of 2 | none |\n", "| sqr + CQR | .952 (∞) | none |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestMethodsOverAllSets(t *testing.T) {
	row := func(set string, cqr bool, seeds int, picp, mpiw float64) tableRow {
		return tableRow{set: set, method: "sqr", coverage: .95, cqr: cqr, selected: cell{models: seeds, seeds: seeds, picp: picp, mpiw: mpiw}}
	}
	var b strings.Builder
	printMethods(&b, []tableRow{
		row("concrete", false, 2, .95, .62), row("power", false, 2, .9, .09), // twice and half the paper's width, but the narrow row covers too little
		row("concrete", true, 2, .95, .314), row("power", true, 1, .95, .18), // equal to the paper's width after rounding, but one seed of the second row has no model
		row("wine", true, 2, .96, math.Inf(1)), // infinite width because of too few calibration rows
	}, 2)
	for _, want := range []string{
		fmt.Sprintf("%-28s %6d %6d %9d %9s\n", "sqr", 2, 1, 0, "1.00"),
		fmt.Sprintf("%-28s %6d %6d %9d %9s\n", "sqr + CQR", 2, 1, 1, "+Inf"),
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// TestTable1 runs the table on a toy set twice. The second run finds all results saved.
func TestTable1(t *testing.T) {
	data, out := experimenttest.Yacht(t), t.TempDir()
	run := func(seeds string, extraArgs ...string) (code int, stdout, stderr string) {
		return experimenttest.Run(t, Experiment, append([]string{
			"--data", data, "--sets", "yacht", "--methods", "sqr,sqr-two-level,quantile-forest", "--seeds", seeds,
			"--epochs", "30", "--grid", "small", "--out", out, "--coverage", ".95,.8", "--parallel", "2",
		}, extraArgs...)...)
	}
	code, first, stderr := run("1")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, want := range []string{"95 % intervals", "80 % intervals", "sqr-two-level + CQR", ".93±.06 (.06±.04)", "over all sets"} {
		if !strings.Contains(first, want) {
			t.Errorf("the table lacks %q:\n%s", want, first)
		}
	}
	if !strings.Contains(stderr, "1 of 4") || !strings.Contains(stderr, "left") {
		t.Errorf("progress: %s", stderr)
	}
	experimenttest.Written(t, out, 500, "table1.csv", "table1-95.png", "table1-95.svg", "table1-8.png", "table1.jsonl")
	experimenttest.Written(t, out, 200, "table1-95.md")
	if code, again, stderr := run("1"); code != 0 || stderr != "" || again != first {
		t.Errorf("a second run: exit %d, progress %q, the same table: %v", code, stderr, again == first)
	}
	if code, report, stderr := run("2", "--report"); code != 0 || stderr != "" || !strings.Contains(report, "settings so far") {
		t.Errorf("a report of one seed of two: exit %d, progress %q", code, stderr)
	}
	if code, _, stderr := run("1", "--report", "--epochs", "7", "--methods", "sqr"); code != 1 || !strings.Contains(stderr, "has no results") {
		t.Errorf("a report of nothing: exit %d, %q", code, stderr)
	}
	if code, _, stderr := run("2"); code != 0 || !strings.Contains(stderr, "4 of 4") {
		t.Errorf("one seed more: exit %d, progress %q", code, stderr)
	}
}

func TestUsage(t *testing.T) {
	t.Setenv("ATTACH_DATA", "x")
	experimenttest.Refused(t, Experiment, map[string][]string{
		"there is no set":    {"--sets", "boston,mars"},
		"there is no method": {"--methods", "guess"},
		"full or small":      {"--grid", "tiny"},
		"best or last":       {"--keep", "first"},
		"separated by":       {"--coverage", ".95;.9"},
		"between 0 and 1":    {"--coverage", "95"},
		"names 0.9 twice":    {"--coverage", ".9,.99,0.9"},
		"names sqr twice":    {"--methods", "sqr,sqr"},
		"names power twice":  {"--sets", "power,power-plant"},
		"dropout rate":       {"--dropout", "1"},
		"averaging":          {"--averaging", "2"},
		"parallel":           {"--parallel", "0"},
	})
}
