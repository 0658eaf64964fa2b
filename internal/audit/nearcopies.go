package audit

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// sketchIndex finds near copies among sketches of one kind and size. Sketches are sorted into
// buckets in several ways, called bands. Near copies share a bucket in at least one band, with
// high probability. Only sketches that share a bucket are compared.
type sketchIndex interface {
	// bands returns the number of bands.
	bands() int
	// key returns the bucket of a sketch in a band.
	key(s *sketch, band int) uint64
	// compare returns the distance of two sketches. It returns noCopy if they are no near
	// copies.
	compare(a, b *sketch) (distance float64, kind copyKind)
}

// sketchCounts counts the sketches of one kind and size, and adds up their values.
type sketchCounts struct {
	rows   int
	sums   [sketchValues]int64            // of pictures
	cells  [sketchValues]map[byte]float64 // numbers of rows by hash of a cell
	sample []sketch
}

func (c *sketchCounts) add(s *sketch, sampled bool) {
	c.rows++
	if sampled {
		c.sample = append(c.sample, *s)
	}
	for k, v := range s[2:] {
		switch s[0] {
		case pictureSketch, signalSketch:
			c.sums[k] += int64(int8(v))
		case cellSketch:
			if c.cells[k] == nil {
				c.cells[k] = map[byte]float64{}
			}
			c.cells[k][v]++
		}
	}
}

// index returns an index of the counted sketches, of a kind and size.
func (c *sketchCounts) index(kind, size byte) sketchIndex {
	switch kind {
	case pictureSketch:
		return c.pictures(int(size>>4), int(size&15))
	case signalSketch:
		return c.pictures(1, int(size))
	case textSketch:
		return texts{}
	}
	x := &cells{n: int(size), needed: 2*math.Log2(float64(c.rows)) + surplusBits}
	for k := range x.n {
		collision := 0. // probability that two rows have equal cells
		for _, n := range c.cells[k] {
			collision += n / float64(c.rows) * n / float64(c.rows)
		}
		x.bits[k] = -math.Log2(collision)
	}
	return x
}

// bandKey returns the bucket of some bytes of a sketch, so that a band has no bucket of another.
func bandKey(s *sketch, band int, values ...byte) uint64 {
	h := mixBits(uint64(s[0])<<16 | uint64(s[1])<<8 | uint64(band))
	for _, v := range values {
		h = (h ^ uint64(v)) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return mixBits(h)
}

// cells is the index of rows of tables. Each of its bands leaves out a quarter of the cells, so
// rows that differ in one cell share a bucket.
type cells struct {
	n int
	// bits holds, for each cell, the collision entropy of its column. Two rows are near copies
	// if their equal cells together have at least as many bits as needed. Otherwise rows of
	// columns with few values would often be near copies by chance.
	bits   [sketchValues]float64
	needed float64
}

const (
	cellBands = 4
	// surplusBits makes near copies by chance unlikely: 2^−surplusBits are expected among all
	// pairs of rows, if columns are independent.
	surplusBits = 4
	// maxCellDistance is the largest fraction of different cells of near copies. One cell may
	// always differ.
	maxCellDistance = .1
)

func (x *cells) bands() int { return cellBands }

func (x *cells) key(s *sketch, band int) uint64 {
	var left []byte
	for k := range x.n {
		if k%cellBands != band {
			left = append(left, s[2+k])
		}
	}
	return bandKey(s, band, left...)
}

func (x *cells) compare(a, b *sketch) (float64, copyKind) {
	different, equal := 0, 0.
	for k := range x.n {
		if a[2+k] != b[2+k] {
			different++
		} else {
			equal += x.bits[k]
		}
	}
	distance := float64(different) / float64(x.n)
	if equal < x.needed || different > 1 && distance > maxCellDistance {
		return distance, noCopy
	}
	return distance, nearCopy
}

// texts is the index of texts. A bucket has the texts with the same values at some places.
type texts struct{}

const (
	textBands = 12
	textPlace = 4 // number of values that make a bucket
	// maxTextDistance is the largest Jaccard distance of near copies.
	maxTextDistance = .3
)

func (texts) bands() int { return textBands }

func (texts) key(s *sketch, band int) uint64 {
	return bandKey(s, band, s[2+band*textPlace:][:textPlace]...)
}

func (texts) compare(a, b *sketch) (float64, copyKind) {
	different := 0
	for k := range sketchValues {
		if a[2+k] != b[2+k] {
			different++
		}
	}
	distance := float64(different) / sketchValues
	if distance > maxTextDistance {
		return distance, noCopy
	}
	return distance, nearCopy
}

// pictures is the index of pictures and signals. A bucket has those on the same side of random
// hyperplanes (Charikar 2002). A mirrored picture has the same bucket.
type pictures struct {
	rows, columns int
	limit         float64 // largest distance of near copies
	// mirror holds the place of each value in the mirrored picture. A signal has no mirror image.
	mirror [sketchValues]int
	// even and odd hold the hyperplanes of each band. They are divided into their symmetric and
	// antisymmetric parts, with the values at the mean picture.
	even, odd [pictureBands][]plane
}

type plane struct {
	weights [sketchValues]float32
	mean    float32
}

const (
	pictureBands = 8
	// maxPictureDistance is the largest distance of near copies in units of the contrast. If
	// different pictures are closer than that to each other, it is reduced, but not below
	// minPictureDistance.
	maxPictureDistance = .2
	minPictureDistance = .03
	// shiftAllowance is the largest shift that near copies may have, in cells of the grid.
	shiftAllowance = .5
	// chanceOfCopy is the probability that a picture is a near copy of any other by chance.
	chanceOfCopy    = 1e-5
	maxSketchSample = 600
)

func (c *sketchCounts) pictures(rows, columns int) sketchIndex {
	x := &pictures{rows: rows, columns: columns, limit: maxPictureDistance}
	for k := range x.mirror {
		if x.mirror[k] = k; rows > 1 && k < rows*columns {
			x.mirror[k] = k/columns*columns + columns - 1 - k%columns
		}
	}
	x.limit = x.estimateLimit(c.sample, c.rows)
	for band := range pictureBands {
		r := rand.New(rand.NewPCG(1, uint64(band)))
		for range min(20, max(6, bits.Len(uint(c.rows)))) {
			var h [sketchValues]float32
			for k := range h {
				h[k] = float32(r.NormFloat64())
			}
			var even, odd plane
			for k := range h {
				mirrored := h[x.mirror[k]]
				even.weights[k], odd.weights[k] = (h[k]+mirrored)/2, (h[k]-mirrored)/2
				mean := float32(c.sums[k]) / float32(c.rows)
				even.mean += even.weights[k] * mean
				odd.mean += odd.weights[k] * mean
			}
			x.even[band], x.odd[band] = append(x.even[band], even), append(x.odd[band], odd)
		}
	}
	return x
}

func (x *pictures) bands() int { return pictureBands }

func (x *pictures) key(s *sketch, band int) uint64 {
	var values [sketchValues]float32
	for k, v := range s[2:] {
		values[k] = float32(int8(v))
	}
	var key, mirrored uint64
	for j := range x.even[band] {
		even, odd := &x.even[band][j], &x.odd[band][j]
		a, b := -even.mean, -odd.mean
		for k, v := range values {
			a += v * even.weights[k]
			b += v * odd.weights[k]
		}
		key, mirrored = key<<1, mirrored<<1
		if a+b > 0 {
			key |= 1
		}
		// The hyperplane is moved to the mean picture for the mirrored picture too.
		if a-b-2*odd.mean > 0 {
			mirrored |= 1
		}
	}
	return bandKey(s, band, binary.LittleEndian.AppendUint64(nil, min(key, mirrored))...)
}

func (x *pictures) compare(a, b *sketch) (float64, copyKind) {
	best, kind := math.Inf(1), noCopy
	for _, k := range []copyKind{nearCopy, mirroredCopy} {
		if k == mirroredCopy && x.rows == 1 {
			break
		}
		if x.rawDistance(a, b, k == mirroredCopy) > 2*x.limit {
			continue
		}
		if d := x.distance(a, b, k == mirroredCopy); d < best {
			best = d
			if d <= x.limit {
				kind = k
			}
		}
	}
	return best, kind
}

// rawDistance returns the root-mean-square difference of two pictures, without allowance for
// shifts.
func (x *pictures) rawDistance(a, b *sketch, mirrored bool) float64 {
	sum, n := 0, x.rows*x.columns
	for k := range n {
		at := k
		if mirrored {
			at = x.mirror[k]
		}
		d := int(int8(a[2+k])) - int(int8(b[2+at]))
		sum += d * d
	}
	return math.Sqrt(float64(sum)/float64(n)) / sketchUnit
}

// distance returns the root-mean-square difference of two pictures after one is shifted to
// the other, as far as the slopes of a show how (Simard, LeCun & Denker 1993).
func (x *pictures) distance(a, b *sketch, mirrored bool) float64 {
	at := func(r, c int) float64 {
		return float64(int8(a[2+max(0, min(x.rows-1, r))*x.columns+max(0, min(x.columns-1, c))]))
	}
	n := x.rows * x.columns
	var difference, right, down [sketchValues]float64
	var rr, rd, dd, rx, dx float64
	for k := range n {
		to := k
		if mirrored {
			to = x.mirror[k]
		}
		r, c := k/x.columns, k%x.columns
		difference[k] = float64(int8(b[2+to])) - at(r, c)
		right[k], down[k] = (at(r, c+1)-at(r, c-1))/2, (at(r+1, c)-at(r-1, c))/2
		rr += right[k] * right[k]
		rd += right[k] * down[k]
		dd += down[k] * down[k]
		rx += right[k] * difference[k]
		dx += down[k] * difference[k]
	}
	allowed := func(shift float64) float64 { return max(-shiftAllowance, min(shiftAllowance, shift)) }
	var u, v float64
	if det := rr*dd - rd*rd; det > 1e-9*rr*dd {
		u, v = allowed((dd*rx-rd*dx)/det), allowed((rr*dx-rd*rx)/det)
	} else if rr > 0 {
		u = allowed(rx / rr)
	}
	sum := 0.
	for k := range n {
		d := difference[k] - u*right[k] - v*down[k]
		sum += d * d
	}
	return math.Sqrt(sum/float64(n)) / sketchUnit
}

// estimateLimit returns the distance within which one of rows pictures has another by chance
// with probability chanceOfCopy. It extrapolates from the distances in a sample to the nearest
// and second nearest picture, as package duplicates does.
func (x *pictures) estimateLimit(sample []sketch, rows int) float64 {
	var nearest []float64
	var logRatios float64
	for i := range sample {
		first, second := math.Inf(1), math.Inf(1)
		for j := range sample {
			if j == i {
				continue
			}
			d := x.rawDistance(&sample[i], &sample[j], false)
			if x.rows > 1 {
				d = min(d, x.rawDistance(&sample[i], &sample[j], true))
			}
			if d < first {
				first, second = d, first
			} else {
				second = min(second, d)
			}
		}
		if first > minPictureDistance && !math.IsInf(second, 0) {
			nearest = append(nearest, first)
			logRatios += math.Log(second / first)
		}
	}
	if len(nearest) < 10 || logRatios == 0 {
		return minPictureDistance
	}
	slices.Sort(nearest)
	dimensions := float64(len(nearest)) / logRatios
	chance := chanceOfCopy * float64(len(sample)) / float64(rows)
	return max(minPictureDistance, min(maxPictureDistance, nearest[len(nearest)/2]*math.Pow(chance, 1/dimensions)))
}

const (
	edgeRecordSize   = 8 + 8 + 1 + 4            // the numbers of a near copy and of an earlier row, the kind and the distance
	bucketRecordSize = 8 + 8 + 2 + sketchValues // a bucket, a row number and a sketch
	// maxCompared is the largest number of rows of a bucket that a row is compared with.
	maxCompared = 64
)

// eachSketch calls the function use for the sketch of each row that is no exact copy.
func (r *copyFinder) eachSketch(ctx context.Context, use func(row int, s *sketch) error) error {
	w, read := r.scores, r.marks.reader()
	return w.eachBlock(ctx, w.columns().subset([]string{sketchColumn}), func(b block) error {
		marks, err := read.of(b.row, b.n)
		if err != nil {
			return err
		}
		for i, text := range b.texts(sketchColumn) {
			if len(text) == 0 || marks[i].kind == exactCopy {
				continue
			}
			var s sketch
			if copy(s[:], text); len(text) != len(s) || !s.valid() {
				return fmt.Errorf("%w: %.40q is not the sketch of an input", ErrNotScores, text)
			}
			if err := use(b.row+i, &s); err != nil {
				return err
			}
		}
		return nil
	})
}

// findNear marks near copies among the rows that are no exact copies.
func (r *copyFinder) findNear(ctx context.Context) error {
	step := max(1, r.scores.ranks.Rows()/maxSketchSample)
	counts := map[[2]byte]*sketchCounts{} // by kind and size of sketches
	err := r.eachSketch(ctx, func(row int, s *sketch) error {
		c := counts[[2]byte(s[:])]
		if c == nil {
			c = &sketchCounts{}
			counts[[2]byte(s[:])] = c
		}
		c.add(s, row%step == 0)
		return nil
	})
	if err != nil {
		return err
	}
	bands, indices := 0, map[[2]byte]sketchIndex{}
	for shape, c := range counts {
		indices[shape] = c.index(shape[0], shape[1])
		bands = max(bands, indices[shape].bands())
	}
	edges := spill{dir: r.dir, size: edgeRecordSize}
	defer edges.close()
	for band := range bands {
		if err := r.compareBand(ctx, band, indices, &edges); err != nil {
			return err
		}
	}
	return r.joinNear(&edges)
}

// compareBand compares the rows that share a bucket in a band. It writes pairs of near copies
// to edges.
func (r *copyFinder) compareBand(ctx context.Context, band int, indices map[[2]byte]sketchIndex, edges *spill) error {
	buckets := spill{dir: r.dir, size: bucketRecordSize}
	defer buckets.close()
	err := r.eachSketch(ctx, func(row int, s *sketch) error {
		x := indices[[2]byte(s[:])]
		if band >= x.bands() {
			return nil
		}
		key := x.key(s, band)
		record := binary.LittleEndian.AppendUint64(nil, key)
		record = binary.LittleEndian.AppendUint64(record, uint64(row))
		return buckets.add(int(key%hashBins), append(record, s[:]...))
	})
	var records []byte
	for bin := range hashBins {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		records = records[:0]
		if err = buckets.each(bin, func(record []byte) error { records = append(records, record...); return nil }); err == nil {
			err = compareBuckets(records, indices, edges)
		}
	}
	return err
}

// compareBuckets compares each row of a bucket with earlier rows of the bucket that are near
// copies of none, the latest maxCompared of them. A copy of several is a copy of the first.
func compareBuckets(records []byte, indices map[[2]byte]sketchIndex, edges *spill) error {
	type entry struct {
		key uint64
		at  int
	}
	list := make([]entry, 0, len(records)/bucketRecordSize)
	for at := 0; at < len(records); at += bucketRecordSize {
		list = append(list, entry{binary.LittleEndian.Uint64(records[at:]), at})
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.at, b.at)) })
	var originals []int
next:
	for i, e := range list {
		if i == 0 || e.key != list[i-1].key {
			originals = originals[:0]
		}
		row, s := records[e.at+8:e.at+16], (*sketch)(records[e.at+16:])
		for _, at := range originals {
			other := (*sketch)(records[at+16:])
			if [2]byte(other[:]) != [2]byte(s[:]) {
				continue
			}
			distance, kind := indices[[2]byte(s[:])].compare(other, s)
			if kind == noCopy {
				continue
			}
			edge := slices.Concat(row, records[at+8:at+16], []byte{byte(kind)})
			edge = binary.LittleEndian.AppendUint32(edge, math.Float32bits(float32(distance)))
			if err := edges.add(int(binary.LittleEndian.Uint64(row))/rowsPerBin, edge); err != nil {
				return err
			}
			continue next
		}
		if len(originals) == maxCompared {
			originals = originals[1:]
		}
		originals = append(originals, e.at)
	}
	return nil
}

// joinNear joins near copies to groups, in the order of the rows, and marks them.
func (r *copyFinder) joinNear(edges *spill) error {
	for bin := range r.scores.ranks.Rows()/rowsPerBin + 1 {
		var found []nearRow
		err := edges.each(bin, func(record []byte) error {
			n := nearRow{row: int(binary.LittleEndian.Uint64(record))}
			decodeMark(record[8:], &n.mark)
			found = append(found, n)
			return nil
		})
		if err != nil {
			return err
		}
		slices.SortFunc(found, func(a, b nearRow) int {
			return cmp.Or(cmp.Compare(a.row, b.row), cmp.Compare(a.distance, b.distance), cmp.Compare(a.first, b.first))
		})
		for i, n := range found {
			if i > 0 && found[i-1].row == n.row {
				continue
			}
			n.first = r.firstOf(n.first)
			r.near = append(r.near, n)
			if err := cmp.Or(r.addMark(n.first, mark{first: n.first, kind: firstOfCopy}), r.addMark(n.row, n.mark)); err != nil {
				return err
			}
		}
	}
	return nil
}
