// Package copies measures how well an audit finds copies. It plants copies of several kinds
// among pictures, texts and rows of a table, and counts those that are found.
package copies

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/parquet"
	"github.com/attach-uncertainty/attach/internal/data/rowhash"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// Experiment is the copies command.
var Experiment = experiment.Experiment{
	Name:   "copies",
	Doc:    "precision and recall of copies that an audit finds, with memory and time",
	Shared: []string{"data", "sets"},
	New: func(_ *flag.FlagSet, s *experiment.Settings) func(ctx context.Context) error {
		return func(ctx context.Context) error { return run(ctx, s) }
	},
}

const (
	planted   = 200 // number of copies of each kind
	blockRows = 256
)

// set is a data set: n rows, and functions that change a row.
type set struct {
	name    string
	n       int
	block   func(at []int, change string, r *rand.Rand) ood.InputBlock
	changes []string
}

func run(ctx context.Context, s *experiment.Settings) error {
	all := []struct {
		name string
		read func(dir string) (*set, error)
	}{
		{"cifar", func(dir string) (*set, error) {
			return pictures(dir, 32, "cifar10_test", "cifar10_train", "cifar100_test")
		}},
		{"mnist", func(dir string) (*set, error) { return pictures(dir, 28, "mnist_test", "mnist_train") }},
		{"clinc150", texts}, {"california", table},
	}
	for _, a := range all {
		if s.Sets != nil && !slices.Contains(s.Sets, a.name) {
			continue
		}
		d, err := a.read(s.Data)
		if err == nil {
			d.name = a.name
			err = d.measure(ctx, s.Stdout)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// measure plants copies among the rows and audits both. It also audits them without sketches.
func (d *set) measure(ctx context.Context, w io.Writer) error {
	r := rand.New(rand.NewPCG(1, 2))
	order := r.Perm(d.n)
	kindOf := map[string]string{} // kind of each planted row, by key
	sourceOf := map[string]int{}
	var blocks []ood.InputBlock
	at := 0
	for k, change := range d.changes {
		sources := order[k*planted:][:planted]
		blocks = append(blocks, d.block(sources, change, r))
		for _, i := range sources {
			key, _ := audit.Key("planted", "", at)
			kindOf[key], sourceOf[key] = change, i
			at++
		}
	}
	dir, err := os.MkdirTemp("", "copies-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	without, err := d.audit(ctx, dir, blocks, false)
	if err != nil {
		return err
	}
	with, err := d.audit(ctx, dir, blocks, true)
	if err != nil {
		return err
	}
	found, others, err := readDuplicates(ctx, filepath.Join(dir, audit.Duplicates), kindOf, sourceOf)
	if err != nil {
		return err
	}
	n := d.n + at
	fmt.Fprintf(w, "%s: %d rows, %d of them planted; %.1f µs a row, %.1f µs without near copies\n", d.name, n, at, with.Seconds()*1e6/float64(n), without.Seconds()*1e6/float64(n))
	right := 0
	for _, change := range d.changes {
		right += found[change]
		fmt.Fprintf(w, "  %-16s found %d of %d (recall %.3f)\n", change, found[change], planted, float64(found[change])/planted)
	}
	fmt.Fprintf(w, "  other rows called copies: %d of %d (%.2f %%); planted copies in a wrong group: %d; precision at least %.3f\n", others[0], d.n, 100*float64(others[0])/float64(d.n), others[1], float64(right)/float64(right+others[0]+others[1]))
	return nil
}

// audit scores the rows with features that do not matter, and returns the time of sketches,
// of the search and of the results.
func (d *set) audit(ctx context.Context, dir string, planted []ood.InputBlock, sketches bool) (time.Duration, error) {
	b, err := bundle(ctx)
	if err != nil {
		return 0, err
	}
	s, err := audit.NewScorer(b, audit.Identity{FDR: .1, Delta: .05})
	if err != nil {
		return 0, err
	}
	s.PartTime = 0
	var files []*audit.File
	scoring := s.Begin(func(p *audit.Part) error {
		path := filepath.Join(dir, fmt.Sprintf("part-%d-%v.parquet", len(files), sketches))
		f, err := os.Create(path)
		if err == nil {
			_, err = p.WriteTo(f)
			err = cmp.Or(err, f.Close())
		}
		files = append(files, p.At(path))
		return err
	})
	var took time.Duration
	batches := func(n int, block func(from, to int) ood.InputBlock) audit.Rows {
		return audit.Rows{N: n, Len: n, Name: func(i int) (string, string, int) { return "", "", i }, Batches: func(context.Context, int) iter.Seq2[audit.Batch, error] {
			return func(yield func(audit.Batch, error) bool) {
				for from := 0; from < n; from += blockRows {
					x := block(from, min(n, from+blockRows))
					batch := audit.Batch{Rows: attach.Rows{Batch: features(x.Len(), uint64(from))}}
					for _, h := range rowhash.Inputs(x) {
						batch.Hashes = append(batch.Hashes, h)
					}
					start := time.Now()
					if sketches {
						batch.Sketches = audit.Sketches(x)
					}
					took += time.Since(start)
					if !yield(batch, nil) {
						return
					}
				}
			}
		}}
	}
	named := func(shard string, r audit.Rows) audit.Rows {
		r.Name = func(i int) (string, string, int) {
			key, folder := audit.Key(shard, "", i)
			return key, folder, i
		}
		return r
	}
	own := batches(d.n, func(from, to int) ood.InputBlock {
		var at []int
		for i := from; i < to; i++ {
			at = append(at, i)
		}
		return d.block(at, "exact", nil)
	})
	if err := scoring.Rows(ctx, "data", named("data", own), 0, d.n, nil); err != nil {
		return 0, err
	}
	total := 0
	for _, x := range planted {
		total += x.Len()
	}
	parts := audit.Rows{N: total, Len: total, Batches: func(context.Context, int) iter.Seq2[audit.Batch, error] {
		return func(yield func(audit.Batch, error) bool) {
			for _, x := range planted {
				for batch, err := range batches(x.Len(), func(from, to int) ood.InputBlock { return x.Slice(from, to) }).Batches(ctx, 0) {
					if !yield(batch, err) {
						return
					}
				}
			}
		}
	}}
	if err := scoring.Rows(ctx, "planted", named("planted", parts), 0, total, nil); err != nil {
		return 0, err
	}
	if err := scoring.Flush(); err != nil {
		return 0, err
	}
	start := time.Now()
	_, err = audit.Finish(ctx, files, audit.Output{Dir: dir, Page: func(io.Writer, *audit.Audit) error { return nil }})
	took += time.Since(start)
	return took, err
}

// features returns rows of random features of three classes.
func features(n int, seed uint64) ood.Batch {
	r := rand.New(rand.NewPCG(seed, 9))
	b := ood.Batch{Features: rows.New(n, 6), Logits: rows.New(n, 3), Labels: make([]int, n)}
	for i := range n {
		b.Labels[i] = i % 3
		for j := range 6 {
			b.Features.Data[6*i+j] = float32(r.NormFloat64())
		}
		b.Features.Data[6*i+i%3] += 3
		copy(rows.Row(b.Logits, i), rows.Row(b.Features, i)[:3])
	}
	return b
}

func bundle(ctx context.Context) (*attach.Bundle, error) {
	m, ok := attach.MethodByName("mahalanobis")
	if !ok {
		panic("mahalanobis is not registered")
	}
	return attach.Fit(ctx, attach.FitOptions{Base: attach.Base{Task: attach.Classification, Width: 6, Outputs: 3}, Batch: features(600, 1), Cal: features(1000, 2), Detector: m})
}

// readDuplicates counts the planted rows that are in the group of their source, by kind. It
// also counts other rows that are called copies, and planted rows in other groups.
func readDuplicates(ctx context.Context, path string, kindOf map[string]string, sourceOf map[string]int) (found map[string]int, others [2]int, err error) {
	file, err := parquet.Open(path)
	if err != nil {
		return nil, others, err
	}
	cursor, err := file.Open(0, 2, 5)
	if err != nil {
		return nil, others, err
	}
	defer cursor.Close()
	cells, err := cursor.Read(ctx, 0, file.Rows())
	if err != nil {
		return nil, others, err
	}
	groupOf := map[string]float64{}
	for i := range file.Rows() {
		groupOf[string(cells[1].Bytes[i])] = cells[0].Numbers[i]
	}
	found = map[string]int{}
	for i := range file.Rows() {
		key, kind := string(cells[1].Bytes[i]), string(cells[2].Bytes[i])
		source, isPlanted := sourceOf[key]
		switch {
		case kind == "first":
		case !isPlanted:
			others[0]++
		default:
			sourceKey, _ := audit.Key("data", "", source)
			if group, grouped := groupOf[sourceKey]; grouped && group == cells[0].Numbers[i] {
				found[kindOf[key]]++
			} else {
				others[1]++
			}
		}
	}
	return found, others, nil
}

// pictures reads square pictures of arrays images or x.
func pictures(dir string, edge int, names ...string) (*set, error) {
	var data []float32
	for _, name := range names {
		z, err := npy.OpenNPZ(filepath.Join(dir, name+".npz"))
		if err != nil {
			return nil, err
		}
		l, err := z.Entry("images")
		if err != nil {
			return nil, err
		}
		part, err := l.Float32s()
		if err != nil {
			return nil, err
		}
		data = append(data, part...)
	}
	colours := 1
	if edge == 32 {
		colours = 3
	}
	size := edge * edge * colours
	d := &set{n: len(data) / size, changes: []string{"exact", "brighter", "jpeg 95", "jpeg 75", "halved", "shifted", "mirrored"}}
	d.block = func(at []int, change string, _ *rand.Rand) ood.InputBlock {
		var list []float32
		for _, i := range at {
			list = append(list, changePicture(data[i*size:(i+1)*size], edge, colours, change)...)
		}
		return ood.BlockOf([]int{len(at), edge, edge, colours}, list)
	}
	return d, nil
}

// changePicture returns a changed copy of a picture: 4 of 255 levels brighter, saved as JPEG,
// halved and doubled again, shifted to the right by a pixel, or mirrored.
func changePicture(p []float32, edge, colours int, change string) []float32 {
	out := slices.Clone(p)
	at := func(x, y, c int) int { return (y*edge+x)*colours + c }
	each := func(set func(x, y, c int) float32) {
		for y := range edge {
			for x := range edge {
				for c := range colours {
					out[at(x, y, c)] = set(x, y, c)
				}
			}
		}
	}
	switch change {
	case "brighter":
		each(func(x, y, c int) float32 { return min(255, p[at(x, y, c)]+4) })
	case "shifted":
		each(func(x, y, c int) float32 { return p[at(max(0, x-1), y, c)] })
	case "mirrored":
		each(func(x, y, c int) float32 { return p[at(edge-1-x, y, c)] })
	case "halved":
		each(func(x, y, c int) float32 {
			x, y = x&^1, y&^1
			return float32(math.Round(float64(p[at(x, y, c)]+p[at(x+1, y, c)]+p[at(x, y+1, c)]+p[at(x+1, y+1, c)]) / 4))
		})
	case "jpeg 95", "jpeg 75":
		m := image.NewRGBA(image.Rect(0, 0, edge, edge))
		for y := range edge {
			for x := range edge {
				var v [3]uint8
				for c := range v {
					v[c] = uint8(p[at(x, y, min(c, colours-1))])
				}
				m.Set(x, y, color.RGBA{v[0], v[1], v[2], 255})
			}
		}
		quality, err := strconv.Atoi(change[5:])
		var b bytes.Buffer
		var saved image.Image
		if err == nil {
			err = jpeg.Encode(&b, m, &jpeg.Options{Quality: quality})
		}
		if err == nil {
			saved, err = jpeg.Decode(&b)
		}
		if err != nil {
			panic(err) // a picture in memory is always encoded
		}
		each(func(x, y, c int) float32 {
			r, g, b, _ := saved.At(x, y).RGBA()
			return float32([]uint32{r, g, b}[c] >> 8)
		})
	}
	return out
}

// readCSV returns the rows of a file after the first one.
func readCSV(path string) ([][]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return lines[1:], nil
}

// texts reads the questions of CLINC150, and changes capitals and punctuation, or a word.
func texts(dir string) (*set, error) {
	var list []string
	for _, name := range []string{"train", "val", "test", "oos_val", "oos_test"} {
		lines, err := readCSV(filepath.Join(dir, "clinc150", name+".csv"))
		if err != nil {
			return nil, err
		}
		for _, line := range lines {
			list = append(list, line[0])
		}
	}
	d := &set{n: len(list), changes: []string{"exact", "capitals", "another word"}}
	d.block = func(at []int, change string, r *rand.Rand) ood.InputBlock {
		t := ood.Tensor{Shape: []int{len(at), 1}}
		for _, i := range at {
			text := list[i]
			switch change {
			case "capitals":
				text = strings.ToUpper(text) + "!"
			case "another word":
				words, others := strings.Fields(text), strings.Fields(list[r.IntN(len(list))])
				words[r.IntN(len(words))] = others[r.IntN(len(others))]
				text = strings.Join(words, " ")
			}
			t.Strings = append(t.Strings, text)
		}
		return ood.InputBlock{Tensors: []ood.Tensor{t}}
	}
	return d, nil
}

// table reads California Housing, and changes a cell to that of another row, or rounds numbers.
func table(dir string) (*set, error) {
	lines, err := readCSV(filepath.Join(dir, "california.csv"))
	if err != nil {
		return nil, err
	}
	const columns = 8
	x := rows.New(len(lines), columns)
	for i, line := range lines {
		for j := range columns {
			v, err := strconv.ParseFloat(line[j], 32)
			if err != nil {
				return nil, err
			}
			rows.Row(x, i)[j] = float32(v)
		}
	}
	d := &set{n: x.Rows, changes: []string{"exact", "rounded", "another cell"}}
	d.block = func(at []int, change string, r *rand.Rand) ood.InputBlock {
		picked := rows.Select(x, at)
		for i := range at {
			row := rows.Row(picked, i)
			switch change {
			case "rounded":
				for j, v := range row {
					row[j] = float32(math.Round(1e5*float64(v)) / 1e5)
				}
			case "another cell":
				j := r.IntN(columns)
				row[j] = rows.Row(x, r.IntN(x.Rows))[j]
			}
		}
		return ood.BlockOf([]int{len(at), columns}, picked.Data)
	}
	return d, nil
}
