// Drift reads the predictions of a day and reports whether the inputs have changed since
// the calibration. It keeps its evidence in a file from day to day.
//
//	attach predict digits.attach --x today.npz | drift digits.attach monitor.state
//
// Drift exits with status 3 after an alarm, 2 if it is called wrongly, and 1 after another error.
package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"slices"
	"strconv"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
)

// delta is the bound on the probability that the monitor ever raises a false alarm.
const delta = 0.01

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: drift FILE.attach STATE <PREDICTIONS.csv")
		os.Exit(2)
	}
	alarm, err := run(os.Args[1], os.Args[2], os.Stdin, os.Stdout)
	if err != nil {
		log.Fatal(err)
	}
	if alarm {
		os.Exit(3)
	}
}

func run(path, state string, predictions io.Reader, out io.Writer) (alarm bool, err error) {
	bundle, err := attach.Open(path)
	if err != nil {
		return false, err
	}
	monitor, err := calibrate.NewMonitor(bundle.Calibration.OOD, 1)
	if err != nil {
		return false, err
	}
	if kept, err := os.ReadFile(state); err == nil {
		if err := monitor.UnmarshalBinary(kept); err != nil {
			return false, fmt.Errorf("%s: %w", state, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}

	rows := csv.NewReader(predictions)
	names, err := rows.Read()
	if err != nil {
		return false, err
	}
	column := slices.Index(names, "ood_score")
	if column < 0 {
		return false, errors.New("the predictions have no column ood_score")
	}
	for {
		row, err := rows.Read()
		if err == io.EOF {
			break
		} else if err != nil {
			return false, err
		}
		score, err := strconv.ParseFloat(row[column], 64)
		if err != nil {
			return false, err
		}
		if err := monitor.Add(score); err != nil {
			return false, err
		}
	}

	kept, err := monitor.MarshalBinary()
	if err != nil {
		return false, err
	}
	alarm = monitor.Alarm(delta)
	fmt.Fprintf(out, "%d rows, evidence %.3g, alarm: %t\n", monitor.Rows(), monitor.Evidence(), alarm)
	return alarm, os.WriteFile(state, kept, 0o666)
}
