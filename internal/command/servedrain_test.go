package command

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/attach-uncertainty/attach/internal/inference"
)

// toyFile fits a small regressor and returns the path of its .attach file.
func toyFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "toy.attach")
	mustRun(t, "fit", "../../testmodels/toy_regressor.onnx", "--x", "../../testmodels/toy_fit.npz", "--rows", ":80", "--method", "knn", "-o", path)
	return path
}

// toyRequest is a request for one row of the toy regressor.
const toyRequest = `{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1.5]}]}`

// eventually waits until condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within a minute: " + what)
		}
	}
}

// TestServeRollingRestart replaces servers under load as Kubernetes does, and counts the requests
// that get no answer. After a server is told to stop, clients still send requests to it for some
// time, also over new connections. A gRPC client keeps its connection to the old server until that
// ends. A second signal ends the time of --drain, so that the test need not wait for it.
func TestServeRollingRestart(t *testing.T) {
	path := toyFile(t)
	const httpClients, grpcClients, perClient, restarts = 6, 2, 10, 3
	type server struct {
		http, grpc string
		stop       func() (int, string)
		tell       context.CancelFunc
	}
	start := func() server {
		ctx, cancel := context.WithCancel(t.Context())
		log, status := &serverLog{}, make(chan int, 1)
		go func() {
			status <- Run(ctx, []string{"serve", path, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--drain", "10m"}, nil, io.Discard, log)
		}()
		s := server{http: log.find(t, "listening", "http"), grpc: log.find(t, "listening", "grpc"), tell: cancel}
		log.find(t, "ready", "level")
		s.stop = func() (int, string) {
			log.find(t, "draining", "level")
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Signal(syscall.SIGTERM)
			}
			if err != nil {
				t.Fatal(err)
			}
			return <-status, log.written.String()
		}
		return s
	}
	current := start()
	var target atomic.Pointer[string] // address that new connections to the service lead to
	target.Store(&current.http)
	var resolvers [grpcClients]*manual.Resolver
	resolve := func(addresses ...string) {
		var state resolver.State
		for _, a := range addresses {
			state.Addresses = append(state.Addresses, resolver.Address{Addr: a})
		}
		for _, r := range resolvers {
			r.UpdateState(state)
		}
	}

	var answered [httpClients + grpcClients]atomic.Int64
	var lost atomic.Int64
	ended := make(chan struct{})
	var clients sync.WaitGroup
	for i := range httpClients {
		clients.Go(func() {
			// Every other client opens a connection for each request.
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: i%2 == 0, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", *target.Load())
			}}}
			defer client.CloseIdleConnections()
			for {
				select {
				case <-ended:
					return
				default:
				}
				r, err := client.Post("http://localhost/v2/models/toy/infer", "application/json", strings.NewReader(toyRequest))
				if err == nil {
					if _, err = io.Copy(io.Discard, r.Body); err == nil && r.StatusCode != http.StatusOK {
						err = fmt.Errorf("status %d", r.StatusCode)
					}
					r.Body.Close()
				}
				if err != nil {
					lost.Add(1)
					t.Errorf("HTTP client %d: %v", i, err)
					return
				}
				answered[i].Add(1)
			}
		})
	}
	for i := range grpcClients {
		resolvers[i] = manual.NewBuilderWithScheme("service")
		resolvers[i].InitialState(resolver.State{Addresses: []resolver.Address{{Addr: current.grpc}}})
		conn, err := grpc.NewClient("service:///localhost", grpc.WithResolvers(resolvers[i]), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		clients.Go(func() {
			request := &inference.ModelInferRequest{ModelName: "toy", Inputs: []*inference.ModelInferRequest_InferInputTensor{
				{Name: "x", Datatype: "FP32", Shape: []int64{1, 1}, Contents: &inference.InferTensorContents{Fp32Contents: []float32{1.5}}}}}
			for {
				select {
				case <-ended:
					return
				default:
				}
				if err := conn.Invoke(t.Context(), "/inference.GRPCInferenceService/ModelInfer", request, &inference.ModelInferResponse{}); err != nil {
					lost.Add(1)
					t.Errorf("gRPC client %d: %v", i, err)
					return
				}
				answered[httpClients+i].Add(1)
			}
		})
	}
	// more waits until each client has got some more answers.
	more := func(what string) {
		t.Helper()
		var before [len(answered)]int64
		for i := range answered {
			before[i] = answered[i].Load()
		}
		eventually(t, what, func() bool {
			for i := range answered {
				if answered[i].Load() < before[i]+perClient && lost.Load() == 0 {
					return false
				}
			}
			return true
		})
	}
	more("answers of the first server")
	for range restarts {
		next := start()
		resolve(current.grpc, next.grpc)
		current.tell()
		eventually(t, "the old server is not ready", func() bool {
			r, err := http.Get("http://" + current.http + "/v2/health/ready")
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			return r.StatusCode == http.StatusServiceUnavailable
		})
		more("answers of the old server while it drains")
		target.Store(&next.http)
		more("answers of the new server")
		code, log := current.stop()
		if code != exitDone {
			t.Errorf("the old server ends with %d: %s", code, log)
		}
		if _, err := net.Dial("tcp", current.http); err == nil {
			t.Error("the old server still listens")
		}
		resolve(next.grpc)
		more("answers after the old server ended")
		current = next
	}
	close(ended)
	clients.Wait()
	current.tell()
	if code, log := current.stop(); code != exitDone {
		t.Errorf("the last server ends with %d: %s", code, log)
	}
	total := int64(0)
	for i := range answered {
		total += answered[i].Load()
	}
	t.Logf("%d restarts, %d answers, %d lost", restarts, total, lost.Load())
}
