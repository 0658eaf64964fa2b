package serve

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/attach-uncertainty/attach/ood"
)

// call is a request with its buffers. Calls are pooled and reused.
type call struct {
	server *Server
	request
	job      job
	reserved int64 // bytes reserved of the server's budget

	body    []byte
	numbers []float32
	tensors []ood.Tensor
	groups  []string
	answer  []byte
	shape   []int
}

func (s *Server) newCall() *call {
	return &call{server: s, job: job{done: make(chan struct{}, 1)}}
}

// maxPooledBytes is the size of the buffers that a call keeps for its next request, in bytes.
const maxPooledBytes = 8 << 20

// putCall releases what the call reserved and returns it to the pool.
func (s *Server) putCall(c *call) {
	c.release(c.reserved)
	c.request.reset()
	c.body = c.body[:0]
	c.job = job{done: c.job.done}
	clear(c.tensors)
	clear(c.groups)
	if cap(c.body)+4*cap(c.numbers)+cap(c.answer) > maxPooledBytes {
		c.body, c.numbers, c.answer = nil, nil, nil
	}
	s.calls.Put(c)
}

// reserve reserves bytes for the call. All calls together may reserve 16 times MaxBodySize.
func (c *call) reserve(bytes int64) error {
	most := 16 * c.server.o.MaxBodySize
	switch {
	case bytes > most-c.reserved:
		return refuse(http.StatusRequestEntityTooLarge, "the request needs more memory than the %d bytes that all requests may use together", most)
	case c.server.reserved.Add(bytes) > most:
		c.server.reserved.Add(-bytes)
		return refuse(http.StatusTooManyRequests, "the server has less memory left than the %d bytes that the request needs; try again later", bytes)
	}
	c.reserved += bytes
	return nil
}

func (c *call) release(bytes int64) {
	c.reserved -= bytes
	c.server.reserved.Add(-bytes)
}

// grow makes room for a body of n bytes, and for one more byte, because a read past the body
// finds its end.
func (c *call) grow(n int64) error {
	n++
	if n > c.reserved {
		if err := c.reserve(n - c.reserved); err != nil {
			return err
		}
	}
	if int64(cap(c.body)) < n {
		body := make([]byte, len(c.body), n)
		copy(body, c.body)
		c.body = body
	}
	return nil
}

// infer runs the model on the request and then calls write to answer it.
func (s *Server) infer(ctx context.Context, c *call, e *entry, write func(m *model) error) error {
	m, err := e.acquire()
	if err != nil {
		return err
	}
	defer e.release(m)
	if err := m.check(&c.request); err != nil {
		return err
	}
	if err := m.readInputs(c); err != nil {
		return err
	}
	if err := c.reserve(m.answerBytes(c)); err != nil {
		return err
	}
	c.job.ctx = ctx
	if c.timeout > 0 {
		var cancel context.CancelFunc
		c.job.ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	c.job.predictor, err = m.predictor(c.job.ctx, &c.request)
	if err == nil {
		err = m.batcher.submit(&c.job)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return errOwnTimeout
	case errors.Is(err, context.DeadlineExceeded):
		return errTimeout
	case err != nil:
		return err
	}
	alpha := cmp.Or(c.alpha, m.bundle.Calibration.Alpha)
	for i := range c.job.predictions {
		p := &c.job.predictions[i]
		p.Flag = p.PValue <= alpha
	}
	e.metrics.observePredictions(c, m.monitor)
	return write(m)
}

// since returns the time since t, in seconds.
func since(t time.Time) float64 { return time.Since(t).Seconds() }

// finish logs, counts and traces a request at its end.
func (s *Server) finish(ctx context.Context, protocol string, e *entry, c *call, err error, began time.Time) {
	status := statusOf(err)
	e.metrics.observeRequest(protocol, status, since(began))
	s.trace(ctx, protocol, e, c, err, began)
	level := levelOf(err)
	if !s.o.Log.Enabled(ctx, level) {
		return
	}
	args := []any{"protocol", protocol, "model", e.name, "version", e.version, "status", status, "seconds", since(began)}
	if c.id != "" {
		args = append(args, "id", c.id)
	}
	if err != nil {
		args = append(args, "error", err.Error())
	}
	if status == http.StatusTooManyRequests {
		refused := s.refusals.take(time.Now())
		if refused == 0 {
			return
		}
		args = append(args, "refused", refused)
	}
	s.o.Log.Log(ctx, level, "request", args...)
}

// throttle limits a log message to one per second, so that an overloaded server does not spend
// its time on logging.
type throttle struct {
	mu    sync.Mutex
	last  time.Time
	count int
}

// take counts an event. It returns the number of events since the last message, or 0 if the
// last message is less than a second old.
func (t *throttle) take(now time.Time) (events int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count++
	if now.Sub(t.last) < time.Second {
		return 0
	}
	events, t.count, t.last = t.count, 0, now
	return events
}

// trace records a span for the request, with child spans for its preparation, its wait in the
// queue and its run. All spans are created at the end of the request, so a server without a
// tracer has no cost.
func (s *Server) trace(ctx context.Context, protocol string, e *entry, c *call, err error, began time.Time) {
	if s.tracer == nil {
		return
	}
	ctx, span := s.tracer.Start(ctx, "infer "+e.name, trace.WithTimestamp(began), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("model", e.name), attribute.String("version", e.version), attribute.String("protocol", protocol),
		attribute.Int("rows", len(c.job.predictions)), attribute.Int("http.response.status_code", statusOf(err))))
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	part := func(name string, begin, end time.Time) {
		_, span := s.tracer.Start(ctx, name, trace.WithTimestamp(begin))
		span.End(trace.WithTimestamp(end))
	}
	if j := &c.job; !j.started.IsZero() {
		part("prepare", began, j.queued)
		part("queue", j.queued, j.started)
		part("run", j.started, j.ended)
	}
	span.End()
}
