package parquet

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// ReadDates returns the dates of a column for which Dates is true, as texts in UTC such as
// 2024-05-01, or 2024-05-01 13:30:00 with a time of day. A missing date is an empty text. Times
// without a date are an error.
func (f *File) ReadDates(ctx context.Context, column int) ([]string, error) {
	c := f.columns[column]
	unit := c.dateUnit()
	if unit == 0 || c.List {
		return nil, fmt.Errorf("%s: column %.100q: its times cannot be read; save them as texts such as 2024-05-01 13:30:00", f.path, c.Name)
	}
	cursor, err := f.Open(column)
	if err != nil {
		return nil, err
	}
	defer cursor.Close()
	cursor.streams[0].column.Kind = Number
	all, err := cursor.Read(ctx, 0, f.rows)
	if err != nil {
		return nil, err
	}
	texts := make([]string, f.rows)
	for i, x := range all[0].Numbers {
		switch {
		case math.IsNaN(x):
		case unit == day:
			texts[i] = time.Unix(0, 0).UTC().AddDate(0, 0, int(x)).Format(time.DateOnly)
		default:
			// A float64 holds nanoseconds since 1970 with an error below a microsecond.
			seconds, fraction := math.Modf(x * unit.Seconds())
			at := time.Unix(int64(seconds), int64(fraction*1e9)).UTC()
			texts[i] = at.Round(time.Microsecond).Format("2006-01-02 15:04:05.999999")
		}
	}
	return texts, nil
}

const day = 24 * time.Hour

// dateUnit returns the unit of dates, or 0 if the column has none.
func (c Column) dateUnit() time.Duration {
	t := c.leaf.Type()
	if l := t.LogicalType(); l != nil {
		switch v := l.Value.(type) {
		case *format.DateType:
			return day
		case *format.TimestampType:
			if v.Unit.Value != nil {
				return v.Unit.Value.Duration()
			}
		}
		return 0
	}
	if p := t.ConvertedType(); p != nil {
		switch *p {
		case deprecated.Date:
			return day
		case deprecated.TimestampMillis:
			return time.Millisecond
		case deprecated.TimestampMicros:
			return time.Microsecond
		}
	}
	return 0
}
