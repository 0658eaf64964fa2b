package serve

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/attach-uncertainty/attach/calibrate"
)

// metrics are those of all models.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	queued   *prometheus.HistogramVec
	rows     *prometheus.HistogramVec
	pValues  *prometheus.HistogramVec
	flagged  *prometheus.CounterVec
	reloaded *prometheus.CounterVec
	evidence *prometheus.Desc
	alarm    *prometheus.Desc
	info     *prometheus.Desc
}

// modelMetrics are those of a version of a model.
type modelMetrics struct {
	all           *metrics
	name, version string
	queued, rows  prometheus.Observer
	pValues       prometheus.Observer
	flagged       prometheus.Counter
}

func newMetrics() metrics {
	of := []string{"model", "version"}
	counter := func(name, help string, more ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "attach_" + name, Help: help}, append(of[:2:2], more...))
	}
	histogram := func(name, help string, buckets []float64, more ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "attach_" + name, Help: help, Buckets: buckets}, append(of[:2:2], more...))
	}
	seconds := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	return metrics{
		requests: counter("requests_total", "Requests for predictions, by protocol and HTTP status.", "protocol", "status"),
		seconds:  histogram("request_seconds", "From the first byte of a request to its answer.", seconds, "protocol"),
		queued:   histogram("queue_seconds", "How long requests waited for the model.", seconds),
		rows:     histogram("request_rows", "Rows of requests.", prometheus.ExponentialBuckets(1, 2, 13)),
		pValues:  histogram("p_value", "P-values of rows. Among rows like the calibration rows a share of p has p-values up to p.", []float64{.001, .005, .01, .02, .05, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1}),
		flagged:  counter("flagged_rows_total", "Rows that were flagged."),
		reloaded: counter("reloads_total", "Files that were opened anew, by whether that was done or failed.", "result"),
		evidence: prometheus.NewDesc("attach_drift_evidence", "What a monitor of drift has won, an e-value: with probability 1/x it ever reaches x while rows are like the calibration rows.", of, nil),
		alarm:    prometheus.NewDesc("attach_drift_alarm", "1 once that evidence has reached 100, which it ever does without drift with probability 0.01 at most.", of, nil),
		info:     prometheus.NewDesc("attach_model_info", "1 for the file that is served, by the sha256 of it and of its model.", append(of[:2:2], "file_sha256", "model_sha256"), nil),
	}
}

// Collector gives the server's metrics to a prometheus.Registerer.
func (s *Server) Collector() prometheus.Collector { return collector{s} }

type collector struct{ s *Server }

func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, one := range c.s.metrics.collectors() {
		one.Describe(to)
	}
	to <- c.s.metrics.evidence
	to <- c.s.metrics.alarm
	to <- c.s.metrics.info
}

// drift is the probability that a model's monitor ever alarms without drift.
const drift = .01

func (c collector) Collect(to chan<- prometheus.Metric) {
	s := c.s
	for _, one := range s.metrics.collectors() {
		one.Collect(to)
	}
	for _, e := range s.all() {
		if m, err := e.acquire(); err == nil {
			to <- prometheus.MustNewConstMetric(s.metrics.info, prometheus.GaugeValue, 1, e.name, e.version, m.sha256, m.bundle.Base.SHA256)
			e.release(m)
		}
		monitor, err := s.Monitor(e.name, e.version)
		if err != nil {
			continue
		}
		alarm := 0.
		if monitor.Alarm(drift) {
			alarm = 1
		}
		to <- prometheus.MustNewConstMetric(s.metrics.evidence, prometheus.GaugeValue, monitor.Evidence(), e.name, e.version)
		to <- prometheus.MustNewConstMetric(s.metrics.alarm, prometheus.GaugeValue, alarm, e.name, e.version)
	}
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.seconds, m.queued, m.rows, m.pValues, m.flagged, m.reloaded}
}

func (m *metrics) of(name, version string) modelMetrics {
	for _, result := range []string{"done", "failed"} {
		m.reloaded.WithLabelValues(name, version, result) // alerts see the first failure as a rise from 0
	}
	return modelMetrics{
		all: m, name: name, version: version,
		queued: m.queued.WithLabelValues(name, version), rows: m.rows.WithLabelValues(name, version),
		pValues: m.pValues.WithLabelValues(name, version), flagged: m.flagged.WithLabelValues(name, version),
	}
}

// ended counts a request.
func (m *modelMetrics) ended(protocol string, status int, seconds float64) {
	m.all.requests.WithLabelValues(m.name, m.version, protocol, strconv.Itoa(status)).Inc()
	m.all.seconds.WithLabelValues(m.name, m.version, protocol).Observe(seconds)
}

// answered counts what a call was told, and shows its rows to the monitor, or nil.
func (m *modelMetrics) answered(c *call, monitor *calibrate.Monitor) {
	m.queued.Observe(c.job.taken.Sub(c.job.came).Seconds())
	m.rows.Observe(float64(len(c.job.predictions)))
	flagged := 0
	for i := range c.job.predictions {
		p := &c.job.predictions[i]
		if p.Score == p.Score {
			m.pValues.Observe(p.PValue)
			if monitor != nil {
				monitor.Add(p.Score)
			}
		}
		if p.Flag {
			flagged++
		}
	}
	m.flagged.Add(float64(flagged))
}

func (m *modelMetrics) reloads(result string) {
	m.all.reloaded.WithLabelValues(m.name, m.version, result).Inc()
}
