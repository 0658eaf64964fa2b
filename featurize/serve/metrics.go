package serve

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics holds the Prometheus metrics of all models.
type metrics struct {
	requests     *prometheus.CounterVec
	seconds      *prometheus.HistogramVec
	queueSeconds *prometheus.HistogramVec
	rows         *prometheus.HistogramVec
	pValues      *prometheus.HistogramVec
	flagged      *prometheus.CounterVec
	reloaded     *prometheus.CounterVec
	feedback     *prometheus.CounterVec
	lag          *prometheus.HistogramVec
	evidence     *prometheus.Desc
	alarm        *prometheus.Desc
	info         *prometheus.Desc

	// These metrics are of models with adaptive intervals.
	waiting, dropped, targets, missed, level, threshold, targetEvidence *prometheus.Desc
}

// modelMetrics holds the Prometheus metrics of one version of a model.
type modelMetrics struct {
	all                *metrics
	name, version      string
	queueSeconds, rows prometheus.Observer
	pValues            prometheus.Observer
	flagged            prometheus.Counter
}

func newMetrics() metrics {
	labels := []string{"model", "version"}
	counter := func(name, help string, extra ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "attach_" + name, Help: help}, append(labels[:2:2], extra...))
	}
	histogram := func(name, help string, buckets []float64, extra ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "attach_" + name, Help: help, Buckets: buckets}, append(labels[:2:2], extra...))
	}
	seconds := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	desc := func(name, help string, extra ...string) *prometheus.Desc {
		return prometheus.NewDesc("attach_"+name, help, append(labels[:2:2], extra...), nil)
	}
	return metrics{
		requests:     counter("requests_total", "Requests for predictions, by protocol and HTTP status.", "protocol", "status"),
		seconds:      histogram("request_seconds", "Time from the first byte of a request to its answer.", seconds, "protocol"),
		queueSeconds: histogram("queue_seconds", "Time that requests waited in the queue of the model.", seconds),
		rows:         histogram("request_rows", "Rows per request.", prometheus.ExponentialBuckets(1, 2, 13)),
		pValues:      histogram("p_value", "P-values of rows. If rows are exchangeable with the calibration rows, a fraction p of them has p-values up to p.", []float64{.001, .005, .01, .02, .05, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1}),
		flagged:      counter("flagged_rows_total", "Rows that were flagged as out-of-distribution."),
		reloaded:     counter("reloads_total", "Reloads of the file, by result: done or failed.", "result"),
		feedback:     counter("feedback_requests_total", "Requests with targets, by protocol and HTTP status.", "protocol", "status"),
		lag:          histogram("feedback_lag_seconds", "Time from the interval of a row to its targets.", []float64{.1, 1, 10, 60, 600, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600, 30 * 24 * 3600}),
		waiting:      desc("waiting_rows", "Rows that wait for their targets."),
		dropped:      desc("dropped_rows_total", "Rows that are forgotten, because they waited for too long."),
		targets:      desc("targets_total", "Targets that adaptive intervals or sets were compared with.", "target"),
		missed:       desc("missed_targets_total", "Targets outside their adaptive intervals or sets.", "target"),
		level:        desc("adaptive_level", "Coverage level of the next adaptive interval or set: 1 for infinite intervals, 0 for empty ones. For pid, only of infinite and empty intervals.", "target"),
		threshold:    desc("adaptive_threshold", "Threshold of the next adaptive interval or set: how far an interval reaches beyond the predicted quantiles, or minus the least p-value of a class in the set.", "target"),

		targetEvidence: desc("target_drift_evidence", "Evidence that scores of targets are larger than those of the calibration rows (an e-value). Without drift, it ever reaches x with probability 1/x at most.", "target"),
		evidence:       prometheus.NewDesc("attach_drift_evidence", "Evidence of drift (an e-value). Without drift, it ever reaches x with probability 1/x at most.", labels, nil),
		alarm:          prometheus.NewDesc("attach_drift_alarm", "1 once the evidence of drift has reached 100. Without drift, this ever happens with probability 0.01 at most.", labels, nil),
		info:           prometheus.NewDesc("attach_model_info", "Always 1. The labels hold the SHA-256 digests of the served file and of its model.", append(labels[:2:2], "file_sha256", "model_sha256"), nil),
	}
}

// Collector returns a collector of the server's metrics, for a prometheus.Registerer.
func (s *Server) Collector() prometheus.Collector { return collector{s} }

// collector implements prometheus.Collector for a server.
type collector struct{ server *Server }

func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, metric := range c.server.metrics.collectors() {
		metric.Describe(to)
	}
	to <- c.server.metrics.evidence
	to <- c.server.metrics.alarm
	to <- c.server.metrics.info
	for _, d := range c.server.metrics.adaptive() {
		to <- d
	}
}

// alarmRate bounds the probability that a model's monitor ever raises an alarm if there is
// no drift.
const alarmRate = .01

func (c collector) Collect(to chan<- prometheus.Metric) {
	s := c.server
	for _, metric := range s.metrics.collectors() {
		metric.Collect(to)
	}
	for _, e := range s.allEntries() {
		if m, err := e.acquire(); err == nil {
			to <- prometheus.MustNewConstMetric(s.metrics.info, prometheus.GaugeValue, 1, e.name, e.version, m.sha256, m.bundle.Base.SHA256)
			e.release(m)
		}
		if a, err := s.Adaptation(e.name, e.version); err == nil {
			s.metrics.collectAdaptation(to, e, a)
		}
		monitor, err := s.Monitor(e.name, e.version)
		if err != nil {
			continue
		}
		alarm := 0.
		if monitor.Alarm(alarmRate) {
			alarm = 1
		}
		to <- prometheus.MustNewConstMetric(s.metrics.evidence, prometheus.GaugeValue, monitor.Evidence(), e.name, e.version)
		to <- prometheus.MustNewConstMetric(s.metrics.alarm, prometheus.GaugeValue, alarm, e.name, e.version)
	}
}

// collectors returns the metrics that count events. The other metrics are computed when
// they are collected.
func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.seconds, m.queueSeconds, m.rows, m.pValues, m.flagged, m.reloaded, m.feedback, m.lag}
}

// adaptive returns the descriptions of the metrics of adaptive intervals.
func (m *metrics) adaptive() []*prometheus.Desc {
	return []*prometheus.Desc{m.waiting, m.dropped, m.targets, m.missed, m.level, m.threshold, m.targetEvidence}
}

// collectAdaptation sends the metrics of the adaptive intervals of a model.
func (m *metrics) collectAdaptation(to chan<- prometheus.Metric, e *entry, a *Adaptation) {
	send := func(desc *prometheus.Desc, kind prometheus.ValueType, v float64, target ...string) {
		to <- prometheus.MustNewConstMetric(desc, kind, v, append([]string{e.name, e.version}, target...)...)
	}
	s := a.status()
	send(m.waiting, prometheus.GaugeValue, float64(s.waiting))
	send(m.dropped, prometheus.CounterValue, float64(s.dropped))
	for t := range s.rows {
		target := strconv.Itoa(t)
		send(m.targets, prometheus.CounterValue, float64(s.rows[t]), target)
		send(m.missed, prometheus.CounterValue, float64(s.missed[t]), target)
		send(m.threshold, prometheus.GaugeValue, s.thresholds[t], target)
		send(m.targetEvidence, prometheus.GaugeValue, s.monitors[t].Evidence(), target)
		if level, ok := coverageLevel(s.levels[t], s.thresholds[t]); ok {
			send(m.level, prometheus.GaugeValue, level, target)
		}
	}
}

// forModel returns the metrics of one version of a model.
func (m *metrics) forModel(name, version string) modelMetrics {
	for _, result := range []string{"done", "failed"} {
		m.reloaded.WithLabelValues(name, version, result) // starts the counter at 0, so that alerts see the first failure as an increase
	}
	return modelMetrics{
		all: m, name: name, version: version,
		queueSeconds: m.queueSeconds.WithLabelValues(name, version), rows: m.rows.WithLabelValues(name, version),
		pValues: m.pValues.WithLabelValues(name, version), flagged: m.flagged.WithLabelValues(name, version),
	}
}

// observeRequest counts a request and records how long it took.
func (m *modelMetrics) observeRequest(protocol string, status int, seconds float64) {
	m.all.requests.WithLabelValues(m.name, m.version, protocol, strconv.Itoa(status)).Inc()
	m.all.seconds.WithLabelValues(m.name, m.version, protocol).Observe(seconds)
}

// observePredictions counts the predictions of a call, and passes their scores to the
// monitor if it is not nil. A score of NaN means that there is no detector.
func (m *modelMetrics) observePredictions(c *call, monitor *driftMonitor) {
	m.queueSeconds.Observe(c.job.startedAt.Sub(c.job.queuedAt).Seconds())
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

func (m *modelMetrics) countReload(result string) {
	m.all.reloaded.WithLabelValues(m.name, m.version, result).Inc()
}
