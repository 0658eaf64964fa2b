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

// This example saves the state of a drift monitor and restores it, for example in the next
// process.
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
	check(monitor.UnmarshalBinary(state)) // in the next process
	fmt.Println(monitor.Rows(), monitor.Evidence(), monitor.Alarm(.01))
	// Output: 0 1 false
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
