package compare

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/numeric/measure"
)

// view is some of the out-of-distribution sets. A line of a report is the mean over them.
type view struct {
	name string
	sets []int
}

// viewsOf returns the view of all sets, a view of each set with a name, and a view of each
// group in the order of first appearance.
func viewsOf(sets []OODSet) (all view, single, grouped []view) {
	for i, s := range sets {
		all.sets = append(all.sets, i)
		if s.Name != "" {
			single = append(single, view{s.Name, []int{i}})
		}
		if s.Group == "" {
			continue
		}
		g := slices.IndexFunc(grouped, func(v view) bool { return v.name == s.Group })
		if g < 0 {
			g = len(grouped)
			grouped = append(grouped, view{name: s.Group})
		}
		grouped[g].sets = append(grouped[g].sets, i)
	}
	return all, single, grouped
}

// metrics returns the metrics of a configuration, then the metrics of each resample. All sets use
// the same resamples of in-distribution rows.
func (v view) metrics(r result) []measure.Metrics {
	some := make([][]measure.Metrics, len(v.sets))
	for i, k := range v.sets {
		some[i] = r.metrics[k]
	}
	return mean(some)
}

// summarise summarises configurations. The intervals are confidence intervals of their mean.
func (v view) summarise(done []result, areas [][]float64) (Summaries, *Intervals) {
	var s Summaries
	all := make([][]measure.Metrics, len(done))
	for i, d := range done {
		all[i] = v.metrics(d)
	}
	x := make([]float64, len(all))
	for f, to := range measure.Figures[Summary](&s) {
		for i := range all {
			x[i] = *measure.Figures[float64](&all[i][0])[f]
		}
		*to = summarise(x)
	}
	return s, intervals(mean(all), areas)
}

// summarise fills in the configurations and their summaries.
func (r *MethodReport) summarise(sets []OODSet, done []result) {
	all, single, grouped := viewsOf(sets)
	var areas []float64
	var drawnAreas [][]float64
	for _, d := range done {
		conf, on := d.conf, all.metrics(d)
		conf.Metrics, conf.CI = Metrics(on[0]), intervals(on, nil)
		conf.Sets, conf.Groups = d.metricsByView(single), d.metricsByView(grouped)
		if conf.AURC != nil {
			areas, drawnAreas = append(areas, *conf.AURC), append(drawnAreas, d.aurc)
			conf.CI = intervals(on, [][]float64{d.aurc})
		}
		r.Configs = append(r.Configs, conf)
	}
	r.Summaries, r.CI = all.summarise(done, drawnAreas)
	r.AURC = summarise(areas)
	for _, v := range single {
		s, ci := v.summarise(done, nil)
		r.Sets = append(r.Sets, SetSummaries{Name: v.name, Summaries: s, CI: ci})
	}
	for _, v := range grouped {
		s, ci := v.summarise(done, nil)
		r.Groups = append(r.Groups, SetSummaries{Name: v.name, Summaries: s, CI: ci})
	}
}

func (r result) metricsByView(views []view) []SetMetrics {
	var list []SetMetrics
	for _, v := range views {
		on := v.metrics(r)
		list = append(list, SetMetrics{Name: v.name, Metrics: Metrics(on[0]), CI: intervals(on, nil)})
	}
	return list
}

// intervals returns confidence intervals from on, which holds the metrics and then those of each
// resample. areas holds the AURC of each resample, by configuration; it may be empty.
func intervals(on []measure.Metrics, areas [][]float64) *Intervals {
	if len(on) == 1 {
		return nil
	}
	var mean []float64
	for _, drawn := range areas {
		if mean == nil {
			mean = make([]float64, len(drawn))
		}
		for i, a := range drawn {
			mean[i] += a / float64(len(areas))
		}
	}
	v := measure.IntervalsOf[Intervals](on[1:])
	if mean != nil {
		v.AURC = new(measure.Interval(mean))
	}
	return &v
}

// mean averages the metrics of several lists of equal length, element by element.
func mean(lists [][]measure.Metrics) []measure.Metrics {
	if len(lists) == 1 {
		return lists[0]
	}
	out := make([]measure.Metrics, len(lists[0]))
	for _, list := range lists {
		for i := range list {
			from := measure.Figures[float64](&list[i])
			for f, to := range measure.Figures[float64](&out[i]) {
				*to += *from[f] / float64(len(lists))
			}
		}
	}
	return out
}
