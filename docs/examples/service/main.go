// Service takes images over HTTP and returns predictions with p-values and flags.
//
//	service digits.attach
//	curl --data-binary @digit.png localhost:8080/predict
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/preprocess"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: service FILE.attach")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path string) error {
	bundle, err := attach.Open(path)
	if err != nil {
		return err
	}
	model, err := featurize.OpenFor(ctx, bundle, "", featurize.Options{})
	if err != nil {
		return err
	}
	defer model.Close()
	predictor, err := bundle.Predictor(attach.PredictOptions{})
	if err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.HandleFunc("POST /predict", func(w http.ResponseWriter, r *http.Request) {
		file := http.MaxBytesReader(w, r.Body, 16<<20)
		predictions, err := model.Predict(r.Context(), predictor, file)
		if err != nil {
			http.Error(w, err.Error(), statusOf(err))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(predictions[0])
	})

	server := &http.Server{Addr: "localhost:8080", Handler: mux, ReadTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	log.Printf("listening on %s", server.Addr)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		// Shutdown waits for the last handler, so that none uses a closed model.
		return server.Shutdown(context.Background())
	}
}

func statusOf(err error) int {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, preprocess.ErrImage):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}
