package audit

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"
)

// otherMachines runs the tasks of a merge as other machines would: they open the merge, get records
// in any order, and repeat a task.
type otherMachines struct{ dirFiles }

// Put writes a file in a folder.
func (o otherMachines) Put(ctx context.Context, name string, content io.WriterTo) error {
	if err := os.MkdirAll(filepath.Dir(filepath.Join(string(o.dirFiles), name)), 0o777); err != nil {
		return err
	}
	return o.dirFiles.Put(ctx, name, content)
}

func (o otherMachines) Suit(int) bool { return true }

func (o otherMachines) Shared() bool { return true }

func (o otherMachines) Fetch(context.Context) error { return nil }

// Run runs the tasks of a round.
func (o otherMachines) Run(ctx context.Context, prefix string, r Round, partitions, bins int) error {
	random := rand.New(rand.NewPCG(1, 1))
	toBins, toPartitions := map[int][][]byte{}, map[int][][]byte{}
	var sent map[int][][]byte
	send := func(to int, record []byte) error {
		sent[to] = append(sent[to], append([]byte(nil), record...))
		return nil
	}
	shuffled := func(list [][]byte) Records {
		random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		return func(use func(record []byte) error) error {
			for _, record := range list {
				if err := use(record); err != nil {
					return err
				}
			}
			return nil
		}
	}
	tasks := func(n int, to map[int][][]byte, task func(m *Merge, i int) error) error {
		m, err := OpenMerge(ctx, o, prefix, r)
		for k, i := range random.Perm(n) {
			if sent = to; err == nil {
				err = task(m, i)
			}
			if sent = (map[int][][]byte{}); k == 0 && err == nil { // its first results count
				err = task(m, i)
			}
		}
		return err
	}
	if bins == 0 {
		return tasks(partitions, nil, func(m *Merge, i int) error { return m.Results(ctx, i) })
	}
	err := tasks(partitions, toBins, func(m *Merge, i int) error { return m.Scatter(ctx, r, i, send) })
	if err == nil {
		err = tasks(bins, toPartitions, func(m *Merge, i int) error { return m.Match(ctx, r, i, shuffled(toBins[i]), send) })
	}
	if err == nil {
		err = tasks(partitions, nil, func(m *Merge, i int) error { return m.Gather(ctx, r, i, shuffled(toPartitions[i])) })
	}
	return err
}

// checkPartitions checks that the results of files are those of a, if their rows are divided into
// partitions, and if other machines merge these.
func checkPartitions(t *testing.T, list []*File, a *Audit) {
	t.Helper()
	here, there := t.TempDir(), t.TempDir()
	zero := 0.
	look := func(_ context.Context, _ string, rows []int, _ blas32.General, _ bool) (list []Shown, err error) {
		for _, row := range rows {
			list = append(list, Shown{Cells: []Cell{{Column: "zero", Number: &zero}, {Column: "row", Text: fmt.Sprint(row)}}})
		}
		return list, nil
	}
	to := Output{Dir: t.TempDir(), Look: &Look{Rows: look}, Page: func(io.Writer, *Audit) error { return nil }}
	whole, err := Finish(t.Context(), list, to)
	if err != nil {
		t.Fatal(err)
	}
	want := shownResults(t, whole)
	to.Dir, to.FileRows = here, a.Inputs/3+1
	finish := func() {
		t.Helper()
		if a, err := Finish(t.Context(), list, to); err != nil {
			t.Fatal(err)
		} else if got := shownResults(t, a); got != want {
			t.Errorf("partitions change the results: %s\nwant: %s", got, want)
		}
	}
	finish()
	to.Dir, to.Workers = there, otherMachines{dirFiles(there)}
	finish()
	for range 2 {
		for _, table := range []string{Scores, Duplicates} {
			names, _ := rowsOf(t, filepath.Join(here, table))
			others, _ := rowsOf(t, filepath.Join(there, table))
			if len(names) != len(others) {
				t.Fatalf("%v, want %v", others, names)
			}
			for _, name := range names {
				path := filepath.Join(table, name)
				first, err := os.ReadFile(filepath.Join(here, path))
				if err != nil {
					t.Fatal(err)
				}
				if second, err := os.ReadFile(filepath.Join(there, path)); err != nil || string(first) != string(second) {
					t.Errorf("other machines write another %s, %v", path, err)
				}
			}
		}
		f, err := OpenFile(filepath.Join(there, Scores))
		if err != nil {
			t.Fatal(err)
		}
		list = []*File{f}
		finish() // the earlier results are merged and replaced
	}
	if names, _ := filepath.Glob(filepath.Join(there, ".attach*")); names != nil {
		t.Errorf("%v are left", names)
	}
}
