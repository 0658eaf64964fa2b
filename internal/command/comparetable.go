package command

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/report"
	"github.com/attach-uncertainty/attach/ood/compare"
)

// printReport prints a comparison as text.
func printReport(w io.Writer, r *compare.Report) error {
	printf(w, "%s to fit with, %s in-domain, %s out-of-domain", rows.Count(r.NFit, "row"), display.Count(r.NIn), display.Count(r.NOut))
	if n := len(r.Sets); n > 0 {
		parts := make([]string, n)
		for i, s := range r.Sets {
			parts[i] = s.Name + " " + display.Count(s.N)
		}
		printf(w, ": %s; means over the sets", strings.Join(parts, ", "))
	}
	fmt.Fprint(w, "\n\n")
	figures, bySet := report.Text(r)
	if err := printRows(w, figures); err != nil {
		return err
	}
	if bySet != nil {
		fmt.Fprint(w, "\nAUROC by set\n\n")
		if err := printRows(w, bySet); err != nil {
			return err
		}
	}
	for _, m := range r.Methods {
		if m.NOutliers > 0 {
			printf(w, "\n%s: fitted with %s and measured on %s\n", m.Name, rows.Count(m.NOutliers, "out-of-domain row"), rows.Count(m.NOut, "other"))
		}
	}
	printAbsent(w, "failed", report.Failures(r))
	printAbsent(w, "skipped", report.Together(r.Skipped))
	return nil
}

// printAbsent prints a line for every reason why there is no result.
func printAbsent(w io.Writer, what string, list []compare.Skipped) {
	for _, a := range list {
		printf(w, "%s (%s): %s\n", what, a.Reason, a.Name)
	}
}

// rows are a table's lines, the first of them its head; the first column is
// aligned to the left, the others to the right.
func printRows(w io.Writer, rows [][]string) error {
	width := 0
	for _, row := range rows {
		for j, cell := range row {
			row[j] = display.Printable(cell)
		}
		width = max(width, len([]rune(row[0])))
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		fmt.Fprintf(t, "%-*s\t%s\t\n", width, row[0], strings.Join(row[1:], "\t"))
	}
	return t.Flush()
}

// writeScores writes the score of every row: METHOD/in and METHOD/out, or
// METHOD/out/NAME where sets have names; of a sweep, METHOD/INDEX/in and so on.
func writeScores(ctx context.Context, path string, r *compare.Report) error {
	return atomicfile.WriteFile(ctx, path, func(w io.Writer) error {
		z := npy.NewNPZWriter(w)
		vector := func(name string, x []float64) error {
			return z.Array(name, rows.Array{Shape: []int{len(x)}, Data: x})
		}
		if r.Wrong != nil {
			if err := z.Array("wrong", rows.Array{Shape: []int{len(r.Wrong)}, Data: r.Wrong}); err != nil {
				return err
			}
		}
		for _, m := range r.Methods {
			for i, conf := range m.Configs {
				name := m.Name
				if r.Sweep {
					name = fmt.Sprintf("%s/%d", name, i)
				}
				if err := vector(name+"/in", conf.In); err != nil {
					return err
				}
				for k, scores := range conf.Out {
					out := name + "/out"
					if len(r.Sets) > 0 {
						out += "/" + r.Sets[k].Name
					}
					if err := vector(out, scores); err != nil {
						return err
					}
				}
			}
		}
		return z.Close()
	})
}

// writePage writes a page of its own.
func writePage(ctx context.Context, path string, page report.Page) error {
	return atomicfile.WriteFile(ctx, path, func(w io.Writer) error { return report.Write(w, page) })
}
