package compare

import (
	"slices"

	"github.com/attach-uncertainty/attach/internal/numeric/measure"
)

// view selects some of the out-of-distribution sets. The results of a view are means over its
// sets.
type view struct {
	name string
	sets []int // indices of the sets
}

// viewsOf returns a view of all sets, a view of each named set, and a view of each group in
// the order in which the groups first appear.
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

// metrics returns the metrics of a configuration, followed by the metrics of each resample,
// each averaged over the sets of the view. The in-distribution rows of a resample are the
// same for all sets.
func (v view) metrics(r result) []measure.Metrics {
	bySet := make([][]measure.Metrics, len(v.sets))
	for i, k := range v.sets {
		bySet[i] = r.metrics[k]
	}
	return mean(bySet)
}

// summarise returns the summaries of all configurations, and confidence intervals of the
// means. The list areas holds the AURC of each resample, by configuration. If it is not
// empty, the intervals include that of the mean AURC.
func (v view) summarise(results []result, areas [][]float64) (Summaries, *Intervals) {
	var s Summaries
	all := make([][]measure.Metrics, len(results))
	for i, d := range results {
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
func (r *MethodReport) summarise(sets []OODSet, results []result) {
	all, single, grouped := viewsOf(sets)
	var areas []float64
	var resampledAreas [][]float64
	for _, d := range results {
		config, resampled := d.config, all.metrics(d)
		config.Metrics, config.CI = Metrics(resampled[0]), intervals(resampled, nil)
		config.Sets, config.Groups = d.metricsByView(single), d.metricsByView(grouped)
		if config.AURC != nil {
			areas, resampledAreas = append(areas, *config.AURC), append(resampledAreas, d.aurc)
			config.CI = intervals(resampled, [][]float64{d.aurc})
		}
		r.Configs = append(r.Configs, config)
	}
	r.Summaries, r.CI = all.summarise(results, resampledAreas)
	r.AURC = summarise(areas)
	for _, v := range single {
		s, ci := v.summarise(results, nil)
		r.Sets = append(r.Sets, SetSummaries{Name: v.name, Summaries: s, CI: ci})
	}
	for _, v := range grouped {
		s, ci := v.summarise(results, nil)
		r.Groups = append(r.Groups, SetSummaries{Name: v.name, Summaries: s, CI: ci})
	}
}

func (r result) metricsByView(views []view) []SetMetrics {
	var list []SetMetrics
	for _, v := range views {
		resampled := v.metrics(r)
		list = append(list, SetMetrics{Name: v.name, Metrics: Metrics(resampled[0]), CI: intervals(resampled, nil)})
	}
	return list
}

// intervals returns confidence intervals, or nil if there are no resamples. The list
// resampled holds the metrics of the rows, followed by those of each resample. The list
// areas holds the AURC of each resample, by configuration, and may be empty.
func intervals(resampled []measure.Metrics, areas [][]float64) *Intervals {
	if len(resampled) == 1 {
		return nil
	}
	var mean []float64
	for _, areasOfConfig := range areas {
		if mean == nil {
			mean = make([]float64, len(areasOfConfig))
		}
		for i, a := range areasOfConfig {
			mean[i] += a / float64(len(areas))
		}
	}
	v := measure.IntervalsOf[Intervals](resampled[1:])
	if mean != nil {
		v.AURC = new(measure.Interval(mean))
	}
	return &v
}

// mean returns the element-wise means of several lists of metrics, which have equal lengths.
func mean(lists [][]measure.Metrics) []measure.Metrics {
	if len(lists) == 1 {
		return lists[0]
	}
	out := make([]measure.Metrics, len(lists[0]))
	for _, list := range lists {
		for i := range list {
			values := measure.Figures[float64](&list[i])
			for f, sum := range measure.Figures[float64](&out[i]) {
				*sum += *values[f] / float64(len(lists))
			}
		}
	}
	return out
}
