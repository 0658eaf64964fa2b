package experiment

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// note is a record for tests.
type note struct {
	Name  string
	Value float64
}

func (n note) Key() string { return n.Name }

func TestStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	s, err := OpenStore[string, note](path)
	if err != nil {
		t.Fatal(err)
	}
	a, b := note{"a", .9}, note{"b", .1}
	if err := s.Add([]note{a, b}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	raw, _ := os.ReadFile(path)
	if n := bytes.Count(raw, []byte("\n")); n != 2 {
		t.Fatalf("%d lines for 2 results", n)
	}
	// A killed run may leave an incomplete last line.
	if err := os.WriteFile(path, raw[:len(raw)-5], 0o644); err != nil {
		t.Fatal(err)
	}
	if s, err = OpenStore[string, note](path); err != nil {
		t.Fatal(err)
	}
	if !s.Has(a.Name) || s.Has(b.Name) || s.Records[a.Name] != a {
		t.Errorf("read %v after a run that was killed in its second line", s.Records)
	}
	if err := s.Add([]note{b}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if again, _ := os.ReadFile(path); !bytes.Equal(again, raw) {
		t.Errorf("the file is %q, want %q", again, raw)
	}
	if err := os.WriteFile(path, []byte("{}\nnonsense\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenStore[string, note](path); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("error %v, want one that names line 2", err)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	count, out := 0, filepath.Join(t.TempDir(), "results")
	e := Experiment{Name: "long", Shared: []string{"out"}, Resumes: true, New: func(_ *flag.FlagSet, s *Settings) func(context.Context) error {
		job := Job{What: "one", Run: func(context.Context, func(float64)) error { count++; cancel(); return nil }}
		return func(ctx context.Context) error { return RunJobs(ctx, s, []Job{job, job, job}) }
	}}
	var stdout, stderr bytes.Buffer
	code := Main(ctx, []Experiment{e}, []string{"long", "--out", out}, &stdout, &stderr)
	if code != 1 || !strings.Contains(stderr.String(), "results so far are in "+out) || count != 1 {
		t.Errorf("after %d jobs: exit %d, %s", count, code, &stderr)
	}
}

func TestCells(t *testing.T) {
	got := strings.Join(Cells(3, "a", 12, true, 1./3, 1e9, math.NaN(), Known(2), Known(math.NaN()), Known(math.Inf(1))), ";")
	if want := "a;12;true;0.333;1e+09;NaN;2;;"; got != want {
		t.Errorf("cells %s, want %s", got, want)
	}
}

// TestStoreOf checks that a stored record is not measured again and that a failed
// measurement is not stored.
func TestStoreOf(t *testing.T) {
	s, err := OpenStore[string, note](filepath.Join(t.TempDir(), "r.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	failure := errors.New("failed")
	for _, measured := range []struct {
		value float64
		err   error
		want  note
	}{{1, failure, note{}}, {2, nil, note{"a", 2}}, {3, failure, note{"a", 2}}} {
		got, err := s.Of("a", func() (note, error) { return note{"a", measured.value}, measured.err })
		if err == nil && got != measured.want || err != nil && s.Has("a") {
			t.Errorf("%v, %v; want %v", got, err, measured.want)
		}
	}
}
