package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/schema"
)

// isBundle reports whether path ends in .attach, or the file there begins with the bytes of a
// .attach file. Neither is true of an ONNX model.
func isBundle(path string) bool {
	if strings.EqualFold(filepath.Ext(path), ".attach") {
		return true
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [4]byte
	_, err = io.ReadFull(f, head[:])
	return err == nil && string(head[:]) == "PK\x03\x04"
}

// countAndNames returns the number of names and the first few names.
func countAndNames(names []string) string {
	const maxNames = 20
	if len(names) > maxNames {
		return fmt.Sprintf("%d: %q and so on; --json prints all", len(names), names[:maxNames])
	}
	return fmt.Sprintf("%d: %q", len(names), names)
}

// tokenLimit returns the end of a line about texts, which gives the maximum number of
// tokens.
func tokenLimit(t *attach.Text) string {
	if t.MaxTokens == 0 {
		return ""
	}
	return fmt.Sprintf(", at most %d tokens of each", t.MaxTokens)
}

// bundleInfo is the JSON form of what inspect prints for a .attach file.
type bundleInfo struct {
	Library string `json:"library"` // version of attach that wrote the file
	attach.Base
	Preprocess json.RawMessage `json:"preprocess,omitempty"`
	Layout     string          `json:"layout,omitempty"`
	Text       *attach.Text    `json:"text,omitempty"`
	Detector   *methodInfo     `json:"detector,omitempty"`
	Intervals  *methodInfo     `json:"intervals,omitempty"`
	Targets    int             `json:"targets"` // number of targets that have intervals
	Sets       bool            `json:"sets"`    // whether prediction sets are calibrated
	attach.Calibration
	Groups      map[string]int `json:"groups,omitempty"`        // number of calibration rows of each group
	LeastPValue *float64       `json:"least_p_value,omitempty"` // smallest possible p-value, or nil without a detector or with weights
	// EffectiveSampleSize is the number of rows with equal weights that the calibration rows
	// are worth, or nil without weights.
	EffectiveSampleSize *float64        `json:"effective_sample_size,omitempty"`
	AlphaRows           int             `json:"rows_for_alpha"` // number of calibration rows that Alpha needs
	Guarantee           string          `json:"guarantee"`
	Profile             *schema.Profile `json:"profile,omitempty"`
}

type methodInfo struct {
	Method string     `json:"method"`
	Params ood.Params `json:"params"`
}

func (m methodInfo) String() string {
	return strings.TrimSpace(m.Method + " " + m.Params.String())
}

func inspectBundle(w io.Writer, path string, asJSON bool) error {
	b, err := attach.Open(path)
	if err != nil {
		return err
	}
	info := describeBundle(b)
	if asJSON {
		return writeJSON(w, info)
	}
	_, err = io.WriteString(w, info.text())
	return err
}

func describeBundle(b *attach.Bundle) bundleInfo {
	cal := b.Calibration
	info := bundleInfo{
		Library: b.Library, Base: b.Base, Preprocess: b.Preprocess, Layout: b.Layout, Text: b.Text, Targets: len(cal.Quantiles), Sets: len(cal.TrueClasses.Labels) > 0,
		Calibration: cal, AlphaRows: hypothesis.LeastRows(cal.Alpha), Guarantee: b.Guarantee(), Profile: b.Profile,
	}
	if d := b.Detector; d != nil {
		info.Detector = &methodInfo{d.Method, d.Params}
	}
	if cal.Weights != nil {
		size := calibrate.EffectiveSampleSize(cal.Weights)
		info.EffectiveSampleSize = &size
	} else if b.Detector != nil {
		smallest := leastPValue(b)
		info.LeastPValue = &smallest
	}
	if q := b.IntervalModel; q != nil {
		info.Intervals = &methodInfo{q.Method, q.Params}
	}
	for _, g := range cal.Groups {
		if info.Groups == nil {
			info.Groups = map[string]int{}
		}
		info.Groups[g]++
	}
	return info
}

// text formats info for people, one fact per line. It leaves out absent facts.
func (info bundleInfo) text() string {
	var b strings.Builder
	line := func(what, format string, args ...any) { printFact(&b, what, format, args...) }
	list := func(name string, values []string) {
		if len(values) > 0 {
			line(name, "%s", countAndNames(values))
		}
	}
	line("model", "%s", cmp.Or(info.Path, "none: fitted on features"))
	if info.SHA256 != "" {
		line("sha256", "%s", info.SHA256)
	}
	for _, in := range info.Base.Inputs {
		line("input", "%s %s %s", in.Name, in.DType, shapeText(in.Shape))
	}
	line("task", "%s", info.Task)
	scaled := ""
	if info.Standardised {
		scaled = ", standardised"
	}
	line("feature", "%s, width %d%s", cmp.Or(info.Feature, "unnamed"), info.Width, scaled)
	for _, l := range info.Layers {
		line("layer", "%s, width %d", cmp.Or(l.Tensor, "unnamed"), l.Width)
	}
	if info.Outputs > 0 {
		line("outputs", "%d, of %s", info.Outputs, cmp.Or(info.Output, "a tensor without a name"))
	}
	list("classes", info.Classes)
	list("columns", info.Columns)
	list("targets", info.Base.Targets)
	if info.Preprocess != nil {
		line("preprocess", "%s", info.Preprocess)
	}
	if info.Layout != "" {
		line("layout", "%s", info.Layout)
	}
	if t := info.Text; t != nil {
		from := ""
		if t.Columns != nil {
			from = fmt.Sprintf(", from %q", t.Columns)
		}
		line("text", "tokenized by the tokenizer in the file%s%s", from, tokenLimit(t))
	}
	line("fitted", "on %s, calibrated on %s", rows.Count(info.NFit, "row"), display.Count(info.NCal))
	if info.Weights != nil {
		line("weights", "%s", effectiveSize(info.Calibration))
	}
	if info.LabelShift != nil {
		line("shares", "%s", describeShares(info.Calibration, info.Classes))
	}
	if info.Detector != nil {
		line("detector", "%s", info.Detector)
		smallest := "" // with weights, it depends on the row
		if info.LeastPValue != nil {
			smallest = fmt.Sprintf("; smallest p-value %.3g", *info.LeastPValue)
		}
		if info.LeastPValue != nil && *info.LeastPValue > info.Alpha {
			smallest += fmt.Sprintf("; nothing can be flagged with fewer than %s", rows.Count(info.AlphaRows, "calibration row"))
		}
		line("alpha", "%g%s", info.Alpha, smallest)
	}
	if info.Intervals != nil {
		suffix := ""
		if info.Residual {
			suffix = ", around the model's own predictions"
		}
		if score := info.Calibration.IntervalScore; score != "" {
			suffix += ", with the score " + score
		}
		line("intervals", "%s; %s%s%s", info.Intervals, rows.Count(info.Targets, "target"), suffix, describeIntervalRows(info.Calibration))
	}
	if info.Sets {
		line("sets", "prediction sets, calibrated with labels")
	}
	if info.Sets || info.Intervals != nil {
		line("level", "%g", info.Level)
	}
	list("groups", slices.Sorted(maps.Keys(info.Groups)))
	if info.Temperature != 0 {
		corrected := ""
		if info.LabelShift != nil {
			corrected = ", corrected for the shares of classes"
		}
		line("confidence", "temperature %g, which divides the logits%s", info.Temperature, corrected)
	}
	line("guarantee", "%s", info.Guarantee)
	for _, text := range profileLines(info.Profile) {
		line("profile", "%s", text)
	}
	line("written by", "attach %s", info.Library)
	return b.String()
}

// maxProfileLines is the largest number of columns that inspect describes in text.
const maxProfileLines = 20

// profileLines describes the columns of the fit rows, one in each line.
func profileLines(p *schema.Profile) (lines []string) {
	if p == nil {
		return nil
	}
	lines = append(lines, fmt.Sprintf("%s of %s", rows.Count(len(p.Columns), "column"), rows.Count(p.Rows, "fit row")))
	for i, c := range p.Columns {
		if i == maxProfileLines {
			return append(lines, fmt.Sprintf("and %s more; --json prints all", rows.Count(len(p.Columns)-i, "column")))
		}
		lines = append(lines, "  "+describeColumn(&c, p.Rows))
	}
	return lines
}

func describeColumn(c *schema.Column, n int) string {
	var b strings.Builder
	b.WriteString(c.Name + ":")
	if c.Kind == schema.Category {
		var names []string
		for _, k := range c.Categories {
			names = append(names, k.Value)
		}
		fmt.Fprintf(&b, " categories %s", display.Quoted(names, 5))
		if c.OtherRows > 0 {
			fmt.Fprintf(&b, ", others in %s", rows.Count(c.OtherRows, "row"))
		}
	} else if c.Sampled > 0 {
		fmt.Fprintf(&b, " %.4g to %.4g, median %.4g", c.Min, c.Max, c.Quantile(0.5))
	}
	if w := c.Words; w != nil {
		fmt.Fprintf(&b, "; %s known, %s expected to be unknown in new rows", rows.CountOf(w.Len(), w.Distinct, "word"), display.Percent(w.UnknownFraction()))
	}
	if c.Empty > 0 {
		fmt.Fprintf(&b, ", empty in %s", display.Percent(float64(c.Empty)/float64(n)))
	}
	return b.String()
}

func shapeText[T int | int64](shape []T) string {
	if shape == nil {
		return "of unknown shape"
	}
	dims := make([]string, len(shape))
	for i, d := range shape {
		dims[i] = fmt.Sprint(d)
		if d < 0 {
			dims[i] = "?"
		}
	}
	return "[" + strings.Join(dims, "×") + "]"
}
