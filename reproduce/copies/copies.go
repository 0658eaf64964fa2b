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
	Doc:    "precision and recall of copies that an audit finds, and time",
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
	labels  []string // of the rows, if they are known
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
		{"all-pictures", manyPictures}, {"joined-texts", joinedTexts},
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
	found, others, alike, err := d.readDuplicates(ctx, filepath.Join(dir, audit.Duplicates), kindOf, sourceOf)
	if err != nil {
		return err
	}
	n := d.n + at
	micros := func(c cost) float64 { return c.time.Seconds() * 1e6 / float64(n) }
	fmt.Fprintf(w, "%s: %d rows, %d of them planted; %.1f µs a row, %.1f µs without near copies\n", d.name, n, at, micros(with), micros(without))
	right := 0
	for _, change := range d.changes {
		right += found[change]
		fmt.Fprintf(w, "  %-16s found %d of %d (recall %.3f)\n", change, found[change], planted, float64(found[change])/planted)
	}
	fmt.Fprintf(w, "  other rows called copies: %d of %d (%.2f %%); planted copies in a wrong group: %d; precision at least %.3f\n", others[0], d.n, 100*float64(others[0])/float64(d.n), others[1], float64(right)/float64(right+others[0]+others[1]))
	if d.labels != nil && others[0] > 0 {
		fmt.Fprintf(w, "  %.1f %% of these other rows have the label of the first row of their group, as have %.1f %% of two random rows\n", 100*float64(alike)/float64(others[0]), 100*chanceAlike(d.labels))
	}
	fmt.Fprintf(w, "  the bound counts %d of %d outliers, %d without near copies\n", with.outliers, n/outlierEvery, without.outliers)
	return nil
}

// chanceAlike returns the probability that two random rows have the same label.
func chanceAlike(labels []string) (p float64) {
	counts := map[string]float64{}
	for _, label := range labels {
		counts[label]++
	}
	for _, n := range counts {
		p += n / float64(len(labels)) * n / float64(len(labels))
	}
	return p
}

// cost holds what an audit takes, and the number of outliers that its bound counts.
type cost struct {
	time     time.Duration // of sketches, the search and the results
	outliers int
}

// audit scores the rows with random features, some of them outliers.
func (d *set) audit(ctx context.Context, dir string, planted []ood.InputBlock, sketches bool) (c cost, err error) {
	b, err := bundle(ctx)
	if err != nil {
		return c, err
	}
	s, err := audit.NewScorer(b, audit.Identity{FDR: .1, Delta: .05})
	if err != nil {
		return c, err
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
	batches := func(n int, block func(from, to int) ood.InputBlock) audit.Rows {
		return audit.Rows{N: n, Len: n, Name: func(i int) (string, string, int) { return "", "", i }, Batches: func(context.Context, int) iter.Seq2[audit.Batch, error] {
			return func(yield func(audit.Batch, error) bool) {
				for from := 0; from < n; from += blockRows {
					x := block(from, min(n, from+blockRows))
					batch := audit.Batch{Rows: attach.Rows{Batch: features(x.Len(), uint64(from), true)}}
					for _, h := range rowhash.Inputs(x) {
						batch.Hashes = append(batch.Hashes, h)
					}
					start := time.Now()
					if sketches {
						batch.Sketches = audit.Sketches(x)
					}
					c.time += time.Since(start)
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
		return c, err
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
		return c, err
	}
	if err := scoring.Flush(); err != nil {
		return c, err
	}
	start := time.Now()
	a, err := audit.Finish(ctx, files, audit.Output{Dir: dir, Page: func(io.Writer, *audit.Audit) error { return nil }})
	if err != nil {
		return c, err
	}
	c.time += time.Since(start)
	c.outliers = a.Outliers
	return c, nil
}

// outlierEvery says which rows are outliers: one in 20.
const outlierEvery = 20

// features returns rows of random features of three classes, with or without outliers.
func features(n int, seed uint64, outliers bool) ood.Batch {
	r := rand.New(rand.NewPCG(seed, 9))
	b := ood.Batch{Features: rows.New(n, 6), Logits: rows.New(n, 3), Labels: make([]int, n)}
	for i := range n {
		b.Labels[i] = i % 3
		for j := range 6 {
			b.Features.Data[6*i+j] = float32(r.NormFloat64())
		}
		b.Features.Data[6*i+i%3] += 3
		if outliers && i%outlierEvery == 0 {
			b.Features.Data[6*i+3] += 5
		}
		copy(rows.Row(b.Logits, i), rows.Row(b.Features, i)[:3])
	}
	return b
}

func bundle(ctx context.Context) (*attach.Bundle, error) {
	m, ok := attach.MethodByName("mahalanobis")
	if !ok {
		panic("mahalanobis is not registered")
	}
	return attach.Fit(ctx, attach.FitOptions{Base: attach.Base{Task: attach.Classification, Width: 6, Outputs: 3}, Batch: features(600, 1, false), Cal: features(1000, 2, false), Detector: m})
}

// readDuplicates counts the planted rows that are in the group of their source, by kind. It
// also counts other rows that are called copies, and planted rows in other groups. alike of the
// other rows have the label of the first row of their group.
func (d *set) readDuplicates(ctx context.Context, path string, kindOf map[string]string, sourceOf map[string]int) (found map[string]int, others [2]int, alike int, err error) {
	file, err := parquet.Open(path)
	if err != nil {
		return nil, others, 0, err
	}
	cursor, err := file.Open(0, 2, 5, 1)
	if err != nil {
		return nil, others, 0, err
	}
	defer cursor.Close()
	cells, err := cursor.Read(ctx, 0, file.Rows())
	if err != nil {
		return nil, others, 0, err
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
			// A group has the number of its first row, and the rows of the set are first.
			row, first := int(cells[3].Numbers[i]), int(cells[0].Numbers[i])
			if d.labels != nil && first < d.n && d.labels[row] == d.labels[first] {
				alike++
			}
		default:
			sourceKey, _ := audit.Key("data", "", source)
			if group, grouped := groupOf[sourceKey]; grouped && group == cells[0].Numbers[i] {
				found[kindOf[key]]++
			} else {
				others[1]++
			}
		}
	}
	return found, others, alike, nil
}

// pictures reads square pictures and their labels.
func pictures(dir string, edge int, names ...string) (*set, error) {
	data, labels, err := readPictures(dir, names...)
	if err != nil {
		return nil, err
	}
	d := pictureSet(data, len(labels), edge, len(data)/len(labels)/edge/edge)
	d.labels = labels
	return d, nil
}

func readPictures(dir string, names ...string) (data []float32, labels []string, err error) {
	for _, name := range names {
		z, err := npy.OpenNPZ(filepath.Join(dir, name+".npz"))
		if err != nil {
			return nil, nil, err
		}
		read := func(entry string) ([]float32, error) {
			l, err := z.Entry(entry)
			if err != nil {
				return nil, err
			}
			return l.Float32s()
		}
		part, err := read("images")
		if err != nil {
			return nil, nil, err
		}
		classes, err := read("labels")
		if err != nil {
			return nil, nil, err
		}
		data = append(data, part...)
		kind, _, _ := strings.Cut(name, "_")
		for _, class := range classes {
			labels = append(labels, fmt.Sprint(kind, " ", class))
		}
	}
	return data, labels, nil
}

// pictureSet returns a set of n pictures.
func pictureSet(data []float32, n, edge, colours int) *set {
	size := edge * edge * colours
	d := &set{n: n, changes: []string{"exact", "brighter", "jpeg 95", "jpeg 75", "halved", "shifted", "cropped", "mirrored"}}
	d.block = func(at []int, change string, _ *rand.Rand) ood.InputBlock {
		var list []float32
		for _, i := range at {
			list = append(list, changePicture(data[i*size:(i+1)*size], edge, colours, change)...)
		}
		return ood.BlockOf([]int{len(at), edge, edge, colours}, list)
	}
	return d
}

// changePicture returns a changed copy of a picture: 4 of 255 levels brighter, saved as JPEG,
// halved and doubled again, shifted to the right by a pixel, without the outermost pixels but
// enlarged to the same size, turned by a quarter, or mirrored.
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
	case "cropped": // and enlarged
		each(func(x, y, c int) float32 {
			return p[at(1+(x*2+1)*(edge-2)/(2*edge), 1+(y*2+1)*(edge-2)/(2*edge), c)]
		})
	case "turned":
		each(func(x, y, c int) float32 { return p[at(y, edge-1-x, c)] })
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

// manyRows is the number of rows of the large sets.
const manyRows = 100_000

// manyPictures reads all sets of pictures, at the size of CIFAR's. It fills them up to manyRows
// with pictures that are turned by a quarter, which are no copies.
func manyPictures(dir string) (*set, error) {
	const edge, colours, small = 32, 3, 28
	data, labels, err := readPictures(dir, "cifar10_test", "cifar10_train", "cifar100_test")
	if err != nil {
		return nil, err
	}
	grey, more, err := readPictures(dir, "fashion_test", "fashion_train", "mnist_test", "mnist_train")
	if err != nil {
		return nil, err
	}
	for p := range slices.Chunk(grey, small*small) {
		for y := range edge {
			for x := range edge {
				v, left := float32(0), (edge-small)/2
				if x, y := x-left, y-left; x >= 0 && x < small && y >= 0 && y < small {
					v = p[y*small+x]
				}
				data = append(data, v, v, v)
			}
		}
	}
	labels = append(labels, more...)
	const size = edge * edge * colours
	for i := range manyRows - len(labels) {
		data = append(data, changePicture(data[i*size:(i+1)*size], edge, colours, "turned")...)
		labels = append(labels, "turned "+labels[i])
	}
	d := pictureSet(data, manyRows, edge, colours)
	d.labels = labels
	return d, nil
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

// texts reads the questions of CLINC150.
func texts(dir string) (*set, error) {
	list, labels, err := readTexts(dir)
	if err != nil {
		return nil, err
	}
	d := textSet(list)
	d.labels = labels
	return d, nil
}

// joinedTexts fills the questions up to manyRows with random pairs of them.
func joinedTexts(dir string) (*set, error) {
	list, _, err := readTexts(dir)
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(5, 6))
	for n := len(list); len(list) < manyRows; {
		list = append(list, list[r.IntN(n)]+" and "+list[r.IntN(n)])
	}
	return textSet(list), nil
}

// readTexts returns questions and their intents.
func readTexts(dir string) (list, labels []string, err error) {
	for _, name := range []string{"train", "val", "test", "oos_val", "oos_test"} {
		lines, err := readCSV(filepath.Join(dir, "clinc150", name+".csv"))
		if err != nil {
			return nil, nil, err
		}
		for _, line := range lines {
			list, labels = append(list, line[0]), append(labels, line[1])
		}
	}
	return list, labels, nil
}

// textSet returns a set of texts. It changes capitals and punctuation, words of courtesy, or a
// word.
func textSet(list []string) *set {
	d := &set{n: len(list), changes: []string{"exact", "capitals", "courtesy", "another word"}}
	d.block = func(at []int, change string, r *rand.Rand) ood.InputBlock {
		t := ood.Tensor{Shape: []int{len(at), 1}}
		for _, i := range at {
			text := list[i]
			switch change {
			case "capitals":
				text = strings.ToUpper(text) + "!"
			case "courtesy":
				text = "please tell me, " + text
			case "another word":
				words, others := strings.Fields(text), strings.Fields(list[r.IntN(len(list))])
				words[r.IntN(len(words))] = others[r.IntN(len(others))]
				text = strings.Join(words, " ")
			}
			t.Strings = append(t.Strings, text)
		}
		return ood.InputBlock{Tensors: []ood.Tensor{t}}
	}
	return d
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
