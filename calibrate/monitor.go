package calibrate

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
)

// Monitor watches a stream of rows for drift: it notices when their scores are higher
// than those of the calibration rows, be it of a few rows or a little of all. It takes
// a row in less than a microsecond, keeps less than a kilobyte, and allocates nothing.
// It is safe for concurrent use.
//
// With probability at most δ it ever alarms at δ, however long the stream, if its
// rows are exchangeable with the calibration rows: drawn like them and apart from each
// other, and none that network or detector was fitted on. Frames of a video, or a row
// that is sent again and again, are not. The probability is over draws of calibration
// rows and stream together. The calibration rows stay the same all the while, and the
// p-values of a stream are therefore not independent: martingales that take them for
// it alarm falsely far more often. Monitor bets against the law that they have, of
// Ranks, and its evidence is what it has won: an e-value, of which 1 is none
// and 1/δ what is reached with probability δ at most.
//
// With few calibration rows no monitor notices small shares of rows from elsewhere:
// that a share s of all rows scores above all n calibration rows happens with
// probability (1−s)^n though nothing has changed. And rows that score lower than the
// calibration rows are not what it looks for.
//
// Scores that tie are told apart by random keys, so that the law holds for them too,
// and evidence depends on the seed where, and only where, there are ties.
//
// A Monitor goes on after an alarm. To begin again, make another: each has its own δ,
// and if one begins every month, each month has. After an alarm that was false
// another follows more easily, since the calibration rows are the same, until there
// are others.
//
// References: Vovk, Nouretdinov & Gammerman (2003), Testing Exchangeability On-Line;
// Bates, Candès, Lei, Romano & Sesia (2023), Testing for Outliers with Conformal
// p-values, for the law of ranks; Ramdas, Grünwald, Vovk & Shafer (2023),
// Game-Theoretic Statistics and Safe Anytime-Valid Inference.
type Monitor struct {
	mu    sync.Mutex
	looks []place // of the urn's looks: rows above them are counted
	seed  uint64
	urn   *hypothesis.Urn
}

// place is that of a score among others. The key is random, so that scores that tie
// have places too.
type place struct {
	score float64
	key   uint64
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.score, q.score), cmp.Compare(p.key, q.key))
}

// NewMonitor watches for scores higher than those of calibration rows, such as the
// Calibration.OOD of an attach.Bundle. Monitors whose evidence is to be merged have the same
// calibration rows, and each another seed.
func NewMonitor(calibration []float64, seed uint64) (*Monitor, error) {
	if len(calibration) == 0 {
		return nil, errors.New("there are no calibration scores to watch with")
	}
	keys := rand.NewPCG(0x6b657973, 0x74696573) // the same in every Monitor
	places := make([]place, len(calibration))
	for i, score := range calibration {
		if math.IsNaN(score) {
			return nil, fmt.Errorf("calibration score %d is NaN", i)
		}
		places[i] = place{score, keys.Uint64()}
	}
	slices.SortFunc(places, place.compare)
	m := &Monitor{seed: seed, urn: hypothesis.NewUrn(len(places))}
	for _, k := range m.urn.Looks() {
		m.looks = append(m.looks, places[len(places)-k])
	}
	return m, nil
}

// Add takes the score of the stream's next row. NaN is as uncertain as can be, as
// +Inf is.
//
// It is an error if NewMonitor did not make the Monitor.
func (m *Monitor) Add(score float64) error {
	if math.IsNaN(score) {
		score = math.Inf(1)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.urn == nil {
		return errZeroMonitor
	}
	row := place{score: score}
	looks := 0
	for looks < len(m.looks) && m.looks[looks].score <= score {
		if m.looks[looks].score == score {
			row.key = rand.NewPCG(m.seed, uint64(m.urn.Rows)).Uint64()
			if row.compare(m.looks[looks]) <= 0 {
				break
			}
		}
		looks++
	}
	m.urn.Add(looks)
	return nil
}

// Merge adds the rows of a part of the stream that another Monitor of the same
// calibration rows has seen, such as a replica's of the last minute, as if they
// came now and all at once. Each row is to be added once: the replica goes on with
// a new Monitor, of another seed again. Two Monitors of one seed are refused, which
// would tell the ties of different rows apart by the same keys, so that the law would
// not hold of both.
//
// What is promised then holds of all rows together, if when parts are merged does
// not depend on their scores. All are compared with the same calibration rows, so that
// the law of ranks is that of the rows of all replicas in any order, and their counts
// can be added up.
//
// Evidence cannot be: what one replica has seen tells of the calibration rows, and so
// of what another will see. The mean of the evidence of monitors of the same
// calibration rows is an e-value at a time that is fixed beforehand, but not at one
// that is chosen by a look at them, and so it is not said how often it ever reaches
// 1/δ. Where R replicas each alarm at δ/R on their own, any alarms falsely with
// probability at most δ.
func (m *Monitor) Merge(part *Monitor) error {
	if m == part {
		return errors.New("a monitor is no part of itself")
	}
	if !m.made() || !part.made() {
		return errZeroMonitor
	}
	part.mu.Lock()
	rows, seen, seed := part.urn.Rows, slices.Clone(part.urn.Seen), part.seed
	part.mu.Unlock()
	if !slices.Equal(m.looks, part.looks) {
		return errOtherCalibration
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if seed == m.seed {
		return errors.New("the monitors have one seed, so that their ties would be told apart alike: give each another")
	}
	m.urn.Merge(rows, seen)
	return nil
}

// made reports whether NewMonitor made the Monitor.
func (m *Monitor) made() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.urn != nil
}

// Rows returns how many rows there were.
func (m *Monitor) Rows() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.urn == nil {
		return 0
	}
	return m.urn.Rows
}

// Evidence is that for drift after the last row: an e-value. It falls where rows are
// like the calibration rows again, and stops to grow at 1e100. A Monitor that
// NewMonitor did not make has no evidence: NaN.
func (m *Monitor) Evidence() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.urn == nil {
		return math.NaN()
	}
	return m.urn.Capital()
}

// Alarm reports whether evidence has ever been 1/delta or more.
func (m *Monitor) Alarm(delta float64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.urn != nil && m.urn.Peak*delta >= 1
}

var errZeroMonitor = errors.New("the monitor has no calibration scores: make it with NewMonitor")

var errOtherCalibration = errors.New("the monitor's calibration scores are others")

// monitorState is the first byte of a state: the version of its form.
const monitorState = 1

// MarshalBinary is the Monitor's state, less than a kilobyte, without the calibration
// scores.
func (m *Monitor) MarshalBinary() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.urn == nil {
		return nil, errZeroMonitor
	}
	b := []byte{monitorState}
	b = binary.LittleEndian.AppendUint64(b, m.fingerprint())
	b = binary.LittleEndian.AppendUint64(b, m.seed)
	b = binary.AppendUvarint(b, uint64(m.urn.Rows))
	for _, seen := range m.urn.Seen {
		b = binary.AppendUvarint(b, uint64(seen))
	}
	number := func(v float64) { b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v)) }
	number(m.urn.Peak)
	number(m.urn.Idle)
	for _, bets := range m.urn.Bets {
		for _, bet := range bets {
			number(bet)
		}
	}
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b)), nil
}

// UnmarshalBinary takes a state that MarshalBinary wrote, also one of another process,
// in place of its own. It is an error if that was of other calibration scores, or is
// damaged. The receiver is made by NewMonitor.
func (m *Monitor) UnmarshalBinary(data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.urn == nil {
		return errZeroMonitor
	}
	damaged := errors.New("not the state of a monitor, or damaged")
	end := len(data) - crc32.Size
	if end < 17 || data[0] != monitorState || binary.LittleEndian.Uint32(data[end:]) != crc32.ChecksumIEEE(data[:end]) {
		return damaged
	}
	data = data[:end]
	if binary.LittleEndian.Uint64(data[1:]) != m.fingerprint() {
		return errOtherCalibration
	}
	seed, data := binary.LittleEndian.Uint64(data[9:]), data[17:]
	counts := make([]int, 1+len(m.urn.Seen))
	for i := range counts {
		count, size := binary.Uvarint(data)
		if size <= 0 || count > 1<<53 || size > 1 && data[size-1] == 0 {
			return damaged
		}
		counts[i], data = int(count), data[size:]
	}
	state := hypothesis.UrnState{Rows: counts[0], Seen: counts[1:], Bets: make([][4]float64, len(m.urn.Bets))}
	if len(data) != 8*(2+4*len(state.Bets)) {
		return damaged
	}
	number := func() (v float64) {
		v, data = math.Float64frombits(binary.LittleEndian.Uint64(data)), data[8:]
		return v
	}
	state.Peak, state.Idle = number(), number()
	for j := range state.Bets {
		for i := range state.Bets[j] {
			state.Bets[j][i] = number()
		}
	}
	if !m.urn.Restore(state) {
		return damaged
	}
	m.seed = seed
	return nil
}

// fingerprint tells calibration scores apart.
func (m *Monitor) fingerprint() uint64 {
	h := fnv.New64a()
	for _, look := range m.looks {
		_ = binary.Write(h, binary.LittleEndian, [2]uint64{math.Float64bits(look.score), look.key}) // a hash takes all
	}
	return h.Sum64()
}
