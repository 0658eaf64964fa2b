package onnx

import "github.com/attach-uncertainty/attach/internal/onnx/pb"

// Attribute returns a node's attribute of that name, or nil.
func Attribute(n *pb.NodeProto, name string) *pb.AttributeProto {
	for _, a := range n.GetAttribute() {
		if a.GetName() == name {
			return a
		}
	}
	return nil
}

// AttributeInt returns an integer attribute, or otherwise where it is absent.
func AttributeInt(n *pb.NodeProto, name string, otherwise int64) int64 {
	if a := Attribute(n, name); a != nil {
		return a.GetI()
	}
	return otherwise
}

// AttributeFloat returns a float attribute, or otherwise where it is absent.
func AttributeFloat(n *pb.NodeProto, name string, otherwise float32) float32 {
	if a := Attribute(n, name); a != nil {
		return a.GetF()
	}
	return otherwise
}

// AttributeInts returns a list of integers, or nil where it is absent.
func AttributeInts(n *pb.NodeProto, name string) []int64 {
	return Attribute(n, name).GetInts()
}

// AttributeString returns a string attribute, or otherwise where it is absent.
func AttributeString(n *pb.NodeProto, name, otherwise string) string {
	if a := Attribute(n, name); a != nil {
		return string(a.GetS())
	}
	return otherwise
}
