package command

import (
	"encoding/json"
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
		parsed, err := parseParams(want)
		if err != nil {
			t.Fatal(err)
		}
		if len(p) > 0 && !reflect.DeepEqual(parsed, p) {
			t.Errorf("%q reads as %#v", want, parsed)
		}
	}
}

func TestParseParams(t *testing.T) {
	p, err := parseParams(" k=1,loss=bce\tlogits=false ")
	if want := (ood.Params{"k": 1., "loss": "bce", "logits": false}); err != nil || !reflect.DeepEqual(p, want) {
		t.Errorf("%v, %v", p, err)
	}
	// Values such as inf and NaN stay strings, because they are not finite numbers.
	if p, err := parseParams("a=inf b=NaN"); err != nil || p["a"] != "inf" || p["b"] != "NaN" {
		t.Errorf("%v, %v", p, err)
	}
	for _, s := range []string{"k", "=1", "k=", "k=1 k=2"} {
		if _, err := parseParams(s); err == nil {
			t.Errorf("%q: no error", s)
		}
	}
}

func FuzzParseParams(f *testing.F) {
	for _, s := range []string{"", "k=100 lambda=1e-05 loss=bce", "a=true,b=false", "a=0x1p-2", "a==b", "ü=1_000", "k=1 k"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parseParams(s)
		if err != nil {
			return
		}
		again, err := parseParams(p.String())
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Fatalf("%q reads as %#v, and that, written, as %#v (%v)", s, p, again, err)
		}
		if _, err := json.Marshal(p); err != nil {
			t.Fatal(err)
		}
	})
}
