package serve_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/attach-uncertainty/attach/featurize/serve"
)

// serveGRPC serves g on a port of this machine, and returns a connection to it.
func serveGRPC(t *testing.T, g *grpc.Server) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go g.Serve(l)
	t.Cleanup(g.Stop)
	c, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestHealth checks what a server reports about itself and its models before it has models, while
// it serves, and while it drains. A server that drains still answers, and its gRPC server stops
// although clients watch its health.
func TestHealth(t *testing.T) {
	s := serve.New(serve.Options{})
	defer s.Close()
	g := grpc.NewServer()
	s.Register(g)
	s.RegisterHealth(g)
	s.RegisterReflection(g)
	c := serveGRPC(t, g)
	client := health.NewHealthClient(c)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watch := func(service string) func(want health.HealthCheckResponse_ServingStatus) {
		t.Helper()
		stream, err := client.Watch(ctx, &health.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		return func(want health.HealthCheckResponse_ServingStatus) {
			t.Helper()
			for {
				out, err := stream.Recv()
				if err != nil {
					t.Fatalf("the watch of %q ends before %v: %v", service, want, err)
				}
				if out.Status == want {
					return
				}
			}
		}
	}
	check := func(serving bool, status health.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for _, service := range []string{"", "inference.GRPCInferenceService", "digits", "digits/1"} {
			out, err := client.Check(ctx, &health.HealthCheckRequest{Service: service})
			if err != nil || out.Status != status {
				t.Errorf("health of %q: %v, error %v, want %v", service, out, err, status)
			}
		}
		for _, path := range []string{"/v2/health/ready", "/v2/models/digits/ready", "/v2/models/digits/versions/1/ready"} {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			if want := map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable}[serving]; w.Code != want {
				t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, want)
			}
		}
	}
	server, model := watch(""), watch("digits")
	server(health.HealthCheckResponse_NOT_SERVING)
	model(health.HealthCheckResponse_SERVICE_UNKNOWN)

	path := filepath.Join(t.TempDir(), "digits.attach")
	if err := attachDigits(ctx, path); err != nil {
		t.Fatal(err)
	}
	if err := s.Load(ctx, "digits", "1", path); err != nil {
		t.Fatal(err)
	}
	server(health.HealthCheckResponse_SERVING)
	model(health.HealthCheckResponse_SERVING)
	check(true, health.HealthCheckResponse_SERVING)
	for _, service := range []string{"other", "digits/2"} {
		if _, err := client.Check(ctx, &health.HealthCheckRequest{Service: service}); status.Code(err) != codes.NotFound {
			t.Errorf("health of %q: %v", service, err)
		}
	}
	list, err := client.List(ctx, &health.HealthListRequest{})
	if err != nil || len(list.Statuses) != 4 || list.Statuses["digits"].GetStatus() != health.HealthCheckResponse_SERVING {
		t.Errorf("list of health: %v, error %v", list, err)
	}
	reflected, err := reflectionv1.NewServerReflectionClient(c).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}

	s.Drain()
	s.Drain() // a second call has no effect
	server(health.HealthCheckResponse_NOT_SERVING)
	model(health.HealthCheckResponse_NOT_SERVING)
	check(false, health.HealthCheckResponse_NOT_SERVING)
	if _, err := reflected.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("reflection while the server drains: %v", err)
	}
	live, infer := httptest.NewRecorder(), httptest.NewRecorder()
	s.ServeHTTP(live, httptest.NewRequest("GET", "/v2/health/live", nil))
	s.ServeHTTP(infer, httptest.NewRequest("POST", "/v2/models/digits/infer", strings.NewReader(digitsRequest)))
	if live.Code != http.StatusOK || infer.Code != http.StatusOK || infer.Header().Get("Connection") != "close" {
		t.Errorf("while the server drains: live %d, infer %d %s, header %v", live.Code, infer.Code, infer.Body, infer.Header())
	}
	stopped := make(chan struct{})
	go func() { g.GracefulStop(); close(stopped) }()
	select {
	case <-stopped:
	case <-ctx.Done():
		t.Error("clients that watch keep the server from stopping")
	}
}

// digitsRequest is a request for a prediction of a black image.
var digitsRequest = `{"inputs": [{"name": "input", "datatype": "FP32", "shape": [1, 1, 24, 24], "data": [` + strings.Repeat("0,", 575) + `0]}]}`

// TestReflection calls a method by the descriptors that the server reflects, as grpcurl does.
func TestReflection(t *testing.T) {
	s, _, _ := digitsServer(t, serve.Options{})
	g := grpc.NewServer()
	s.Register(g)
	s.RegisterHealth(g)
	s.RegisterReflection(g)
	c := serveGRPC(t, g)
	stream, err := reflectionv1.NewServerReflectionClient(c).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(in *reflectionv1.ServerReflectionRequest) *reflectionv1.ServerReflectionResponse {
		t.Helper()
		if err := stream.Send(in); err != nil {
			t.Fatal(err)
		}
		out, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	var services []string
	for _, service := range ask(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}).GetListServicesResponse().GetService() {
		services = append(services, service.Name)
	}
	for _, want := range []string{"inference.GRPCInferenceService", "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"} {
		if !slices.Contains(services, want) {
			t.Errorf("the services are %q, without %s", services, want)
		}
	}
	find := func(symbol string) protoreflect.FileDescriptor {
		t.Helper()
		answer := ask(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: symbol}})
		raw := answer.GetFileDescriptorResponse().GetFileDescriptorProto()
		if len(raw) != 1 {
			t.Fatalf("%s: %v", symbol, answer)
		}
		var file descriptorpb.FileDescriptorProto
		if err := proto.Unmarshal(raw[0], &file); err != nil {
			t.Fatal(err)
		}
		d, err := protodesc.NewFile(&file, nil)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	find("grpc.health.v1.Health")
	methods := find("inference.GRPCInferenceService").Services().ByName("GRPCInferenceService").Methods()
	if n := methods.Len(); n != 7 {
		t.Errorf("%d methods, want 7", n)
	}
	m := methods.ByName("ModelMetadata")
	in, out := dynamicpb.NewMessage(m.Input()), dynamicpb.NewMessage(m.Output())
	in.Set(m.Input().Fields().ByName("name"), protoreflect.ValueOfString("digits"))
	if err := c.Invoke(t.Context(), "/inference.GRPCInferenceService/ModelMetadata", in, out); err != nil {
		t.Fatal(err)
	}
	if platform := out.Get(m.Output().Fields().ByName("platform")).String(); platform != "onnx_onnxv1" {
		t.Errorf("platform %q in %v", platform, out)
	}
	// The older version of reflection has the same messages.
	older, err := c.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
	if err != nil {
		t.Fatal(err)
	}
	answer := &reflectionv1.ServerReflectionResponse{}
	err = older.SendMsg(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_FileByFilename{FileByFilename: "open_inference_grpc.proto"}})
	if err == nil {
		err = older.RecvMsg(answer)
	}
	if err != nil || answer.GetFileDescriptorResponse() == nil {
		t.Errorf("the older reflection answers %v, error %v", answer, err)
	}
}
