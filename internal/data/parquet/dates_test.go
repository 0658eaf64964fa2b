package parquet

import (
	"context"
	"slices"
	"strings"
	"testing"
)

// TestDates checks dates of every unit against those that pyarrow wrote.
func TestDates(t *testing.T) {
	f, err := Open("testdata/dates/dates.parquet")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"day":  {"2024-02-29", "", "1969-12-31"},
		"ms":   {"2024-02-29 23:59:59.123", "", "1969-12-31 00:00:01"},
		"us":   {"2024-02-29 23:59:59.123456", "", "1969-12-31 00:00:01"},
		"ns":   {"2024-02-29 23:59:59.123456", "", "1969-12-31 00:00:01"},
		"zone": {"2024-02-29 23:59:59.123456", "", "1969-12-31 00:00:01"},
	}
	for j, c := range f.Columns() {
		if !c.Dates() {
			continue
		}
		got, err := f.ReadDates(context.Background(), j)
		if c.Name == "time" {
			if err == nil || !strings.Contains(err.Error(), `dates.parquet: column "time": its times cannot be read; save them as texts`) {
				t.Errorf("times without a date: %v", err)
			}
		} else if err != nil || !slices.Equal(got, want[c.Name]) {
			t.Errorf("%s: %q, %v", c.Name, got, err)
		}
		delete(want, c.Name)
	}
	if len(want) > 0 {
		t.Errorf("columns are missing: %v", want)
	}
}
