package tables_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/tables"
)

// This example predicts, in pure Go, for a table of numbers that a network computed
// elsewhere.
func ExampleOpen() {
	ctx := context.Background()
	b, err := attach.Open("../testdata/v1_regression.attach")
	check(err)
	predictor, err := b.Predictor(attach.PredictOptions{Level: 0.8})
	check(err)
	t, err := tables.Open(ctx, "testdata/features.jsonl", b, tables.Options{ID: "id"})
	check(err)
	row := 0
	for p, err := range predictor.Stream(ctx, t.Rows(ctx)) {
		check(err)
		fmt.Printf("%s: %.1f in [%.1f, %.1f], flag %v\n", t.ID(row), p.Targets[0].Value, p.Targets[0].Lower, p.Targets[0].Upper, p.Flag)
		row++
	}
	// Output:
	// a: 0.5 in [-1.4, 2.2], flag false
	// b: 6.0 in [4.7, 8.2], flag true
}

// This example is a batch job that runs the model on a table of any length, and writes JSON
// lines.
func Example_batch() {
	w := bufio.NewWriter(os.Stdout)
	predictFile(context.Background(), "M.attach", "rows.parquet", w)
	check(w.Flush())
}

func predictFile(ctx context.Context, bundle, path string, w io.Writer) {
	b, err := attach.Open(bundle)
	check(err)
	net, err := featurize.OpenFor(ctx, b, "", featurize.Options{Unhashed: true})
	check(err)
	defer net.Close()
	predictor, err := b.Predictor(attach.PredictOptions{})
	check(err)
	t, err := tables.Open(ctx, path, b, tables.Options{Network: net})
	check(err)
	for _, note := range t.Notes {
		log.Print(note)
	}
	lines, row := json.NewEncoder(w), 0
	for p, err := range predictor.Stream(ctx, t.Rows(ctx)) {
		check(err)
		check(lines.Encode(map[string]any{"id": t.ID(row), "prediction": p}))
		row++
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
