package serve

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/ood"
)

// job is the rows of a request on their way through a model.
type job struct {
	ctx       context.Context // of the request
	block     ood.InputBlock
	groups    []string // of the rows, or nil
	predictor *attach.Predictor

	came, taken, ended time.Time           // to the queue, out of it, and done
	predictions        []attach.Prediction // a row, once done
	err                error
	done               chan struct{} // has room for one
}

// batcher joins the jobs that wait for a model. Its workers take turns: while the
// network runs for one, another reads what came out of it.
type batcher struct {
	rows  int           // most of a batch, a job with more aside
	delay time.Duration // how long a batch waits to become full
	queue int           // most jobs that wait

	mu      sync.Mutex
	arrived sync.Cond
	waiting []*job
	closed  bool
	workers sync.WaitGroup
}

// workers is how many batches are on their way at once.
const workers = 2

// start has run called for one batch after another until close.
func (b *batcher) start(run func(batch []*job)) {
	b.arrived.L = &b.mu
	for range workers {
		b.workers.Go(func() {
			var batch []*job
			for {
				if batch = b.take(batch[:0]); len(batch) == 0 {
					return
				}
				run(batch)
				now := time.Now()
				for i, j := range batch {
					j.ended = now
					j.done <- struct{}{}
					batch[i] = nil
				}
			}
		})
	}
}

// close ends the workers once nothing waits.
func (b *batcher) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.arrived.Broadcast()
	b.workers.Wait()
}

// do has a job done, unless its context ends before it is taken.
func (b *batcher) do(j *job) error {
	j.came = time.Now()
	b.mu.Lock()
	if len(b.waiting) >= b.queue {
		b.mu.Unlock()
		return b.crowded()
	}
	b.waiting = append(b.waiting, j)
	b.mu.Unlock()
	b.arrived.Signal()
	select {
	case <-j.done:
		return j.err
	case <-j.ctx.Done():
	}
	if b.withdraw(j) {
		return j.ctx.Err()
	}
	<-j.done
	return j.err
}

// room refuses a job that could not wait, before anything is done for it.
func (b *batcher) room() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) >= b.queue {
		return b.crowded()
	}
	return nil
}

func (b *batcher) crowded() error {
	return refuse(http.StatusTooManyRequests, "%d requests wait for the model already; try again later", b.queue)
}

// withdraw takes a job that still waits out of the queue.
func (b *batcher) withdraw(j *job) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, j)
	if i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
	return i >= 0
}

// take waits for a batch and appends its jobs, which are none once all is done and
// the batcher is closed.
func (b *batcher) take(batch []*job) []*job {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		if len(b.waiting) == 0 {
			if b.closed {
				return batch
			}
			b.arrived.Wait()
			continue
		}
		left := b.delay - time.Since(b.waiting[0].came)
		if left <= 0 || b.closed || b.full() {
			break
		}
		alarm := time.AfterFunc(left, func() {
			b.mu.Lock() // so that it is not before Wait
			defer b.mu.Unlock()
			b.arrived.Broadcast()
		})
		b.arrived.Wait()
		alarm.Stop()
	}
	first, rows, now := b.waiting[0], 0, time.Now()
	kept := b.waiting[:0]
	for _, j := range b.waiting {
		n := j.block.Len()
		if rows > 0 && (rows+n > b.rows || !joinable(first.block, j.block)) {
			kept = append(kept, j)
			continue
		}
		j.taken, rows = now, rows+n
		batch = append(batch, j)
	}
	clear(b.waiting[len(kept):])
	b.waiting = kept
	if len(kept) > 0 {
		b.arrived.Signal()
	}
	return batch
}

// full says whether as many rows wait as a batch has.
func (b *batcher) full() bool {
	rows := 0
	for _, j := range b.waiting {
		if rows += j.block.Len(); rows >= b.rows {
			return true
		}
	}
	return false
}

// joinable says whether rows of two blocks are of one shape.
func joinable(a, b ood.InputBlock) bool {
	return slices.EqualFunc(a.Tensors, b.Tensors, func(x, y ood.Tensor) bool {
		return x.Name == y.Name && slices.Equal(x.Shape[1:], y.Shape[1:])
	})
}
