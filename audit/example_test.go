package audit_test

import (
	"context"
	"fmt"
	"log"
	"path/filepath"

	"github.com/attach-uncertainty/attach/audit"
	"github.com/attach-uncertainty/attach/audit/result"
)

// This example audits two files of features. It then asks for a smaller false discovery rate,
// and lists what it names.
func Example() {
	ctx := context.Background()
	dir, remove := files() // m.attach, monday.npz and tuesday.npz
	defer remove()
	a, err := audit.Run(ctx, audit.Options{
		Bundle: filepath.Join(dir, "m.attach"),
		Inputs: []string{filepath.Join(dir, "*day.npz")},
		Dir:    filepath.Join(dir, "audit"),
		FDR:    .2,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(a.Discoveries, "of", a.Inputs, "inputs are named,", a.Outliers, "or more do not belong")
	for _, g := range a.Groups {
		if g.Kind == "shard" {
			fmt.Println(filepath.Base(g.Name), g.Discoveries, "discoveries")
		}
	}

	finished, err := audit.Open([]string{filepath.Join(dir, "audit")}, func(s *result.Settings) { s.FDR = .05 }, nil)
	if err != nil {
		log.Fatal(err)
	}
	discoveries := true
	n := 0
	for row, err := range finished.Rows(ctx, result.Selection{Discovery: &discoveries}) {
		if err != nil {
			log.Fatal(err)
		}
		if n++; n == 1 {
			fmt.Println(finished.Columns()[0], filepath.Base(row[0].(string)))
		}
	}
	fmt.Println(n, "at the smaller rate")
	// Output:
	// 49 of 600 inputs are named, 36 or more do not belong
	// monday.npz 5 discoveries
	// tuesday.npz 44 discoveries
	// key monday.npz:87
	// 41 at the smaller rate
}
