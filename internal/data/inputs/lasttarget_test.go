package inputs

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// TestLastTargetIsOptional checks that the last column is the target where targets are
// optional, as in audits, unless the model takes it.
func TestLastTargetIsOptional(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		content string
		target  bool
	}{
		"named.csv":   {"a,b,price\n1,2,3\n4,5,6\n", true},
		"inputs.csv":  {"b,a\n2,1\n5,4\n", false},
		"bare.csv":    {"1,2,3\n4,5,6\n", true},
		"barefew.csv": {"1,2\n4,5\n", false},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		o := Options{Targets: []string{"last"}, TargetOptional: true, SkipOdd: true, Columns: []string{"a", "b"}, Takes: []Takes{{Name: "x", Shape: []int{-1, 2}}}}
		s, err := Open(context.Background(), path, o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := s.Targets.Rows == 2; got != c.target || s.RowLen() != 2 {
			t.Errorf("%s: has a target: %v, want %v; rows of %d", name, got, c.target, s.RowLen())
		}
	}
}
