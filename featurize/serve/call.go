package serve

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/attach-uncertainty/attach/ood"
)

// call holds a request and the buffers to process it. Calls are pooled and reused.
type call struct {
	server *Server
	request
	job      job
	reserved int64 // bytes that the call has reserved from the server's budget

	body     []byte
	numbers  []float32
	tensors  []ood.Tensor
	groups   []string
	measures []ood.Measure
	response []byte
	// adaptiveLevels and thresholds are those of adaptive intervals, for each target. They are nil if
	// intervals are not adaptive.
	adaptiveLevels, thresholds []float64
	shape                      []int
}

// newCall returns a call for the pool.
func (s *Server) newCall() *call {
	return &call{server: s, job: job{done: make(chan struct{}, 1)}}
}

// maxPooledBytes is the largest total size, in bytes, of buffers that a call keeps for its
// next request.
const maxPooledBytes = 8 << 20

// putCall releases the memory that the call reserved, and returns the call to the pool.
func (s *Server) putCall(c *call) {
	c.freeReserved(c.reserved)
	c.request.reset()
	c.body = c.body[:0]
	c.job = job{done: c.job.done}
	c.adaptiveLevels, c.thresholds = nil, nil
	clear(c.tensors)
	clear(c.groups)
	if cap(c.body)+4*cap(c.numbers)+cap(c.response) > maxPooledBytes {
		c.body, c.numbers, c.response = nil, nil, nil
	}
	s.calls.Put(c)
}

// reserve reserves memory for the call. All calls together may reserve 16 times MaxBodySize
// bytes.
func (c *call) reserve(bytes int64) error {
	limit := 16 * c.server.opts.MaxBodySize
	switch {
	case bytes > limit-c.reserved:
		return statusErrorf(http.StatusRequestEntityTooLarge, "the request needs more memory than the %d bytes that all requests may use together", limit)
	case c.server.reserved.Add(bytes) > limit:
		c.server.reserved.Add(-bytes)
		return statusErrorf(http.StatusTooManyRequests, "the server has less memory left than the %d bytes that the request needs; try again later", bytes)
	}
	c.reserved += bytes
	return nil
}

// freeReserved returns reserved memory to the server's budget.
func (c *call) freeReserved(bytes int64) {
	c.reserved -= bytes
	c.server.reserved.Add(-bytes)
}

// growBody makes room for a body of n bytes and one more byte. The extra byte is needed because
// only a read past the body finds its end.
func (c *call) growBody(n int64) error {
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

// infer runs the model on the request, and then calls write to send the response.
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
	if m.adapt != nil {
		if err := m.adapt.check(&c.request, c.job.block.Len()); err != nil {
			return err
		}
	}
	if err := c.reserve(m.responseBytes(c)); err != nil {
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
		return errRequestTimeout
	case errors.Is(err, context.DeadlineExceeded):
		return errTimeout
	case err != nil:
		return err
	}
	if slices.ContainsFunc(c.outputs, func(w requestedOutput) bool { return w.name == reasonsOutput }) {
		if err := m.setReasons(c); err != nil {
			return err
		}
	}
	alpha := cmp.Or(c.alpha, m.bundle.Calibration.Alpha)
	for i := range c.job.predictions {
		p := &c.job.predictions[i]
		p.Flag = p.PValue <= alpha
	}
	if m.adapt != nil {
		if c.adaptiveLevels, c.thresholds, err = m.adapt.next(c.id, c.job.predictions); err != nil {
			return err
		}
	}
	e.metrics.observePredictions(c, m.monitor)
	if m.monitor != nil {
		m.monitor.logAlarm(s.opts.Log, e.name, e.version)
	}
	return write(m)
}

// secondsSince returns the time since t, in seconds.
func secondsSince(t time.Time) float64 { return time.Since(t).Seconds() }

// finish logs, counts and traces a request when it ends.
func (s *Server) finish(ctx context.Context, protocol string, e *entry, c *call, err error, start time.Time) {
	status := statusOf(err)
	e.metrics.observeRequest(protocol, status, secondsSince(start))
	s.trace(ctx, protocol, e, c, err, start)
	s.log(ctx, "request", protocol, e, c, err, start)
}

// log logs a request when it ends.
func (s *Server) log(ctx context.Context, message, protocol string, e *entry, c *call, err error, start time.Time) {
	status, level := statusOf(err), levelOf(err)
	if !s.opts.Log.Enabled(ctx, level) {
		return
	}
	args := []any{"protocol", protocol, "model", e.name, "version", e.version, "status", status, "seconds", secondsSince(start)}
	if c.id != "" {
		args = append(args, "id", c.id)
	}
	if err != nil {
		args = append(args, "error", err.Error())
	}
	if status == http.StatusTooManyRequests {
		rejected := s.logThrottle.record(time.Now())
		if rejected == 0 {
			return
		}
		args = append(args, "refused", rejected)
	}
	s.opts.Log.Log(ctx, level, message, args...)
}

// throttle limits a log message to one per second, so that an overloaded server does not
// spend its time on logging.
type throttle struct {
	mu    sync.Mutex
	last  time.Time
	count int
}

// record counts an event. If the last message was logged less than a second ago, it returns
// 0. Otherwise it returns the number of events since that message.
func (t *throttle) record(now time.Time) (events int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count++
	if now.Sub(t.last) < time.Second {
		return 0
	}
	events, t.count, t.last = t.count, 0, now
	return events
}

// trace records a span for the request. Its child spans cover the preparation of the
// request, its wait in the queue and its run. All spans are created when the request ends,
// so that a server without a tracer has no overhead.
func (s *Server) trace(ctx context.Context, protocol string, e *entry, c *call, err error, start time.Time) {
	if s.tracer == nil {
		return
	}
	ctx, span := s.tracer.Start(ctx, "infer "+e.name, trace.WithTimestamp(start), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("model", e.name), attribute.String("version", e.version), attribute.String("protocol", protocol),
		attribute.Int("rows", len(c.job.predictions)), attribute.Int("http.response.status_code", statusOf(err))))
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	part := func(name string, begin, end time.Time) {
		_, span := s.tracer.Start(ctx, name, trace.WithTimestamp(begin))
		span.End(trace.WithTimestamp(end))
	}
	if j := &c.job; !j.startedAt.IsZero() {
		part("prepare", start, j.queuedAt)
		part("queue", j.queuedAt, j.startedAt)
		part("run", j.startedAt, j.endedAt)
	}
	span.End()
}
