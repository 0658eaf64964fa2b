package attach_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/schema"
)

// TestProfileFormats checks the format version of files with and without a profile, and that the
// profile is read back.
func TestProfileFormats(t *testing.T) {
	learn := func(x ood.Tensor, o schema.LearnOptions) *schema.Profile {
		l := schema.NewLearner(o)
		l.Add(ood.InputBlock{Tensors: []ood.Tensor{x}})
		return l.Profile()
	}
	texts := ood.Tensor{Name: "text", Shape: []int{3}, Strings: []string{"the owl", "the cat", "a mimsy owl"}}
	for want, p := range map[string]*schema.Profile{
		`"format": 1`: nil,
		`"format": 2`: learn(ood.Tensor{Name: "x", Shape: []int{3, 1}, Data: []float32{1, 2, 3}}, schema.LearnOptions{}),
		`"format": 3`: learn(texts, schema.LearnOptions{Texts: []string{"text"}}),
	} {
		b := mustFit(t, classifier(30))
		b.Profile = p
		content := mustWrite(t, b)
		if _, members := unpack(t, content); !strings.Contains(string(members["manifest.json"]), want) {
			t.Errorf("the manifest lacks %s", want)
		}
		again, err := read(content)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(again.Profile, p) {
			t.Errorf("%s: the profile is %+v, want %+v", want, again.Profile, p)
		}
	}
}
