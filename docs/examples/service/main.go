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
	"time"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: service FILE.attach")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
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
		image := http.MaxBytesReader(w, r.Body, 16<<20)
		predictions, err := model.Predict(r.Context(), predictor, image)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(predictions[0])
	})

	server := &http.Server{Addr: "localhost:8080", Handler: mux, ReadTimeout: 10 * time.Second}
	stopped := context.AfterFunc(ctx, func() { server.Close() })
	defer stopped()
	log.Printf("listening on %s", server.Addr)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
