package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

func TestUsage(t *testing.T) {
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
		{[]string{"figure3"}, 2, `there is no experiment "figure3": choose among coverage, california, table1`},
		{[]string{"figure1", "more"}, 2, `what is "more"?`},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(context.Background(), tt.args, &stdout, &stderr); code != tt.code {
			t.Errorf("%q: exit status %d, want %d", tt.args, code, tt.code)
		}
		if !strings.Contains(stderr.String(), tt.want) || stdout.Len() > 0 {
			t.Errorf("%q: says %q and prints %q, want it to say %q", tt.args, &stderr, &stdout, tt.want)
		}
	}
}
