// Command reproduce runs experiments on real and toy data sets and prints their tables.
//
//	cd reproduce && go run . NAME --data DIR
//
// Run it without arguments for a list of the experiments. Users download the data sets from
// the publishers. The pages in docs/benchmarks name the files that the experiments read.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/attach-uncertainty/attach/reproduce/abalone"
	"github.com/attach-uncertainty/attach/reproduce/attribution"
	"github.com/attach-uncertainty/attach/reproduce/audits"
	"github.com/attach-uncertainty/attach/reproduce/copies"
	"github.com/attach-uncertainty/attach/reproduce/coverage"
	"github.com/attach-uncertainty/attach/reproduce/directions"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/fewrows"
	"github.com/attach-uncertainty/attach/reproduce/figure1"
	"github.com/attach-uncertainty/attach/reproduce/figure2"
	"github.com/attach-uncertainty/attach/reproduce/fusion"
	"github.com/attach-uncertainty/attach/reproduce/intervals"
	"github.com/attach-uncertainty/attach/reproduce/labels"
	"github.com/attach-uncertainty/attach/reproduce/monitor"
	"github.com/attach-uncertainty/attach/reproduce/pictures"
	"github.com/attach-uncertainty/attach/reproduce/reasons"
	"github.com/attach-uncertainty/attach/reproduce/regions"
	"github.com/attach-uncertainty/attach/reproduce/selection"
	"github.com/attach-uncertainty/attach/reproduce/sets"
	"github.com/attach-uncertainty/attach/reproduce/shift"
	"github.com/attach-uncertainty/attach/reproduce/star"
	"github.com/attach-uncertainty/attach/reproduce/table1"
	"github.com/attach-uncertainty/attach/reproduce/table2"
	"github.com/attach-uncertainty/attach/reproduce/table3"
	"github.com/attach-uncertainty/attach/reproduce/theorem1"
)

var experiments = []experiment.Experiment{
	coverage.Experiment, table1.Experiment, table2.Experiment, table3.Experiment, star.Experiment, abalone.Experiment,
	selection.Experiment, figure1.Experiment, figure2.Experiment, theorem1.Experiment, directions.Experiment, sets.Experiment, intervals.Scores, audits.Experiment, fewrows.Experiment, labels.Experiment, labels.Targets, copies.Experiment, copies.Fitted, attribution.Experiment, monitor.Experiment, fusion.Experiment, reasons.Experiment, shift.Experiment, shift.Realised, regions.Experiment, pictures.Experiment,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := experiment.Main(ctx, experiments, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
