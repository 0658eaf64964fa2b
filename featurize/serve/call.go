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

// call is a request with the memory that it takes, which serves again and again.
type call struct {
	server *Server
	request
	job  job
	held int64 // bytes that it holds of the server's

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

// mostKept is how many bytes a call keeps for the next.
const mostKept = 8 << 20

// free gives the call back.
func (s *Server) free(c *call) {
	c.release(c.held)
	c.request.reset()
	c.body = c.body[:0]
	c.job = job{done: c.job.done}
	clear(c.tensors)
	clear(c.groups)
	if cap(c.body)+4*cap(c.numbers)+cap(c.answer) > mostKept {
		c.body, c.numbers, c.answer = nil, nil, nil
	}
	s.calls.Put(c)
}

// reserve counts bytes that the call takes, of which all calls have so much at most.
func (c *call) reserve(bytes int64) error {
	most := 16 * c.server.o.MaxBodySize
	switch {
	case bytes > most-c.held:
		return refuse(http.StatusRequestEntityTooLarge, "the request takes more than %d bytes of memory", most)
	case c.server.held.Add(bytes) > most:
		c.server.held.Add(-bytes)
		return refuse(http.StatusTooManyRequests, "requests take %d bytes of memory, which is most that they may; try again later", most-bytes)
	}
	c.held += bytes
	return nil
}

func (c *call) release(bytes int64) {
	c.held -= bytes
	c.server.held.Add(-bytes)
}

// grow makes room for a body of that many bytes and one more, by which its end is
// found.
func (c *call) grow(n int64) error {
	n++
	if n > c.held {
		if err := c.reserve(n - c.held); err != nil {
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

// infer has a model answer the call, and then write makes the answer of its
// predictions.
func (s *Server) infer(ctx context.Context, c *call, e *entry, write func(m *model) error) error {
	m, err := e.acquire()
	if err != nil {
		return err
	}
	defer e.release(m)
	if err := m.check(&c.request); err != nil {
		return err
	}
	if err := m.take(c); err != nil {
		return err
	}
	if err := c.reserve(m.answers(c)); err != nil {
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
		err = m.batcher.do(&c.job)
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
	e.metrics.answered(c, m.monitor)
	return write(m)
}

// since is the time since then, in seconds.
func since(t time.Time) float64 { return time.Since(t).Seconds() }

// ended logs, counts and traces the end of a request.
func (s *Server) ended(ctx context.Context, protocol string, e *entry, c *call, err error, began time.Time) {
	status := statusOf(err)
	e.metrics.ended(protocol, status, since(began))
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
		refused := s.crowded.take(time.Now())
		if refused == 0 {
			return
		}
		args = append(args, "refused", refused)
	}
	s.o.Log.Log(ctx, level, "request", args...)
}

// throttle lets a line through each second, so that a server that is overloaded does
// not spend its time on logs.
type throttle struct {
	mu    sync.Mutex
	last  time.Time
	count int
}

// take counts an event. It returns how many there were since it last returned a number,
// or 0 within a second of that.
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

// trace tells of a request and of how long it waited and was run. Nothing is told
// before its end, so that a server without a tracer spends nothing on it.
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
	if j := &c.job; !j.taken.IsZero() {
		part("prepare", began, j.came)
		part("queue", j.came, j.taken)
		part("run", j.taken, j.ended)
	}
	span.End()
}
