package command

import (
	"context"
	"fmt"
	"log/slog"
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

	"github.com/attach-uncertainty/attach/serve"
)

// serving is a call of attach serve.
type serving struct {
	table
	place
	models                    []string
	http                      string
	batch, delay, queue, body int
	timeout, grace            float64
}

func serveCommand() *cli.Command {
	f := &serving{http: "localhost:8080", batch: 64, queue: 1024, body: 64 << 20, timeout: 30, grace: 30}
	f.table = join(table{
		{name: "http", to: &f.http, usage: "ADDRESS: where REST, and metrics at /metrics, are served; :8080 is port 8080 of every interface"},
	}, table{
		{name: "max_batch_size", to: &f.batch, must: atLeast(1), usage: "N: rows of several requests that are run at once at most"},
		{name: "max_queue_delay_microseconds", to: &f.delay, must: atLeast(0), usage: "N: how long the first request of a batch waits for others; with 0 requests that come while others are run make the next batch"},
		{name: "max-queue", to: &f.queue, must: atLeast(1), usage: "N: requests that wait for a model at most; others are answered with 429"},
		{name: "max-body", to: &f.body, must: atLeast(1), usage: "BYTES: of a request at most; all together hold 16 times that"},
		{name: "timeout", to: &f.timeout, must: positive, usage: "SECONDS: that a request may take"},
		{name: "grace", to: &f.grace, must: notNegative, usage: "SECONDS: that requests on their way may take once the server is told to end"},
	}, f.runtimeOptions())
	return f.command(cli.Command{
		Name:      "serve",
		Usage:     "answer requests for predictions over REST",
		UsageText: "attach serve [NAME=]M.attach… [--http :8080]",
		Description: "Answers the Open Inference Protocol, version 2, with what `attach predict` writes: `class`, `confidence`, `set`, `prediction`, `lower`, `upper`, `ood_score`, `p_value`, `flag`. " +
			"A model's name is the file's without .attach, its version 1; NAME/VERSION= says others, and a folder stands for the one file in it.\n\n" +
			"A file that changes, or the network of one, is opened anew without a request being dropped, and all are on SIGHUP. What cannot be opened then is served as it was.\n\n" +
			"Nobody is asked who they are, and nothing is encrypted: put a proxy before it. docs/serve.md says more.",
	}, argument{name: "M.attach", list: &f.models}, f.run)
}

func (f *serving) run(c *cli.Context) error {
	allow(c.Context, seconds(f.grace)+grace)
	f.Log = slog.New(slog.NewJSONHandler(c.App.ErrWriter, &slog.HandlerOptions{Level: levelOf(f.verbose)}))
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel()
	stop, err := f.products(ctx)
	if err != nil {
		return err
	}
	defer stop()
	s := serve.New(serve.Options{
		Runtime: f.Runtime, MaxBatchSize: f.batch, MaxQueueDelay: time.Duration(f.delay) * time.Microsecond, MaxQueueSize: f.queue,
		MaxBodySize: int64(f.body), Timeout: seconds(f.timeout), Log: f.Log,
	})
	defer s.Close()
	listener, err := net.Listen("tcp", f.http)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(s, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("/", s)
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: seconds(f.timeout), IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(f.Log.Handler(), slog.LevelDebug)}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	f.Log.Info("listening", "http", listener.Addr().String())
	if err := f.load(ctx, s); err != nil {
		server.Close()
		return err
	}
	f.Log.Info("ready")
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	go s.Watch(ctx, time.Second)
	for {
		select {
		case <-hangups:
			s.Reload(ctx)
			continue
		case err := <-failed:
			return err
		case <-ctx.Done():
		}
		break
	}
	f.Log.Info("ending")
	ending, end := context.WithTimeout(context.WithoutCancel(ctx), seconds(f.grace))
	defer end()
	if err := server.Shutdown(ending); err != nil {
		return fmt.Errorf("requests on their way were cut off after %g s: %w", f.grace, err)
	}
	return nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// load opens the models that arguments name.
func (f *serving) load(ctx context.Context, s *serve.Server) error {
	var names []string
	for _, arg := range f.models {
		called, path, given := strings.Cut(arg, "=")
		if !given || strings.ContainsAny(called, `.\`) {
			path = arg
			called = strings.TrimSuffix(filepath.Base(filepath.Clean(arg)), ".attach")
		}
		name, version, _ := strings.Cut(called, "/")
		if slices.Contains(names, called) {
			return usagef("two models are called %s; give one another name or version, as in %[1]s/2=%s", called, path)
		}
		names = append(names, called)
		if err := s.Load(ctx, name, version, path); err != nil {
			return err
		}
	}
	return nil
}
