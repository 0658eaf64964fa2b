// Package reasons measures on ten tables how often package schema reports columns and rows
// although nothing has changed, and how often it finds planted faults. Beside it are checks
// of ranges and two-sample tests of each column.
package reasons

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// Experiment is the reasons command.
var Experiment = experiment.Experiment{
	Name:   "reasons",
	Doc:    "false alarms of the profile of input columns, and the faults that it finds, on ten tables",
	Shared: []string{"data", "sets", "seeds"},
	New: func(flags *flag.FlagSet, s *experiment.Settings) func(ctx context.Context) error {
		experiment.Redefine(flags, "seeds", "1000", "number of fits without a fault; a fiftieth of it for each fault")
		return func(ctx context.Context) error {
			all, err := readTables(s.Data)
			if err != nil {
				return err
			}
			chosen, err := experiment.Choose("--sets", "set", s.Sets, all, func(t table) string { return t.name })
			if err != nil {
				return err
			}
			if err := falseAlarms(ctx, s.Stdout, chosen, s.Seeds); err != nil {
				return err
			}
			if err := renamed(ctx, s.Stdout, chosen); err != nil {
				return err
			}
			return detection(ctx, s.Stdout, chosen, max(1, s.Seeds/50))
		}
	},
}

func fitSizes() []int   { return []int{100, 500, 5000} }
func batchSizes() []int { return []int{50, 200, 1000} }

// alarms counts batches of unchanged rows.
type alarms struct {
	batches, rows, unusual int
	expected               float64
	found                  [numChecks]int
}

func (a *alarms) add(b alarms) {
	a.batches, a.rows, a.unusual, a.expected = a.batches+b.batches, a.rows+b.rows, a.unusual+b.unusual, a.expected+b.expected
	for i := range a.found {
		a.found[i] += b.found[i]
	}
}

// falseAlarms prints how often the checks report something in rows of the same table.
func falseAlarms(ctx context.Context, w io.Writer, tables []table, fits int) error {
	fmt.Fprint(w, "## Without a fault\n\n| table | columns | fit rows | batch | batches |")
	for c := range numChecks {
		fmt.Fprintf(w, " %v |", c)
	}
	fmt.Fprintf(w, " rows with a reason | expected at most |\n%s\n", strings.Repeat("|---", 7+int(numChecks))+"|")
	var total alarms
	for _, t := range tables {
		for _, n := range fitSizes() {
			results := make([]alarms, len(batchSizes()))
			for seed := range fits {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				order := rand.New(rand.NewPCG(uint64(seed), 1)).Perm(t.rows)
				if n+batchSizes()[0] > t.rows {
					break
				}
				f := newFitted(t.block(order[:n]))
				for i, m := range batchSizes() {
					if n+m > t.rows {
						continue
					}
					found, s := f.found(t.block(order[n:n+m]), indices(len(t.columns)))
					results[i].add(alarms{1, m, s.Unusual, s.Expected, counts(found)})
				}
			}
			for i, a := range results {
				if a.batches > 0 {
					fmt.Fprintf(w, "| %s | %d | %d | %d %s\n", t.name, len(t.columns), n, batchSizes()[i], a.cells())
					total.add(a)
				}
			}
		}
	}
	fmt.Fprintf(w, "| all | | | %s\n\n", total.cells())
	return nil
}

func indices(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

func counts(found [numChecks]bool) (n [numChecks]int) {
	for c, f := range found {
		if f {
			n[c] = 1
		}
	}
	return n
}

func (a alarms) cells() string {
	text := fmt.Sprintf("| %d |", a.batches)
	for _, n := range a.found {
		text += fmt.Sprintf(" %.2f %% |", 100*float64(n)/float64(a.batches))
	}
	return text + fmt.Sprintf(" %.3f %% | %.3f %% |", 100*float64(a.unusual)/float64(a.rows), 100*a.expected/float64(a.rows))
}

// renamed prints for how many columns the reader of tables names a column that is missing.
func renamed(ctx context.Context, w io.Writer, tables []table) error {
	dir, err := os.MkdirTemp("", "reasons")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	named, all := 0, 0
	for _, t := range tables {
		var names []string
		for _, c := range t.columns {
			names = append(names, c.name)
		}
		for j, name := range names {
			header := slices.Clone(names)
			header[j] = "renamed"
			lines := strings.Join(header, ",") + "\n" + strings.TrimSuffix(strings.Repeat("1,", len(names)), ",") + "\n"
			path := filepath.Join(dir, "table.csv")
			if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
				return err
			}
			all++
			_, err := inputs.Open(ctx, path, inputs.Options{Columns: names, NoTargets: true})
			if err != nil && strings.Contains(err.Error(), fmt.Sprintf("%q", name)) {
				named++
			}
		}
	}
	fmt.Fprintf(w, "## Renamed columns\n\nThe error names the column in %d of %d cases.\n\n", named, all)
	return nil
}

// trial is a fault of a column in batches of one size.
type trial struct {
	fault, table, column string
	batch                int
}

// detection prints how often the checks find planted faults. The fit has half of the rows,
// 5,000 at most.
func detection(ctx context.Context, w io.Writer, tables []table, repeats int) error {
	found, runs := map[trial][numChecks]int{}, map[trial]int{}
	var order []trial
	for _, t := range tables {
		for seed := range repeats {
			rng := rand.New(rand.NewPCG(uint64(seed), 2)).Perm(t.rows)
			n := min(5000, t.rows/2)
			f := newFitted(t.block(rng[:n]))
			for _, m := range batchSizes() {
				if n+m > t.rows {
					continue
				}
				if ctx.Err() != nil {
					return ctx.Err()
				}
				b := t.block(rng[n : n+m])
				record := func(k trial, columns []int) {
					reported, _ := f.found(b, columns)
					sum := found[k]
					for c, n := range counts(reported) {
						sum[c] += n
					}
					if runs[k] == 0 {
						order = append(order, k)
					}
					found[k] = sum
					runs[k]++
				}
				for j := range b.Tensors {
					before := b.Tensors[j]
					for _, fault := range faults() {
						b.Tensors[j] = clone(before)
						if fault.change(&b.Tensors[j], f.columns[j]) && differs(before, b.Tensors[j]) {
							record(trial{fault.name, t.name, before.Name, m}, []int{j})
						}
					}
					b.Tensors[j] = before
					for i := range j {
						other := b.Tensors[i]
						if (other.Strings == nil) != (before.Strings == nil) || !differs(before, other) {
							continue
						}
						b.Tensors[i].Data, b.Tensors[i].Strings, b.Tensors[j].Data, b.Tensors[j].Strings = before.Data, before.Strings, other.Data, other.Strings
						record(trial{"swapped", t.name, other.Name + "↔" + before.Name, m}, []int{i, j})
						b.Tensors[i], b.Tensors[j] = other, before
					}
				}
			}
		}
	}
	printDetection(w, order, found, runs)
	return nil
}

func printDetection(w io.Writer, order []trial, found map[trial][numChecks]int, runs map[trial]int) {
	fmt.Fprint(w, "## With a fault\n\n| fault | batch | columns |")
	for c := range numChecks {
		fmt.Fprintf(w, " %v |", c)
	}
	fmt.Fprintf(w, "\n%s\n", strings.Repeat("|---", 3+int(numChecks))+"|")
	var names []string
	for _, k := range order {
		if !slices.Contains(names, k.fault) {
			names = append(names, k.fault)
		}
	}
	for _, name := range names {
		for _, m := range batchSizes() {
			var sum [numChecks]float64
			columns := 0
			for _, k := range order {
				if k.fault != name || k.batch != m {
					continue
				}
				columns++
				for c, n := range found[k] {
					sum[c] += float64(n) / float64(runs[k])
				}
			}
			fmt.Fprintf(w, "| %s | %d | %d |", name, m, columns)
			for _, s := range sum {
				fmt.Fprintf(w, " %.1f %% |", 100*s/float64(max(columns, 1)))
			}
			fmt.Fprintln(w)
		}
	}
	fmt.Fprint(w, "\n## Found in fewer than half of the batches of 200 rows\n\n| fault | table | column | schema: note | tests, 1 % in all |\n|---|---|---|---|---|\n")
	for _, name := range names {
		for _, k := range order {
			if n := found[k]; k.fault == name && k.batch == 200 && 2*n[notable] < runs[k] {
				fmt.Fprintf(w, "| %s | %s | %s | %d of %d | %d |\n", name, k.table, k.column, n[notable], runs[k], n[tests1])
			}
		}
	}
}
