package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"slices"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// Limits for the memory of decoded pages, in bytes: of one page, and of all columns that
// are read together. A page or file that is large itself may need more memory, up to
// maxRatio times its size.
const (
	maxPage  = 1 << 28
	maxPages = 1 << 30
	maxRatio = 16
)

// pages reads the pages of a column in a row group one after another.
type pages struct {
	r          *reader
	column     *Column
	codec      format.CompressionCodec
	at, end    int64 // start of the next page header, and end of the column
	dictionary cells
	// Memory reserved for the dictionary and for the current page, in bytes.
	dictionaryMemory, pageMemory int
	header                       []byte // buffer for headers
}

// openPages returns the pages of a column in a row group.
func (r *reader) openPages(group, column int) (*pages, error) {
	chunk := &r.groups[group].Columns[column].MetaData
	p := &pages{r: r, column: &r.columns[column], codec: chunk.Codec, at: chunk.DataPageOffset}
	if chunk.DictionaryPageOffset != 0 {
		p.at = chunk.DictionaryPageOffset
	}
	if p.end = p.at + chunk.TotalCompressedSize; p.at < 0 || chunk.TotalCompressedSize < 0 || p.at > int64(r.size) || p.end > int64(r.size) {
		return nil, fmt.Errorf("column %.100q lies at bytes %d to %d of %d", p.column.Name, p.at, p.end, r.size)
	}
	return p, nil
}

// next reads the header of the next page. After the last page, it returns nil.
func (p *pages) next() (h *format.PageHeader, err error) {
	if p.at >= p.end {
		return nil, nil
	}
	// Statistics can make a header long, so larger and larger parts of the file are read.
	for size := int64(1 << 8); ; size <<= 6 {
		size = min(size, p.end-p.at)
		p.header = slices.Grow(p.header[:0], int(size))[:size]
		if n, err := p.r.ReadAt(p.header, p.at); n < len(p.header) {
			return nil, fmt.Errorf("%d of %d bytes: %w", n, size, err)
		}
		h = new(format.PageHeader)
		r := newSizedReader(p.header)
		if err = thrift.NewDecoder(r).Decode(h); err == nil {
			p.at += int64(r.BytesRead())
			break
		}
		if size == p.end-p.at || size >= 1<<20 {
			return nil, err
		}
	}
	data := h.DataPageHeaderV2.V
	if h.CompressedPageSize < 0 || h.UncompressedPageSize < 0 || h.DataPageHeader.V.NumValues < 0 || h.DictionaryPageHeader.V.NumValues < 0 ||
		data.NumValues < 0 || data.NumRows < 0 || data.RepetitionLevelsByteLength < 0 || data.DefinitionLevelsByteLength < 0 {
		return nil, errors.New("the header of a page has negative numbers")
	}
	if int64(h.CompressedPageSize) > p.end-p.at {
		return nil, fmt.Errorf("a page of %d bytes: %w", h.CompressedPageSize, io.ErrUnexpectedEOF)
	}
	return h, nil
}

// skip moves to the header of the next page, without reading the current page.
func (p *pages) skip(h *format.PageHeader) { p.at += int64(h.CompressedPageSize) }

// rows returns the number of rows that begin in a page, or -1 if the header does not
// contain it.
func (p *pages) rows(h *format.PageHeader) int {
	switch {
	case h.Type == format.DataPageV2:
		return int(h.DataPageHeaderV2.V.NumRows)
	case h.Type == format.DataPage && !p.column.List:
		return int(h.DataPageHeader.V.NumValues)
	}
	return -1
}

// body reads the bytes of a page.
func (p *pages) body(h *format.PageHeader) ([]byte, error) {
	b := make([]byte, h.CompressedPageSize)
	if n, err := p.r.ReadAt(b, p.at); n < len(b) {
		return nil, fmt.Errorf("%d of %d bytes: %w", n, len(b), err)
	}
	p.skip(h)
	if h.CRC != 0 && uint32(h.CRC) != crc32.ChecksumIEEE(b) {
		return nil, errors.New("a page does not match its checksum")
	}
	return b, nil
}

// sizeError reports that a column would need too much memory.
type sizeError struct{ column, problem string }

func (e *sizeError) Error() string { return fmt.Sprintf("column %.100q: %s", e.column, e.problem) }

// reserve counts n bytes of memory for a page, which has the given compressed size in the
// file. The bytes are added to reserved.
func (p *pages) reserve(reserved *int, n int64, compressed int32) error {
	if n > max(maxPage, maxRatio*int64(compressed)) {
		return &sizeError{p.column.Name, fmt.Sprintf("a page of %d bytes would take %d in memory; write the file with smaller pages", compressed, n)}
	}
	*reserved += int(n)
	if p.r.reserved += int(n); p.r.reserved > max(maxPages, maxRatio*p.r.size) {
		return &sizeError{p.column.Name, fmt.Sprintf("its page and those of the columns before it would take %d bytes in memory; write the file with smaller pages", p.r.reserved)}
	}
	return nil
}

func (p *pages) release(reserved *int) {
	p.r.reserved -= *reserved
	*reserved = 0
}

func (p *pages) close() {
	p.release(&p.pageMemory)
	p.release(&p.dictionaryMemory)
}

// cells holds the cells of a page, without missing ones.
type cells struct {
	count  int
	number func(i int) float64
	bytes  func(i int) []byte
}

// page is a data page that is being read.
type page struct {
	cells
	left int // remaining values, including missing ones
	// Levels are nil for columns that have only one level.
	repetition, definition *hybridReader
	index                  *hybridReader // indices into the dictionary, or nil
	at                     int           // index of the next cell
}

// read decodes the page of header h. It returns nil for a page without data, such as a
// dictionary.
func (p *pages) read(h *format.PageHeader) (*page, error) {
	reserved := &p.pageMemory
	if h.Type == format.DictionaryPage {
		reserved = &p.dictionaryMemory
	}
	p.release(reserved)
	size := int64(h.UncompressedPageSize)
	if p.codec != format.Uncompressed {
		size += int64(h.CompressedPageSize)
	}
	if err := p.reserve(reserved, size, h.CompressedPageSize); err != nil {
		return nil, err
	}
	b, err := p.body(h)
	if err != nil {
		return nil, err
	}
	switch h.Type {
	case format.DictionaryPage:
		if b, err = decompress(p.codec, b, int(h.UncompressedPageSize)); err == nil {
			p.dictionary, err = p.decode(reserved, b, format.Plain, h)
		}
		return nil, err
	case format.DataPage:
		return p.readV1(b, h)
	case format.DataPageV2:
		return p.readV2(b, h)
	}
	return nil, nil
}

// readV1 decodes a version 1 page, in which levels and cells are compressed together.
func (p *pages) readV1(b []byte, h *format.PageHeader) (*page, error) {
	b, err := decompress(p.codec, b, int(h.UncompressedPageSize))
	if err != nil {
		return nil, err
	}
	data := &h.DataPageHeader.V
	levels := func(maxLevel int, encoding format.Encoding) (*hybridReader, error) {
		switch {
		case maxLevel == 0:
			return nil, nil
		case encoding != format.RLE:
			return nil, fmt.Errorf("levels in the encoding %v, which is not read", encoding)
		case len(b) < 4 || int(binary.LittleEndian.Uint32(b)) > len(b)-4:
			return nil, io.ErrUnexpectedEOF
		}
		run := b[4 : 4+binary.LittleEndian.Uint32(b)]
		b = b[4+len(run):]
		return newHybridReader(run, bits.Len(uint(maxLevel)))
	}
	d := &page{left: int(data.NumValues)}
	if d.repetition, err = levels(p.column.leaf.MaxRepetitionLevel(), data.RepetitionLevelEncoding); err != nil {
		return nil, err
	}
	if d.definition, err = levels(p.column.leaf.MaxDefinitionLevel(), data.DefinitionLevelEncoding); err != nil {
		return nil, err
	}
	return d, p.fill(d, b, data.Encoding, h)
}

// readV2 decodes a version 2 page, in which levels are not compressed.
func (p *pages) readV2(b []byte, h *format.PageHeader) (*page, error) {
	data := &h.DataPageHeaderV2.V
	first, second := int(data.RepetitionLevelsByteLength), int(data.DefinitionLevelsByteLength)
	if first > len(b) || second > len(b)-first {
		return nil, io.ErrUnexpectedEOF
	}
	d, err := &page{left: int(data.NumValues)}, error(nil)
	if maxLevel := p.column.leaf.MaxRepetitionLevel(); maxLevel > 0 {
		if d.repetition, err = newHybridReader(b[:first], bits.Len(uint(maxLevel))); err != nil {
			return nil, err
		}
	}
	if maxLevel := p.column.leaf.MaxDefinitionLevel(); maxLevel > 0 {
		if d.definition, err = newHybridReader(b[first:first+second], bits.Len(uint(maxLevel))); err != nil {
			return nil, err
		}
	}
	if b = b[first+second:]; !data.IsCompressed.Valid || data.IsCompressed.V {
		if b, err = decompress(p.codec, b, int(h.UncompressedPageSize)-first-second); err != nil {
			return nil, err
		}
	}
	return d, p.fill(d, b, data.Encoding, h)
}

// fill decodes the cells in b, which follow the levels of a page, and stores them in d.
func (p *pages) fill(d *page, b []byte, encoding format.Encoding, h *format.PageHeader) (err error) {
	switch {
	//lint:ignore SA1019 older writers use it
	case encoding == format.PlainDictionary || encoding == format.RLEDictionary:
		d.cells, d.index = p.dictionary, new(hybridReader)
		if len(b) > 0 {
			d.index, err = newHybridReader(b[1:], int(b[0]))
		}
	case encoding == format.RLE && p.column.leaf.Type().Kind() == parquet.Boolean:
		d.cells, d.index = cells{count: 2, number: func(i int) float64 { return float64(i) }}, new(hybridReader)
		if len(b) >= 4 {
			d.index, err = newHybridReader(b[4:], 1)
		}
	default:
		d.cells, err = p.decode(&p.pageMemory, b, encoding, h)
	}
	return err
}

// next returns the index of the next cell that is not missing.
func (d *page) next() (int, error) {
	i := d.at
	d.at++
	if d.index != nil {
		v, err := d.index.next()
		if err != nil {
			return 0, err
		}
		i = int(v)
	}
	if i >= d.count {
		return 0, fmt.Errorf("cell %d of %d", i, d.count)
	}
	return i, nil
}

// decompress returns the uncompressed bytes of a page. More bytes than the header claims
// are an error, which the codecs of parquet-go do not detect.
func decompress(codec format.CompressionCodec, b []byte, size int) (out []byte, err error) {
	if codec == format.Uncompressed {
		return b, nil
	}
	if size < 0 {
		return nil, io.ErrUnexpectedEOF
	}
	switch codec {
	case format.Snappy:
		n, err := snappy.DecodedLen(b)
		if err != nil || n > size {
			return nil, fmt.Errorf("a page of %d bytes, where its header says %d (%v)", n, size, err)
		}
		return snappy.Decode(nil, b)
	case format.Lz4Raw:
		out = make([]byte, size)
		n, err := lz4.UncompressBlock(b, out)
		return out[:max(n, 0)], err
	case format.Zstd:
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return nil, err
		}
		defer d.Close()
		return d.DecodeAll(b, make([]byte, 0, size))
	case format.Gzip:
		r, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		return readUpTo(r, size)
	case format.Brotli:
		return readUpTo(brotli.NewReader(bytes.NewReader(b)), size)
	}
	return nil, fmt.Errorf("compression %v, which is not read", codec)
}

func readUpTo(r io.Reader, size int) ([]byte, error) {
	out := make([]byte, size+1)
	n, err := io.ReadFull(r, out)
	switch {
	case err == nil:
		return nil, fmt.Errorf("a page of more bytes than the %d that its header says", size)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF) && n <= size:
		err = nil
	}
	return out[:n], err
}
