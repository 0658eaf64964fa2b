package serve

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/attach-uncertainty/attach/internal/inference"
)

// serviceName is the full name of the protocol's gRPC service.
const serviceName = "inference.GRPCInferenceService"

// Register adds the protocol's gRPC service to a gRPC server. The size of messages is
// limited by the gRPC server, which also detects closed connections.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	service := &grpc.ServiceDesc{ServiceName: serviceName, HandlerType: (*any)(nil)}
	for _, m := range protocolMethods() {
		service.Methods = append(service.Methods, m.MethodDesc)
	}
	r.RegisterService(service, s)
}

// protocolMethod is a method of the protocol's gRPC service, with the names of its messages.
type protocolMethod struct {
	grpc.MethodDesc
	request, response protoreflect.Name
}

// protocolMethods returns the methods of the protocol's gRPC service.
func protocolMethods() []protocolMethod {
	return []protocolMethod{
		method("ServerLive", (*Server).serverLive),
		method("ServerReady", (*Server).serverReady),
		method("ModelReady", (*Server).modelReady),
		method("ServerMetadata", (*Server).serverMetadata),
		method("ModelMetadata", (*Server).modelMetadataMessage),
		method("ModelInfer", (*Server).modelInfer),
		method("ModelFeedback", (*Server).modelFeedback),
	}
}

// message is a pointer to a message of the protocol.
type message[T any] interface {
	*T
	proto.Message
}

// method returns a unary gRPC method that calls handler.
func method[Request, Response any, In message[Request], Out message[Response]](name string, handler func(*Server, context.Context, In) (Out, error)) protocolMethod {
	m := protocolMethod{request: In(nil).ProtoReflect().Descriptor().Name(), response: Out(nil).ProtoReflect().Descriptor().Name()}
	m.MethodDesc = grpc.MethodDesc{MethodName: name, Handler: func(server any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		if err := server.(*Server).checkCall(ctx, name); err != nil { // before the message is read
			return nil, status.Error(codeOf(err), err.Error())
		}
		in := In(new(Request))
		if err := decode(in); err != nil {
			return nil, err
		}
		handle := func(ctx context.Context, in any) (any, error) {
			out, err := handler(server.(*Server), ctx, in.(In))
			if err != nil {
				return nil, status.Error(codeOf(err), err.Error())
			}
			return out, nil
		}
		if intercept == nil {
			return handle(ctx, in)
		}
		return intercept(ctx, in, &grpc.UnaryServerInfo{Server: server, FullMethod: "/" + serviceName + "/" + name}, handle)
	}}
	return m
}

// checkCall returns an error if a call of a method has no token that is allowed. Methods about
// health need none.
func (s *Server) checkCall(ctx context.Context, method string) error {
	switch method {
	case "ServerLive", "ServerReady", "ModelReady":
		return nil
	}
	return s.checkToken(strings.Join(metadata.ValueFromIncomingContext(ctx, "authorization"), ","))
}

func (s *Server) serverLive(context.Context, *inference.ServerLiveRequest) (*inference.ServerLiveResponse, error) {
	return &inference.ServerLiveResponse{Live: true}, nil
}

func (s *Server) serverReady(context.Context, *inference.ServerReadyRequest) (*inference.ServerReadyResponse, error) {
	return &inference.ServerReadyResponse{Ready: s.checkReady() == nil}, nil
}

func (s *Server) modelReady(_ context.Context, in *inference.ModelReadyRequest) (*inference.ModelReadyResponse, error) {
	err := s.checkModelReady(in.GetName(), in.GetVersion())
	if statusOf(err) == http.StatusNotFound {
		return nil, err
	}
	return &inference.ModelReadyResponse{Ready: err == nil}, nil
}

func (s *Server) serverMetadata(context.Context, *inference.ServerMetadataRequest) (*inference.ServerMetadataResponse, error) {
	md := serverMetadata()
	return &inference.ServerMetadataResponse{Name: md.Name, Version: md.Version, Extensions: md.Extensions}, nil
}

// modelMetadataMessage returns the metadata of a model as a gRPC message.
func (s *Server) modelMetadataMessage(_ context.Context, in *inference.ModelMetadataRequest) (*inference.ModelMetadataResponse, error) {
	md, err := s.modelMetadata(in.GetName(), in.GetVersion())
	out := &inference.ModelMetadataResponse{Name: md.Name, Versions: md.Versions, Platform: md.Platform}
	for _, t := range md.Inputs {
		out.Inputs = append(out.Inputs, &inference.ModelMetadataResponse_TensorMetadata{Name: t.Name, Datatype: t.Datatype, Shape: t.Shape})
	}
	for _, t := range md.Outputs {
		out.Outputs = append(out.Outputs, &inference.ModelMetadataResponse_TensorMetadata{Name: t.Name, Datatype: t.Datatype, Shape: t.Shape})
	}
	return out, err
}

// modelInfer handles a gRPC request for predictions.
func (s *Server) modelInfer(ctx context.Context, in *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
	start := time.Now()
	e, err := s.find(in.GetModelName(), in.GetModelVersion())
	if err != nil {
		return nil, err
	}
	c := s.calls.Get().(*call)
	defer s.putCall(c)
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	var out *inference.ModelInferResponse
	if err = e.checkRoom(); err == nil {
		err = c.readMessage(in)
	}
	if err == nil {
		err = s.infer(ctx, c, e, func(m *model) error {
			out = c.message(e, m, len(in.GetRawInputContents()) > 0)
			return nil
		})
	}
	if s.tracer != nil {
		headers := propagation.MapCarrier{}
		for _, key := range (propagation.TraceContext{}).Fields() {
			headers[key] = strings.Join(metadata.ValueFromIncomingContext(ctx, key), ",")
		}
		ctx = propagation.TraceContext{}.Extract(ctx, headers)
	}
	s.finish(ctx, "grpc", e, c, err, start)
	return out, err
}

// readMessage fills the call's request from a gRPC message.
func (c *call) readMessage(in *inference.ModelInferRequest) error {
	bytes := int64(0)
	for _, raw := range in.GetRawInputContents() {
		bytes += int64(len(raw))
	}
	for _, t := range in.GetInputs() {
		bytes += 8 * int64(contentsLen(t.GetContents()))
	}
	if err := c.reserve(bytes); err != nil {
		return err
	}
	c.id = in.GetId()
	for name, v := range in.GetParameters() {
		if err := c.setParameter(name, parameterOf(v)); err != nil {
			return err
		}
	}
	raws := in.GetRawInputContents()
	if len(raws) > 0 && len(raws) != len(in.GetInputs()) {
		return badRequestf("the request has %d inputs and %d raw_input_contents: give one for each input, or none", len(in.GetInputs()), len(raws))
	}
	for i, given := range in.GetInputs() {
		t := c.addInput()
		t.name, t.datatype = given.GetName(), given.GetDatatype()
		for _, d := range given.GetShape() {
			t.shape = append(t.shape, clamp(d))
		}
		switch {
		case len(raws) == 0:
			if t.contents = given.GetContents(); t.contents == nil {
				t.contents = &inference.InferTensorContents{}
			}
		case given.GetContents() != nil:
			return badRequestf("the input %.100q has both contents and raw_input_contents: give one of them", t.name)
		default:
			t.raw = append(raws[i][:0:0], raws[i]...)
		}
		if err := t.validate(); err != nil {
			return err
		}
	}
	for _, o := range in.GetOutputs() {
		w := requestedOutput{name: o.GetName()}
		for name, v := range o.GetParameters() {
			if err := w.setParameter(name, parameterOf(v)); err != nil {
				return err
			}
		}
		c.outputs = append(c.outputs, w)
	}
	return nil
}

// parameterOf returns the value of a gRPC parameter as text.
func parameterOf(v *inference.InferParameter) parameter {
	switch v := v.GetParameterChoice().(type) {
	case *inference.InferParameter_BoolParam:
		return parameter(strconv.FormatBool(v.BoolParam))
	case *inference.InferParameter_Int64Param:
		return parameter(strconv.FormatInt(v.Int64Param, 10))
	case *inference.InferParameter_Uint64Param:
		return parameter(strconv.FormatUint(v.Uint64Param, 10))
	case *inference.InferParameter_DoubleParam:
		return parameter(strconv.FormatFloat(v.DoubleParam, 'g', -1, 64))
	}
	return parameter(v.GetStringParam())
}

// message returns the response as a gRPC message. It has raw contents if the request has
// raw contents.
func (c *call) message(e *entry, m *model, raw bool) *inference.ModelInferResponse {
	out := &inference.ModelInferResponse{ModelName: e.name, ModelVersion: e.version, Id: c.id}
	for _, p := range c.responseParameters() {
		if out.Parameters == nil {
			out.Parameters = map[string]*inference.InferParameter{}
		}
		out.Parameters[p.name] = &inference.InferParameter{ParameterChoice: &inference.InferParameter_DoubleParam{DoubleParam: p.value}}
	}
	c.eachOutput(m, func(o *output, _ bool) {
		c.shape = o.appendShape(c.shape[:0], &c.request, c.job.predictions)
		t := &inference.ModelInferResponse_InferOutputTensor{Name: o.name, Datatype: o.datatype}
		for _, d := range c.shape {
			t.Shape = append(t.Shape, int64(d))
		}
		out.Outputs = append(out.Outputs, t)
		n := rowWidth(c.shape)
		if raw {
			b := make([]byte, 0, o.binarySize(c.job.predictions, n))
			out.RawOutputContents = append(out.RawOutputContents, o.appendBinary(b, c.job.predictions, n))
			return
		}
		t.Contents = o.contents(c.job.predictions, n)
	})
	return out
}
