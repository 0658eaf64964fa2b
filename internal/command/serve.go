package command

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/urfave/cli/v2"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/tap"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/featurize/serve"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
)

// serveFlags holds the flags of attach serve.
type serveFlags struct {
	table
	modelFlags
	models, allowedHosts         []string
	tlsCert, tlsKey, tokens      string
	certificate                  func(*tls.ClientHelloInfo) (*tls.Certificate, error) // nil without --tls-cert
	maxConnections               int
	idleTimeout                  time.Duration
	http, grpc, monitorState     string
	adapt, adaptState            string
	adaptStep                    float64
	adaptWindow, maxPending      int
	pendingTimeout               time.Duration
	traces, allowSignatureChange bool
	batch, queue, maxBody        int
	delay, timeout, drain, grace time.Duration
}

func serveCommand() *cli.Command {
	f := &serveFlags{http: "localhost:8080", grpc: "localhost:9000", batch: 64, queue: 1024, maxBody: 64 << 20, timeout: 30 * time.Second, grace: 30 * time.Second, idleTimeout: 2 * time.Minute, maxConnections: 4096, maxPending: 100_000}
	fixed := []conflict{noEffect("without --adapt", func() bool { return f.adapt == "" })}
	f.table = join(table{
		{name: "http", dest: &f.http, rule: address, usage: "ADDRESS: where to serve REST, and Prometheus metrics at /metrics; :8080 is port 8080 on every interface, unix:/run/attach.sock a Unix socket"},
		{name: "grpc", dest: &f.grpc, rule: addressOrNone, usage: "ADDRESS: where to serve gRPC; empty for nowhere"},
		{name: "allow-host", dest: &f.allowedHosts, rule: checkHostName, usage: "NAME: host name that requests may ask for beside localhost, if a proxy passes it on; its web pages may post; may be repeated"},
		{name: "tls-cert", dest: &f.tlsCert, file: otherFile, usage: "FILE: certificate and its chain, in PEM format, so that requests are encrypted, over REST and gRPC; a changed file is read again",
			conflicts: []conflict{{when: func() bool { return f.tlsKey == "" }, reason: "needs --tls-key FILE, the private key of the certificate"}}},
		{name: "tls-key", dest: &f.tlsKey, file: otherFile, usage: "FILE: private key of --tls-cert, in PEM format",
			conflicts: []conflict{{when: func() bool { return f.tlsCert == "" }, reason: "needs --tls-cert FILE, the certificate of the key"}}},
		{name: "token-file", dest: &f.tokens, file: otherFile, usage: "FILE: bearer tokens, one in each line, so that only clients with a token get answers; requests about health need none; a changed file is read again"},
		{name: "traces", dest: &f.traces, usage: "send OpenTelemetry traces over OTLP/HTTP, as the variables OTEL_EXPORTER_OTLP_… say"},
	}.inGroup(groupNetwork), table{
		{name: "max-batch-size", dest: &f.batch, rule: atLeast(1), usage: "N: most rows of several requests that the model runs at once"},
		{name: "max-queue-delay", dest: &f.delay, rule: duration(0, time.Hour), usage: "DURATION: how long the first request of a batch waits for others, such as 500us; with 0 a batch is what arrived during the run before"},
		{name: "max-queue", dest: &f.queue, rule: atLeast(1), usage: "N: most requests that wait for a model; further ones get status 429"},
		{name: "max-body", dest: &f.maxBody, rule: between(1, 1<<40), usage: "BYTES: most bytes of a request; all requests together may use 16 times this"},
		{name: "timeout", dest: &f.timeout, rule: duration(time.Millisecond, maxWait), usage: "DURATION: longest time for a request"},
		{name: "max-connections", dest: &f.maxConnections, rule: between(1, 1<<20), usage: "N: most connections of each protocol, so that clients cannot use up the file descriptors of the process; further ones wait"},
		{name: "idle-timeout", dest: &f.idleTimeout, rule: duration(time.Second, maxWait), usage: "DURATION: time without a request after which a connection is closed; choose more than the load balancer does, which otherwise sends requests to closed connections"},
		{name: "drain", dest: &f.drain, rule: duration(0, maxWait), usage: "DURATION: time to answer on after the server is told to stop, while it is reported as not ready, so that load balancers lose no request; 10s is enough for most clusters"},
		{name: "grace", dest: &f.grace, rule: duration(0, maxWait), usage: "DURATION: time for requests to finish after --drain; a further signal ends either wait"},
	}.inGroup(groupLoad), table{
		{name: "allow-signature-change", dest: &f.allowSignatureChange, usage: "reload a changed file even if its inputs, outputs, task or classes changed, which clients may rely on"},
		{name: "monitor-state", dest: &f.monitorState, usage: "DIR: folder that keeps the evidence of drift over restarts; one server per folder"},
	}.inGroup(groupModel), table{
		{name: "adapt", dest: &f.adapt, choices: []string{"aci", "dtaci", "pid"}, usage: "METHOD: adapt intervals and prediction sets to the true targets that clients send later, so that the long-run coverage stays right while the world changes; aci is the usual choice"},
		{name: "adapt-step", dest: &f.adaptStep, rule: fraction, conflicts: append(fixed, noEffect("with --adapt dtaci, which finds the best of eight steps", func() bool { return f.adapt == "dtaci" })),
			usage: "STEP: how much a target changes later intervals, from 0 to 1; choose at most (1 − level)/(2 × rows that wait); without it, 0.005 for aci and 0.1 for pid"},
		{name: "adapt-window", dest: &f.adaptWindow, rule: atLeast(1), conflicts: fixed, usage: "N: most recent rows with targets that intervals are calibrated on; without it, 20/(1 − level), and for pid all calibration rows"},
		{name: "max-pending", dest: &f.maxPending, rule: between(1, 1<<30), conflicts: fixed, usage: "N: most recent rows of a model that can wait for their targets; older ones are forgotten"},
		{name: "pending-timeout", dest: &f.pendingTimeout, rule: duration(time.Millisecond, 10*maxWait), conflicts: fixed, usage: "DURATION: longest time that a row can wait for its targets, such as 720h; without it there is no such limit"},
		{name: "adapt-state", dest: &f.adaptState, conflicts: fixed, usage: "DIR: folder that keeps adaptive intervals and the rows that wait over restarts; one server per folder; may be that of --monitor-state"},
	}.inGroup(groupTargets), f.runtimeOptions())
	return f.command(cli.Command{
		Name:      "serve",
		Usage:     "serve predictions over REST and gRPC",
		UsageText: "attach serve [NAME=]M.attach… [--http :8080] [--grpc :9000]",
		Description: "Serves the Open Inference Protocol, version 2, as KServe and Triton do. Answers have the columns of `attach predict`; each model also has a drift monitor. A model is called as its file without .attach, in version 1; NAME=M.attach or NAME/VERSION=M.attach says otherwise.\n\n" +
			"A changed file or model is reloaded without dropping a request; SIGHUP reloads all. If the new file cannot be opened, the old one stays. --tls-cert encrypts requests, and --token-file refuses clients without a token. docs/guides/serve.md has examples of requests.",
		CustomHelpTemplate: `attach serve digits_resnet.attach
attach serve digits=digits_resnet.attach toy=toy_regressor.attach --http :8080 --grpc ''`,
	}, argument{name: "M.attach", list: &f.models}, f.run)
}

func (f *serveFlags) run(c *cli.Context) error {
	models, err := f.parseModels()
	if err != nil {
		return err
	}
	setGrace(c.Context, f.drain+f.grace+defaultGrace)
	f.Log = slog.New(slog.NewJSONHandler(c.App.ErrWriter, &slog.HandlerOptions{Level: logLevel(f.verbose)}))
	ort.UnmapLarge()
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel()
	stop, err := f.offloadProducts(ctx)
	if err != nil {
		return err
	}
	defer stop()
	tracing, flush, err := f.tracing(ctx)
	if err != nil {
		return err
	}
	defer flush()
	if f.tlsCert != "" {
		if f.certificate, err = serve.OpenCertificate(f.tlsCert, f.tlsKey, f.Log); err != nil {
			return fmt.Errorf("--tls-cert: %w", err)
		}
	}
	var allowToken func(string) bool
	if f.tokens != "" {
		if allowToken, err = serve.OpenTokens(f.tokens, f.Log); err != nil {
			return fmt.Errorf("--token-file: %w", err)
		}
	}
	var stores stateStores
	s := serve.New(serve.Options{
		Runtime: f.Runtime, MaxBatchSize: f.batch, MaxQueueDelay: f.delay, MaxQueueSize: f.queue,
		MaxBodySize: int64(f.maxBody), Timeout: f.timeout, AllowSignatureChange: f.allowSignatureChange, AllowToken: allowToken, Log: f.Log, Tracing: tracing,
		Adapt: f.adaptation(), MaxPending: f.maxPending, PendingTimeout: f.pendingTimeout,
		Restore: func(name, version string, m *calibrate.Monitor, a *serve.Adaptation) error {
			return stores.restore(name, version, m, a)
		},
	})
	defer s.Close()
	listeners, err := f.listen(s)
	if err != nil {
		return err
	}
	stores, err = f.openStores(s)
	defer stores.unlock()
	if err == nil {
		err = f.load(ctx, s, models)
	}
	if err == nil {
		err = stores.save(ctx) // fail at the start if a folder cannot be written to
	}
	if err != nil {
		listeners.close()
		return err
	}
	f.Log.Info("ready")
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	go s.Watch(ctx, time.Second)
	saveTicks := time.NewTicker(saveInterval)
	defer saveTicks.Stop()
	again := make(chan os.Signal, 1)
	defer signal.Stop(again)
	toldToStop, drained := ctx.Done(), (<-chan time.Time)(nil)
	for serving := true; serving; {
		select {
		case <-saveTicks.C:
			if err := stores.save(context.WithoutCancel(ctx)); err != nil {
				f.Log.Error("state not saved", "error", err.Error())
			}
		case <-hangups:
			s.Reload(ctx)
		case err := <-listeners.failed:
			return errors.Join(err, stores.save(context.WithoutCancel(ctx)))
		case <-toldToStop:
			signal.Notify(again, os.Interrupt, syscall.SIGTERM) // it misses the signal that ended ctx
			toldToStop, drained = nil, time.After(f.drain)
			s.Drain()
			f.Log.Info("draining", "drain", f.drain.String())
		case <-drained:
			serving = false
		case <-again:
			serving = false
		}
	}
	f.Log.Info("ending")
	graceCtx, end := context.WithTimeoutCause(context.WithoutCancel(ctx), f.grace, fmt.Errorf("running requests were cut off after %v", f.grace))
	defer end()
	graceCtx, cutOff := context.WithCancelCause(graceCtx)
	defer cutOff(nil)
	go func() {
		select {
		case <-again:
			cutOff(errors.New("running requests were cut off by a further signal"))
		case <-graceCtx.Done():
		}
	}()
	if !listeners.shutdown(graceCtx) {
		err = context.Cause(graceCtx)
	}
	if err = errors.Join(err, stores.save(context.WithoutCancel(ctx))); err != nil {
		// Log the error here, because the process may end while a model still runs.
		f.Log.Error("not ended well", "error", err.Error())
	}
	return err
}

// listeners accepts the connections of clients.
type listeners struct {
	http   *http.Server
	grpc   *grpc.Server // nil if gRPC is off
	failed chan error   // receives the error that stops a listener
}

// listen starts to accept connections. It runs before models are loaded, so that clients
// can ask whether the models are ready.
func (f *serveFlags) listen(s *serve.Server) (*listeners, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.Collector(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("/", s)
	mux.Handle("/metrics", s.Authorize(promhttp.HandlerFor(registry, promhttp.HandlerOpts{})))
	l := &listeners{failed: make(chan error, 2)}
	l.http = &http.Server{ReadHeaderTimeout: f.timeout, IdleTimeout: f.idleTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(f.Log.Handler(), slog.LevelDebug)}
	serveHTTP := func(socket net.Listener) error {
		l.http.Handler = newHostGuard(f.allowedHosts, socket.Addr()).wrap(mux)
		if f.certificate != nil {
			l.http.TLSConfig = f.tlsConfig()
			return l.http.ServeTLS(socket, "", "")
		}
		return l.http.Serve(socket)
	}
	if err := f.accept(l, "http", f.http, serveHTTP); err != nil || f.grpc == "" {
		return l, err
	}
	var guard hostGuard
	channel := insecure.NewCredentials()
	if f.certificate != nil {
		channel = credentials.NewTLS(f.tlsConfig())
	}
	l.grpc = grpc.NewServer(grpc.Creds(channel), grpc.MaxRecvMsgSize(f.maxBody), grpc.MaxConcurrentStreams(uint32(min(f.queue, math.MaxInt32))), grpc.InTapHandle(func(ctx context.Context, info *tap.Info) (context.Context, error) {
		if err := guard.checkGRPC(info.Header[":authority"]); err != nil {
			return nil, err
		}
		return f.withDeadline(ctx)
	}),
		grpc.MaxHeaderListSize(maxHeaderBytes), grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: f.idleTimeout}))
	s.Register(l.grpc)
	s.RegisterHealth(l.grpc)
	s.RegisterReflection(l.grpc)
	err := f.accept(l, "grpc", f.grpc, func(socket net.Listener) error {
		guard = newHostGuard(f.allowedHosts, socket.Addr())
		return l.grpc.Serve(socket)
	})
	if err != nil {
		l.close()
	}
	return l, err
}

// maxHeaderBytes is the maximum size of the headers of a request, in bytes.
const maxHeaderBytes = 64 << 10

// tlsConfig returns the TLS configuration of a listener.
func (f *serveFlags) tlsConfig() *tls.Config {
	return &tls.Config{GetCertificate: f.certificate, MinVersion: tls.VersionTLS12}
}

// accept listens on an address and serves its connections in the background.
func (f *serveFlags) accept(l *listeners, protocol, address string, serve func(net.Listener) error) error {
	network := "tcp"
	if path, isUnix := strings.CutPrefix(address, unixPrefix); isUnix {
		network, address = "unix", path
		removeDeadSocket(path)
	}
	socket, err := net.Listen(network, address)
	if err != nil {
		return fmt.Errorf("--%s: %w", protocol, err)
	}
	f.Log.Info("listening", protocol, socket.Addr().String())
	go func() { l.failed <- serve(netutil.LimitListener(socket, f.maxConnections)) }()
	return nil
}

// unixPrefix begins the address of a Unix socket, as gRPC clients write it.
const unixPrefix = "unix:"

// removeDeadSocket removes the Unix socket at path if no process listens on it. A server removes
// its socket when it ends, but not if it is killed.
func removeDeadSocket(path string) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
		return
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		os.Remove(path) // if this fails, net.Listen reports that the address is in use
	}
}

// withDeadline gives a gRPC call a deadline of --timeout, which includes the time until its
// message arrives.
func (f *serveFlags) withDeadline(ctx context.Context) (context.Context, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	context.AfterFunc(ctx, cancel)
	return ctx, nil
}

// shutdown stops accepting requests and waits until running requests have finished. It cuts
// them off when ctx ends. It reports whether all of them finished.
func (l *listeners) shutdown(ctx context.Context) bool {
	defer l.close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if l.grpc != nil {
			l.grpc.GracefulStop()
		}
	}()
	err := l.http.Shutdown(ctx)
	select {
	case <-done:
		return err == nil
	case <-ctx.Done():
		return false
	}
}

// close closes all connections.
func (l *listeners) close() {
	l.http.Close()
	if l.grpc != nil {
		l.grpc.Stop()
	}
}

// tracing returns a provider of tracers, or nil without --traces. flush sends the traces
// that are still in memory.
func (f *serveFlags) tracing(ctx context.Context) (p trace.TracerProvider, flush func(), err error) {
	if !f.traces {
		return nil, func() {}, nil
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { f.Log.Warn("traces not sent", "error", err.Error()) }))
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("traces cannot be sent: %w", err)
	}
	resources, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "attach")), resource.WithFromEnv())
	if err != nil {
		return nil, nil, fmt.Errorf("traces cannot be sent: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(resources))
	return provider, func() {
		graceCtx, end := context.WithTimeout(context.WithoutCancel(ctx), defaultGrace)
		defer end()
		provider.Shutdown(graceCtx)
	}, nil
}

// maxWait is the maximum value of --timeout, --drain and --grace.
const maxWait = 365 * 24 * time.Hour

// address is the rule for a network address to listen on.
func address(value any) string {
	if path, isUnix := strings.CutPrefix(value.(string), unixPrefix); isUnix {
		return requirement(path != "", "it must have a path, such as unix:/run/attach.sock")
	}
	_, port, err := net.SplitHostPort(value.(string))
	return requirement(err == nil && port != "", "it must be HOST:PORT, :PORT for every interface, or unix:PATH")
}

func addressOrNone(value any) string {
	if value == "" {
		return ""
	}
	return address(value)
}

// servedModel is an argument of attach serve: a model with its name, version and path.
type servedModel struct{ name, version, path string }

// fullName returns the name of the model as NAME/VERSION.
func (m servedModel) fullName() string { return m.name + "/" + m.version }

// parseModels parses the arguments and returns the models. It returns an error if two models
// have the same name and version, or if a file does not exist.
func (f *serveFlags) parseModels() ([]servedModel, error) {
	var list []servedModel
	for _, arg := range f.models {
		fullName, path, isNamed := strings.Cut(arg, "=")
		if !isNamed || strings.ContainsAny(fullName, `.\`) {
			path = arg
			fullName = strings.TrimSuffix(filepath.Base(filepath.Clean(arg)), ".attach")
		}
		name, version, _ := strings.Cut(fullName, "/")
		m := servedModel{name, cmp.Or(version, "1"), path}
		if slices.ContainsFunc(list, func(other servedModel) bool { return other.fullName() == m.fullName() }) {
			return nil, usagef("two models are called %s; give one another name or version, as in %s/2=%s", m.fullName(), name, path)
		}
		if _, err := os.Stat(path); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// adaptation returns the options of adaptive intervals, or nil without --adapt.
func (f *serveFlags) adaptation() *calibrate.AdaptiveOptions {
	if f.adapt == "" {
		return nil
	}
	o := &calibrate.AdaptiveOptions{Method: f.adapt, Window: f.adaptWindow}
	if f.adaptStep > 0 {
		o.Steps = []float64{f.adaptStep}
	}
	return o
}

// openStores opens the folders that keep states over restarts. It returns all stores that are
// open, also with an error.
func (f *serveFlags) openStores(s *serve.Server) (stateStores, error) {
	monitors, err := openMonitors(f.monitorState, s, f.Log)
	if err != nil {
		return nil, err
	}
	adaptations, err := openAdaptations(f.adaptState, s, monitors)
	if err != nil {
		return stateStores{monitors}, err
	}
	return stateStores{monitors, adaptations}, nil
}

// load opens the models.
func (f *serveFlags) load(ctx context.Context, s *serve.Server, models []servedModel) error {
	for _, m := range models {
		if err := s.Load(ctx, m.name, m.version, m.path); err != nil {
			return err
		}
	}
	return nil
}
