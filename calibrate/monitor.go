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

// Monitor detects drift of a stream. It tests whether rows of the stream score higher than
// the calibration rows. It detects a few rows with much higher scores, and many rows with
// slightly higher scores. Adding a row takes less than a microsecond and does not allocate.
// The state takes less than a kilobyte. A Monitor is safe for concurrent use.
//
// If the rows are exchangeable with the calibration rows, the probability that the Monitor
// alarms at δ is at most δ, however long the stream is. Exchangeable rows come from the same
// source as the calibration rows and are independent of each other. In addition, neither
// the model nor the detector may have been trained on the calibration rows or on rows of
// the stream. Frames of a video are not exchangeable, and neither are repeated copies of a
// row. The probability is over draws of the calibration rows and the stream together.
//
// All rows are compared with the same calibration rows, so their p-values depend on each
// other. Martingales that treat the p-values as independent raise false alarms far more often.
// Monitor therefore bets against the joint distribution of the ranks (see [Ranks]). Its
// evidence is the capital that these bets have won, starting from 1. The evidence is an
// e-value: if nothing changes, the probability that it reaches 1/δ at any time is at most δ.
//
// A Monitor with few calibration rows cannot detect a small fraction of outliers. Even if
// nothing has changed, a fraction s of all rows scores above all n calibration rows with
// probability (1−s)^n. A Monitor does not detect rows that score lower than the calibration
// rows.
//
// Random keys break ties, so ranks have the same distribution as without ties. The seed
// changes the evidence only if there are ties.
//
// A Monitor continues after an alarm. To start again, make a new Monitor. The guarantee
// holds for each Monitor separately: with a new Monitor each month, the probability of a
// false alarm is at most δ each month. After a false alarm, a new Monitor with the same
// calibration rows is more likely to raise another one.
//
// References: Vovk, Nouretdinov & Gammerman (2003), Testing Exchangeability On-Line;
// Bates, Candès, Lei, Romano & Sesia (2023), Testing for Outliers with Conformal
// p-values, for the distribution of ranks; Ramdas, Grünwald, Vovk & Shafer (2023),
// Game-Theoretic Statistics and Safe Anytime-Valid Inference.
type Monitor struct {
	mu         sync.Mutex
	thresholds []keyedScore // calibration scores that rows are compared with, one for each of urn.Looks
	seed       uint64
	urn        *hypothesis.Urn
}

// keyedScore is a score with a random key. Equal scores are ordered by their keys.
type keyedScore struct {
	score float64
	key   uint64
}

func (p keyedScore) compare(q keyedScore) int {
	return cmp.Or(cmp.Compare(p.score, q.score), cmp.Compare(p.key, q.key))
}

// NewMonitor returns a Monitor with the given scores of calibration rows, for example the
// Calibration.OOD of an attach.Bundle. Monitors that will be merged need the same
// calibration scores and different seeds. NewMonitor returns an error if there are no
// scores or if a score is NaN.
func NewMonitor(calibration []float64, seed uint64) (*Monitor, error) {
	if len(calibration) == 0 {
		return nil, errors.New("a monitor needs calibration scores, and there are none")
	}
	keys := rand.NewPCG(0x6b657973, 0x74696573) // all Monitors use the same keys for calibration scores
	sorted := make([]keyedScore, len(calibration))
	for i, score := range calibration {
		if math.IsNaN(score) {
			return nil, fmt.Errorf("calibration score %d is NaN", i)
		}
		sorted[i] = keyedScore{score, keys.Uint64()}
	}
	slices.SortFunc(sorted, keyedScore.compare)
	m := &Monitor{seed: seed, urn: hypothesis.NewUrn(len(sorted))}
	for _, k := range m.urn.Looks() {
		m.thresholds = append(m.thresholds, sorted[len(sorted)-k])
	}
	return m, nil
}

// Add adds the score of the next row of the stream. NaN counts as +Inf, so do not pass scores
// of a Predictor without a detector, which are NaN. Add returns an error if the Monitor was not
// made by NewMonitor.
func (m *Monitor) Add(score float64) error {
	if math.IsNaN(score) {
		score = math.Inf(1)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.urn == nil {
		return errZeroMonitor
	}
	row := keyedScore{score: score}
	exceeded := 0
	for exceeded < len(m.thresholds) && m.thresholds[exceeded].score <= score {
		if m.thresholds[exceeded].score == score {
			row.key = rand.NewPCG(m.seed, uint64(m.urn.Rows)).Uint64()
			if row.compare(m.thresholds[exceeded]) <= 0 {
				break
			}
		}
		exceeded++
	}
	m.urn.Add(exceeded)
	return nil
}

// Merge adds the rows of another Monitor with the same calibration scores, as if they all
// arrived now. For example, a replica hands over the Monitor of the last minute. Each row
// must be added only once, so the replica continues with a new Monitor that has a different
// seed. Merge returns an error if the calibration scores differ. It also returns an error
// if the seeds are equal, because different rows would then get the same random keys. Both
// Monitors must have been made by NewMonitor.
//
// The guarantee then holds for all rows together, if the times of merging do not depend on
// the scores. Counts of rows can be added because all rows are compared with the same
// calibration rows, and because the order of rows does not matter.
//
// The evidence of several Monitors cannot simply be combined, because all of them depend on
// the same calibration rows. Their mean is an e-value at a time that is fixed in advance,
// but not at a time that is chosen because the mean is high. If each of R replicas alarms
// at δ/R, the probability of any false alarm is at most δ.
func (m *Monitor) Merge(part *Monitor) error {
	if m == part {
		return errors.New("a monitor cannot be merged with itself")
	}
	if !m.initialized() || !part.initialized() {
		return errZeroMonitor
	}
	part.mu.Lock()
	rows, seen, seed := part.urn.Rows, slices.Clone(part.urn.Seen), part.seed
	part.mu.Unlock()
	if !slices.Equal(m.thresholds, part.thresholds) {
		return errors.New("the monitor has other calibration scores")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if seed == m.seed {
		return errors.New("the monitors have equal seeds, which break ties alike: give each monitor its own seed")
	}
	m.urn.Merge(rows, seen)
	return nil
}

// initialized reports whether the Monitor was made by NewMonitor.
func (m *Monitor) initialized() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.urn != nil
}

// Rows returns the number of added rows.
func (m *Monitor) Rows() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.urn == nil {
		return 0
	}
	return m.urn.Rows
}

// Evidence returns the evidence of drift after the last row, an e-value below 1e103. 1
// means no evidence, and higher values mean more. Evidence falls again if later rows score
// like the calibration rows. It is NaN if the Monitor was not made by NewMonitor.
func (m *Monitor) Evidence() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.urn == nil {
		return math.NaN()
	}
	return m.urn.Capital()
}

// Alarm reports whether the evidence has ever been at least 1/delta. It panics unless delta
// is between 0 and 1.
func (m *Monitor) Alarm(delta float64) bool {
	if err := checkLevel("delta", delta); err != nil {
		panic("calibrate: " + err.Error())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.urn != nil && m.urn.Peak*delta >= 1
}

var errZeroMonitor = errors.New("the monitor has no calibration scores: make it with NewMonitor")

// monitorStateVersion is the version of the format of MarshalBinary, and the first byte of
// a state.
const monitorStateVersion = 1

// MarshalBinary encodes the state of the Monitor, without the calibration scores, in less than
// a kilobyte.
func (m *Monitor) MarshalBinary() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.urn == nil {
		return nil, errZeroMonitor
	}
	b := []byte{monitorStateVersion}
	b = binary.LittleEndian.AppendUint64(b, m.fingerprint())
	b = binary.LittleEndian.AppendUint64(b, m.seed)
	b = binary.AppendUvarint(b, uint64(m.urn.Rows))
	for _, seen := range m.urn.Seen {
		b = binary.AppendUvarint(b, uint64(seen))
	}
	appendFloat := func(v float64) { b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v)) }
	appendFloat(m.urn.Peak)
	appendFloat(m.urn.Idle)
	for _, bets := range m.urn.Bets {
		for _, bet := range bets {
			appendFloat(bet)
		}
	}
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b)), nil
}

// UnmarshalBinary replaces the state of the Monitor by a state that MarshalBinary wrote, in
// this process or in a different one. The state includes the seed and the largest evidence
// so far, which Alarm compares with 1/delta. The Monitor must have been made by NewMonitor.
// UnmarshalBinary returns an error if the state is damaged or belongs to a Monitor with
// different calibration scores.
func (m *Monitor) UnmarshalBinary(data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.urn == nil {
		return errZeroMonitor
	}
	damaged := errors.New("not the state of a monitor, or damaged")
	end := len(data) - crc32.Size
	if end < 17 || data[0] != monitorStateVersion || binary.LittleEndian.Uint32(data[end:]) != crc32.ChecksumIEEE(data[:end]) {
		return damaged
	}
	data = data[:end]
	if binary.LittleEndian.Uint64(data[1:]) != m.fingerprint() {
		return errors.New("the state is of a monitor with other calibration scores, as after a new fit")
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
	nextFloat := func() (v float64) {
		v, data = math.Float64frombits(binary.LittleEndian.Uint64(data)), data[8:]
		return v
	}
	state.Peak, state.Idle = nextFloat(), nextFloat()
	for j := range state.Bets {
		for i := range state.Bets[j] {
			state.Bets[j][i] = nextFloat()
		}
	}
	if !m.urn.Restore(state) {
		return damaged
	}
	m.seed = seed
	return nil
}

// fingerprint returns a hash of the calibration scores that rows are compared with.
func (m *Monitor) fingerprint() uint64 {
	h := fnv.New64a()
	for _, threshold := range m.thresholds {
		_ = binary.Write(h, binary.LittleEndian, [2]uint64{math.Float64bits(threshold.score), threshold.key}) // writing to a hash never fails
	}
	return h.Sum64()
}
