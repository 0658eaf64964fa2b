package compare

import "github.com/attach-uncertainty/attach/ood/measure"

// summarise fills in the configurations and their summaries.
func (r *MethodReport) summarise(sets []OutSet, done []result) {
	var overall []measured
	bySet, byGroup := make([][]measured, len(sets)), make([][]measured, len(sets))
	setNames, groupNames := names(sets)
	var areas []float64
	var drawnAreas [][]float64
	for _, d := range done {
		conf := d.conf
		all, listed, grouped := overSets(sets, d.on)
		conf.Metrics, conf.CI = all.Metrics, all.intervals()
		overall = append(overall, all)
		for i, m := range listed {
			conf.Sets = append(conf.Sets, SetMetrics{setNames[i], m.Metrics, m.intervals()})
			bySet[i] = append(bySet[i], m)
		}
		for i, m := range grouped {
			conf.Groups = append(conf.Groups, SetMetrics{groupNames[i], m.Metrics, m.intervals()})
			byGroup[i] = append(byGroup[i], m)
		}
		if conf.AURC != nil {
			areas = append(areas, *conf.AURC)
			drawnAreas = append(drawnAreas, d.aurc)
			setAURC(conf.CI, [][]float64{d.aurc})
		}
		r.Configs = append(r.Configs, conf)
	}
	r.Summaries, r.CI = overConfigs(overall)
	r.AURC = Summarise(areas)
	setAURC(r.CI, drawnAreas)
	for i, name := range setNames {
		s, ci := overConfigs(bySet[i])
		r.Sets = append(r.Sets, SetSummaries{name, s, ci})
	}
	for i, name := range groupNames {
		s, ci := overConfigs(byGroup[i])
		r.Groups = append(r.Groups, SetSummaries{name, s, ci})
	}
}

// overConfigs summarises configurations; the intervals are those of their mean.
func overConfigs(all []measured) (Summaries, *measure.Intervals) {
	var s Summaries
	x := make([]float64, len(all))
	for f, to := range s.fields() {
		for i := range all {
			x[i] = *all[i].Fields()[f]
		}
		*to = Summarise(x)
	}
	return s, meanOf(all).intervals()
}

// setAURC sets the interval of the mean of the areas, resample by resample.
func setAURC(v *measure.Intervals, drawn [][]float64) {
	if v == nil || len(drawn) == 0 {
		return
	}
	x := make([]float64, len(drawn[0]))
	for _, d := range drawn {
		for i, a := range d {
			x[i] += a / float64(len(drawn))
		}
	}
	ends := measure.Percentiles(x)
	v.AURC = &ends
}

// mean is the mean of the metrics over several lists of equal length, element
// by element.
func mean(lists [][]measure.Metrics) []measure.Metrics {
	if len(lists) == 1 || lists[0] == nil {
		return lists[0]
	}
	out := make([]measure.Metrics, len(lists[0]))
	for _, list := range lists {
		for i := range list {
			from := list[i].Fields()
			for f, to := range out[i].Fields() {
				*to += *from[f] / float64(len(lists))
			}
		}
	}
	return out
}
