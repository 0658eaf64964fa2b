package serve

import (
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/version"
)

// headerLength is the name of the HTTP header that holds the length of the JSON before
// binary data.
const headerLength = "Inference-Header-Content-Length"

// ServeHTTP serves the REST endpoints of the protocol under /v2.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.isDraining() {
		// A client that keeps its connection would lose the request that it sends while the
		// connection is closed.
		w.Header().Set("Connection", "close")
	}
	s.mux.ServeHTTP(w, r)
}

// routes returns the handler of all REST endpoints.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	probe := func(path string, handle func(r *http.Request) (any, error)) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			var v any
			err := allow(r, http.MethodGet, http.MethodHead)
			if err == nil {
				v, err = handle(r)
			}
			if err != nil {
				writeError(w, err)
				return
			}
			writeJSON(w, http.StatusOK, v)
		})
	}
	get := func(path string, handle func(r *http.Request) (any, error)) {
		probe(path, func(r *http.Request) (any, error) {
			if err := s.checkToken(r.Header.Get("Authorization")); err != nil {
				return nil, err
			}
			return handle(r)
		})
	}
	post := func(path string, handle func(w http.ResponseWriter, r *http.Request, c *call, e *entry)) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			err := s.checkToken(r.Header.Get("Authorization"))
			var e *entry
			if err == nil {
				e, err = s.find(r.PathValue("model"), r.PathValue("version"))
			}
			if err == nil {
				err = allow(r, http.MethodPost)
			}
			if err != nil {
				writeError(w, err)
				return
			}
			c := s.calls.Get().(*call)
			defer s.putCall(c)
			handle(w, r, c, e)
		})
	}
	get("/v2", func(*http.Request) (any, error) { return serverMetadata(), nil })
	get("/v2/{$}", func(*http.Request) (any, error) { return serverMetadata(), nil })
	probe("/v2/health/live", func(*http.Request) (any, error) { return map[string]bool{"live": true}, nil })
	probe("/v2/health/ready", func(*http.Request) (any, error) {
		return map[string]bool{"ready": true}, s.checkReady()
	})
	for _, model := range []string{"/v2/models/{model}", "/v2/models/{model}/versions/{version}"} {
		get(model, func(r *http.Request) (any, error) {
			return s.modelMetadata(r.PathValue("model"), r.PathValue("version"))
		})
		probe(model+"/ready", func(r *http.Request) (any, error) {
			err := s.checkModelReady(r.PathValue("model"), r.PathValue("version"))
			return map[string]any{"name": r.PathValue("model"), "ready": true}, err
		})
		post(model+"/infer", s.serveInfer)
		post(model+"/feedback", s.serveFeedback)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, statusErrorf(http.StatusNotFound, "there is no path %.200q; GET /v2/models/NAME describes a model", r.URL.Path))
	})
	return mux
}

// allow returns an error if the method of the request is not one of methods.
func allow(r *http.Request, methods ...string) error {
	if slices.Contains(methods, r.Method) {
		return nil
	}
	return statusErrorf(http.StatusMethodNotAllowed, "%.20s is not allowed at %.200q; use %s", r.Method, r.URL.Path, methods[0])
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be encoded as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body)
}

func writeError(w http.ResponseWriter, err error) {
	status := statusOf(err)
	switch status {
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeJSON(w, status, map[string]string{"error": err.Error()})
}

// description holds the metadata of a server or a model.
type description struct {
	Name       string           `json:"name"`
	Version    string           `json:"version,omitempty"`
	Extensions []string         `json:"extensions,omitempty"`
	Versions   []string         `json:"versions,omitempty"`
	Platform   string           `json:"platform,omitempty"`
	Inputs     []tensorMetadata `json:"inputs,omitempty"`
	Outputs    []tensorMetadata `json:"outputs,omitempty"`
}

type tensorMetadata struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
	// Parameters holds the names of the table columns in a row of an input, or is nil.
	Parameters *tensorParameters `json:"parameters,omitempty"`
}

type tensorParameters struct {
	Columns []string `json:"columns"`
}

func serverMetadata() description {
	return description{Name: "attach", Version: version.String(), Extensions: []string{"binary_tensor_data", "parameters"}}
}

// modelMetadata returns the metadata of a model. An empty version means the latest version.
func (s *Server) modelMetadata(name, version string) (md description, err error) {
	e, err := s.find(name, version)
	if err != nil {
		return md, err
	}
	m, err := e.acquire()
	if err != nil {
		return md, err
	}
	defer e.release(m)
	md = description{Name: e.name, Versions: s.versions(e.name), Platform: "onnx_onnxv1"}
	md.Inputs, md.Outputs = m.describeTensors()
	return md, nil
}

// describeTensors returns the metadata of the model's inputs and outputs.
func (m *model) describeTensors() (inputs, outputs []tensorMetadata) {
	add := func(list *[]tensorMetadata, name, datatype string, shape []int) {
		t := tensorMetadata{Name: name, Datatype: datatype, Shape: make([]int64, len(shape))}
		for i, d := range shape {
			t.Shape[i] = int64(d)
		}
		if len(shape) > 0 {
			t.Shape[0] = -1
		}
		*list = append(*list, t)
	}
	known := func(name string) bool {
		return slices.ContainsFunc(m.inputs, func(in attach.Input) bool { return in.Name == name })
	}
	for _, in := range m.inputs {
		add(&inputs, in.Name, datatypeOf(in.DType), in.Shape)
		if columns := m.columnsOf(in.Name); columns != nil {
			inputs[len(inputs)-1].Parameters = &tensorParameters{columns}
		}
	}
	if m.attached.Preprocess != nil && !known(imageInput) {
		add(&inputs, imageInput, "BYTES", []int{-1})
	}
	if m.bundle.Text != nil && !known(textInput) {
		add(&inputs, textInput, "BYTES", []int{-1})
	}
	if m.bundle.Calibration.Groups != nil && !known(groupInput) {
		add(&inputs, groupInput, "BYTES", []int{-1})
	}
	for _, o := range m.outputs {
		add(&outputs, o.name, o.datatype, o.shape)
	}
	return inputs, outputs
}

// serveInfer handles a REST request for predictions.
func (s *Server) serveInfer(w http.ResponseWriter, r *http.Request, c *call, e *entry) {
	start := time.Now()
	err := s.inferREST(w, r, c, e)
	if err != nil {
		writeError(w, err)
	}
	ctx := r.Context()
	if s.tracer != nil {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
	}
	s.finish(ctx, "http", e, c, err, start)
}

// inferREST reads a REST request, runs the model and writes the response. It returns an
// error if no response was written.
func (s *Server) inferREST(w http.ResponseWriter, r *http.Request, c *call, e *entry) error {
	if err := e.checkRoom(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.opts.Timeout)
	defer cancel()
	if err := s.readREST(ctx, w, r, c); err != nil {
		return err
	}
	return s.infer(ctx, c, e, func(m *model) error {
		header := c.writeResponse(e, m)
		h := w.Header()
		if header < len(c.response) {
			h.Set("Content-Type", "application/octet-stream")
			h.Set(headerLength, strconv.Itoa(header))
		} else {
			h.Set("Content-Type", "application/json")
		}
		h.Set("Content-Length", strconv.Itoa(len(c.response)))
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.opts.Timeout))
		w.Write(c.response)
		return nil
	})
}

// readREST reads and parses the body of a REST request, at the latest until the deadline of ctx.
func (s *Server) readREST(ctx context.Context, w http.ResponseWriter, r *http.Request, c *call) error {
	control := http.NewResponseController(w)
	// The error is ignored, because a wrapped ResponseWriter may not support deadlines.
	deadline, _ := ctx.Deadline()
	control.SetReadDeadline(deadline)
	if err := s.readBody(w, r, c); err != nil {
		return err
	}
	// The deadline must be removed, because the http.Server keeps reading to notice when
	// the client closes the connection.
	control.SetReadDeadline(time.Time{})
	header := len(c.body)
	if given := r.Header.Get(headerLength); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 0 || n > len(c.body) {
			return badRequestf("%s is %.40q, but the body has %d bytes", headerLength, given, len(c.body))
		}
		header = n
	}
	return c.parse(c.body[:header], c.body[header:])
}

// readBody reads the body of a request, decompresses it if necessary, and limits its size.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, c *call) error {
	limit := s.opts.MaxBodySize
	tooLarge := func() error {
		w.Header().Set("Connection", "close")
		return statusErrorf(http.StatusRequestEntityTooLarge, "the request is larger than %d bytes", limit)
	}
	if r.ContentLength > limit {
		return tooLarge()
	}
	reader := io.Reader(r.Body)
	var err error
	uncompressed := false
	switch encoding := r.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
		uncompressed = true
	case "gzip":
		reader, err = gzip.NewReader(r.Body)
	case "deflate":
		reader, err = zlib.NewReader(r.Body)
	default:
		return statusErrorf(http.StatusUnsupportedMediaType, "the Content-Encoding %.40q is not supported: use gzip or deflate", encoding)
	}
	for err == nil {
		if len(c.body) == cap(c.body) || c.reserved < int64(len(c.body))+1 {
			// Memory is reserved for the bytes that arrive, not for the announced length.
			// So a client that sends little cannot reserve much.
			room := max(2*int64(len(c.body)), 64<<10)
			if uncompressed && r.ContentLength >= 0 {
				room = min(room, r.ContentLength)
			}
			if err = c.growBody(room); err != nil {
				break
			}
		}
		var n int
		n, err = reader.Read(c.body[len(c.body):min(cap(c.body), int(c.reserved))])
		c.body = c.body[:len(c.body)+n]
		if int64(len(c.body)) > limit {
			return tooLarge()
		}
	}
	_, isStatus := errors.AsType[*statusError](err)
	switch {
	case err == io.EOF:
		return nil
	case isStatus:
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return statusErrorf(http.StatusRequestTimeout, "the request body did not arrive within %v", s.opts.Timeout)
	case r.Context().Err() != nil:
		return context.Canceled
	}
	return badRequestf("the request body cannot be read: %v", err)
}
