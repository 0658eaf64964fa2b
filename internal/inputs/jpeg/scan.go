package jpeg

import "errors"

// scan is one pass over coefficients start…end, of which it brings the bits
// from low on (a first pass if high is 0, one more bit otherwise).
type scan struct {
	bits
	d          *decoder
	comps      []*component
	start, end int
	high, low  int
	eobRun     int
	decode     func(c *component, block []int16) error
}

func (d *decoder) readScan(seg []byte) error {
	if d.comps == nil || len(seg) < 1 || len(seg) != 4+2*int(seg[0]) {
		return errors.New("a malformed scan header")
	}
	if d.scans++; d.scans > maxScans {
		return errors.New("a JPEG of too many scans")
	}
	n := int(seg[0])
	if n < 1 || n > len(d.comps) {
		return errors.New("a malformed scan header")
	}
	tail := seg[1+2*n:]
	s := &scan{d: d, start: int(tail[0]), end: int(tail[1]), high: int(tail[2] >> 4), low: int(tail[2] & 15)}
	for i := range n {
		id, tables := seg[1+2*i], seg[2+2*i]
		var c *component
		for j := range d.comps {
			if d.comps[j].id == id {
				c = &d.comps[j]
			}
		}
		if c == nil || tables>>4 > 3 || tables&15 > 3 {
			return errors.New("a malformed scan header")
		}
		for _, other := range s.comps {
			if other == c {
				return errors.New("a malformed scan header")
			}
		}
		c.dc, c.ac = d.dc[tables>>4], d.ac[tables&15]
		s.comps = append(s.comps, c)
	}
	if err := s.choose(); err != nil {
		return err
	}
	s.data, s.pos = d.data, d.pos
	if err := s.run(); err != nil {
		return err
	}
	d.pos = s.pos
	return nil
}

// choose checks the scan's parameters and sets how it decodes a block.
func (s *scan) choose() error {
	bad := errors.New("a malformed scan header")
	if !s.d.progressive {
		s.start, s.end, s.high, s.low = 0, 63, 0, 0
		s.decode = s.sequential
		return s.tables(true, true)
	}
	switch {
	case s.end > 63 || s.start > s.end || s.low > 13 || s.high != 0 && s.high != s.low+1:
		return bad
	case s.start == 0 && s.end > 0, s.start > 0 && len(s.comps) > 1:
		return bad
	case s.start == 0 && s.high == 0:
		s.decode = s.firstDC
		return s.tables(true, false)
	case s.start == 0:
		s.decode = s.refineDC
		return nil
	case s.high == 0:
		s.decode = s.firstAC
	default:
		s.decode = s.refineAC
	}
	return s.tables(false, true)
}

func (s *scan) tables(dc, ac bool) error {
	for _, c := range s.comps {
		if dc && c.dc == nil || ac && c.ac == nil {
			return errors.New("a Huffman table is missing")
		}
	}
	return nil
}

// run visits the blocks of the scan in order.
func (s *scan) run() error {
	c := s.comps[0]
	mcusX, mcusY := c.width, c.height
	single := len(s.comps) == 1
	if !single {
		mcusX = ceilDiv(s.d.width, 8*s.d.hmax)
		mcusY = ceilDiv(s.d.height, 8*s.d.vmax)
	}
	s.reset()
	left := s.d.restart
	for my := range mcusY {
		for mx := range mcusX {
			if s.d.restart > 0 && left == 0 {
				if err := s.resume(); err != nil {
					return err
				}
				left = s.d.restart
			}
			left--
			if single {
				if err := s.decode(c, c.block(mx, my)); err != nil {
					return err
				}
				continue
			}
			for _, c := range s.comps {
				for v := range c.v {
					for h := range c.h {
						if err := s.decode(c, c.block(mx*c.h+h, my*c.v+v)); err != nil {
							return err
						}
					}
				}
			}
		}
		if s.overrun() {
			return errCut
		}
	}
	return nil
}

func (c *component) block(x, y int) []int16 {
	at := 64 * (y*c.stride + x)
	return c.coef[at : at+64 : at+64]
}

func (s *scan) reset() {
	for _, c := range s.comps {
		c.previous = 0
	}
	s.eobRun = 0
}

// resume passes over a restart marker.
func (s *scan) resume() error {
	if s.overrun() {
		return errCut
	}
	s.acc, s.n, s.over = 0, 0, 0
	for s.pos+1 < len(s.data) && s.data[s.pos] == 0xff && s.data[s.pos+1] == 0xff {
		s.pos++
	}
	if s.pos+1 >= len(s.data) || s.data[s.pos] != 0xff || s.data[s.pos+1] < rst0 || s.data[s.pos+1] > rst7 {
		return errors.New("a damaged JPEG: a restart marker is missing")
	}
	s.pos += 2
	s.reset()
	return nil
}

// nextDC reads the difference to the component's previous block.
func (s *scan) nextDC(c *component) error {
	n, err := s.symbol(c.dc)
	if err != nil {
		return err
	}
	if n > 15 {
		return errCode
	}
	c.previous += s.signed(n)
	return nil
}

func (s *scan) sequential(c *component, block []int16) error {
	if err := s.nextDC(c); err != nil {
		return err
	}
	block[0] = int16(c.previous)
	for k := 1; k < 64; k++ {
		sym, err := s.symbol(c.ac)
		if err != nil {
			return err
		}
		zeros, n := sym>>4, sym&15
		if n == 0 {
			if zeros < 15 {
				break
			}
			k += 15
			continue
		}
		if k += zeros; k > 63 {
			return errCode
		}
		block[zigzag[k]] = int16(s.signed(n))
	}
	return nil
}

func (s *scan) firstDC(c *component, block []int16) error {
	if err := s.nextDC(c); err != nil {
		return err
	}
	block[0] = int16(c.previous << s.low)
	return nil
}

func (s *scan) refineDC(_ *component, block []int16) error {
	if s.flag() {
		block[0] |= 1 << s.low
	}
	return nil
}

func (s *scan) firstAC(c *component, block []int16) error {
	if s.eobRun > 0 {
		s.eobRun--
		return nil
	}
	for k := s.start; k <= s.end; k++ {
		sym, err := s.symbol(c.ac)
		if err != nil {
			return err
		}
		zeros, n := sym>>4, sym&15
		if n == 0 {
			if zeros < 15 {
				s.eobRun = 1<<zeros - 1 + int(s.take(zeros))
				break
			}
			k += 15
			continue
		}
		if k += zeros; k > s.end {
			return errCode
		}
		block[zigzag[k]] = int16(s.signed(n) << s.low)
	}
	return nil
}

// refineAC adds one bit to each coefficient that is not zero yet, and brings
// new ones of magnitude one.
func (s *scan) refineAC(c *component, block []int16) error {
	one := int16(1) << s.low
	k := s.start
	if s.eobRun == 0 {
		for k <= s.end {
			sym, err := s.symbol(c.ac)
			if err != nil {
				return err
			}
			zeros, n := sym>>4, sym&15
			var fresh int16
			switch {
			case n == 1:
				if fresh = -one; s.flag() {
					fresh = one
				}
			case n > 1:
				return errCode
			case zeros < 15:
				s.eobRun = 1<<zeros + int(s.take(zeros))
			}
			if s.eobRun > 0 {
				break
			}
			k = s.refine(block, k, zeros, one)
			if fresh != 0 {
				if k > s.end {
					return errCode
				}
				block[zigzag[k]] = fresh
			}
			k++
		}
	}
	if s.eobRun > 0 {
		s.refine(block, k, 64, one)
		s.eobRun--
	}
	return nil
}

// refine reads a bit for each non-zero coefficient from k on, until it has
// passed the given number of zeros, and returns the place of the next zero.
func (s *scan) refine(block []int16, k, zeros int, one int16) int {
	for ; k <= s.end; k++ {
		v := &block[zigzag[k]]
		switch {
		case *v == 0 && zeros == 0:
			return k
		case *v == 0:
			zeros--
		case s.flag() && *v&one == 0:
			if *v > 0 {
				*v += one
			} else {
				*v -= one
			}
		}
	}
	return k
}
