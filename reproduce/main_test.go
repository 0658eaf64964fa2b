package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

func TestUsage(t *testing.T) {
	t.Setenv("ATTACH_DATA", "")
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "reproduce: name an experiment"},
		{[]string{"--help"}, 0, "  table1 "},
		{[]string{"-h"}, 0, "usage: reproduce NAME"},
		{[]string{"--seeds", "2"}, 2, "reproduce: name an experiment"},
		{[]string{"figure1", "--help"}, 0, "number of random splits"},
		{[]string{"table1", "--help"}, 0, `(default "out/table1")`}, // the default must not be the source folder, table1
		{[]string{"figure3"}, 2, `there is no experiment "figure3": choose among coverage, table1`},
		{[]string{"figure1", "more"}, 2, `what is "more"?`},
		{[]string{"table2", "--help"}, 0, "  -models folder"},
		{[]string{"theorem1", "--data", "x"}, 2, "reproduce: theorem1 has no flag --data: `reproduce theorem1 --help` lists those it has\n"},
		{[]string{"theorem1", "--ort-lib", "x"}, 2, "theorem1 has no flag --ort-lib: "},
		{[]string{"figure1", "--sets", "yacht"}, 2, "figure1 has no flag --sets"},
		{[]string{"table2", "--seeds", "3"}, 2, "table2 has no flag --seeds: "},
		{[]string{"star", "--sets", "x"}, 2, "star has no flag --sets: "},
		{[]string{"coverage", "--data", "x", "--sets", "yacht,yacht"}, 2, "--sets names yacht twice"},
		{[]string{"table1", "--models", "x"}, 2, "table1 has no flag --models: "},
		{[]string{"coverage"}, 2, "where the data sets are with --data"},
		{[]string{"table1", "--seeds", "x"}, 2, `invalid value "x" for flag -seeds`},
	} {
		var stdout, stderr bytes.Buffer
		if code := experiment.Main(context.Background(), experiments, tt.args, &stdout, &stderr); code != tt.code {
			t.Errorf("%q: exit status %d, want %d", tt.args, code, tt.code)
		}
		if !strings.Contains(stderr.String(), tt.want) || stdout.Len() > 0 {
			t.Errorf("%q: says %q and prints %q, want it to say %q", tt.args, &stderr, &stdout, tt.want)
		}
	}
}
