package serve

import (
	"cmp"
	"context"
	"net/http"
	"time"

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
	c.letGo(c.held)
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

// hold reserves memory, of which all calls have so much at most.
func (c *call) hold(bytes int64) error {
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

func (c *call) letGo(bytes int64) {
	c.held -= bytes
	c.server.held.Add(-bytes)
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
	if c.job.predictor, err = m.predictor(&c.request); err != nil {
		return err
	}
	if err := m.take(c); err != nil {
		return err
	}
	c.job.ctx = ctx
	if c.timeout > 0 {
		var cancel context.CancelFunc
		c.job.ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	if err := m.batcher.do(&c.job); err != nil {
		return timedOut(err)
	}
	alpha := cmp.Or(c.alpha, m.bundle.Calibration.Alpha)
	for i := range c.job.predictions {
		p := &c.job.predictions[i]
		p.Flag = p.PValue <= alpha
	}
	e.metrics.answered(c)
	return write(m)
}

// timedOut says in a sentence that time is up.
func timedOut(err error) error {
	if err == context.DeadlineExceeded {
		return refuse(http.StatusServiceUnavailable, "the request took longer than it may; try again later")
	}
	return err
}

// since is the time since then, in seconds.
func since(t time.Time) float64 { return time.Since(t).Seconds() }
