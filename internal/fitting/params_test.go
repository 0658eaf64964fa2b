package fitting_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
)

func TestMethodWith(t *testing.T) {
	m := ood.Method{Name: "m", Params: []ood.Param{{Name: "k", Default: 1, Takes: "count"}, {Name: "where", Default: "top", Takes: "of=top|bottom"}}}
	got, err := fitting.With(m, ood.Params{"where": "bottom"})
	if want := (ood.Params{"k": 1., "where": "bottom"}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	got["k"] = 5.
	if fitting.Default(m)["k"] != 1. {
		t.Error("With hands out the default itself")
	}
	if _, err := fitting.With((ood.Method{Name: "m"}), ood.Params{"l": 1.}); err == nil || err.Error() != `method "m": unknown parameter "l"; the method has no parameters` {
		t.Error(err)
	}
}

// TestParamsOfAllNumbers checks that a parameter accepts a value of every integer and
// floating-point type, and no other value.
func TestParamsOfAllNumbers(t *testing.T) {
	m := ood.Method{Name: "m", Params: []ood.Param{{Name: "k", Default: uint8(1), Takes: "count"}}}
	if got := fitting.Default(m)["k"]; got != 1. {
		t.Errorf("a default of %#v", got)
	}
	for _, value := range []any{2, int8(2), int16(2), int32(2), int64(2), uint(2), uint8(2), uint16(2), uint32(2), uint64(2), float32(2), 2., time.Duration(2)} {
		if p, err := fitting.With(m, ood.Params{"k": value}); err != nil || p["k"] != 2. {
			t.Errorf("%T: %#v, %v", value, p["k"], err)
		}
	}
	for _, other := range []any{2i, true, nil, []int{2}, "2"} {
		if _, err := fitting.With(m, ood.Params{"k": other}); err == nil {
			t.Errorf("%#v is a number", other)
		}
	}
}

func ExampleWith() {
	m := ood.Method{Name: "distance", Params: []ood.Param{{Name: "percentile", Default: 0, Takes: "least=0,most=100"}}}
	p, _ := fitting.With(m, ood.Params{"percentile": 50.})
	fmt.Println(p)
	_, err := fitting.With(m, ood.Params{"percentage": 50.})
	fmt.Println(err)
	// Output:
	// percentile=50
	// method "distance": unknown parameter "percentage"; its parameters are percentile
}

func TestParams(t *testing.T) {
	m := ood.Method{
		Name: "nothing",
		Params: []ood.Param{
			{Name: "k", Default: .5, Takes: "share,positive"}, {Name: "rows", Default: 0, Takes: "count,least=0"}, {Name: "x", Default: 0, Takes: "most=9"},
			{Name: "logits", Default: false}, {Name: "where", Default: "top", Takes: "of=top|bottom"}, {Name: "hidden", Default: 64, Takes: "widths,most=99"},
		},
	}
	for want, p := range map[string]ood.Params{
		"": {"k": .1, "rows": 0., "x": -2., "logits": true, "where": "bottom"},
		`method "nothing": parameter "rows" must be a whole number of at least 0, not 0.5`:                     {"rows": .5},
		`method "nothing": parameter "rows" must be a whole number of at least 0, not 1e+300`:                  {"rows": 1e300},
		`method "nothing": parameter "k" must be a whole number or a fraction below 1, above 0, not 0`:         {"k": 0.},
		`method "nothing": parameter "k" must be a whole number or a fraction below 1, above 0, not 1.5`:       {"k": 1.5},
		`method "nothing": parameter "k" must be a whole number or a fraction below 1, above 0, not -0.5`:      {"k": -.5},
		`method "nothing": parameter "x" must be a finite number of at most 9, not NaN`:                        {"x": math.NaN()},
		`method "nothing": parameter "hidden" must be a whole number of at least 1 and at most 99, not 100`:    {"hidden": "64x100"},
		`method "nothing": parameter "hidden" must be a whole number, or several joined by "x", not "64,32"`:   {"hidden": "64,32"},
		`method "nothing": parameter "x" must be a number, not "2"`:                                            {"x": "2"},
		`method "nothing": parameter "logits" must be true or false, not "yes"`:                                {"logits": "yes"},
		`method "nothing": parameter "where" must be one of top, bottom, not "side"`:                           {"where": "side"},
		`method "nothing": unknown parameter "nonsense"; its parameters are hidden, k, logits, rows, where, x`: {"nonsense": 1.},
	} {
		got := ""
		if _, err := fitting.With(m, p); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%v: %q, want %q", p, got, want)
		}
	}
}

// TestParamsOfUnknownWords checks that an unknown constraint in Param.Takes is an error.
func TestParamsOfUnknownWords(t *testing.T) {
	m := ood.Method{Name: "m", Params: []ood.Param{{Name: "k", Default: 1, Takes: "whole,least=1"}}}
	for _, p := range []ood.Params{nil, {"k": 2}} {
		if _, err := fitting.With(m, p); err == nil || !strings.Contains(err.Error(), `method "m": parameter "k" is declared to take "whole,least=1", but the constraint "whole" is unknown`) {
			t.Error(err)
		}
	}
}
