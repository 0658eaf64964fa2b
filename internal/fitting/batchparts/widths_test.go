package batchparts

import (
	"errors"
	"testing"
)

func TestWidths(t *testing.T) {
	w := Widths{"features": 3, "layer_0": 5, "layer_1": 1}
	for _, c := range []struct {
		want    Widths
		wantErr string
	}{
		{Widths{"features": 3, "logits": 7, "layer_0": 5, "layer_1": 1}, ""},
		{Widths{"logits": 7}, ""},
		{Widths{"features": 4}, "the rows have 3 features, but others have 4"},
		{Widths{"layer_0": 5}, "the rows have 2 earlier layers, but others have 1"},
		{Widths{"layer_0": 5, "layer_1": 2}, "the rows have 1 columns of layer_1, but others have 2"},
	} {
		err := w.Check(c.want, "the rows", "others have")
		if c.wantErr == "" && err == nil {
			continue
		}
		if width := (*WidthError)(nil); !errors.As(err, &width) || err.Error() != c.wantErr {
			t.Errorf("%v against %v: %v, want %q", w, c.want, err, c.wantErr)
		}
	}
}
