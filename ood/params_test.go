package ood_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/attach-uncertainty/attach/ood"
)

func TestParamsString(t *testing.T) {
	for want, p := range map[string]ood.Params{
		"":                                     nil,
		"k=100 lambda=10 loss=bce":             {"loss": "bce", "lambda": 10., "k": 100.},
		"lambda=1e-05 logits=true":             {"logits": true, "lambda": 1e-5},
		"epsilon=0.00014 seed=123456 where=no": {"epsilon": .00014, "seed": 123456., "where": "no"},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		back, err := ood.ParseParams(want)
		if err != nil {
			t.Fatal(err)
		}
		if len(p) > 0 && !reflect.DeepEqual(back, p) {
			t.Errorf("%q reads as %#v", want, back)
		}
	}
}

func TestParseParams(t *testing.T) {
	p, err := ood.ParseParams(" k=1,loss=bce\tlogits=false ")
	if want := (ood.Params{"k": 1., "loss": "bce", "logits": false}); err != nil || !reflect.DeepEqual(p, want) {
		t.Errorf("%v, %v", p, err)
	}
	// What is no finite number is text.
	if p, err := ood.ParseParams("a=inf b=NaN"); err != nil || p["a"] != "inf" || p["b"] != "NaN" {
		t.Errorf("%v, %v", p, err)
	}
	for _, s := range []string{"k", "=1", "k=", "k=1 k=2"} {
		if _, err := ood.ParseParams(s); err == nil {
			t.Errorf("%q: no error", s)
		}
	}
}

func FuzzParseParams(f *testing.F) {
	for _, s := range []string{"", "k=100 lambda=1e-05 loss=bce", "a=true,b=false", "a=0x1p-2", "a==b", "ü=1_000", "k=1 k"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ood.ParseParams(s)
		if err != nil {
			return
		}
		back, err := ood.ParseParams(p.String())
		if err != nil || !reflect.DeepEqual(back, p) {
			t.Fatalf("%q reads as %#v, and that, written, as %#v (%v)", s, p, back, err)
		}
		if _, err := json.Marshal(p); err != nil {
			t.Fatal(err)
		}
	})
}

func TestMethodWith(t *testing.T) {
	m := ood.Method{Name: "m", Params: []ood.Param{{Name: "k", Default: 1, Takes: "count"}, {Name: "where", Default: "top", Takes: "of=top|bottom"}}}
	got, err := m.With(ood.Params{"where": "bottom"})
	if want := (ood.Params{"k": 1., "where": "bottom"}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	got["k"] = 5.
	if m.Default()["k"] != 1. {
		t.Error("With hands out the default itself")
	}
	if _, err := (ood.Method{Name: "m"}).With(ood.Params{"l": 1.}); err == nil || err.Error() != `method "m": unknown parameter "l": there are none` {
		t.Error(err)
	}
}

func ExampleMethod_With() {
	m := ood.Method{Name: "distance", Params: []ood.Param{{Name: "percentile", Default: 0, Takes: "least=0,most=100"}}}
	p, _ := m.With(ood.Params{"percentile": 50.})
	fmt.Println(p)
	_, err := m.With(ood.Params{"percentage": 50.})
	fmt.Println(err)
	// Output:
	// percentile=50
	// method "distance": unknown parameter "percentage": there are percentile
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
		`method "nothing": parameter "rows" must be a whole number of at least 0, not 0.5`:                   {"rows": .5},
		`method "nothing": parameter "rows" must be a whole number of at least 0, not 1e+300`:                {"rows": 1e300},
		`method "nothing": parameter "k" must be a whole number or a share below 1, above 0, not 0`:          {"k": 0.},
		`method "nothing": parameter "k" must be a whole number or a share below 1, above 0, not 1.5`:        {"k": 1.5},
		`method "nothing": parameter "k" must be a whole number or a share below 1, above 0, not -0.5`:       {"k": -.5},
		`method "nothing": parameter "x" must be a finite number of at most 9, not NaN`:                      {"x": math.NaN()},
		`method "nothing": parameter "hidden" must be a whole number of at least 1 and at most 99, not 100`:  {"hidden": "64x100"},
		`method "nothing": parameter "hidden" must be a whole number, or several joined by "x", not "64,32"`: {"hidden": "64,32"},
		`method "nothing": parameter "x" must be a number, not "2"`:                                          {"x": "2"},
		`method "nothing": parameter "logits" must be true or false, not "yes"`:                              {"logits": "yes"},
		`method "nothing": parameter "where" must be one of top, bottom, not "side"`:                         {"where": "side"},
		`method "nothing": unknown parameter "nonsense": there are hidden, k, logits, rows, where, x`:        {"nonsense": 1.},
	} {
		got := ""
		if _, err := m.With(p); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%v: %q, want %q", p, got, want)
		}
	}
}
