package command

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestErrors checks that each command in testdata/errors.txt fails with the message below
// it. Unless it has --fail-if, a failed command writes nothing to standard output.
func TestErrors(t *testing.T) {
	table, err := os.ReadFile("testdata/errors.txt")
	if err != nil {
		t.Fatal(err)
	}
	demoFolder(t, "--method", "knn")
	model, err := os.ReadFile("digits_resnet.onnx")
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := os.ReadFile("digits_resnet.attach")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"bad.csv": "x,y\n1.5,2\n\"1,5\",3\n", "wide.csv": "a,b,y\n1,2,3\n", "one.csv": "x\n1\n", "text.csv": "x,y\n1,\n2,low\n", "empty.csv": "",
		"empty.json": "{}\n", "full/x": "hi\n", "cut.onnx": string(model[:100]), "cut.attach": string(bundle[:1000]),
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	cases := 0
	for block := range strings.SplitSeq(strings.TrimSpace(string(table)), "\n\n") {
		call, message, found := strings.Cut(block, "\n")
		args, ok := strings.CutPrefix(call, "$ attach ")
		if !ok || !found {
			continue
		}
		cases++
		var stdout, stderr bytes.Buffer
		code := Run(t.Context(), strings.Fields(args), nil, &stdout, &stderr)
		want := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(message), "…", ".*") + "$")
		result := stdout.Len() > 0 && !strings.Contains(args, "--fail-if") // a gate fails after the result is printed
		if (code != exitFailed && code != exitUsage) || result || !want.MatchString(strings.TrimSpace(stderr.String())) {
			t.Errorf("%s\nprints (exit status %d)\n%s%s\nwant\n%s", call, code, &stdout, &stderr, message)
		}
	}
	if cases < 50 {
		t.Errorf("there are %d cases", cases)
	}
}
