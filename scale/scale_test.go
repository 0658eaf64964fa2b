package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/audit/engine"
	"github.com/attach-uncertainty/attach/internal/command"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	rowdata "github.com/attach-uncertainty/attach/internal/data/rows"
)

// TestMain runs the scale program or attach instead of the tests if a test started this binary as
// that program.
func TestMain(m *testing.M) {
	switch os.Getenv("SCALE_PROGRAM") {
	case "scale":
		main()
	case "attach":
		command.Main(func(ctx context.Context) int {
			return command.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
		})
	}
	code := m.Run()
	removeCopies()
	os.Exit(code)
}

// makeFolder changes to a new folder with a .attach file and five input files. It returns
// the audit.json that attach audit writes for these files.
func makeFolder(t *testing.T) (want []byte) {
	t.Helper()
	models, err := filepath.Abs("../testmodels")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	attach(t, "fit", models+"/digits_resnet.onnx", "--x", models+"/digits_fit.npz", "--cal", models+"/digits_cal.npz", "--preprocess", models+"/digits.preprocess.json", "-o", "m.attach")
	copyFile(t, models+"/letters.npz", "part-2.npz")
	for _, i := range []int{0, 1, 3, 4} {
		copyFile(t, models+"/digits_test.npz", fmt.Sprintf("part-%d.npz", i))
	}
	attach(t, "audit", "m.attach", "--x", "part-*.npz", "-o", "single", "--every", "3")
	return readFile(t, "single/audit.json")
}

func attach(t *testing.T, args ...string) {
	t.Helper()
	var stderr bytes.Buffer
	if code := command.Run(t.Context(), args, nil, &bytes.Buffer{}, &stderr); code != 0 {
		t.Fatalf("attach %s: exit status %d: %s", strings.Join(args, " "), code, &stderr)
	}
}

func copyFile(t *testing.T, source, destination string) {
	t.Helper()
	if err := os.WriteFile(destination, readFile(t, source), 0o666); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// scaleCommand returns a command that runs the scale program with args. If wrapper is not
// empty, the wrapper starts the program.
func scaleCommand(ctx context.Context, t *testing.T, wrapper []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := append(append(wrapper, self), args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "SCALE_PROGRAM=scale")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // lets a script stop the processes that it started
	cmd.WaitDelay = time.Minute
	return cmd
}

func checkAudit(t *testing.T, dir string, want []byte) {
	t.Helper()
	if !bytes.Equal(readFile(t, filepath.Join(dir, "audit.json")), want) {
		t.Errorf("%s/audit.json is not what attach audit writes", dir)
	}
}

func parseAudit(t *testing.T, content []byte) (a audit.Audit) {
	t.Helper()
	if err := json.Unmarshal(content, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestPrism checks that audits on Prism write the same audit.json as attach audit. It covers
// local folders, a bucket, added files and resuming after a bad file.
func TestPrism(t *testing.T) {
	network, err := filepath.Abs("../testmodels/digits_resnet.onnx")
	if err != nil {
		t.Fatal(err)
	}
	network = "file://" + network
	want := makeFolder(t)
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	mustRun := func(args ...string) {
		t.Helper()
		if out, err := scaleCommand(t.Context(), t, nil, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	mustRun("m.attach", "--x", "part-*.npz", "-o", "prism", "--every", "3")
	checkAudit(t, "prism", want)
	if !bytes.Equal(readFile(t, "prism/scores.parquet"), readFile(t, "single/scores.parquet")) {
		t.Error("prism/scores.parquet is not what attach audit writes")
	}

	bucket := "file://" + dir
	mustRun(bucket+"/m.attach", "--x", "part-*.npz", "-o", bucket+"/cloud", "--every=3")
	checkAudit(t, "cloud", want)
	if remaining, _ := filepath.Glob("cloud/*"); len(remaining) != 5 {
		t.Errorf("the bucket holds %v", remaining)
	}
	divideScores(t, "cloud")
	checkAudit(t, "cloud", want)
	// The earlier result must stay until the new one is complete.
	copyFile(t, "part-0.npz", "part-5.npz")
	if err := os.WriteFile("part-6.npz", []byte("PK"), 0o666); err != nil {
		t.Fatal(err)
	}
	output, err := scaleCommand(t.Context(), t, nil, bucket+"/m.attach", "--x", "part-*.npz", "-o", bucket+"/cloud", "--every=3").CombinedOutput()
	if err == nil || !strings.Contains(string(output), "attach: part-6.npz: ") || !strings.Contains(string(output), "; "+bucket+"/cloud still holds the earlier audit") {
		t.Errorf("%v: %s", err, output)
	}
	checkAudit(t, "cloud", want)
	if remaining, _ := filepath.Glob("cloud/parts/*"); len(remaining) < 2 {
		t.Errorf("the folder of parts holds %v", remaining)
	}
	if err := os.Remove("part-6.npz"); err != nil {
		t.Fatal(err)
	}
	mustRun(bucket+"/m.attach", "--x", "part-*.npz", "-o", bucket+"/cloud", "--every=3")
	attach(t, "audit", "m.attach", "--x", "part-*.npz", "-o", "more", "--every", "3")
	checkAudit(t, "cloud", readFile(t, "more/audit.json"))
	if !bytes.Equal(readFile(t, "cloud/scores.parquet"), readFile(t, "more/scores.parquet")) {
		t.Error("cloud/scores.parquet is not what attach audit writes")
	}
	if remaining, _ := filepath.Glob("cloud/*"); len(remaining) != 5 {
		t.Errorf("the bucket holds %v", remaining)
	}
	if err := os.Remove("part-5.npz"); err != nil {
		t.Fatal(err)
	}

	// Keys of rows must begin with the file names as the user gave them.
	mustRun("m.attach", "--x", bucket+"/part-{0..1}.npz", "--x", bucket+"/part-[2-4]*.npz", "-o", "urls", "--every=3")
	got := parseAudit(t, readFile(t, "urls/audit.json"))
	if expected := parseAudit(t, want); got.Inputs != expected.Inputs || got.Discoveries != expected.Discoveries || got.Outliers != expected.Outliers || len(got.Shards) != 5 ||
		got.Shards[4].Name != bucket+"/part-4.npz" || got.HighestScoring[0].Key != bucket+"/"+expected.HighestScoring[0].Key {
		t.Errorf("%+v, want %+v", got, expected)
	}

	// A file that cannot be read must not stop the others, and the same command must
	// resume.
	good := readFile(t, "part-3.npz")
	if err := os.WriteFile("part-3.npz", []byte("PK"), 0o666); err != nil {
		t.Fatal(err)
	}
	out, err := scaleCommand(t.Context(), t, nil, "m.attach", "--x", "part-*.npz", "-o", "again", "--every", "3").CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.HasPrefix(string(out), "attach: part-3.npz: ") || strings.Count(string(out), "\n") != 1 {
		t.Errorf("%v: %s", err, out)
	}
	if parts, _ := filepath.Glob("again/parts/*.parquet"); len(parts) != 4 {
		t.Errorf("the parts are %v", parts)
	}
	if err := os.WriteFile("part-3.npz", good, 0o666); err != nil {
		t.Fatal(err)
	}
	mustRun("m.attach", "--x", "part-*.npz", "-o", "again", "--every", "3")
	checkAudit(t, "again", want)

	// Errors must name files by URL instead of their local copy. The flag --model with a
	// URL replaces a model that is not on this machine.
	if err := os.WriteFile("bad.npz", []byte("PK"), 0o666); err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	for _, c := range []struct {
		model []string
		want  string
	}{
		{nil, "attach: " + bucket + "/m.attach: the model that it was fitted for is not on this machine; name the URL of the model with --model\n"},
		{[]string{"--model", network}, "attach: " + bucket + "/bad.npz: not a valid NumPy file: it is no archive, or one cut short"},
	} {
		out, err := scaleCommand(t.Context(), t, nil, append([]string{bucket + "/m.attach", "--x", bucket + "/bad.npz", "-o", "named"}, c.model...)...).CombinedOutput()
		if err == nil || !strings.HasPrefix(string(out), c.want) || strings.Contains(string(out), tmp) {
			t.Errorf("%v: %s", err, out)
		}
	}

	// A bucket must also resume after a part was damaged and a file changed.
	if err := os.WriteFile("part-3.npz", []byte("PK"), 0o666); err != nil {
		t.Fatal(err)
	}
	cloud := []string{"m.attach", "--x", bucket + "/part-{0..1}.npz", "--x", bucket + "/part-[2-4]*.npz", "-o", bucket + "/again2", "--every=3"}
	if out, err := scaleCommand(t.Context(), t, nil, cloud...).CombinedOutput(); err == nil || !strings.Contains(string(out), "part-3.npz: ") {
		t.Errorf("%v: %s", err, out)
	}
	parts, _ := filepath.Glob("again2/parts/*.parquet")
	if len(parts) != 4 {
		t.Fatalf("the parts are %v", parts)
	}
	damaged := readFile(t, parts[0])
	damaged[len(damaged)/2] ^= 1
	if err := os.WriteFile(parts[0], damaged, 0o666); err != nil {
		t.Fatal(err)
	}
	copyFile(t, "part-2.npz", "part-1.npz")
	if err := os.WriteFile("part-3.npz", good, 0o666); err != nil {
		t.Fatal(err)
	}
	out, err = scaleCommand(t.Context(), t, nil, cloud...).CombinedOutput()
	if err != nil || strings.Count(string(out), "note: ") != 2 || !strings.Contains(string(out), "note: "+bucket+"/again2/parts/000000-000000000000.parquet: ") || !strings.Contains(string(out), "/part-1.npz changed (") {
		t.Errorf("%v: %s", err, out)
	}
	cloud[6] = bucket + "/new"
	mustRun(cloud...)
	checkAudit(t, "again2", readFile(t, "new/audit.json"))
	copyFile(t, "part-0.npz", "part-1.npz")
	if out, err := scaleCommand(t.Context(), t, nil, cloud...).CombinedOutput(); err == nil || !strings.Contains(string(out), "/part-1.npz, which has changed since (") {
		t.Errorf("%v: %s", err, out)
	}
}

// divideScores replaces the scores of a finished audit by a folder of files, as of a large audit.
func divideScores(t *testing.T, dir string) {
	t.Helper()
	scores, err := audit.OpenFile(filepath.Join(dir, audit.Scores))
	if err != nil {
		t.Fatal(err)
	}
	_, err = audit.Finish(t.Context(), []*audit.File{scores}, audit.Output{Dir: dir, FileRows: 100, Note: json.RawMessage(readFile(t, filepath.Join(dir, "run.json"))),
		Page: func(w io.Writer, _ *audit.Audit) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, audit.Scores, "part-0000*.parquet")); len(files) < 2 {
		t.Fatalf("the scores are in %v", files)
	}
}

// TestFolders checks that a folder of scores and a file replace each other in a bucket, and that
// the files of an earlier result are removed.
func TestFolders(t *testing.T) {
	makeFolder(t)
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	s, bucket := newStorage(), "file://"+dir+"/bucket"
	if err := os.Mkdir("bucket", 0o777); err != nil {
		t.Fatal(err)
	}
	attach(t, "merge", "single", "-o", "folder", "--fdr", "0.2")
	divideScores(t, "folder")
	attach(t, "merge", "single", "-o", "other", "--fdr", "0.3")
	divideScores(t, "other")
	for _, from := range []string{"single", "folder", "other", "single"} {
		if err := s.publish(t.Context(), from, bucket, false); err != nil {
			t.Fatal(err)
		}
		fetched, err := s.fetchAudit(t.Context(), bucket)
		if err == nil {
			err = os.Remove(filepath.Join(fetched, "parts")) // it is empty
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range []string{"bucket", fetched} {
			if out, err := exec.Command("diff", "-r", from, to).CombinedOutput(); err != nil {
				t.Errorf("%s and %s differ: %s", from, to, out)
			}
		}
	}
}

// TestTogether checks that small files are scored in groups and that a bad file does not
// stop the others. A second run must complete the audit after the file is repaired.
func TestTogether(t *testing.T) {
	models, err := filepath.Abs("../testmodels")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	attach(t, "fit", models+"/toy_regressor.onnx", "--x", models+"/toy_fit.npz", "--cal", models+"/toy_cal.npz", "--no-intervals", "-o", "m.attach")
	const bad = "007.csv"
	for i := range 300 {
		if err := os.WriteFile(fmt.Sprintf("%03d.csv", i), fmt.Appendf(nil, "x\n%d\n", i%9), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	attach(t, "audit", "m.attach", "--x", "[0-9]*.csv", "-o", "single")
	good := readFile(t, bad)
	if err := os.WriteFile(bad, []byte("x\nno number\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	out, err := scaleCommand(t.Context(), t, nil, "m.attach", "--x", "[0-9]*.csv", "-o", "out").CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "attach: "+bad+": ") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := scaleCommand(t.Context(), t, nil, "m.attach", "--x", "[0-9]*.csv", "-o", "out[1]").CombinedOutput(); err == nil || !strings.HasPrefix(string(out), "attach: "+bad+": ") {
		t.Errorf("%v: %s", err, out)
	}
	parts, _ := filepath.Glob("out/parts/*.parquet")
	if len(parts) != 2 || filepath.Base(parts[1])[:6] != "000256" {
		t.Errorf("the parts are %v", parts)
	}
	// The flag --skip-bad leaves out bad files and files without rows.
	out, err = scaleCommand(t.Context(), t, nil, "m.attach", "--x", "[0-9]*.csv", "--skip-bad", "-o", "out3").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "note: left out a file that cannot be read: "+bad+": line 2: ") {
		t.Errorf("%v: %s", err, out)
	}
	attach(t, "audit", "m.attach", "--x", "[0-9]*.csv", "--skip-bad", "-o", "single3")
	checkAudit(t, "out3", readFile(t, "single3/audit.json"))
	if !bytes.Equal(readFile(t, "out3/run.json"), readFile(t, "single3/run.json")) {
		t.Error("out3/run.json is not what attach audit writes")
	}
	if err := os.WriteFile(bad, []byte("x\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		out, err = scaleCommand(t.Context(), t, nil, "m.attach", "--x", "[0-9]*.csv", "--skip-bad", "-o", "out2").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "note: left out 1 file without rows: "+bad) {
			t.Errorf("%v: %s", err, out)
		}
	}
	attach(t, "audit", "m.attach", "--x", "[0-9]*.csv", "--skip-bad", "-o", "single2")
	checkAudit(t, "out2", readFile(t, "single2/audit.json"))
	if err := os.WriteFile(bad, good, 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := scaleCommand(t.Context(), t, nil, "m.attach", "--x", "[0-9]*.csv", "-o", "out").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	checkAudit(t, "out", readFile(t, "single/audit.json"))
	if !bytes.Equal(readFile(t, "out/scores.parquet"), readFile(t, "single/scores.parquet")) {
		t.Error("out/scores.parquet is not what attach audit writes")
	}
}

// TestPieces checks that large files are scored in pieces, whose parts begin where the pieces do,
// and that the results have the same bytes as those of attach audit.
func TestPieces(t *testing.T) {
	models, err := filepath.Abs("../testmodels")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	attach(t, "fit", models+"/toy_regressor.onnx", "--x", models+"/toy_fit.npz", "--cal", models+"/toy_cal.npz", "--no-intervals", "-o", "m.attach")
	// An array that the model does not read makes the file large.
	const rows, padding = 400, 3 << 26
	writeArrays := func(last float32) {
		t.Helper()
		x := make([]float32, rows)
		for i := range x {
			x[i] = float32(i % 9)
		}
		x[rows-1] = last
		f, err := os.Create("large.npz")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := npy.WriteNPZ(f, map[string]rowdata.Array{"x": {Shape: []int{rows, 1}, Data: x}, "padding": {Shape: []int{padding}, Data: make([]uint8, padding)}}, false); err != nil {
			t.Fatal(err)
		}
	}
	writeArrays(float32(math.NaN()))
	out, err := scaleCommand(t.Context(), t, nil, "m.attach", "--x", "large.npz", "-o", "large").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "row 399 of large.npz") {
		t.Errorf("%v: %s", err, out)
	}
	var starts []string
	parts, _ := filepath.Glob("large/parts/*.parquet")
	for _, part := range parts {
		starts = append(starts, filepath.Base(part))
	}
	if got := strings.Join(starts, " "); got != "000000-000000000000.parquet 000000-000000000128.parquet 000000-000000000256.parquet" {
		t.Errorf("the parts are %s", got)
	}
	progress := newScored([]engine.Shard{{Path: "large.npz", Size: 50}, {Path: "large.npz", Size: 50}, {Path: "missing.npz", Size: 300}})
	for range 2 { // the second time, no part is new
		progress.read("large/parts")
		if progress.rows != 320 || math.Abs(progress.fraction()-0.2) > 1e-9 {
			t.Errorf("the parts hold %d rows, and %g of the audit", progress.rows, progress.fraction())
		}
	}
	writeArrays(3)
	args := []string{"m.attach", "--x", "large.npz", "--batch", "37"} // pieces are no multiple of the batch
	attach(t, append([]string{"audit", "-o", "single"}, args...)...)
	out, err = scaleCommand(t.Context(), t, nil, append(args, "-o", "large", "--verbose")...).CombinedOutput()
	if err != nil || !regexp.MustCompile(`all workers: \d+ rows scored in [1-3] pieces?, `).Match(out) { // Prism may lose metrics of pieces that end together
		t.Errorf("%v: %s", err, out)
	}
	checkAudit(t, "large", readFile(t, "single/audit.json"))
	if !bytes.Equal(readFile(t, "large/scores.parquet"), readFile(t, "single/scores.parquet")) {
		t.Error("large/scores.parquet is not what attach audit writes")
	}
}

// TestCommonPrefix checks that names of parts in a range of shards begin with the common
// prefix.
func TestCommonPrefix(t *testing.T) {
	for _, c := range []struct {
		from, to int
		want     string
	}{{7, 7, "000007"}, {256, 511, "000"}, {256, 299, "0002"}, {999999, 1000000, ""}} {
		if got := commonPrefix(c.from, c.to); got != c.want {
			t.Errorf("%d to %d: %q", c.from, c.to, got)
		}
	}
	for name, want := range map[string]bool{"000256-000000000000.parquet": true, "000255-000000000000.parquet": false, "000260-failed.txt": false, "runs.txt": false, "300-1.parquet": false} {
		if engine.StartsBetween(name, engine.Place{Shard: 256}, engine.Place{Shard: 512}) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

// TestVersions checks that this module and the main module use the same versions of the
// Parquet and compression libraries. Otherwise, scores.parquet could have different bytes.
func TestVersions(t *testing.T) {
	scaleMod, attachMod := string(readFile(t, "go.mod")), string(readFile(t, "../go.mod"))
	for _, module := range []string{"github.com/parquet-go/parquet-go", "github.com/klauspost/compress"} {
		find := regexp.MustCompile(regexp.QuoteMeta(module) + ` v\S+`)
		if a, b := find.FindString(scaleMod), find.FindString(attachMod); a == "" || a != b {
			t.Errorf("%q and %q", a, b)
		}
	}
}

// TestFlags checks that splitArgs separates common flags of attach audit from flags of Beam.
func TestFlags(t *testing.T) {
	args := []string{"m.attach", "--x", "a", "-o", "b", "--every=3", "--fdr", ".1", "--verbose", "--model", "c", "--alpha", ".1", "--level", ".9", "--device", "0", "--threads", "1", "--batch", "2", "--groups", "d"}
	attachArgs, beamArgs := splitArgs(append(args, "--runner", "flink", "--endpoint=localhost:1", "--async", "--parallelism", "2"))
	if strings.Join(attachArgs, " ") != strings.Join(args, " ") || strings.Join(beamArgs, " ") != "--runner=flink --endpoint=localhost:1 --async --parallelism=2" {
		t.Errorf("%q and %q", attachArgs, beamArgs)
	}
}

// TestJobServer checks that an endpoint without a job server is an error that names it, after
// the given time.
func TestJobServer(t *testing.T) {
	endpoint := "localhost:" + freePort(t)
	if err := checkJobServer(t.Context(), endpoint, 50*time.Millisecond); err == nil || !strings.HasPrefix(err.Error(), "no job server answered at "+endpoint+" within 50ms; ") {
		t.Errorf("%v", err)
	}
	if err := checkJobServer(t.Context(), "", time.Hour); err != nil {
		t.Errorf("without an endpoint: %v", err)
	}
}

// TestFlink runs an audit on a cluster with two TaskManagers and kills one of them.
func TestFlink(t *testing.T) {
	if os.Getenv("SCALE_FLINK") == "" {
		t.Skip("it takes minutes, Java, and 150 MB by Maven on first use: set SCALE_FLINK=1")
	}
	auditOnCluster(t, "flink", func(dir string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, "taskmanager-1.pid")) }, "--parallelism=2")
}

// TestSpark runs an audit on Spark and kills one of the workers.
func TestSpark(t *testing.T) {
	if os.Getenv("SCALE_SPARK") == "" {
		t.Skip("it takes minutes, Java, and 260 MB by Maven on first use: set SCALE_SPARK=1")
	}
	auditOnCluster(t, "spark", func(string) ([]byte, error) { return exec.Command("pgrep", "-o", "-f", os.Args[0]+" --id=").Output() })
}

// auditOnCluster audits 30 files with cluster.sh, and kills the process that victim returns
// after the first parts. The result must equal that of attach audit, and no worker process may
// remain. The argument of victim is the folder of the process ids.
func auditOnCluster(t *testing.T, engine string, victim func(dir string) (pid []byte, err error), flags ...string) {
	t.Helper()
	for _, program := range []string{"java", "mvn", "curl", "bash", "pgrep"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s", program)
		}
	}
	script, err := filepath.Abs("cluster.sh")
	if err != nil {
		t.Fatal(err)
	}
	makeFolder(t)
	for i := range 30 {
		copyFile(t, "part-0.npz", fmt.Sprintf("many-%d.npz", i))
	}
	attach(t, "audit", "m.attach", "--x", "many-*.npz", "-o", "whole", "--batch", "1")
	dir := t.TempDir()
	t.Setenv("CLUSTER_DIR", dir)
	for _, name := range []string{"BEAM_PORT", "REST_PORT", "RPC_PORT"} {
		t.Setenv(name, freePort(t))
	}
	cmd := scaleCommand(t.Context(), t, []string{script, engine}, append([]string{"m.attach", "--x", "many-*.npz", "-o", "cluster", "--batch", "1", "--runner=" + engine, "--endpoint=localhost:" + os.Getenv("BEAM_PORT")}, flags...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	killed := false
	for ended := false; !ended; {
		select {
		case err := <-done:
			if ended = true; err != nil {
				t.Fatalf("%v: %s", err, &out)
			}
		case <-time.After(20 * time.Millisecond):
			parts, _ := filepath.Glob("cluster/parts/*.parquet")
			if killed || len(parts) < 2 {
				continue
			}
			content, err := victim(dir)
			pid := 0
			if err == nil {
				pid, err = strconv.Atoi(strings.TrimSpace(string(content)))
			}
			if err == nil {
				err = syscall.Kill(pid, syscall.SIGKILL)
			}
			if killed = true; err != nil {
				t.Error(err)
			}
		}
	}
	if !killed {
		t.Error("the audit was done before a process could be killed")
	}
	checkAudit(t, "cluster", readFile(t, "whole/audit.json"))
	if !bytes.Equal(readFile(t, "cluster/scores.parquet"), readFile(t, "whole/scores.parquet")) {
		t.Error("cluster/scores.parquet is not what attach audit writes")
	}
	time.Sleep(3 * time.Second)
	if remaining, _ := exec.Command("pgrep", "-f", os.Args[0]+" --id=").Output(); len(remaining) > 0 {
		t.Errorf("workers are left: %s", remaining)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
