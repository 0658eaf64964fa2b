package serve

import (
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/attach-uncertainty/attach/internal/inference"
)

// RegisterReflection adds server reflection to a gRPC server, so that tools such as grpcurl need
// no proto file. It describes all services of the gRPC server.
func (s *Server) RegisterReflection(r reflection.GRPCServer) {
	o := reflection.ServerOptions{Services: r, DescriptorResolver: newDescriptors()}
	register := func(desc grpc.ServiceDesc, service any) {
		desc.Streams = append([]grpc.StreamDesc(nil), desc.Streams...)
		for i := range desc.Streams {
			desc.Streams[i].Handler = s.untilDrain(desc.Streams[i].Handler)
		}
		r.RegisterService(&desc, service)
	}
	register(reflectionv1.ServerReflection_ServiceDesc, reflection.NewServerV1(o))
	register(reflectionv1alpha.ServerReflection_ServiceDesc, reflection.NewServer(o))
}

// untilDrain returns a handler of streams that ends when the server drains.
func (s *Server) untilDrain(handle grpc.StreamHandler) grpc.StreamHandler {
	return func(service any, stream grpc.ServerStream) error {
		ended := make(chan error, 1)
		go func() { ended <- handle(service, stream) }() // it ends after the stream, whose end it notices
		select {
		case err := <-ended:
			return err
		case <-s.draining:
			return status.Error(codes.Unavailable, errDraining.message)
		}
	}
}

// descriptors finds the descriptors of the protocol, and those that are linked into the program.
type descriptors struct{ protocol protoregistry.Files }

// newDescriptors returns descriptors. The messages of package inference have names of their own
// in the program, so newDescriptors gives them the names of the protocol.
func newDescriptors() *descriptors {
	file := protodesc.ToFileDescriptorProto(inference.File_internal_inference_inference_proto)
	own := "." + file.GetPackage() + "."
	file.Name, file.Package = proto.String("open_inference_grpc.proto"), proto.String("inference")
	file.Options = nil
	renameTypes(file.MessageType, own, ".inference.")
	name, _ := strings.CutPrefix(serviceName, "inference.")
	service := &descriptorpb.ServiceDescriptorProto{Name: &name}
	for _, m := range protocolMethods() {
		service.Method = append(service.Method, &descriptorpb.MethodDescriptorProto{
			Name:       proto.String(m.MethodName),
			InputType:  proto.String(".inference." + string(m.request)),
			OutputType: proto.String(".inference." + string(m.response)),
		})
	}
	file.Service = []*descriptorpb.ServiceDescriptorProto{service}
	d := new(descriptors)
	built, err := protodesc.NewFile(file, nil)
	if err == nil {
		err = d.protocol.RegisterFile(built)
	}
	if err != nil {
		panic(fmt.Sprintf("serve: descriptor of the protocol: %v", err)) // it depends on nothing but this package
	}
	return d
}

// renameTypes replaces the beginning of type names in the fields of messages.
func renameTypes(messages []*descriptorpb.DescriptorProto, from, to string) {
	for _, m := range messages {
		for _, field := range m.Field {
			if name, found := strings.CutPrefix(field.GetTypeName(), from); found {
				field.TypeName = proto.String(to + name)
			}
		}
		renameTypes(m.NestedType, from, to)
	}
}

// FindFileByPath returns the descriptor of a proto file.
func (d *descriptors) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if file, err := d.protocol.FindFileByPath(path); err == nil {
		return file, nil
	}
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

// FindDescriptorByName returns the descriptor of a service, a message or a part of one.
func (d *descriptors) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if found, err := d.protocol.FindDescriptorByName(name); err == nil {
		return found, nil
	}
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}
