package serve

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/attach-uncertainty/attach/internal/inference"
)

// Names of the inputs of a request with feedback.
const (
	targetInput = "target" // of a regressor
	labelInput  = "label"  // of a classifier
	rowInput    = "row"
)

// serveFeedback handles a REST request with the true targets of earlier rows.
func (s *Server) serveFeedback(w http.ResponseWriter, r *http.Request, c *call, e *entry) {
	ctx, cancel := context.WithTimeout(r.Context(), s.opts.Timeout)
	defer cancel()
	start := time.Now()
	var covered feedbackOutput
	err := s.readREST(ctx, w, r, c)
	if err == nil {
		covered, err = s.takeFeedback(c, e)
	}
	s.finishFeedback(ctx, "http", e, c, err, start)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, feedbackResponse{e.name, e.version, c.id, covered.list()})
}

// feedbackResponse is the REST response to feedback.
type feedbackResponse struct {
	ModelName    string           `json:"model_name"`
	ModelVersion string           `json:"model_version"`
	ID           string           `json:"id"`
	Outputs      []feedbackOutput `json:"outputs"`
}

// finishFeedback counts and logs a request with feedback when it ends.
func (s *Server) finishFeedback(ctx context.Context, protocol string, e *entry, c *call, err error, start time.Time) {
	s.metrics.feedback.WithLabelValues(e.name, e.version, protocol, strconv.Itoa(statusOf(err))).Inc()
	s.log(ctx, "feedback", protocol, e, c, err, start)
}

// feedbackOutput is the output of a response to feedback: for each target, whether its interval
// covers it. It has no values if rows were cancelled.
type feedbackOutput struct {
	Name     string `json:"name"`
	Datatype string `json:"datatype"`
	Shape    []int  `json:"shape"`
	Data     []bool `json:"data"`
}

// list returns the outputs of the response.
func (o feedbackOutput) list() []feedbackOutput {
	if o.Data == nil {
		return []feedbackOutput{}
	}
	return []feedbackOutput{o}
}

// takeFeedback takes the targets of a request, or cancels rows.
func (s *Server) takeFeedback(c *call, e *entry) (covered feedbackOutput, err error) {
	a, err := s.Adaptation(e.name, e.version)
	if err != nil {
		return covered, err
	}
	input := targetInput
	if a.classes > 0 {
		input = labelInput
	}
	if c.alpha != 0 || c.level != 0 || c.quantiles != "" || c.sets != "" || c.setsByClass || c.setsByCluster || c.timeout != 0 || c.binaryOutput || len(c.outputs) > 0 {
		return covered, badRequestf("feedback has the inputs %s and %s and the parameter cancel, and no other parameters or outputs", input, rowInput)
	}
	var rows []int
	var targets *tensor
	for i := range c.inputs {
		t := &c.inputs[i]
		switch {
		case t.name == input && targets == nil && t.datatype != "BYTES" && t.datatype != "BOOL":
			targets = t
		case t.name == rowInput && rows == nil && len(t.shape) == 1 && (t.datatype == "INT32" || t.datatype == "INT64"):
			if rows, err = c.readRows(t); err != nil {
				return covered, err
			}
		default:
			return covered, badRequestf("the input %.100q of %s and the shape %v is not expected: feedback has one input %s (numbers, one row for each row of the request) and possibly one input %s (INT64, one number for each of these rows)",
				t.name, t.datatype, t.shape, input, rowInput)
		}
	}
	if c.cancel {
		if targets != nil {
			return covered, badRequestf("the request cancels rows, but has the input %s: leave one of them out", input)
		}
		return covered, a.Cancel(c.id, rows)
	}
	if targets == nil {
		return covered, badRequestf("the input %s is missing: it has the true targets of the rows", input)
	}
	if rows != nil && targets.shape[0] != len(rows) {
		return covered, badRequestf("the input %s has %d rows, but %s has %d", input, targets.shape[0], rowInput, len(rows))
	}
	if n := len(a.rows); targets.elements != targets.shape[0]*n {
		return covered, badRequestf("the input %s has the shape %v, but each row has %d targets", input, targets.shape, n)
	}
	values, err := c.readNumbers(targets)
	if err != nil {
		return covered, err
	}
	covered = feedbackOutput{Name: "covered", Datatype: "BOOL", Shape: append([]int{}, targets.shape...)}
	covered.Data, err = a.Feedback(c.id, rows, values)
	return covered, err
}

// readNumbers decodes a numeric input of feedback.
func (c *call) readNumbers(t *tensor) ([]float32, error) {
	if err := c.reserve(4 * int64(t.maxAvailable())); err != nil {
		return nil, err
	}
	return t.floats(nil)
}

// readRows decodes the input with the numbers of rows.
func (c *call) readRows(t *tensor) ([]int, error) {
	numbers, err := c.readNumbers(t)
	rows := make([]int, len(numbers))
	for i, v := range numbers {
		rows[i] = int(v)
	}
	return rows, err
}

// modelFeedback handles a gRPC request with the true targets of earlier rows. Its messages are
// those of ModelInfer.
func (s *Server) modelFeedback(ctx context.Context, in *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
	start := time.Now()
	e, err := s.find(in.GetModelName(), in.GetModelVersion())
	if err != nil {
		return nil, err
	}
	c := s.calls.Get().(*call)
	defer s.putCall(c)
	var covered feedbackOutput
	if err = c.readMessage(in); err == nil {
		covered, err = s.takeFeedback(c, e)
	}
	s.finishFeedback(ctx, "grpc", e, c, err, start)
	out := &inference.ModelInferResponse{ModelName: e.name, ModelVersion: e.version, Id: c.id}
	for _, o := range covered.list() {
		t := &inference.ModelInferResponse_InferOutputTensor{Name: o.Name, Datatype: o.Datatype, Contents: &inference.InferTensorContents{BoolContents: o.Data}}
		for _, d := range o.Shape {
			t.Shape = append(t.Shape, int64(d))
		}
		out.Outputs = append(out.Outputs, t)
	}
	return out, err
}
