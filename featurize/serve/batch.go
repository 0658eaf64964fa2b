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

// job holds the rows of one request while they wait for the model and run through it.
type job struct {
	ctx       context.Context // context of the request
	block     ood.InputBlock
	groups    []string // one per row, or nil
	predictor *attach.Predictor

	queued, started, ended time.Time           // when it entered the queue, left it, and was done
	predictions            []attach.Prediction // one per row, once done
	err                    error
	done                   chan struct{} // with a buffer of one
}

// batcher joins waiting jobs of one model into batches. Several workers take batches in turn:
// while the model runs for one worker, another evaluates the outputs of the previous run.
type batcher struct {
	rows  int           // maximum of a batch; a larger job is a batch of its own
	delay time.Duration // how long the first job of a batch waits for others
	queue int           // maximum of waiting jobs

	mu      sync.Mutex
	arrived sync.Cond
	waiting []*job
	closed  bool
	workers sync.WaitGroup
}

// workers is the number of batches that are processed at the same time.
const workers = 2

// start starts the workers, which call run for each batch until close.
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

// close stops the workers once no job waits.
func (b *batcher) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.arrived.Broadcast()
	b.workers.Wait()
}

// submit queues a job and waits until it is done. If the context of the job ends while the job
// still waits, submit withdraws it and returns the context's error.
func (b *batcher) submit(j *job) error {
	j.queued = time.Now()
	b.mu.Lock()
	if len(b.waiting) >= b.queue {
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

// checkRoom returns an error if the queue is full, so that a request is refused before any
// work is done for it.
func (b *batcher) checkRoom() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) >= b.queue {
		return b.queueFull()
	}
	return nil
}

func (b *batcher) queueFull() error {
	return refuse(http.StatusTooManyRequests, "the queue of the model is full (%d requests); try again later", b.queue)
}

// withdraw removes a job from the queue and reports whether it was still there.
func (b *batcher) withdraw(j *job) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, j)
	if i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
	return i >= 0
}

// take waits for a batch and appends its jobs to batch. It appends none if the batcher is
// closed and the queue is empty.
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
		left := b.delay - time.Since(b.waiting[0].queued)
		if left <= 0 || b.closed || b.full() {
			break
		}
		alarm := time.AfterFunc(left, func() {
			b.mu.Lock() // so that the broadcast cannot come before Wait
			defer b.mu.Unlock()
			b.arrived.Broadcast()
		})
		b.arrived.Wait()
		alarm.Stop()
	}
	first, rows, now := b.waiting[0], 0, time.Now()
	rest := b.waiting[:0]
	for _, j := range b.waiting {
		n := j.block.Len()
		if rows > 0 && (rows+n > b.rows || !joinable(first.block, j.block)) {
			rest = append(rest, j)
			continue
		}
		j.started, rows = now, rows+n
		batch = append(batch, j)
	}
	clear(b.waiting[len(rest):])
	b.waiting = rest
	if len(rest) > 0 {
		b.arrived.Signal()
	}
	return batch
}

// full reports whether enough rows wait to fill a batch.
func (b *batcher) full() bool {
	rows := 0
	for _, j := range b.waiting {
		if rows += j.block.Len(); rows >= b.rows {
			return true
		}
	}
	return false
}

// joinable reports whether two blocks have the same tensors, with rows of the same shape.
func joinable(a, b ood.InputBlock) bool {
	return slices.EqualFunc(a.Tensors, b.Tensors, func(x, y ood.Tensor) bool {
		return x.Name == y.Name && slices.Equal(x.Shape[1:], y.Shape[1:])
	})
}
