// Mount serves a model with the Open Inference Protocol over REST and gRPC. It also shows
// how a program adds routes of its own, here metrics for Prometheus.
package main

import (
	"context"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"

	"github.com/attach-uncertainty/attach/featurize/serve"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	s := serve.New(serve.Options{})
	defer s.Close()
	if err := s.Load(ctx, "digits", "1", "digits.attach"); err != nil {
		return err
	}
	go s.Watch(ctx, time.Second) // reload files that change

	prometheus.MustRegister(s.Collector())
	mux := http.NewServeMux()
	mux.Handle("/v2/", s)
	mux.Handle("/metrics", promhttp.Handler())

	listener, err := net.Listen("tcp", "localhost:8001")
	if err != nil {
		return err
	}
	g := grpc.NewServer(grpc.MaxRecvMsgSize(16 << 20))
	s.Register(g)
	s.RegisterHealth(g) // s.Drain reports that the server is about to stop
	s.RegisterReflection(g)
	go g.Serve(listener)
	return http.ListenAndServe("localhost:8000", mux)
}
