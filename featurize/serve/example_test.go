package serve_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/featurize/serve"
)

// This example serves predictions in addition to a route of its own.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "attach")
	check(err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "digits.attach")
	check(attachDigits(ctx, path))

	s := serve.New(serve.Options{})
	defer s.Close()
	check(s.Load(ctx, "digits", "1", path))
	mux := http.NewServeMux()
	mux.Handle("/v2/", s)
	mux.HandleFunc("/mine", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "mine") })
	g := grpc.NewServer() // a real program calls g.Serve with a listener
	s.Register(g)
	prometheus.NewRegistry().MustRegister(s.Collector())

	server := httptest.NewServer(mux)
	defer server.Close()
	image, err := os.ReadFile(digit)
	check(err)
	request := fmt.Sprintf(`{"inputs": [{"name": "image", "datatype": "BYTES", "shape": [1], "data": [%q]}],
		"outputs": [{"name": "class"}, {"name": "flag"}], "parameters": {"alpha": 0.01}}`, base64.StdEncoding.EncodeToString(image))
	response, err := http.Post(server.URL+"/v2/models/digits/infer", "application/json", strings.NewReader(request))
	check(err)
	defer response.Body.Close()
	var result struct {
		Outputs []struct {
			Name string
			Data []any
		}
	}
	check(json.NewDecoder(response.Body).Decode(&result))
	fmt.Println(result.Outputs)
	// Output: [{class [3]} {flag [false]}]
}

// This example saves the state of a drift monitor, and restores it in the next process.
func ExampleServer_Monitor() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "attach")
	check(err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "digits.attach")
	check(attachDigits(ctx, path))
	s := serve.New(serve.Options{})
	defer s.Close()
	check(s.Load(ctx, "digits", "1", path))

	monitor, err := s.Monitor("digits", "")
	check(err)
	state, err := monitor.MarshalBinary()
	check(err)

	next := serve.New(serve.Options{Restore: func(name, version string, monitor *calibrate.Monitor, _ *serve.Adaptation) error {
		return monitor.UnmarshalBinary(state)
	}})
	defer next.Close()
	check(next.Load(ctx, "digits", "1", path))
	monitor, err = next.Monitor("digits", "")
	check(err)
	fmt.Println(monitor.Rows(), monitor.Evidence(), monitor.Alarm(.01))
	// Output: 0 1 false
}

// This example adapts intervals to targets that the program learns later.
func ExampleServer_Adaptation() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "attach")
	check(err)
	defer os.RemoveAll(dir)
	bundle, err := toyBundle()
	check(err)
	path := filepath.Join(dir, "toy.attach")
	check(bundle.Save(ctx, path))

	s := serve.New(serve.Options{Adapt: &calibrate.AdaptiveOptions{Method: "aci", Steps: []float64{0.01}}})
	defer s.Close()
	check(s.Load(ctx, "toy", "1", path))
	predict := func(id string) (level float64) {
		request := fmt.Sprintf(`{"id": %q, "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1.5]}]}`, id)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("POST", "/v2/models/toy/infer", strings.NewReader(request)))
		var result struct{ Parameters struct{ Level float64 } }
		check(json.NewDecoder(w.Body).Decode(&result))
		return result.Parameters.Level
	}
	fmt.Println("level", predict("order-17"))

	// Later, when the target is known:
	adaptation, err := s.Adaptation("toy", "")
	check(err)
	covered, err := adaptation.Feedback("order-17", nil, []float32{30})
	check(err)
	fmt.Println("covered", covered, "level", predict("order-18"))
	state, err := adaptation.MarshalBinary()
	check(err)
	check(adaptation.UnmarshalBinary(state)) // in the next process: see Options.Restore
	// Output:
	// level 0.9
	// covered [false] level 0.909
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
