package parquet

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// testFile describes a file with a valid column x, and a column y with a data page that a
// test constructs.
type testFile struct {
	kind       format.Type
	repetition format.FieldRepetitionType
	codec      format.CompressionCodec
	encoding   format.Encoding
	values     int    // number of values in the page header
	size       int    // uncompressed size in the page header, or 0 for the size of body
	dictionary []byte // content of the dictionary page, or nil
	body       []byte
	rows       int64
}

// file returns the bytes of the file. Column x has one number.
func (m testFile) file(t testing.TB) []byte {
	t.Helper()
	b := bytes.NewBufferString("PAR1")
	encode := func(v any) []byte {
		out, err := thrift.Marshal(new(thrift.CompactProtocol), v)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	page := func(h format.PageHeader, body []byte) {
		h.CompressedPageSize = int32(len(body))
		if h.UncompressedPageSize == 0 {
			h.UncompressedPageSize = int32(len(body))
		}
		b.Write(encode(&h))
		b.Write(body)
	}
	data := func(n int, encoding format.Encoding) thrift.Null[format.DataPageHeader] {
		return thrift.New(format.DataPageHeader{NumValues: int32(n), Encoding: encoding, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE})
	}
	if m.rows == 0 {
		m.rows = 1
	}
	chunk := func(name string, kind format.Type, codec format.CompressionCodec) *format.ColumnChunk {
		return &format.ColumnChunk{MetaData: format.ColumnMetaData{Type: kind, Codec: codec, PathInSchema: []string{name}, NumValues: m.rows, DataPageOffset: int64(b.Len())}}
	}
	x := chunk("x", format.Double, format.Uncompressed)
	page(format.PageHeader{Type: format.DataPage, DataPageHeader: data(1, format.Plain)}, binary.LittleEndian.AppendUint64(nil, math.Float64bits(1.5)))
	x.MetaData.TotalCompressedSize = int64(b.Len()) - x.MetaData.DataPageOffset
	y := chunk("y", m.kind, m.codec)
	if m.dictionary != nil {
		y.MetaData.DictionaryPageOffset = y.MetaData.DataPageOffset
		page(format.PageHeader{Type: format.DictionaryPage, DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: 1})}, m.dictionary)
		y.MetaData.DataPageOffset = int64(b.Len())
	}
	page(format.PageHeader{Type: format.DataPage, UncompressedPageSize: int32(m.size), DataPageHeader: data(m.values, m.encoding)}, m.body)
	start := y.MetaData.DictionaryPageOffset
	if start == 0 {
		start = y.MetaData.DataPageOffset
	}
	y.MetaData.TotalCompressedSize = int64(b.Len()) - start
	footer := encode(&format.FileMetaData{
		Version: 1, NumRows: m.rows,
		Schema: []format.SchemaElement{
			{Name: "root", NumChildren: thrift.New[int32](2)},
			{Name: "x", Type: thrift.New(format.Double), RepetitionType: thrift.New(format.Required)},
			{Name: "y", Type: thrift.New(m.kind), RepetitionType: thrift.New(m.repetition)},
		},
		RowGroups: []format.RowGroup{{NumRows: m.rows, Columns: []format.ColumnChunk{*x, *y}}},
	})
	return finish(b, footer)
}

func finish(b *bytes.Buffer, footer []byte) []byte {
	b.Write(footer)
	b.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(footer))))
	b.WriteString("PAR1")
	return b.Bytes()
}

func uvarints(v ...uint64) (b []byte) {
	for _, x := range v {
		b = binary.AppendUvarint(b, x)
	}
	return b
}

// withLength returns encoded levels with their length in front, as in a version 1 page.
func withLength(levels []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(levels))), levels...)
}

// lengthsOf returns n delta-encoded lengths: first, and then n−1 times rest. The
// differences have 17 bits.
func lengthsOf(n, first, rest int) []byte {
	minDelta := min(0, rest-first)
	b := append(uvarints(128, 4, uint64(n), uint64(2*first)), uvarints(uint64(-2*minDelta-1)*uint64(min(1, -minDelta)))...)
	b = append(b, 17, 17, 17, 17)
	packed := new(big.Int)
	for i := range 128 {
		difference := -minDelta
		if i == 0 {
			difference = rest - first - minDelta
		}
		packed.Or(packed, new(big.Int).Lsh(big.NewInt(int64(difference)), uint(17*i)))
	}
	bits := packed.FillBytes(make([]byte, 17*16))
	slices.Reverse(bits)
	b = append(b, bits...)
	for range (n - 2) / 128 {
		b = append(b, 0, 0, 0, 0, 0)
	}
	return b
}

// TestSmallFilesOfManyCells checks that a few bytes cannot cause a large allocation.
func TestSmallFilesOfManyCells(t *testing.T) {
	const many = 400_000_000
	run := uvarints(many << 1)
	d, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]testFile{
		"a list of equal numbers": {kind: format.Double, repetition: format.Repeated, encoding: format.RLEDictionary, values: many,
			dictionary: make([]byte, 8),
			// The first value begins a row. All other values continue this row.
			body: append(append(withLength(append(uvarints(1<<1), append([]byte{0}, append(run, 1)...)...)), withLength(append(uvarints(many<<1), 1))...), append([]byte{1}, append(run, 0)...)...)},
		"a text of 1 GB":                 {kind: format.ByteArray, codec: format.Snappy, values: 1, size: 1 << 30, body: append(uvarints(1<<30), 0)},
		"more bytes than announced":      {kind: format.ByteArray, codec: format.Zstd, values: 1, size: 100, body: d.EncodeAll(make([]byte, 1<<20), nil)},
		"LZ4 that has no end":            {kind: format.ByteArray, codec: format.Lz4Raw, values: 1, size: 100, body: []byte{0xff, 0xff, 0xff}},
		"texts that repeat the last one": {kind: format.ByteArray, encoding: format.DeltaByteArray, values: 1, body: append(append(lengthsOf(1<<15, 0, 1<<16), lengthsOf(1<<15, 1<<16, 0)...), make([]byte, 1<<16)...)},
		"differences":                    {kind: format.Int64, encoding: format.DeltaBinaryPacked, values: 1, body: uvarints(128, 4, many, 0)},
		"lengths":                        {kind: format.ByteArray, encoding: format.DeltaLengthByteArray, values: 1, body: uvarints(128, 4, 1<<31-1, 0)},
		"rows":                           {kind: format.Double, encoding: format.RLEDictionary, rows: many, values: many, dictionary: make([]byte, 8), body: append([]byte{1}, append(run, 0)...)},
		"more cells than announced":      {kind: format.Double, values: 1, body: make([]byte, 4)},
		"a cell beyond its dictionary":   {kind: format.Double, encoding: format.RLEDictionary, values: 1, dictionary: make([]byte, 8), body: []byte{1, 2, 1}},
	}
	for name, m := range files {
		checkRefused(t, name, m.file(t))
	}
}

// TestListOfNothing checks that a list of millions of empty lists is refused, because it
// takes long to read. Each run of repetition levels in this file is below the limit, but
// all runs together exceed it.
func TestListOfNothing(t *testing.T) {
	const runLength = 1 << 22
	m := testFile{kind: format.Double, repetition: format.Repeated, encoding: format.RLEDictionary, values: 7 * runLength, dictionary: make([]byte, 8)}
	repetition := slices.Concat(uvarints(1<<1, 0), bytes.Repeat(uvarints(runLength<<1, 1), 7))
	m.body = slices.Concat(withLength(repetition), withLength(uvarints(8*runLength<<1, 0)), uvarints(1, 8*runLength<<1, 0))
	b := m.file(t)
	r, err := newReader(bytes.NewReader(b), int64(len(b)), "x.parquet")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cursor{path: "x.parquet", r: r, streams: []*stream{newStream(r, 1)}}
	if _, err := c.Read(t.Context(), 0, 1); err == nil || !strings.Contains(err.Error(), `column "y": row 0 is a list of more than 16777216 cells`) {
		t.Errorf("%v", err)
	}
}

// checkRefused checks that a file cannot be opened, or that only its last column cannot be
// read. It also checks that little memory is allocated.
func checkRefused(t *testing.T, name string, b []byte) {
	t.Helper()
	defer checkAllocated(t, 1<<24)()
	r, err := newReader(bytes.NewReader(b), int64(len(b)), "x.parquet")
	if err == nil {
		for j := range r.columns {
			c := &Cursor{path: "x.parquet", r: r, streams: []*stream{newStream(r, j)}}
			if _, err = c.Read(context.Background(), 0, 1); err != nil && j < len(r.columns)-1 {
				t.Errorf("%s: the column beside it: %v", name, err)
			}
		}
	}
	var size *sizeError
	if !errors.Is(err, ErrFormat) && !errors.As(err, &size) || !strings.HasPrefix(err.Error(), "x.parquet: ") {
		t.Errorf("%s: %v", name, err)
	}
}

// TestFootersOfManyColumns checks that a small footer cannot cause a large allocation.
func TestFootersOfManyColumns(t *testing.T) {
	list := append([]byte{0x15, 2, 0x19, 0xfc}, uvarints(100_000_000)...) // claims 100 million schema elements
	checkRefused(t, "elements", finish(bytes.NewBufferString("PAR1"), list))
	checkRefused(t, "empty elements", finish(bytes.NewBufferString("PAR1"), append(append([]byte{0x15, 2, 0x19, 0xfc}, uvarints(1<<20)...), make([]byte, 1<<20)...)))
	checkRefused(t, "structs in structs", finish(bytes.NewBufferString("PAR1"), bytes.Repeat([]byte{0x1c}, 1<<20)))
	checkRefused(t, "lists in lists", finish(bytes.NewBufferString("PAR1"), append([]byte{0x19}, bytes.Repeat([]byte{0x19}, 1<<20)...)))
	deep := &format.FileMetaData{Version: 1}
	for range 1000 {
		deep.Schema = append(deep.Schema, format.SchemaElement{Name: "a", NumChildren: thrift.New[int32](1)})
	}
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), deep)
	if err != nil {
		t.Fatal(err)
	}
	checkRefused(t, "columns in columns", finish(bytes.NewBufferString("PAR1"), footer))
}
