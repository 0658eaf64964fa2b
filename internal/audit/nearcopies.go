package audit

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
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
	Rows   int
	Sums   [sketchValues]int64      // of pictures
	Cells  [sketchValues][256]int64 // numbers of rows by hash of a cell
	Sample []sketch
}

func (c *sketchCounts) add(s *sketch, sampled bool) {
	c.Rows++
	if sampled {
		c.Sample = append(c.Sample, *s)
	}
	for k, v := range s[2:] {
		switch s[0] {
		case pictureSketch, signalSketch:
			c.Sums[k] += int64(int8(v))
		case cellSketch:
			c.Cells[k][v]++
		}
	}
}

// merge adds the counts of later rows.
func (c *sketchCounts) merge(later *sketchCounts) {
	c.Rows += later.Rows
	for k := range c.Sums {
		c.Sums[k] += later.Sums[k]
		for v := range c.Cells[k] {
			c.Cells[k][v] += later.Cells[k][v]
		}
	}
	c.Sample = append(c.Sample, later.Sample...)
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
	x := &cells{n: int(size), needed: 2*math.Log2(float64(c.Rows)) + surplusBits}
	for k := range x.n {
		collision := 0. // probability that two rows have equal cells
		for _, n := range c.Cells[k] {
			share := float64(n) / float64(c.Rows)
			collision += share * share
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
	x.limit = x.estimateLimit(c.Sample, c.Rows)
	for band := range pictureBands {
		r := rand.New(rand.NewPCG(1, uint64(band)))
		for range min(20, max(6, bits.Len(uint(c.Rows)))) {
			var h [sketchValues]float32
			for k := range h {
				h[k] = float32(r.NormFloat64())
			}
			var even, odd plane
			for k := range h {
				mirrored := h[x.mirror[k]]
				even.weights[k], odd.weights[k] = (h[k]+mirrored)/2, (h[k]-mirrored)/2
				mean := float32(c.Sums[k]) / float32(c.Rows)
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
	edgeRecordSize   = 8 + 4 + 8 + 1            // the number of a near copy, its distance, the number of an earlier row and the kind
	bucketRecordSize = 8 + 8 + 2 + sketchValues // a bucket, a row number and a sketch
	// maxCompared is the largest number of rows of a bucket that a row is compared with.
	maxCompared = 64
)

// eachSketch calls the function use for the sketch of each row of a partition that is no exact
// copy.
func (m *Merge) eachSketch(ctx context.Context, partition int, use func(row int, s *sketch) error) error {
	read, err := m.openMarks(ctx, partition)
	if err != nil {
		return err
	}
	defer read.close()
	return m.eachBlock(ctx, partition, m.set.columns().subset([]string{sketchColumn}), func(b block) error {
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

// sketchShapes counts the sketches of rows by kind and size. Copied reports whether any row is an
// exact copy.
type sketchShapes struct {
	Counts map[[2]byte]*sketchCounts
	Copied bool
}

// countSketches counts the sketches of a partition.
func (m *Merge) countSketches(ctx context.Context, partition int, copied bool) error {
	found := sketchShapes{map[[2]byte]*sketchCounts{}, copied}
	step := max(1, m.set.ranks.Rows()/maxSketchSample)
	err := m.eachSketch(ctx, partition, func(row int, s *sketch) error {
		c := found.Counts[[2]byte(s[:])]
		if c == nil {
			c = &sketchCounts{}
			found.Counts[[2]byte(s[:])] = c
		}
		c.add(s, row%step == 0)
		return nil
	})
	if err != nil {
		return err
	}
	return m.put(ctx, m.fileName(sketchFile, partition), found)
}

// indexSketches sets m.indices from the counts of all partitions. It reports whether any row is an
// exact copy.
func (m *Merge) indexSketches(ctx context.Context) (copied bool, err error) {
	all := map[[2]byte]*sketchCounts{}
	for i := range m.partitions {
		var found sketchShapes
		if err := m.get(ctx, m.fileName(sketchFile, i), &found); err != nil {
			return false, err
		}
		copied = copied || found.Copied
		for shape, c := range found.Counts {
			if all[shape] == nil {
				all[shape] = &sketchCounts{}
			}
			all[shape].merge(c)
		}
	}
	m.setIndices(all)
	return copied, m.share(ctx, shapesFile, sketchShapes{Counts: all})
}

// setIndices sets m.indices from the counts of all rows.
func (m *Merge) setIndices(all map[[2]byte]*sketchCounts) {
	m.indices = map[[2]byte]sketchIndex{}
	for shape, c := range all {
		m.indices[shape] = c.index(shape[0], shape[1])
	}
}

// scatterSketches sends the sketches of a partition by their buckets in a band.
func (m *Merge) scatterSketches(ctx context.Context, band, partition int, send func(bin int, record []byte) error) error {
	return m.eachSketch(ctx, partition, func(row int, s *sketch) error {
		x := m.indices[[2]byte(s[:])]
		if band >= x.bands() {
			return nil
		}
		key := x.key(s, band)
		record := binary.BigEndian.AppendUint64(nil, key)
		record = binary.BigEndian.AppendUint64(record, uint64(row))
		return send(int(key%uint64(m.bins)), append(record, s[:]...))
	})
}

// compareBuckets compares each row of a bucket with earlier rows of the bucket that are near
// copies of none, the latest maxCompared of them. A copy of several is a copy of the first. The
// records are sorted. It sends pairs of near copies.
func compareBuckets(records [][]byte, indices map[[2]byte]sketchIndex, send func(record []byte) error) error {
	var originals [][]byte
next:
	for i, record := range records {
		if i == 0 || !bytes.Equal(record[:8], records[i-1][:8]) {
			originals = originals[:0]
		}
		s := (*sketch)(record[16:])
		for _, original := range originals {
			other := (*sketch)(original[16:])
			if [2]byte(other[:]) != [2]byte(s[:]) {
				continue
			}
			distance, kind := indices[[2]byte(s[:])].compare(other, s)
			if kind == noCopy {
				continue
			}
			edge := binary.BigEndian.AppendUint32(slices.Clone(record[8:16]), math.Float32bits(float32(distance)))
			if err := send(append(append(edge, original[8:16]...), byte(kind))); err != nil {
				return err
			}
			continue next
		}
		if len(originals) == maxCompared {
			originals = originals[1:]
		}
		originals = append(originals, record)
	}
	return nil
}

// joinNear joins the near copies of all bands to groups, in the order of the rows.
func (m *Merge) joinNear(ctx context.Context, bands int) error {
	for i := range m.partitions {
		var pairs []byte // of all bands
		for band := range bands {
			paths, release, err := m.files.Local(ctx, m.fileName(nearBand(band), i))
			if err != nil {
				return err
			}
			content, err := os.ReadFile(paths[0])
			release()
			if err != nil {
				return err
			}
			pairs = append(pairs, content...)
		}
		list, err := Records(func(use func(record []byte) error) error { return eachRecord(pairs, edgeRecordSize, use) }).sort(edgeRecordSize)
		if err != nil {
			return err
		}
		last := -1
		for _, record := range list { // the nearest row comes first
			row := int(binary.BigEndian.Uint64(record))
			if row == last {
				continue
			}
			last = row
			first := m.firstOf(int(binary.BigEndian.Uint64(record[12:])))
			m.near = append(m.near, nearRow{row, first, copyKind(record[20]), math.Float32frombits(binary.BigEndian.Uint32(record[8:]))})
		}
	}
	return nil
}

// nearBand returns the kind of the files of a round of near copies.
func nearBand(band int) string { return fmt.Sprint(nearRound, band) }
