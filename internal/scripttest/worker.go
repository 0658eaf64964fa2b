package scripttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/attach-uncertainty/attach/internal/command"
)

// workerName is the name of the worker program.
const workerName = "attach-worker"

// worker is a process that runs many commands one after another. It saves time, because
// loading the runtime library takes longer than most commands. Each script has one worker,
// and "exec attach" starts a new process.
type worker struct {
	env      []string
	process  *exec.Cmd
	requests io.WriteCloser
	calls    *json.Encoder
	results  *json.Decoder
	stderr   bytes.Buffer
}

type call struct {
	Dir  string
	Args []string
}

type result struct {
	Code           int
	Stdout, Stderr []byte
}

// serveCalls runs the calls that a worker process receives on standard input.
func serveCalls() {
	debug.SetGCPercent(400) // less garbage collection saves CPU time and costs memory
	calls, results := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var c call
		if err := calls.Decode(&c); err != nil {
			return
		}
		if err := os.Chdir(c.Dir); err != nil {
			panic(err)
		}
		var stdout, stderr bytes.Buffer
		code := command.Run(context.Background(), c.Args, bytes.NewReader(nil), &stdout, &stderr)
		if err := results.Encode(result{code, stdout.Bytes(), stderr.Bytes()}); err != nil {
			panic(err)
		}
	}
}

func (w *worker) start(program string) error {
	w.process = exec.Command(program)
	w.process.Env, w.process.Stderr = w.env, &w.stderr
	in, err := w.process.StdinPipe()
	if err != nil {
		return err
	}
	out, err := w.process.StdoutPipe()
	if err != nil {
		return err
	}
	w.requests, w.calls, w.results = in, json.NewEncoder(in), json.NewDecoder(out)
	return w.process.Start()
}

// stop ends the worker process if it was started.
func (w *worker) stop() {
	if w.process != nil {
		w.requests.Close()
		w.process.Wait()
	}
}

// commandVariables lists variables that the command reads and that scripts may change. A
// worker keeps the variables it was started with. Therefore runAttach starts a new process
// for each command if the script has changed the value of one of them.
var commandVariables = [...]string{"ORT_LIB", "HOME", "XDG_CACHE_HOME", "PATH", "NO_COLOR"}

// runAttach runs the command, in the worker if possible, and returns its exit status and
// output.
func runAttach(ts *testscript.TestScript, args []string) (code int, stdout, stderr string) {
	w := ts.Value("worker").(*worker)
	for _, name := range commandVariables {
		if value := ts.Getenv(name); value != "" && !slices.Contains(w.env, name+"="+value) {
			err := ts.Exec("attach", args...)
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				code = exit.ExitCode()
			} else {
				ts.Check(err)
			}
			return code, ts.ReadFile("stdout"), ts.ReadFile("stderr")
		}
	}
	if w.process == nil {
		program, err := exec.LookPath(workerName)
		ts.Check(err)
		ts.Check(w.start(program))
	}
	var r result
	err := w.calls.Encode(call{ts.MkAbs("."), args})
	if err == nil {
		err = w.results.Decode(&r)
	}
	if err != nil {
		ts.Fatalf("the worker ended (%v) and wrote\n%s", err, &w.stderr)
	}
	ts.Stdout().Write(r.Stdout)
	ts.Stderr().Write(r.Stderr)
	return r.Code, string(r.Stdout), string(r.Stderr)
}

// scriptAttach implements the script command attach.
func scriptAttach(ts *testscript.TestScript, neg bool, args []string) {
	code, _, stderr := runAttach(ts, args)
	if neg != (code != 0) {
		ts.Fatalf("attach ended with status %d: %s", code, stderr)
	}
}
