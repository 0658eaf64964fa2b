package eigen

import (
	"runtime"
	"sync"
)

// parallel calls f with ranges that cover 0, …, n−1. It uses all processors, or fewer such
// that each gets at least grain indices. The work of f on an index must not depend on the
// range, so that results do not depend on the number of processors.
func parallel(n, grain int, f func(from, to int)) {
	workers := min(runtime.GOMAXPROCS(0), n/max(grain, 1))
	if workers < 2 {
		f(0, n)
		return
	}
	var wg sync.WaitGroup
	for w := 1; w < workers; w++ {
		wg.Go(func() { f(w*n/workers, (w+1)*n/workers) })
	}
	f(0, n/workers)
	wg.Wait()
}
