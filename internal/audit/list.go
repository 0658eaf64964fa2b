package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/attach-uncertainty/attach"
)

// ListedColumns returns the names of the values of a listed input, and zero values: strings,
// ints, float64s and bools. The names are those of the file of scores without the sketch, the
// reasons if there can be any, and the nearest fit row of an input with one of the highest scores.
func (w *ScoreSet) ListedColumns() (names []string, zero []any) {
	c := w.columns()
	for j, node := range c.nodes {
		if c.names[j] == sketchColumn {
			continue
		}
		var value any = 0.0
		switch node.Type().Kind() {
		case parquet.ByteArray:
			value = ""
		case parquet.Int64:
			value = 0
		case parquet.Boolean:
			value = false
		}
		names, zero = append(names, c.names[j]), append(zero, value)
	}
	if w.hasReasons() {
		names, zero = append(names, "reasons"), append(zero, "")
	}
	if w.Fitted != "" {
		names, zero = append(names, "nearest_fit_row"), append(zero, "")
	}
	return names, zero
}

// hasReasons reports whether any input can have reasons.
func (w *ScoreSet) hasReasons() bool {
	return w.Profiled || slices.ContainsFunc(w.retained.Worst, func(r retainedRow) bool { return r.Shown != nil && r.Shown.Explained != nil })
}

// List calls the function use for each selected input of an audit whose results are a. A row has
// a value for each name that ListedColumns returns. List returns an error if no input is in
// Selection.Within.
func (w *ScoreSet) List(ctx context.Context, a *Audit, s Selection, use func(row []any) error) error {
	type scored struct {
		row []any
		suspicion
		order int
	}
	var top []scored
	keepTop := func() {
		slices.SortFunc(top, func(a, b scored) int { return cmp.Or(a.compare(b.suspicion), a.order-b.order) })
		clear(top[min(s.Top, len(top)):])
		top = top[:min(s.Top, len(top))]
	}
	cluster := a.clusterRows(s.Within)
	worst, order, found := w.placesOf(w.retained.Worst), 0, s.Within == ""
	err := w.eachBlock(ctx, w.columns(), func(b block) error {
		scores, discovered := b.numbers("ood_score"), w.discoveryColumns(a, b)
		suspicionOf := func(i int) suspicion {
			if s.LabelErrors {
				return w.worstLabel(a, b, i)
			}
			return suspicion{Score: scores[i]}
		}
		wrong := func(i int) bool {
			for name, found := range discovered {
				if name != "discovery" && found(i) {
					return true
				}
			}
			return false
		}
		for i := range b.n {
			if !w.within(b, i, s.Within) && !cluster[rowID{w.Shards[b.shard].id(), b.start + i}] {
				continue
			}
			if found = true; s.Discovery != nil && *s.Discovery != discovered["discovery"](i) || s.LabelErrors && !wrong(i) {
				continue
			}
			row := w.listedRow(b, i, discovered, worst[b.shard])
			if s.Top == 0 {
				if err := use(row); err != nil {
					return err
				}
				continue
			}
			top = append(top, scored{row, suspicionOf(i), order})
			if order++; len(top)/2 >= max(s.Top, blockRows) {
				keepTop()
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !found {
		return NoSuchGroupError(s.Within)
	}
	keepTop()
	for _, r := range top {
		if err := use(r.row); err != nil {
			return err
		}
	}
	return nil
}

// NoSuchGroupError is the name of a group of any kind without inputs.
type NoSuchGroupError string

func (e NoSuchGroupError) Error() string {
	return fmt.Sprintf("the audit has no file, folder, group or cluster %q; a predicted class is written \"class %[1]s\", and a given label \"label %[1]s\"", string(e))
}

// within reports whether row i is in the file, folder, group, predicted class or given label of
// a name. Every row is in the one without a name.
func (w *ScoreSet) within(b block, i int, name string) bool {
	return name == "" || Within(b.name, name) || Within(string(b.texts("folder")[i]), name) ||
		w.Reading.Groups != "" && string(b.texts("group")[i]) == name || w.withinClass(b, i, name)
}

// withinClass reports whether name is "class" and the predicted class of row i, or "label" and
// its given label. A class has its number if it has no name.
func (w *ScoreSet) withinClass(b block, i int, name string) bool {
	column, class, _ := strings.Cut(name, " ")
	if w.Task != attach.Classification || column != "class" && (column != "label" || w.LabelErrorsBy == "") {
		return false
	}
	number := b.numbers(column)[i]
	return number >= 0 && class == cmp.Or(string(b.texts(column + "_name")[i]), strconv.Itoa(int(number)))
}

// Within reports whether a path is a folder or lies in it.
func Within(path, folder string) bool {
	folder = Name(folder)
	return path == folder || strings.HasPrefix(path, folder+"/")
}

// listedRow returns row i. The argument worst holds the indices of the retained rows of its
// shard. Other rows have the reasons of their group.
func (w *ScoreSet) listedRow(b block, i int, discovered map[string]func(i int) bool, worst map[int]int) []any {
	row := make([]any, 0, len(b.cells)+2)
	for j, c := range b.cells {
		if b.names[j] == sketchColumn {
			continue
		}
		switch b.nodes[j].Type().Kind() {
		case parquet.Boolean:
			row = append(row, discovered[b.names[j]](i))
		case parquet.ByteArray:
			row = append(row, string(c.Bytes[i]))
		case parquet.Int64:
			row = append(row, int(c.Numbers[i]))
		default:
			row = append(row, c.Numbers[i])
		}
	}
	reasons, nearest := []string(nil), ""
	if place, ok := worst[b.start+i]; ok {
		reasons, nearest = w.retained.Worst[place].explanation()
	} else if w.Profiled {
		reasons = []string{string(b.texts("reason_group")[i])}
	}
	if w.hasReasons() {
		row = append(row, strings.Join(reasons, "; "))
	}
	if w.Fitted != "" {
		row = append(row, nearest)
	}
	return row
}
