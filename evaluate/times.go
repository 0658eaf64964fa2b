package evaluate

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// dateLayouts holds the notations of dates. The first part of each is a date, and the second a
// time of day.
var dateLayouts = [...]string{"2006-01-02", "2006/01/02", "2006-01", "2006-01-02 15:04", "2006/01/02 15:04", "2006-01-02 15:04:05", "2006/01/02 15:04:05"}

// parseTimes returns times as numbers with the same order. All texts must be numbers, or all
// dates.
func parseTimes(texts []string) ([]float64, error) {
	if len(texts) == 0 {
		return nil, errors.New("a series needs the times of its rows")
	}
	numbers := make([]float64, len(texts))
	var first timeKind
	for i, text := range texts {
		number, kind := parseTime(text)
		switch {
		case kind == noTime:
			return nil, fmt.Errorf("time of row %d (counted from 0): %.40q is neither a number nor a date such as 2024-05-01 or 2024-05-01 13:30", i, text)
		case i == 0:
			first = kind
		case kind != first:
			return nil, fmt.Errorf("time of row %d (counted from 0): %.40q is %s, but the first row has %s, %.40q; write all times in one notation", i, text, kind, first, texts[0])
		}
		numbers[i] = number
	}
	return numbers, nil
}

// timeKind is the notation of a time.
type timeKind string

const (
	noTime     timeKind = ""
	numberTime timeKind = "a number"
	localTime  timeKind = "a date without a time zone"
	zonedTime  timeKind = "a date with a time zone"
)

// parseTime returns a time as a number, which is the seconds since 1970 for a date.
func parseTime(text string) (float64, timeKind) {
	text = strings.TrimSpace(text)
	if x, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(x) && !math.IsInf(x, 0) {
		return x, numberTime
	}
	seconds := func(t time.Time) float64 { return float64(t.Unix()) + float64(t.Nanosecond())/1e9 }
	date := text
	if day := len("2006-01-02"); len(text) > day && text[day] == 'T' {
		date = text[:day] + " " + text[day+1:]
	}
	for _, layout := range dateLayouts {
		if t, err := time.Parse(layout, date); err == nil {
			return seconds(t), localTime
		}
		for _, zone := range []string{"Z07:00", "Z0700", " -07:00", " -0700", " UTC"} {
			if t, err := time.Parse(layout+zone, date); err == nil {
				return seconds(t), zonedTime
			}
		}
	}
	return 0, noTime
}
