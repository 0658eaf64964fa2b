package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"

	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/audit/engine"
	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// metricsNamespace is the namespace of the metrics that workers report to the runner.
const metricsNamespace = "attach"

// Names of these metrics. A piece is an element of the pipeline: files, or a piece of one.
const (
	rowsMetric   = "rows scored"
	bytesMetric  = "bytes of parts"
	piecesMetric = "pieces done"
	failedMetric = "files that failed"
	pieceMetric  = "milliseconds of a piece"
)

func count(ctx context.Context, name string, n int64) {
	beam.NewCounter(metricsNamespace, name).Inc(ctx, n)
}

// countPiece reports that a piece is done, and how long it took.
func countPiece(ctx context.Context, took time.Duration) {
	count(ctx, piecesMetric, 1)
	beam.NewDistribution(metricsNamespace, pieceMetric).Update(ctx, took.Milliseconds())
}

// countedPart reports the rows and the bytes of a part when it is written.
type countedPart struct {
	io.WriterTo
	written int64
}

func (p *countedPart) WriteTo(w io.Writer) (n int64, err error) {
	p.written, err = p.WriterTo.WriteTo(w)
	return p.written, err
}

// counts are the metrics of all workers. If a runner repeats a piece, it may count twice, or its
// first attempt not at all. Prism loses the first metrics of pieces that end at the same time.
type counts struct {
	rows, bytes, pieces, failed int64
	piece                       metrics.DistributionValue
}

// sumMetrics adds up metrics over the steps of the pipeline.
func sumMetrics(results metrics.Results) (c counts) {
	own := results.Query(func(r metrics.SingleResult) bool { return r.Namespace() == metricsNamespace })
	for _, r := range own.Counters() {
		switch r.Name() {
		case rowsMetric:
			c.rows += r.Result()
		case bytesMetric:
			c.bytes += r.Result()
		case piecesMetric:
			c.pieces += r.Result()
		case failedMetric:
			c.failed += r.Result()
		}
	}
	for _, r := range own.Distributions() {
		c.piece = r.Result()
	}
	return c
}

func (c counts) String() string {
	const second = 1000.0
	return fmt.Sprintf("%s scored in %s, %.1f MB of parts; a piece took %.1f s on average, %.1f s to %.1f s; %s failed",
		rows.Count(int(c.rows), "row"), rows.Count(int(c.pieces), "piece"), float64(c.bytes)/1e6,
		float64(c.piece.Sum)/second/float64(max(c.piece.Count, 1)), float64(c.piece.Min)/second, float64(c.piece.Max)/second, rows.Count(int(c.failed), "file"))
}

// Workers report their metrics to the runner, but Prism returns late ones before its job ends,
// and the job servers of Flink and Spark return none. Parts show the progress with each runner.
const (
	watchInterval      = time.Second
	watchCloudInterval = 10 * time.Second // a list of many objects takes many requests
)

// watch reports the progress of shards until ctx is done. If the parts are in object storage, it
// only counts them.
func (e *pipeline) watch(ctx context.Context, shards []engine.Shard, parts string, progress engine.Progress) {
	interval := watchInterval
	if e.cloud != "" {
		interval = watchCloudInterval
	}
	done := newScored(shards)
	if e.cloud == "" {
		done.read(parts)
	}
	before := done.rows
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if e.cloud != "" {
			if n, err := e.countParts(ctx, parts); err == nil && n > 0 {
				progress(0, rows.Count(n, "part")+" written", 0)
			}
			continue
		}
		if done.read(parts); done.rows > before {
			progress(done.rows-before, rows.Count(len(done.parts), "part")+" written", done.fraction())
		}
	}
}

// scored tells how much of the shards of an audit the parts in a local folder hold.
type scored struct {
	sizes map[string]float64 // bytes of each file or folder
	total float64
	done  float64 // bytes whose rows are in parts
	rows  int
	parts map[string]bool // names of the parts that were read
}

func newScored(shards []engine.Shard) *scored {
	s := &scored{sizes: map[string]float64{}, parts: map[string]bool{}}
	for _, shard := range shards {
		s.sizes[audit.Name(shard.Path)] += float64(shard.Size)
		s.total += float64(shard.Size)
	}
	return s
}

// read adds the parts that are new in a folder. It leaves out a file that it cannot read. When
// the audit is merged, the file is an error.
func (s *scored) read(folder string) {
	if _, err := os.Stat(filepath.Join(folder, scoredFile)); err == nil { // parts are combined from now on
		return
	}
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if s.parts[e.Name()] || !isPart(e.Name()) {
			continue
		}
		s.parts[e.Name()] = true
		part, err := audit.OpenFile(filepath.Join(folder, e.Name()))
		if err != nil {
			continue
		}
		for _, r := range part.Ranges {
			s.rows += r.End - r.Start
			s.done += s.sizes[r.Shard] * float64(r.End-r.Start) / float64(max(r.Audited, 1))
		}
	}
}

func (s *scored) fraction() float64 { return min(1, s.done/max(s.total, 1)) }

// isPart reports whether a file in the folder of parts has rows.
func isPart(name string) bool { return path.Ext(name) == ".parquet" && engine.IsPartFile(name) }
