package eigen

import (
	"runtime"
	"sync"
)

// rotation takes columns (u, v) to (cu+sv, cv−su).
type rotation struct{ c, s float64 }

// sweep is rotations of neighbouring columns: the k-th turns columns first+k
// and first+k+1.
type sweep struct {
	first     int
	rotations []rotation
}

// batch keeps sweeps until they are worth applying to the rows of z, n×n.
type batch struct {
	z      []float64
	n      int
	sweeps []sweep
	store  []rotation
}

// batchSweeps is how many whole sweeps are kept. Their rotations are read once
// per group of rows.
const batchSweeps = 24

// next returns room for a sweep of k rotations.
func (b *batch) next(k int) []rotation {
	if b.store == nil {
		b.store = make([]rotation, 0, batchSweeps*b.n)
	}
	if len(b.store)+k > cap(b.store) {
		b.apply()
	}
	at := len(b.store)
	b.store = b.store[:at+k]
	return b.store[at : at+k]
}

func (b *batch) add(first int, r []rotation) {
	b.sweeps = append(b.sweeps, sweep{first, r})
}

// apply multiplies z by all rotations kept and forgets them.
func (b *batch) apply() {
	if len(b.sweeps) > 0 {
		workers := 1
		if len(b.store) > 4096 {
			workers = min(runtime.GOMAXPROCS(0), (b.n+3)/4)
		}
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() { b.applyRows(w*b.n/workers, (w+1)*b.n/workers) })
		}
		wg.Wait()
	}
	b.sweeps, b.store = b.sweeps[:0], b.store[:0]
}

func (b *batch) applyRows(lo, hi int) {
	for ; lo+4 <= hi; lo += 4 {
		for _, s := range b.sweeps {
			four(b.row(lo, s), b.row(lo+1, s), b.row(lo+2, s), b.row(lo+3, s), s.rotations)
		}
	}
	for ; lo < hi; lo++ {
		for _, s := range b.sweeps {
			one(b.row(lo, s), s.rotations)
		}
	}
}

// row is the part of row i that s turns.
func (b *batch) row(i int, s sweep) []float64 {
	at := i*b.n + s.first
	return b.z[at : at+len(s.rotations)+1]
}

func one(p []float64, r []rotation) {
	p0 := p[0]
	for k, g := range r {
		v := p[k+1]
		p[k] = g.c*p0 + g.s*v
		p0 = g.c*v - g.s*p0
	}
	p[len(r)] = p0
}

// four turns four rows side by side: one row alone waits for each rotation's
// result before it can start the next.
func four(p, q, u, v []float64, r []rotation) {
	n := len(r)
	p, q, u, v = p[:n+1], q[:n+1], u[:n+1], v[:n+1]
	p0, q0, u0, v0 := p[0], q[0], u[0], v[0]
	for k := 0; k < n; k++ {
		c, s := r[k].c, r[k].s
		p1, q1, u1, v1 := p[k+1], q[k+1], u[k+1], v[k+1]
		p[k] = c*p0 + s*p1
		q[k] = c*q0 + s*q1
		u[k] = c*u0 + s*u1
		v[k] = c*v0 + s*v1
		p0 = c*p1 - s*p0
		q0 = c*q1 - s*q0
		u0 = c*u1 - s*u0
		v0 = c*v1 - s*v0
	}
	p[n], q[n], u[n], v[n] = p0, q0, u0, v0
}
