package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/attach-uncertainty/attach/internal/data/npy"
	rowdata "github.com/attach-uncertainty/attach/internal/data/rows"
)

// TestSize audits random features with attach audit, Prism, Flink and Spark. It prints time and
// memory, and checks that all results have the same bytes. SCALE_SIZE is ROWSxFEATURESxFILES,
// and SCALE_RUNNERS names the runners, which are all by default:
//
//	SCALE_SIZE=10000000x64x40 go test -v -run TestSize -timeout 0 .
//	SCALE_SIZE=2621440x512x1 SCALE_RUNNERS=attach,prism go test -v -run TestSize -timeout 0 .
func TestSize(t *testing.T) {
	if os.Getenv("SCALE_SIZE") == "" {
		t.Skip("it takes minutes and gigabytes of disk: set SCALE_SIZE=1000000x64x4")
	}
	var count, width, files int
	if _, err := fmt.Sscanf(os.Getenv("SCALE_SIZE"), "%dx%dx%d", &count, &width, &files); err != nil {
		t.Fatalf("SCALE_SIZE: %v; write ROWSxFEATURESxFILES", err)
	}
	script, err := filepath.Abs("cluster.sh")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	size := writeFeatures(t, count, width, files)
	t.Logf("%d rows of %d features in %d files of %.2f GB in all", count, width, files, float64(size)/1e9)
	attach(t, "fit", "--task", "regression", "--no-intervals", "--x", "fit.npz", "-o", "m.attach")
	want := ""
	for _, runner := range strings.Split(cmp.Or(os.Getenv("SCALE_RUNNERS"), "attach,prism,flink,spark"), ",") {
		args := []string{"m.attach", "--x", "day-*.parquet", "--from-features", "-o", runner}
		program, wrapper := "scale", []string(nil)
		switch runner {
		case "attach":
			program, args = "attach", append([]string{"audit"}, args...)
		case "prism":
			args = append(args, "--verbose")
		default:
			for _, name := range []string{"BEAM_PORT", "REST_PORT", "RPC_PORT"} {
				t.Setenv(name, freePort(t))
			}
			t.Setenv("CLUSTER_DIR", t.TempDir())
			wrapper = []string{script, runner}
			args = append(args, "--verbose", "--runner="+runner, "--endpoint=localhost:"+os.Getenv("BEAM_PORT"), "--parallelism=2")
		}
		cmd := scaleCommand(t.Context(), t, wrapper, args...)
		cmd.Env = append(cmd.Env, "SCALE_PROGRAM="+program)
		used, output := measure(t, cmd)
		digest := digestResult(t, runner)
		t.Logf("%s: %v; sha256 %.16s", runner, used, digest)
		logPieces(t, output)
		if want = cmp.Or(want, digest); digest != want {
			t.Errorf("%s: audit.json or scores.parquet has other bytes than those of the first runner", runner)
		}
	}
}

// writeFeatures writes files of random features, and fit.npz. It returns the bytes of the files.
func writeFeatures(t *testing.T, count, width, files int) (size int64) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	// Rows are slices of a long random sequence, because Gaussian numbers take longer to draw
	// than to audit. Few rows are equal, because the sequence is shifted by one number a row.
	const block = 1 << 20
	draw := make([]float32, block+width)
	for i := range draw {
		draw[i] = float32(random.NormFloat64())
	}
	scale := func(row []float32, at int) {
		factor := 1 + float32(at/block)/1024
		for i := range row {
			row[i] = draw[at%block+i] * factor
		}
	}
	const fitted = 4000
	x := make([]float32, fitted*width)
	for i := range x {
		x[i] = float32(random.NormFloat64())
	}
	fit, err := os.Create("fit.npz")
	if err == nil {
		err = cmp.Or(npy.WriteNPZ(fit, map[string]rowdata.Array{"features": {Shape: []int{fitted, width}, Data: x}}, false), fit.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Features []float32 `parquet:"features,list"`
	}
	rows := make([]row, 1024)
	for i := range rows {
		rows[i].Features = make([]float32, width)
	}
	for file := range files {
		f, err := os.Create(fmt.Sprintf("day-%03d.parquet", file))
		if err != nil {
			t.Fatal(err)
		}
		w := parquet.NewGenericWriter[row](f, parquet.MaxRowsPerRowGroup(max(1<<23/int64(width), 1)))
		for at, end := count/files*file, count/files*(file+1); at < end; {
			n := min(len(rows), end-at)
			for i := range n {
				scale(rows[i].Features, at+i)
			}
			if _, err := w.Write(rows[:n]); err != nil {
				t.Fatal(err)
			}
			at += n
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err := cmp.Or(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	return size
}

// usage is what a program and the processes that it starts use.
type usage struct {
	wall      time.Duration
	processor time.Duration
	total     int64 // largest memory of all processes together, in bytes
	largest   int64 // largest memory of a process that scores, in bytes
}

func (u usage) String() string {
	return fmt.Sprintf("%.0f s, %.0f s of processors, at most %d MB in all processes, %d MB in one that scores",
		u.wall.Seconds(), u.processor.Seconds(), u.total>>20, u.largest>>20)
}

// measure runs a command. It looks at all of its processes several times a second.
func measure(t *testing.T, cmd *exec.Cmd) (used usage, output []byte) {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	processor := map[int]time.Duration{}
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("%v: %s", err, &out)
			}
			used.wall = time.Since(begun)
			for _, time := range processor {
				used.processor += time
			}
			return used, out.Bytes()
		case <-time.After(200 * time.Millisecond):
		}
		total := int64(0)
		for _, p := range descendants(cmd.Process.Pid) {
			processor[p.pid] = p.processor
			total += p.resident
			if p.program == self {
				used.largest = max(used.largest, p.resident)
			}
		}
		used.total = max(used.total, total)
	}
}

// process is a process of this machine.
type process struct {
	pid, parent int
	program     string // path of its executable
	processor   time.Duration
	resident    int64
}

// descendants returns a process and all processes that descend from it.
func descendants(root int) (list []process) {
	const tick = 10 * time.Millisecond // Linux on all platforms that Go supports
	children := map[int][]process{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, after, _ := strings.Cut(string(content), ") ")
		fields := strings.Fields(after)
		number := func(i int) int {
			n, _ := strconv.Atoi(fields[i])
			return n
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		program, _ := os.Readlink(filepath.Join(filepath.Dir(path), "exe"))
		p := process{pid, number(1), program, time.Duration(number(11)+number(12)) * tick, int64(number(21)) * int64(os.Getpagesize())}
		if pid == root {
			list = append(list, p)
		}
		children[p.parent] = append(children[p.parent], p)
	}
	for i := 0; i < len(list); i++ {
		list = append(list, children[list[i].pid]...)
	}
	return list
}

// digestResult returns a digest of audit.json and of scores.parquet, which may be a folder.
func digestResult(t *testing.T, dir string) string {
	t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, dir+"/")
		if err == nil && !d.IsDir() && (name == "audit.json" || strings.HasPrefix(name, "scores.parquet")) {
			fmt.Fprintf(h, "%s %x\n", name, sha256.Sum256(readFile(t, path)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// logPieces prints how many pieces each worker scored, and how long they took.
func logPieces(t *testing.T, output []byte) {
	t.Helper()
	type work struct {
		pieces  int
		seconds float64
	}
	workers := map[string]work{}
	for _, m := range regexp.MustCompile(`worker (\d+) took ([0-9.]+) s`).FindAllSubmatch(output, -1) {
		seconds, _ := strconv.ParseFloat(string(m[2]), 64)
		w := workers[string(m[1])]
		workers[string(m[1])] = work{w.pieces + 1, w.seconds + seconds}
	}
	for pid, w := range workers {
		t.Logf("  worker %s: %d pieces, %.1f s each on average", pid, w.pieces, w.seconds/float64(w.pieces))
	}
	for line := range strings.Lines(string(output)) {
		if strings.HasPrefix(line, "all workers: ") {
			t.Log("  " + strings.TrimSpace(line))
		}
	}
}
