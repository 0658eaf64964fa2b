// Package attribution measures how often featurize.Attached.Attribute finds a planted fault: a
// wrong cell of a table, a patch of another image, or a foreign word.
package attribution

import (
	"context"
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/networks"
)

// Experiment is the attribution command.
var Experiment = experiment.Experiment{
	Name:   "attribution",
	Doc:    "how often the attribution of a score finds a planted fault in tables, images and texts",
	Shared: []string{"data", "models", "sets", "out", "ort-lib"},
	New: func(flags *flag.FlagSet, s *experiment.Settings) func(ctx context.Context) error {
		p := &networks.Plan{Settings: s}
		p.Define(flags, "3000,1200,200")
		sets := []string{"mnist_cnn", "mnist_vgg11w32", "fashion_vgg11w32", "cifar10_resnet20"}
		flags.Lookup("sets").Usage += " (default " + strings.Join(sets, ", ") + ")"
		tables := flags.String("tables", "", "`folder` that attribution/models.py wrote; without it, tables are left out")
		parts := flags.String("parts", "", "only these `parts`, a,b, of tables, images and texts")
		captum := flags.String("captum", "", "write what attribution/with_captum.py reads to this `folder`")
		references := flags.Int("references", 8, "reference rows of each row")
		steps := flags.Int("steps", 0, "steps of gradients; 0 is the default of Attribute")
		return func(ctx context.Context) error {
			if s.Sets == nil {
				s.Sets = sets
			}
			var names []string
			if *parts != "" {
				names = strings.Split(*parts, ",")
			}
			chosen, err := experiment.Choose("--parts", "part", names, []string{"tables", "images", "texts"}, func(s string) string { return s })
			if err != nil {
				return err
			}
			m := &measurement{plan: p, captum: *captum, options: featurize.AttributeOptions{References: *references, Steps: *steps}}
			for _, part := range chosen {
				switch {
				case part == "tables" && *tables == "":
					fmt.Fprintln(s.Stdout, "tables are left out without --tables")
				case part == "tables":
					err = m.tables(ctx, *tables)
				case part == "images":
					err = m.images(ctx)
				case part == "texts":
					err = m.texts(ctx)
				}
				if err != nil {
					return err
				}
			}
			return experiment.WriteCSV(filepath.Join(s.Out, "attribution.csv"), m.lines())
		}
	},
}

// measurement collects results.
type measurement struct {
	plan    *networks.Plan
	captum  string // folder for with_captum.py, or ""
	options featurize.AttributeOptions
	results []result
}

// result says how often one method finds one kind of fault.
type result struct {
	set, fault, method string
	planted, flagged   int // rows with the fault, and the flagged rows among them, which are measured
	elements           float64
	first, three       float64 // fraction of flagged rows whose fault ranks first, or among the first three
	cost               float64 // time for a row, in units of one prediction
}

// faulty holds rows with planted faults.
type faulty struct {
	set, fault string
	rows       ood.InputBlock
	places     [][]int // for each row, the elements that hold the fault
	// suspicion is a baseline: for each row, a score of each element, computed without the
	// detector.
	suspicion [][]float64
	baseline  string // its name
	// rankings are other orders of the elements of a row, by name. They may use the attribution of
	// the last method.
	rankings []ranking
}

// ranking returns a score of each element of a row.
type ranking struct {
	name   string
	values func(row int, a featurize.Attribution) []float64
}

// measure attributes the scores of the flagged rows and ranks their elements.
func (m *measurement) measure(ctx context.Context, a *featurize.Attached, p *attach.Predictor, reference ood.InputBlock, f faulty, methods ...string) error {
	predict := func(x ood.InputBlock) ([]attach.Prediction, error) {
		r, err := a.Run(ctx, x)
		if err != nil {
			return nil, err
		}
		return p.Predict(ctx, r)
	}
	predictions, err := predict(f.rows)
	if err != nil {
		return err
	}
	var flagged []int
	for i, p := range predictions {
		if p.Flag {
			flagged = append(flagged, i)
		}
	}
	if len(flagged) == 0 {
		return fmt.Errorf("%s: no row with the fault %q is flagged", f.set, f.fault)
	}
	x := f.rows.Select(flagged).(ood.InputBlock)
	start, runs := time.Now(), 0
	for runs < 3 || time.Since(start) < 200*time.Millisecond { // one run may be too short to time
		if _, err := predict(x); err != nil {
			return err
		}
		runs++
	}
	onePrediction := time.Since(start) / time.Duration(runs)
	add := func(method string, values func(i int) []float64, cost float64) {
		r := result{set: f.set, fault: f.fault, method: method, planted: f.rows.Len(), flagged: len(flagged), cost: cost}
		for i, row := range flagged {
			v := values(i)
			first, three := ranks(v, f.places[row])
			r.elements += float64(len(v)) / float64(len(flagged))
			r.first += first / float64(len(flagged))
			r.three += three / float64(len(flagged))
		}
		m.results = append(m.results, r)
		fmt.Fprintf(m.plan.Stdout, "%-28s %-10s %-12s %4d of %4d flagged, %3.0f elements: first %.3f, first three %.3f, cost %.0f\n",
			r.set, r.fault, r.method, r.flagged, r.planted, r.elements, r.first, r.three, r.cost)
	}
	byMethod := map[string][]featurize.Attribution{}
	for _, method := range methods {
		o := m.options
		o.Method = method
		if _, err := a.Attribute(ctx, p, x.Slice(0, 1), reference, o); err != nil { // builds the graph
			return fmt.Errorf("%s: %w", f.set, err)
		}
		start := time.Now()
		attributions, err := a.Attribute(ctx, p, x, reference, o)
		if err != nil {
			return fmt.Errorf("%s: %w", f.set, err)
		}
		cost := float64(time.Since(start)) / float64(onePrediction)
		add(method, func(i int) []float64 { return attributions[i].Tensors[0].Values }, cost)
		if method == methods[len(methods)-1] {
			for _, r := range f.rankings {
				add(r.name, func(i int) []float64 { return r.values(flagged[i], attributions[i]) }, cost)
			}
		}
		byMethod[method] = attributions
	}
	add(f.baseline, func(i int) []float64 { return f.suspicion[flagged[i]] }, 0)
	add("random", func(i int) []float64 { return make([]float64, len(f.suspicion[flagged[i]])) }, 0)
	if m.captum == "" || byMethod["gradient"] == nil {
		return nil
	}
	places := make([][]int, len(flagged))
	for i, row := range flagged {
		places[i] = f.places[row]
	}
	return m.writeForCaptum(ctx, p.Bundle(), strings.ReplaceAll(f.set, " ", "-")+"-"+f.fault, x, reference, places, byMethod)
}

// ranks returns the probabilities that a place has the largest value, or one of the largest
// three. Equal values are ordered at random.
func ranks(values []float64, places []int) (first, three float64) {
	best := math.Inf(-1)
	for _, e := range places {
		best = max(best, values[e])
	}
	above, equal, equalPlaces := 0, 0, 0
	for e, v := range values {
		switch {
		case v > best:
			above++
		case v == best:
			equal++
			if slices.Contains(places, e) {
				equalPlaces++
			}
		}
	}
	// within is the probability that one of the first k has a place.
	within := func(k int) float64 {
		miss := 1.
		for drawn := range min(max(0, k-above), equal) {
			miss *= max(0, float64(equal-equalPlaces-drawn)) / float64(equal-drawn)
		}
		return 1 - miss
	}
	return within(1), within(3)
}

func (m *measurement) lines() [][]string {
	lines := [][]string{{"set", "fault", "method", "planted", "flagged", "elements", "first", "first_three", "cost"}}
	for _, r := range m.results {
		lines = append(lines, experiment.Cells(4, r.set, r.fault, r.method, r.planted, r.flagged, r.elements, r.first, r.three, r.cost))
	}
	return lines
}
