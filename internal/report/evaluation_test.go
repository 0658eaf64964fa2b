package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/evaluate"
)

// newRate returns the rate count/rows with an interval around it.
func newRate(name string, nominal float64, count, rows int) evaluate.Rate {
	fraction := float64(count) / float64(rows)
	half := 2 * math.Sqrt(fraction*(1-fraction)/float64(rows))
	width := 1 + fraction
	return evaluate.Rate{Name: name, Nominal: nominal, Count: count, Rows: rows, Fraction: fraction, Low: max(0, fraction-half), High: min(1, fraction+half), MeanWidth: &width}
}

func randomRates(rng *rand.Rand, name func(i int) string, n int, probability float64) []evaluate.Rate {
	list := make([]evaluate.Rate, n)
	for i := range list {
		rows := 20 + rng.IntN(200)
		count := 0
		for range rows {
			if rng.Float64() < probability {
				count++
			}
		}
		list[i] = newRate(name(i), 0, count, rows)
	}
	return list
}

func pointerTo(x float64) *float64 { return &x }

func newHistogram(counts ...int) evaluate.Histogram {
	h := evaluate.Histogram{Counts: counts, Expected: make([]float64, len(counts)), KSPValue: pointerTo(.25)}
	for _, n := range counts {
		for i := range h.Expected {
			h.Expected[i] += float64(n) / float64(len(counts))
		}
	}
	return h
}

func newCoverage(rng *rand.Rand, level float64, classes, groups int) evaluate.Coverage {
	className, groupName := partNames(classes, groups)
	c := evaluate.Coverage{Rate: newRate("", level, int(1000*level)+3, 1000), MedianWidth: pointerTo(1.5)}
	if classes > 0 {
		c.SizeCounts = []int{3, 900, 80, 17}
		c.ByClass = randomRates(rng, className, classes, level)
	}
	c.ByGroup = randomRates(rng, groupName, groups, level)
	return c
}

func partNames(classes, groups int) (class, group func(i int) string) {
	return func(i int) string { return fmt.Sprintf("class%d", i) }, func(i int) string { return fmt.Sprintf("group%d", i) }
}

// sampleClassifier returns the evaluation of a classifier with the given numbers of classes
// and groups.
func sampleClassifier(classes, groups int) *evaluate.Evaluation {
	rng := rand.New(rand.NewPCG(1, 1))
	className, groupName := partNames(classes, groups)
	falseAlarms, accuracy := newRate("", .05, 52, 1000), newRate("", 0, 910, 1000)
	e := &evaluate.Evaluation{
		Task: attach.Classification, Rows: 1000, CalibrationRows: 500, Alpha: .05, Level: .9,
		Guarantees: []evaluate.Guarantee{
			{Kind: "false_alarm_rate", Rate: falseAlarms, Verdict: "met", Message: "5.2 % of 1000 rows are flagged"},
			{Kind: "set_coverage", Rate: newRate("", .9, 700, 1000), Verdict: "violated", Message: "70 % are held", Advice: "calibrate again"},
			{Kind: "selective_error", Rate: newRate("", .01, 1, 20), Verdict: "too_few_rows", Message: "5 % are wrong", Advice: "take more rows"},
		},
		Notes: []evaluate.Note{{Message: "Something looks wrong", Advice: "look"}},
		Flags: &evaluate.Flags{ByAlpha: []evaluate.Rate{newRate("", .01, 12, 1000), falseAlarms}, PValues: newHistogram(70, 50, 30, 50),
			ByClass: randomRates(rng, className, classes, .05), ByGroup: randomRates(rng, groupName, groups, .05)},
		Classifier: &evaluate.Classifier{
			Accuracy: &accuracy, AccuracyFlagged: &accuracy, AccuracyUnflagged: &accuracy, Temperature: 1.7, AURC: .0123, AURCOODScore: pointerTo(.0456),
			ByClass: randomRates(rng, className, classes, .9), ByGroup: randomRates(rng, groupName, groups, .9),
			Uncalibrated: evaluate.Reliability{ECE: .08, NLL: pointerTo(.5), Bins: []evaluate.Rate{newRate("", .5, 20, 50), newRate("", .9, 800, 950)}},
			Calibrated:   &evaluate.Reliability{ECE: .02, NLL: pointerTo(.4), Bins: []evaluate.Rate{newRate("", .45, 22, 50), newRate("", .85, 800, 950)}},
			Sets:         []evaluate.Coverage{newCoverage(rng, .8, classes, groups), newCoverage(rng, .9, classes, groups)},
		},
		OOD: &evaluate.OOD{Rows: 30, ByAlpha: []evaluate.Rate{newRate("", .01, 20, 30), newRate("", .05, 25, 30)}, PValues: newHistogram(25, 3, 2, 0), AUROC: .9876, FPR95: .1234},
	}
	e.Classifier.RiskCoverage = []evaluate.RiskPoint{{Coverage: .001, Risk: 1, Confidence: 1}, {Coverage: .5, Risk: .01, Confidence: .9}, {Coverage: 1, Risk: .09, Confidence: .2}}
	accepted, selectiveError := newRate("", 0, 800, 1000), newRate("", 0, 8, 800)
	e.Classifier.Accepted, e.Classifier.SelectiveError = &accepted, &selectiveError
	return e
}

// sampleRegressor returns the evaluation of a regressor with the given numbers of targets and
// groups.
func sampleRegressor(targets, groups int) *evaluate.Evaluation {
	rng := rand.New(rand.NewPCG(1, 1))
	e := sampleClassifier(0, groups)
	e.Task, e.Classifier = attach.Regression, nil
	for range targets {
		t := evaluate.Target{RMSE: pointerTo(.5), MAE: pointerTo(.4), R2: pointerTo(.8), CRPS: pointerTo(.3), Coverage: []evaluate.Coverage{newCoverage(rng, .8, 0, groups), newCoverage(rng, .9, 0, groups)}}
		t.Coverage[1].ByDecile = randomRates(rng, func(i int) string { return fmt.Sprintf("%d to %d", i, i+1) }, 10, .9)
		slab := newRate("", 0, 80, 100)
		t.Coverage[1].WorstSlab = &slab
		head, calibrated := newHistogram(50, 300, 300, 50), newHistogram(170, 180, 175, 175)
		t.PIT, t.PITCalibrated = &head, &calibrated
		for i := range 400 {
			y := float64(i) / 100
			at := y + .5*rng.NormFloat64()
			t.Points = append(t.Points, evaluate.TargetPoint{Target: y, Median: at, Lower: at - 1, Upper: at + 1})
		}
		e.Targets = append(e.Targets, t)
	}
	if targets > 1 {
		e.Joint, e.Region = []evaluate.Coverage{newCoverage(rng, .9, 0, 0)}, "box"
		e.Regions = &evaluate.Regions{Box: newRate("", .9, 270, 300), Ellipsoid: newRate("", .9, 267, 300), VolumeRatio: new(.75), ComparedRows: 300, Smaller: "ellipsoid"}
	}
	return e
}

// between returns the part of a page between the text start and the next text end.
func between(t *testing.T, page, start, end string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, start)
	part, _, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("the page has no %q before %q", start, end)
	}
	return part
}

// pathPoints returns the points of the SVG path with the given class.
func pathPoints(t *testing.T, svg, class string) [][2]float64 {
	t.Helper()
	m := regexp.MustCompile(`class="` + class + `"[^>]* d="([^"]*)"`).FindStringSubmatch(svg)
	if m == nil {
		t.Fatalf("there is no %q", class)
	}
	var points [][2]float64
	for _, p := range regexp.MustCompile(`[ML]([-0-9.]+) ([-0-9.]+)`).FindAllStringSubmatch(m[1], -1) {
		x, _ := strconv.ParseFloat(p[1], 64)
		y, _ := strconv.ParseFloat(p[2], 64)
		points = append(points, [2]float64{x, y})
	}
	return points
}

// circleCentres returns the centres of the dots of a colour.
func circleCentres(t *testing.T, svg string, color int) [][2]float64 {
	t.Helper()
	var points [][2]float64
	for _, p := range regexp.MustCompile(fmt.Sprintf(`class="bin s%d[^"]*" cx="([0-9.]+)" cy="([0-9.]+)"`, color)).FindAllStringSubmatch(svg, -1) {
		x, _ := strconv.ParseFloat(p[1], 64)
		y, _ := strconv.ParseFloat(p[2], 64)
		points = append(points, [2]float64{x, y})
	}
	return points
}

// TestEvaluationDraws checks the drawings of a page by reading their coordinates.
func TestEvaluationDraws(t *testing.T) {
	e := sampleClassifier(3, 2)
	page := renderPage(t, Evaluation("m.attach", "test.npz", e))
	checkPage(t, page)

	// The axis ends at 80. The four bars are 70, 50, 30 and 50 rows high, and the dashed
	// line is at 50.
	p := between(t, page, "<h4>p-values</h4>", "</svg>")
	for _, want := range []string{`class="area s0" d="M0 340V42.5H115V127.5H230V212.5H345V127.5H460V340Z"`, `class="diagonal" d="M0 127.5H115V127.5H230V127.5H345V127.5H460"`, `>80</text>`} {
		if !strings.Contains(p, want) {
			t.Errorf("the histogram lacks %q:\n%s", want, p)
		}
	}
	checkPoints := func(what string, got [][2]float64, x, y span, want ...float64) {
		t.Helper()
		if 2*len(got) != len(want) {
			t.Fatalf("%s: %d points, want %d", what, len(got), len(want)/2)
		}
		for i, g := range got {
			at := [2]float64{x.low + g[0]/chartWidth*(x.high-x.low), y.low + (1-g[1]/chartHeight)*(y.high-y.low)}
			if math.Abs(at[0]-want[2*i]) > .001*(x.high-x.low) || math.Abs(at[1]-want[2*i+1]) > .001*(y.high-y.low) {
				t.Errorf("%s: point %d is drawn at %v, want %v", what, i, at, want[2*i:2*i+2])
			}
		}
	}
	unit := span{0, 1}
	bins := e.Classifier.Calibrated.Bins
	p = between(t, page, "<h4>Reliability diagram: is confidence right?</h4>", "</svg>")
	checkPoints("calibrated", circleCentres(t, p, 0), unit, unit, bins[0].Nominal, bins[0].Fraction, bins[1].Nominal, bins[1].Fraction)
	checkPoints("uncalibrated", circleCentres(t, p, 1), unit, unit, .5, .4, .9, 800./950)
	checkPoints("intervals", pathPoints(t, p, "interval s0"), unit, unit, .45, bins[0].Low, .45, bins[0].High, .85, bins[1].Low, .85, bins[1].High)
	// The first point covers so few rows that the chart leaves it out.
	p = between(t, page, "<h4>Risk–coverage curve: fewer predictions, fewer errors</h4>", "</svg>")
	checkPoints("risk", pathPoints(t, p, "curve c c1"), unit, span{0, .1}, .5, .01, 1, .09)
	checkPoints("accepted", pathPoints(t, p, "mark s1"), unit, span{0, .1}, .8, .01)
	p = between(t, page, "<h4>Size of prediction sets", "</svg>")
	if !strings.Contains(p, `d="M0 340V339H115V34H230V312.8H345V334.2H460V340Z"`) {
		t.Errorf("sizes of sets are drawn as %s", p)
	}
	p = between(t, page, "<h4>Coverage by level</h4>", "</svg>")
	sets := e.Classifier.Sets
	checkPoints("levels", pathPoints(t, p, "mark s0"), span{.7, 1}, span{.7, 1}, .8, sets[0].Fraction, .9, sets[1].Fraction)

	// The worst class comes first in the table. Its dot must be at its coverage.
	worst := sets[1].ByClass[0]
	for _, r := range sets[1].ByClass {
		if r.Fraction < worst.Fraction {
			worst = r
		}
	}
	p = between(t, page, "<h3>Coverage by class at level 0.9</h3>", "</table>")
	row := between(t, p, `<tr data-m="0">`, "</tr>")
	ends := regexp.MustCompile(`<span class="axis"><span>([0-9.]+) %</span><span>([0-9.]+) %</span></span></th>`).FindStringSubmatch(p)
	dot := regexp.MustCompile(`class="dot" cx="([0-9.]+)"`).FindStringSubmatch(row)
	low, _ := strconv.ParseFloat(ends[1], 64)
	high, _ := strconv.ParseFloat(ends[2], 64)
	at, _ := strconv.ParseFloat(dot[1], 64)
	if got := (low + (at-5)/120*(high-low)) / 100; math.Abs(got-worst.Fraction) > .001 || !strings.Contains(row, ">"+worst.Name+"<") {
		t.Errorf("the worst class is drawn at %.4f as %s, want %v", got, row, worst)
	}
}

// TestEvaluationSays checks the texts of a page and their order. Guarantees come first, and
// violated ones before the others.
func TestEvaluationSays(t *testing.T) {
	page := renderPage(t, Evaluation("m.attach", "test.npz", sampleClassifier(3, 2)))
	last := -1
	for _, want := range []string{
		"<title>Does m.attach meet its guarantees?</title>", "<b>1 of 3</b><span>guarantees met, 1 violated, 1 with too few rows to tell</span>", "<b>5.2 %</b>", "<h2>Guarantees</h2>",
		`<li class="card bad"><b class="word">violated</b><div><b>Set coverage:</b> 70 % are held<p><b>What to do:</b> Calibrate again</p>`,
		`<li class="card open"><b class="word">too few rows</b><div><b>Selective error:</b> 5 % are wrong<p><b>What to do:</b> Take more rows</p>`,
		`<li class="card good"><b class="word">met</b><div><b>False-alarm rate:</b> 5.2 % of 1000 rows are flagged</div>`,
		"Something looks wrong", "AUROC 0.9876, FPR95 0.1234", "<h3>Flagged by class at alpha 0.05</h3>",
		">0.0800</td>", ">0.0200</td>", "AURC 0.0123 by confidence, 0.0456 by OOD score", "<h3>Accuracy by class</h3>", "<h3>Accuracy by group</h3>", "<h3>Coverage by class at level 0.9</h3>",
	} {
		i := strings.Index(page, want)
		if i < last {
			t.Errorf("the page lacks %q, or has it too early", want)
		}
		last = max(last, i)
	}
}

func TestEvaluationOfRegressor(t *testing.T) {
	e := sampleRegressor(2, 3)
	e.IntervalScore = "cir"
	page := renderPage(t, Evaluation("m.attach", "test.csv", e))
	checkPage(t, page)
	contained, missed := 0, 0
	for _, p := range e.Targets[0].Points {
		if p.Lower <= p.Target && p.Target <= p.Upper {
			contained++
		} else {
			missed++
		}
	}
	p := between(t, page, "<h4>Intervals at level 0.9 and their targets</h4>", "</svg>")
	if h, m := len(pathPoints(t, p, "interval many s0"))/2, len(pathPoints(t, p, "interval many s1"))/2; h != contained || m != missed {
		t.Errorf("%d intervals are drawn that hold their target and %d that miss it, want %d and %d", h, m, contained, missed)
	}
	// The uncalibrated distributions are too wide. Both histograms share one axis.
	p = between(t, page, "<h4>Levels of the targets (PIT)</h4>", "</svg>")
	for _, want := range []string{`d="M0 340V147.3H115V136H230V141.7H345V141.7H460V340Z"`, `d="M0 283.3H115V0H230V0H345V283.3H460"`} {
		if !strings.Contains(p, want) {
			t.Errorf("the levels of targets lack %q:\n%s", want, p)
		}
	}
	for _, want := range []string{"<h2>Prediction intervals, target 1, cir</h2>", "worst slab", "80.0 % <small>72.0–88.0</small>", "<h3>Coverage by decile of the prediction at level 0.9</h3>", "<td class=\"words\">3 to 4</td>", "target 1: RMSE 0.5", "All targets at once", "of targets in their intervals at level 0.9, target 0"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestEvaluationOfLittle checks pages of evaluations that lack most parts. It also checks
// that guarantees of many groups and classes are named and folded, and that each counts once
// in the headline.
func TestEvaluationOfLittle(t *testing.T) {
	rate := newRate("", .05, 0, 1)
	sizes := newCoverage(rand.New(rand.NewPCG(1, 1)), .9, 0, 0)
	sizes.SizeCounts = make([]int, 1001)
	sizes.SizeCounts[1000] = 1
	target := evaluate.Target{Coverage: []evaluate.Coverage{{Rate: newRate("", .9, 1, 1), Infinite: 1}}, Points: []evaluate.TargetPoint{{Target: 7, Median: 7, Lower: 7, Upper: 7}}}
	classes := evaluate.Classifier{Accuracy: &rate, Uncalibrated: evaluate.Reliability{Bins: []evaluate.Rate{newRate("", .3, 0, 1)}}, Sets: []evaluate.Coverage{sizes}}
	classes.RiskCoverage = []evaluate.RiskPoint{{Coverage: 1, Risk: 1}}
	for name, e := range map[string]*evaluate.Evaluation{
		"nothing":      {Rows: 1, Alpha: .05, Level: .9},
		"one row":      {Rows: 1, Alpha: .05, Level: .9, Flags: &evaluate.Flags{ByAlpha: []evaluate.Rate{rate}, PValues: newHistogram(0, 0, 1)}},
		"one target":   {Rows: 1, Level: .9, Targets: []evaluate.Target{target}},
		"many classes": {Rows: 1, Level: .9, Classifier: &classes},
	} {
		t.Run(name, func(t *testing.T) { checkPage(t, renderPage(t, Evaluation("m.attach", "x.npz", e))) })
	}
	many := sampleRegressor(1, 40)
	for i := range 60 {
		many.Guarantees = append(many.Guarantees, evaluate.Guarantee{Kind: []string{"interval_coverage", "set_coverage"}[i%2], Part: []string{"group", "class"}[i%2], Rate: newRate(fmt.Sprint(i), .9, 90, 100), Verdict: "met", Advice: "look again"})
	}
	page := renderPage(t, Evaluation("m.attach", "x.csv", many))
	if !strings.Contains(page, "<summary>60 more</summary>") {
		t.Error("many guarantees are not folded")
	}
	if !strings.Contains(page, "Interval coverage of group 0:") || !strings.Contains(page, "Set coverage of class 1:") {
		t.Error("groups or classes are not named")
	}
	// The evaluation has four guarantees: three from sampleRegressor, and interval coverage
	// for 30 groups. Set coverage for 30 classes belongs to one of the first three.
	if !strings.Contains(page, "<b>2 of 4</b><span>guarantees met, 1 violated, 1 with too few rows to tell</span>") {
		t.Error("guarantees of groups are counted one by one")
	}
	if n := strings.Count(page, "Look again"); n != 1 {
		t.Errorf("what to do is said %d times", n)
	}
}

// TestEvaluationOrange checks that a page explains its orange marks if and only if it has
// some.
func TestEvaluationOrange(t *testing.T) {
	e := &evaluate.Evaluation{Rows: 1000, Alpha: .05, Level: .9, Flags: &evaluate.Flags{PValues: newHistogram(1)}}
	for count, want := range map[int]bool{50: false, 90: true} {
		e.Flags.ByAlpha = []evaluate.Rate{newRate("", .05, count, 1000)}
		page := renderPage(t, Evaluation("m.attach", "x.npz", e))
		if orange, explained := strings.Contains(page, `class="forest off"`), strings.Contains(page, ">Orange</i>: the 95 % interval excludes"); orange != want || explained != want {
			t.Errorf("%d of 1000 flagged: drawn in orange is %v, said is %v", count, orange, explained)
		}
	}
}

// TestEvaluationNamesLimits checks that a limit comes before the notes and names the flag
// that removes it. The part that it concerns is orange. A part that differs only by chance
// is not.
func TestEvaluationNamesLimits(t *testing.T) {
	e := &evaluate.Evaluation{Rows: 1000, Level: .9, Guarantees: []evaluate.Guarantee{{Kind: "interval_coverage", Rate: newRate("", .9, 900, 1000), Verdict: "met"}}}
	c := newCoverage(rand.New(rand.NewPCG(1, 1)), .9, 0, 0)
	c.ByDecile = []evaluate.Rate{newRate("1 to 2", 0, 64, 100), newRate("2 to 3", 0, 96, 100)}
	for i, p := range []float64{.001, 1} {
		c.ByDecile[i].AdjustedPValue = pointerTo(p)
	}
	e.Targets = []evaluate.Target{{Coverage: []evaluate.Coverage{c}}}
	e.Notes = []evaluate.Note{{Message: "look"}, {Message: "64.0 % is low", Advice: "calibrate intervals by cqr-r", Part: "decile", Option: "interval_score", Value: "cqr-r"}}
	page := renderPage(t, Evaluation("m.attach", "x.csv", e))
	checkPage(t, page)
	limit, note := strings.Index(page, `<li class="card limit"><b class="word">limit</b><div>64.0 % is low<p><b>What to do:</b> Calibrate intervals by cqr-r (--interval-score cqr-r)</p>`), strings.Index(page, `<b class="word">note</b>`)
	if limit < 0 || note < limit {
		t.Errorf("the limit stands at %d and the note at %d", limit, note)
	}
	if !strings.Contains(page, "<b>1 of 1</b><span>guarantee met; 1 limit</span>") {
		t.Error("the headline lacks the limit")
	}
	deciles := between(t, page, "<h3>Coverage by decile of the prediction at level 0.9</h3>", "</section>")
	if n := strings.Count(deciles, `class="forest off"`); n != 1 || !strings.Contains(deciles, ">Orange</i>: this part misses") || strings.Contains(deciles, ">Orange</i>: the 95 % interval excludes") {
		t.Errorf("%d parts are orange in %s", n, deciles)
	}
}

// TestHeadline checks the count of guarantees. A guarantee for several groups counts once.
func TestHeadline(t *testing.T) {
	headline := func(verdicts ...string) string {
		e := &evaluate.Evaluation{}
		for i, v := range verdicts {
			group, v, _ := strings.Cut(v, "/")
			if v == "" {
				group, v = "", group
			}
			e.Guarantees = append(e.Guarantees, evaluate.Guarantee{Kind: "false_alarm_rate", Rate: evaluate.Rate{Name: group, Nominal: float64(i+1) / 100}, Part: "group", Verdict: v})
			if group != "" {
				e.Guarantees[i].Nominal = .9
			}
		}
		value, label := countGuarantees(e)
		return strings.TrimSpace(value + " " + label)
	}
	const tooFew = "too_few_rows"
	for want, got := range map[string]string{
		"":                                   headline(),
		"4 guarantees: too few rows to tell": headline(tooFew, tooFew, tooFew, tooFew),
		"1 guarantee: too few rows to tell":  headline(tooFew),
		"2 of 2 guarantees met":              headline("met", "met"),
		"0 of 2 guarantees met, 2 violated":  headline("violated", "violated"),
		"1 of 2 guarantees met, 1 with too few rows to tell":             headline("met", tooFew),
		"1 of 3 guarantees met, 1 violated, 1 with too few rows to tell": headline("met", tooFew, "violated"),
		"0 of 1 guarantee met, 1 violated":                               headline("a/met", "b/"+tooFew, "c/violated"),
		"1 of 1 guarantee met":                                           headline("a/met", "b/met"),
	} {
		if got != want {
			t.Errorf("the headline is %q, want %q", got, want)
		}
	}
}

// TestEvaluationHostile checks that no name of a group, class, file or guarantee can close
// an attribute or open a tag.
func TestEvaluationHostile(t *testing.T) {
	e := sampleRegressor(1, 2)
	e.Classifier = sampleClassifier(2, 2).Classifier
	for _, list := range [][]evaluate.Rate{e.Flags.ByGroup, e.Targets[0].Coverage[1].ByGroup, e.Targets[0].Coverage[1].ByDecile, e.Classifier.ByClass, e.Classifier.Sets[1].ByClass} {
		for i := range list {
			list[i].Name = hostileName
		}
	}
	e.Guarantees[0].Name, e.Guarantees[0].Message, e.Guarantees[0].Advice, e.Notes[0].Message = hostileName, hostileName, hostileName, hostileName
	checkEscaped(t, renderPage(t, Evaluation(hostileName, hostileName, e)))
}

func TestRegionsSentence(t *testing.T) {
	e := sampleRegressor(3, 0)
	for want, change := range map[string]func(){
		"ellipsoids are smaller: they have 0.75 times the volume of boxes (geometric mean of 300 rows); at level 0.9, ellipsoids cover 89.0 % of the rows and boxes 90.0 %": func() {},
		"boxes are smaller: they have 0.5 times the volume of ellipsoids":          func() { e.Regions.VolumeRatio, e.Regions.Smaller = new(2.), "box" },
		"ellipsoids cover 89.0 % of the rows and boxes 90.0 %; no row has volumes": func() { e.Regions.VolumeRatio = nil },
		"all targets at once, ellipsoids ":                                         func() { e.Region = "ellipsoid" },
	} {
		e = sampleRegressor(3, 0)
		change()
		if text := EvaluationText(e); !strings.Contains(text, want) {
			t.Errorf("the text has no %q:\n%s", want, text)
		}
	}
}
