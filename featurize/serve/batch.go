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

// job holds the rows of one request while they wait for the model, and then their
// predictions.
type job struct {
	ctx       context.Context // context of the request
	block     ood.InputBlock
	groups    []string // one per row, or nil
	predictor *attach.Predictor

	queuedAt, startedAt, endedAt time.Time           // when the job entered the queue, left it and finished
	predictions                  []attach.Prediction // one per row, set when the job is done
	err                          error
	done                         chan struct{} // receives one value when the job is done; buffered
}

// batcher joins waiting jobs of one model into batches. Several workers process batches
// concurrently: while the model runs for one worker, another worker evaluates the outputs
// of an earlier run.
type batcher struct {
	maxRows  int           // maximum rows in a batch; a job with more rows is a batch of its own
	maxDelay time.Duration // how long the first job of a batch waits for more jobs
	maxQueue int           // maximum number of waiting jobs

	mu      sync.Mutex
	arrived sync.Cond
	waiting []*job
	closed  bool
	workers sync.WaitGroup
}

// workers is the largest number of batches of a model that are processed concurrently.
const workers = 2

// start starts the workers. They call run for each batch until the batcher is closed.
func (b *batcher) start(run func(batch []*job)) {
	b.arrived.L = &b.mu
	for range workers {
		b.workers.Go(func() {
			var batch []*job
			for {
				if batch = b.nextBatch(batch[:0]); len(batch) == 0 {
					return
				}
				run(batch)
				now := time.Now()
				for i, j := range batch {
					j.endedAt = now
					j.done <- struct{}{}
					batch[i] = nil
				}
			}
		})
	}
}

// close waits until the queue is empty and then stops the workers.
func (b *batcher) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.arrived.Broadcast()
	b.workers.Wait()
}

// submit adds a job to the queue and waits until the job is done. If the queue is full,
// submit returns an error at once. If the job's context ends while the job is still in the
// queue, submit removes it and returns the context's error.
func (b *batcher) submit(j *job) error {
	j.queuedAt = time.Now()
	b.mu.Lock()
	if len(b.waiting) >= b.maxQueue {
		b.mu.Unlock()
		return b.queueFull()
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

// checkRoom returns an error if the queue is full. It lets the server reject a request
// before any work is done for it.
func (b *batcher) checkRoom() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) >= b.maxQueue {
		return b.queueFull()
	}
	return nil
}

// queueFull returns the error for a request that finds the queue full.
func (b *batcher) queueFull() error {
	return statusErrorf(http.StatusTooManyRequests, "the queue of the model is full (%d requests); try again later", b.maxQueue)
}

// withdraw removes a job from the queue. It reports whether the job was still in the queue.
func (b *batcher) withdraw(j *job) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, j)
	if i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
	return i >= 0
}

// nextBatch waits until jobs can be run as a batch. It removes them from the queue and
// appends them to batch. If the batcher is closed and the queue is empty, nextBatch appends
// no jobs.
func (b *batcher) nextBatch(batch []*job) []*job {
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
		remaining := b.maxDelay - time.Since(b.waiting[0].queuedAt)
		if remaining <= 0 || b.closed || b.full() {
			break
		}
		timer := time.AfterFunc(remaining, func() {
			b.mu.Lock() // ensures that the broadcast comes after the call of Wait below
			defer b.mu.Unlock()
			b.arrived.Broadcast()
		})
		b.arrived.Wait()
		timer.Stop()
	}
	first, rows, now := b.waiting[0], 0, time.Now()
	rest := b.waiting[:0]
	for _, j := range b.waiting {
		n := j.block.Len()
		if rows > 0 && (rows+n > b.maxRows || !joinable(first.block, j.block)) {
			rest = append(rest, j)
			continue
		}
		j.startedAt, rows = now, rows+n
		batch = append(batch, j)
	}
	clear(b.waiting[len(rest):])
	b.waiting = rest
	if len(rest) > 0 {
		b.arrived.Signal()
	}
	return batch
}

// full reports whether the waiting jobs have enough rows to fill a batch.
func (b *batcher) full() bool {
	rows := 0
	for _, j := range b.waiting {
		if rows += j.block.Len(); rows >= b.maxRows {
			return true
		}
	}
	return false
}

// joinable reports whether two blocks can be joined: they have the same tensors, and rows
// of the same shape.
func joinable(a, b ood.InputBlock) bool {
	return slices.EqualFunc(a.Tensors, b.Tensors, func(x, y ood.Tensor) bool {
		return x.Name == y.Name && slices.Equal(x.Shape[1:], y.Shape[1:])
	})
}
