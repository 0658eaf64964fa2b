package double

import (
	"fmt"

	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// UnsupportedError says that a node cannot be computed in double precision.
type UnsupportedError struct {
	Op, Domain string
	Node       string // its name, or what it makes where it has none
	Reason     string
}

func (e *UnsupportedError) Error() string {
	op := e.Op
	if e.Domain != "" {
		op = e.Domain + "." + op
	}
	return fmt.Sprintf("%s (node %q): %s", op, e.Node, e.Reason)
}

func unsupported(n *pb.NodeProto, format string, args ...any) error {
	e := &UnsupportedError{Op: n.GetOpType(), Domain: domainOf(n), Node: n.GetName(), Reason: fmt.Sprintf(format, args...)}
	if e.Node == "" && len(n.GetOutput()) > 0 {
		e.Node = n.GetOutput()[0]
	}
	return e
}

// domainOf is the domain of a node's operator, "" for the default one.
func domainOf(n *pb.NodeProto) string {
	if n.GetDomain() == "ai.onnx" {
		return ""
	}
	return n.GetDomain()
}
