package audit

import (
	"testing"

	"github.com/attach-uncertainty/attach/schema"
)

// TestColumnText checks that the text of a column names a file only if the file has nearly all
// of its unusual values.
func TestColumnText(t *testing.T) {
	a := &Audit{}
	a.Shards = []Shard{{Name: "mon.csv"}, {Name: "tue.csv"}}
	a.ReasonGroups = []ReasonGroup{
		{Reasons: "rooms is empty, beds is out of range", Inputs: 40, Places: []ReasonPlace{{Shard: "tue.csv", Inputs: 40}}},
		{Reasons: "rooms is out of range", Inputs: 60, Places: []ReasonPlace{{Shard: "tue.csv", Inputs: 53}, {Shard: "mon.csv", Inputs: 7}}},
		{Reasons: "rooms is empty2", Inputs: 500, Places: []ReasonPlace{{Shard: "mon.csv", Inputs: 500}}},
		{Inputs: 900, Places: []ReasonPlace{{Shard: "mon.csv", Inputs: 900}}},
	}
	for _, c := range []struct {
		column schema.ColumnSummary
		want   string
	}{
		{schema.ColumnSummary{Column: "rooms", NewGaps: 40, OutOfRange: 60}, "; 93 of 100 unusual values are in tue.csv"},
		{schema.ColumnSummary{Column: "rooms", NewGaps: 50, OutOfRange: 60}, ""},
		{schema.ColumnSummary{Column: "beds", OutOfRange: 40}, "; all unusual values are in tue.csv"},
		{schema.ColumnSummary{Column: "beds", OutOfRange: 9}, ""},
		{schema.ColumnSummary{Column: "beds", Change: "other"}, ""},
		{schema.ColumnSummary{Column: "age", NewGaps: 1}, ""},
	} {
		if got := a.ColumnText(c.column); got != c.column.String()+c.want {
			t.Errorf("got %q, want %q at the end", got, c.want)
		}
	}
	a.Shards = a.Shards[1:]
	if c := (schema.ColumnSummary{Column: "beds", OutOfRange: 40}); a.ColumnText(c) != c.String() {
		t.Error("the text names the only file")
	}
}
