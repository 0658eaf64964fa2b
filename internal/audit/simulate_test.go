package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
)

// TestSimulation prints what each stage of an audit of ATTACH_SIMULATE rows costs:
//
//	ATTACH_SIMULATE=1000000000 go test -v -run TestSimulation -timeout 0 ./internal/audit
//
// It draws and counts that many p-values, and finds one of the bins of hashes of that many rows.
// Other stages run on real parts of simulatedRows rows. Their time, disk and records are linear
// in the number of rows, so the table multiplies them.
func TestSimulation(t *testing.T) {
	if os.Getenv("ATTACH_SIMULATE") == "" {
		t.Skip("it takes minutes: set ATTACH_SIMULATE=1000000000")
	}
	total, err := strconv.Atoi(os.Getenv("ATTACH_SIMULATE"))
	if err != nil {
		t.Fatalf("ATTACH_SIMULATE: %v", err)
	}
	ranks := simulateRanks(t, total)
	simulateDiscoveries(t, ranks, total)
	simulateBin(t, total)
	simulateParts(t, total)
}

const (
	simulatedRows        = 1 << 19
	simulatedCalibration = 10_000
	simulatedPartRows    = 1 << 15
)

// stage prints the seconds, seconds of processors and memory of a stage that went through done
// rows. If done is less than total, it also prints the seconds of processors for total rows.
func stage(t *testing.T, name string, done, total int, run func() (disk int64, err error)) {
	t.Helper()
	runtime.GC()
	debug.FreeOSMemory()
	os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // the peak of memory begins again; if this fails, it is an upper bound
	processor := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	begun, before := time.Now(), processor()
	disk, err := run()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	used := (processor() - before).Seconds()
	status, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	peak, _ := strconv.Atoi(strings.Fields(after + " 0")[0])
	factor := float64(total) / float64(done)
	t.Logf("%-34s %11d rows: %7.1f s, %7.1f s of processors, %5d MB, %8.3f GB written; %d rows: %.0f s of processors, %.0f GB", name, done, time.Since(begun).Seconds(), used, peak>>10, float64(disk)/1e9, total, used*factor, float64(disk)/1e9*factor)
}

// simulateRanks counts p-values part by part, as workers do, and merges the counts. One row in a
// hundred is an outlier with the smallest p-value.
func simulateRanks(t *testing.T, total int) calibrate.Ranks {
	ranks := calibrate.NewRanks(simulatedCalibration)
	stage(t, "count and merge ranks", total, total, func() (int64, error) {
		random := rand.New(rand.NewPCG(1, 1))
		for at := 0; at < total; at += simulatedPartRows {
			part := calibrate.NewRanks(simulatedCalibration)
			for i := at; i < min(at+simulatedPartRows, total); i++ {
				rank := 1
				if i%100 > 0 {
					rank += random.IntN(simulatedCalibration + 1)
				}
				if err := part.Add(float64(rank) / (simulatedCalibration + 1)); err != nil {
					return 0, err
				}
			}
			if err := ranks.Merge(part); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	return ranks
}

// simulateDiscoveries finds discoveries and the bound of outliers, and checks them against the
// number of outliers that were drawn.
func simulateDiscoveries(t *testing.T, ranks calibrate.Ranks, total int) {
	outliers, rate := (total+99)/100, .1
	var found calibrate.Discoveries
	bound := 0
	stage(t, "find discoveries and bounds", total, total, func() (int64, error) {
		var err error
		if found, err = ranks.Discoveries(calibrate.DiscoveryOptions{FDR: rate}); err != nil {
			return 0, err
		}
		bounds, err := ranks.OutlierBounds(.05)
		bound = bounds.Outliers(ranks)
		return 0, err
	})
	// An independent count: the step-up rule of Benjamini and Hochberg, rank by rank.
	want, below := 0, 0
	for k, n := range ranks {
		if below += n; float64(total)*float64(k+1)/float64(len(ranks)) <= rate*float64(below) {
			want = below
		}
	}
	t.Logf("%d of %d rows are outliers: %d discoveries at a rate of %g, and at least %d outliers", outliers, total, found.Count, rate, bound)
	if found.Count != want || ranks.Rows() != total || bound > outliers {
		t.Errorf("%d discoveries, want %d; %d rows, want %d; at least %d outliers of %d", found.Count, want, ranks.Rows(), total, bound, outliers)
	}
}

// simulateBin finds exact copies in one bin of hashes. It has as many rows as one bin of an
// audit of total rows. One row in a hundred is a copy.
func simulateBin(t *testing.T, total int) {
	m := &Merge{set: &ScoreSet{}, size: total}
	done := max(total/max(minBins, total/binRows), 1)
	stage(t, "copies: one bin of hashes", done, total, func() (int64, error) {
		random := rand.New(rand.NewPCG(1, 1))
		var record [hashRecordSize]byte
		var records []byte
		copies, found := 0, 0
		for row := range done {
			if row%100 > 0 || row == 0 { // else the row is a copy of the one before
				binary.LittleEndian.PutUint64(record[:], random.Uint64())
				binary.LittleEndian.PutUint64(record[8:], random.Uint64())
			} else {
				copies++
			}
			binary.BigEndian.PutUint64(record[16:], uint64(row))
			records = append(records, record[:]...)
		}
		all := func(use func(record []byte) error) error { return eachRecord(records, hashRecordSize, use) }
		err := m.Match(t.Context(), Round{Name: exactRound}, 0, all, func(int, []byte) error {
			found++
			return nil
		})
		if found != 2*copies {
			t.Errorf("%d marks of %d copies", found, copies)
		}
		return int64(len(records)), err
	})
}

// simulateParts scores rows and merges their parts.
func simulateParts(t *testing.T, total int) {
	ctx, dir := context.Background(), t.TempDir()
	scorer, err := NewScorer(bundle(t), Identity{FDR: .1, Delta: .1})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	stage(t, "write parts, with a small detector", simulatedRows, total, func() (written int64, err error) {
		scoring := scorer.Begin(func(p *Part) error {
			var content bytes.Buffer
			if _, err := p.WriteTo(&content); err != nil {
				return err
			}
			written += int64(content.Len())
			paths = append(paths, filepath.Join(dir, fmt.Sprintf("%06d.parquet", len(paths))))
			return os.WriteFile(paths[len(paths)-1], content.Bytes(), 0o666)
		})
		for at := 0; at < simulatedRows; at += simulatedPartRows {
			name := fmt.Sprintf("%06d.npz", at)
			r := memoryRows(name, sample(simulatedPartRows, uint64(at), 0))
			if err := scoring.Rows(ctx, name, r, 0, r.Len, nil); err != nil {
				return 0, err
			}
		}
		return written, scoring.Flush()
	})
	var joined *ScoreSet
	stage(t, "read headers and join", simulatedRows, total, func() (int64, error) {
		files, errs := OpenFiles(ctx, paths, false)
		if err := cmp.Or(errs...); err != nil {
			return 0, err
		}
		joined, err = Join(files)
		return 0, err
	})
	m := newMerge(joined, fileRows, dirFiles(dir))
	stage(t, "exact copies", simulatedRows, total, func() (int64, error) {
		return simulatedRows * hashRecordSize, m.runHere(dir)(ctx, Round{Name: exactRound})
	})
	stage(t, "exact and near copies", simulatedRows, total, func() (int64, error) {
		return simulatedRows * (hashRecordSize + cellBands*bucketRecordSize), m.findCopies(ctx, m.runHere(dir))
	})
	scores := &table{ctx: ctx, path: filepath.Join(dir, Scores), columns: joined.columns(), files: make([]*atomicfile.File, 1)}
	duplicates := &table{ctx: ctx, path: filepath.Join(dir, Duplicates), columns: duplicateColumns(), files: make([]*atomicfile.File, 1)}
	defer duplicates.abort()
	stage(t, "write and count", simulatedRows, total, func() (written int64, err error) {
		if _, err := m.results(ctx, &tables{scores, duplicates}); err != nil {
			return 0, err
		}
		if err := scores.files[0].Commit(); err != nil {
			return 0, err
		}
		info, err := os.Stat(scores.path)
		if err != nil {
			return 0, err
		}
		return info.Size(), nil
	})
}
