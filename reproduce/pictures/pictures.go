// Package pictures draws the pictures of the documentation. It measures the test models
// once and keeps the results in measured.json. Drawing is deterministic, so a test can
// compare docs/images with newly drawn pictures.
package pictures

import (
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/svg"
)

//go:embed measured.json
var measuredJSON []byte

// Experiment is the pictures command.
var Experiment = experiment.Experiment{
	Name:   "pictures",
	Doc:    "the pictures of the documentation; needs no --data",
	Shared: []string{"out", "ort-lib"},
	New: func(flags *flag.FlagSet, s *experiment.Settings) func(ctx context.Context) error {
		measureFile := flags.String("measure", "", "fit the test models again, and write what the pictures show of them to `file`")
		experiment.Redefine(flags, "out", "../docs", "`folder` of the documentation, whose pictures are replaced")
		return func(ctx context.Context) error {
			m, err := readMeasured()
			if err != nil && *measureFile == "" {
				return err
			}
			if *measureFile != "" {
				if m, err = measure(ctx, s); err != nil {
					return err
				}
				text, err := json.Marshal(m)
				if err != nil {
					return err
				}
				if err := os.WriteFile(*measureFile, append(text, '\n'), 0o644); err != nil {
					return err
				}
			}
			pictures, err := draw(m, s.Out)
			if err != nil {
				return err
			}
			for name, picture := range pictures {
				if err := picture.WriteFile(filepath.Join(s.Out, name)); err != nil {
					return err
				}
				fmt.Fprintln(s.Stdout, filepath.Join(s.Out, name))
			}
			return nil
		}
	},
}

func readMeasured() (m Measured, err error) {
	err = json.Unmarshal(measuredJSON, &m)
	return m, err
}

// draw returns all pictures, keyed by their path in docs. It reads the CSV files of the
// benchmarks from docs.
func draw(m Measured, docs string) (map[string]*svg.Picture, error) {
	pictures, err := benchmarkPictures(docs)
	if err != nil {
		return nil, err
	}
	maps.Copy(pictures, map[string]*svg.Picture{
		"images/hero.svg":               hero(m),
		"images/pipeline.svg":           pipeline(),
		"images/two-uncertainties.svg":  twoUncertainties(m),
		"images/calibration-luck.svg":   calibrationLuck(m),
		"images/drift-evidence.svg":     driftEvidence(m),
		"images/audit-funnel.svg":       auditFunnel(m),
		"images/which-command.svg":      whichCommand(),
		"images/p-values.svg":           pValues(m),
		"images/intervals-and-sets.svg": intervalsAndSets(m),
		"images/evaluate.svg":           evaluation(m),
		"images/reasons.svg":            reasons(),
	})
	return pictures, nil
}
