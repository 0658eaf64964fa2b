package tokenizer_test

import (
	"fmt"
	"os"

	"github.com/attach-uncertainty/attach/internal/data/tokenizer"
)

func ExampleRead() {
	file, err := os.ReadFile("testdata/bert.json")
	if err != nil {
		panic(err)
	}
	t, err := tokenizer.Read(file, []byte(`{"model_max_length": 8, "pad_token": "[PAD]"}`))
	if err != nil {
		panic(err)
	}
	short, err := t.Encode("A model")
	if err != nil {
		panic(err)
	}
	pair, err := t.EncodePair("A model that is sure", "is not always right.")
	if err != nil {
		panic(err)
	}
	for _, e := range []tokenizer.Encoding{short, pair} {
		fmt.Println(e.IDs, e.Types)
	}
	// Output:
	// [2 35 592 3] [0 0 0 0]
	// [2 35 592 3 334 398 644 3] [0 0 0 0 1 1 1 1]
}
