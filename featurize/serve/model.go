package serve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/imagesize"
	"github.com/attach-uncertainty/attach/internal/data/pixels"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/preprocess"
)

// model is a file that was opened with its network.
type model struct {
	bundle  *attach.Bundle
	net     *featurize.Attached
	inputs  []attach.Input    // of the network
	values  []featurize.Value // what the network says of each of them
	image   string            // the input that images become; "" where it is not known
	outputs []output
	sha256  string             // of the file
	monitor *calibrate.Monitor // nil without a detector that is calibrated
	batcher batcher
	users   int // requests that hold it; of the entry's lock

	mu         sync.Mutex
	predictors map[predictorKey]*attach.Predictor
	making     chan struct{} // has room for who makes one
}

// predictorKey is what predictors differ by. Alpha is compared with p-values.
type predictorKey struct {
	level              float64
	quantiles, sets    string
	byClass, byCluster bool
}

// mostPredictors bounds those that are kept.
const mostPredictors = 64

// open opens the network of a file.
func (s *Server) open(ctx context.Context, b *attach.Bundle) (*model, error) {
	net, err := featurize.OpenFor(ctx, b, "", featurize.Options{Runtime: s.o.Runtime})
	if err != nil {
		return nil, err
	}
	m := &model{
		bundle: b, net: net, inputs: net.Base(b.Base.Task).Inputs, values: net.Info().Inputs, outputs: outputsOf(b),
		predictors: map[predictorKey]*attach.Predictor{}, making: make(chan struct{}, 1),
	}
	if net.Preprocess != nil {
		shape := net.InputShape()
		i := slices.IndexFunc(m.inputs, func(in attach.Input) bool { return in.Shape != nil && slices.Equal(in.Shape[1:], shape) })
		if i >= 0 {
			m.image = m.inputs[i].Name
		}
	}
	// The default is what a classifier or regressor that is asked for everything needs.
	if _, err := m.predictor(ctx, &request{}); err != nil {
		net.Close()
		return nil, err
	}
	if scores := b.Calibration.OOD; len(scores) > 0 {
		// Replicas bet with seeds of their own, so that their evidence can be merged.
		if m.monitor, err = calibrate.NewMonitor(scores, rand.Uint64()); err != nil {
			net.Close()
			return nil, err
		}
	}
	m.batcher = batcher{rows: s.o.MaxBatchSize, delay: s.o.MaxQueueDelay, queue: s.o.MaxQueueSize}
	m.batcher.start(m.run)
	return m, nil
}

// close frees the model, which nobody holds.
func (m *model) close() {
	m.batcher.close()
	m.net.Close()
}

// wants says whether a request asks for an output.
func (r *request) wants(o *output) bool {
	if len(r.outputs) == 0 {
		return (!o.optional || o.name == quantilesOutput && len(r.levels) > 0) && !(o.name == setOutput && r.sets == noSets)
	}
	return slices.ContainsFunc(r.outputs, func(w wanted) bool { return w.name == o.name })
}

// predictor is the one for what a request asks. One is made at a time, since
// calibration takes memory and time; who asks for one that is there does not wait.
func (m *model) predictor(ctx context.Context, r *request) (*attach.Predictor, error) {
	key := predictorKey{r.level, r.quantiles, r.sets, r.byClass, r.byCluster}
	switch {
	case key.sets == noSets:
		key.sets = ""
	case key.sets == "" && (r.byClass || r.byCluster || m.answersSets(r)):
		key.sets = conformal.LAC
	}
	if p := m.made(key); p != nil {
		return p, nil
	}
	select {
	case m.making <- struct{}{}:
		defer func() { <-m.making }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p := m.made(key); p != nil {
		return p, nil
	}
	key.quantiles, key.sets = strings.Clone(key.quantiles), strings.Clone(key.sets)
	p, err := m.bundle.Predictor(attach.PredictOptions{Level: r.level, Levels: slices.Clone(r.levels), Sets: key.sets, SetsByClass: r.byClass, SetsByCluster: r.byCluster})
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.predictors) == mostPredictors {
		clear(m.predictors)
	}
	m.predictors[key] = p
	return p, nil
}

// answersSets says whether the model has sets and a request asks for them.
func (m *model) answersSets(r *request) bool {
	return slices.ContainsFunc(m.outputs, func(o output) bool { return o.name == setOutput && r.wants(&o) })
}

// made is the predictor that was made for a key, or nil.
func (m *model) made(key predictorKey) *attach.Predictor {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.predictors[key]
}

// check refuses a request for outputs that the model does not have.
func (m *model) check(r *request) error {
	for i, w := range r.outputs {
		switch {
		case slices.ContainsFunc(r.outputs[:i], func(before wanted) bool { return before.name == w.name }):
			return badRequest("the output %.100q is asked for twice", w.name)
		case !slices.ContainsFunc(m.outputs, func(o output) bool { return o.name == w.name }):
			return badRequest("the model has no output %.100q; it has %s", w.name, m.outputNames())
		case w.name == setOutput && r.sets == noSets:
			return badRequest("the output set is asked for, and the parameter sets is none")
		case w.name == quantilesOutput && len(r.levels) == 0:
			return badRequest("the output quantiles needs the parameter quantiles, such as \".1,.5,.9\"")
		}
	}
	return nil
}

func (m *model) outputNames() string {
	names := make([]string, len(m.outputs))
	for i, o := range m.outputs {
		names[i] = o.name
	}
	return strings.Join(names, ", ")
}

// mostRows is how many rows a request may bring.
const mostRows = 1 << 16

// take makes of a request's inputs the rows of a job.
func (m *model) take(c *call) error {
	c.tensors, c.groups, c.numbers = c.tensors[:0], c.groups[:0], c.numbers[:0]
	if len(c.inputs) == 0 {
		return badRequest("the request has no inputs; the model takes %s", m.takes())
	}
	total := 0
	for i := range c.inputs {
		if t := &c.inputs[i]; t.datatype != "BYTES" {
			total += t.brings()
		}
	}
	if err := c.reserve(4 * int64(total)); err != nil {
		return err
	}
	c.numbers = slices.Grow(c.numbers, total)
	for i := range c.inputs {
		t := &c.inputs[i]
		switch {
		case t.shape[0] != c.inputs[0].shape[0]:
			return badRequest("the input %.100q has %d rows, and %.100q has %d", t.name, t.shape[0], c.inputs[0].name, c.inputs[0].shape[0])
		case t.shape[0] == 0:
			return badRequest("the input %.100q has no rows", t.name)
		case t.shape[0] > mostRows:
			return refuse(http.StatusRequestEntityTooLarge, "the input %.100q has %d rows; a request may have %d", t.name, t.shape[0], mostRows)
		case slices.ContainsFunc(c.inputs[:i], func(before tensor) bool { return before.name == t.name }):
			return badRequest("the input %.100q comes twice", t.name)
		}
		if err := m.takeTensor(c, t); err != nil {
			return err
		}
	}
	if err := m.complete(c); err != nil {
		return err
	}
	c.job.block = ood.InputBlock{Tensors: c.tensors}
	if c.job.groups = nil; m.bundle.Calibration.Groups != nil {
		if c.job.groups = c.groups; len(c.groups) == 0 {
			return badRequest("the model's intervals are calibrated by group, and the request lacks the input %s of BYTES, which has the group of each row", groupInput)
		}
	}
	return nil
}

// Inputs of BYTES that networks do not have.
const (
	imageInput = "image"
	textInput  = "text"
	groupInput = "group"
)

func (m *model) takeTensor(c *call, t *tensor) error {
	at := slices.IndexFunc(m.inputs, func(in attach.Input) bool { return in.Name == t.name || in.Name == t.name+":0" })
	if t.datatype == "BYTES" && (at < 0 || datatypeOf(m.inputs[at].DType) != "BYTES") {
		switch {
		case t.elements != t.shape[0]:
			return badRequest("the input %.100q has the shape %v; of BYTES it takes one element a row", t.name, t.shape)
		case m.bundle.Calibration.Groups != nil && t.name == groupInput:
			return t.bytes(false, func(element []byte) error {
				c.groups = append(c.groups, string(element))
				return nil
			})
		case m.net.Preprocess != nil:
			return m.takeImages(c, t)
		case m.bundle.Text != nil:
			return m.takeTexts(c, t, t.shape[:1])
		}
	}
	if at < 0 {
		return badRequest("the model has no input %.100q; it takes %s", t.name, m.takes())
	}
	in := m.inputs[at]
	if want := datatypeOf(in.DType); t.datatype != want {
		return badRequest("the input %.100q is %s, the model takes %s", t.name, t.datatype, want)
	}
	if !fits(t.shape, in.Shape) {
		return badRequest("the input %.100q has the shape %v, the model takes %v, where −1 is any size", t.name, t.shape, in.Shape)
	}
	if t.datatype == "BYTES" {
		return m.takeTexts(c, t, t.shape)
	}
	begin := len(c.numbers)
	var err error
	if c.numbers, err = t.floats(c.numbers); err != nil {
		return err
	}
	data := c.numbers[begin:len(c.numbers):len(c.numbers)]
	for i, v := range data {
		if v-v != 0 && !(m.values[at].NaN && v != v) {
			return badRequest("row %d (counted from 0) of the input %.100q holds %v, which is no number that the model takes", i/max(1, len(data)/t.shape[0]), t.name, v)
		}
	}
	c.tensors = append(c.tensors, ood.Tensor{Name: in.Name, Shape: t.shape, Data: data})
	return nil
}

// fits says whether a shape is one that a network takes, of which the rows differ.
func fits(shape, takes []int) bool {
	if takes == nil {
		return true
	}
	ok := len(shape) == len(takes)
	for i := 1; ok && i < len(shape); i++ {
		ok = shape[i] > 0 && (takes[i] < 0 || takes[i] == shape[i])
	}
	return ok
}

func (m *model) takeTexts(c *call, t *tensor, shape []int) error {
	const each = 16 // bytes that a text takes without its letters
	if err := c.reserve(each * int64(t.brings())); err != nil {
		return err
	}
	list := make([]string, 0, t.brings())
	err := t.bytes(false, func(element []byte) error {
		if !utf8.Valid(element) {
			return badRequest("element %d of the input %.100q is no UTF-8", len(list), t.name)
		}
		list = append(list, string(element))
		return nil
	})
	c.tensors = append(c.tensors, ood.Tensor{Name: strings.Clone(t.name), Shape: shape, Strings: list})
	return err
}

// takeImages decodes and prepares images, for which memory is reserved before.
func (m *model) takeImages(c *call, t *tensor) error {
	x := ood.Tensor{Name: m.image}
	n := 0
	err := t.bytes(true, func(element []byte) error {
		shape, err := m.takeImage(c, element)
		if err == nil && n > 0 && !slices.Equal(shape, x.Shape[1:]) {
			err = fmt.Errorf("it is %s after preprocessing, those before it are %s", imagesize.Times(shape), imagesize.Times(x.Shape[1:]))
		}
		if _, known := errors.AsType[*refusal](err); known {
			return err
		}
		if err != nil {
			return badRequest("image %d (counted from 0) of the input %.100q: %v", n, t.name, err)
		}
		if n == 0 {
			x.Shape = append([]int{t.elements}, shape...)
		}
		n++
		return nil
	})
	if err != nil {
		return err
	}
	x.Data = c.numbers[len(c.numbers)-imagesOf(x.Shape):]
	c.tensors = append(c.tensors, x)
	return nil
}

func imagesOf(shape []int) int { return shape[0] * width(shape) }

// takeImage appends what an image becomes to the call's numbers.
func (m *model) takeImage(c *call, file []byte) ([]int, error) {
	h, w, err := pixels.Size(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	shape, err := m.net.Preprocess.Shape(h, w, 3)
	if err == nil {
		err = imagesize.Check(m.net.Info().Layout, h, w, shape, m.net.InputShape())
	}
	if err != nil {
		return nil, err
	}
	// What it becomes is kept; its pixels, in two copies of four bytes, are not.
	if err := c.reserve(4 * int64(width(append([]int{1}, shape...)))); err != nil {
		return nil, err
	}
	decoded := 8 * int64(h) * int64(w)
	if err := c.reserve(decoded); err != nil {
		return nil, err
	}
	defer c.release(decoded)
	var img image.Image
	if img, err = preprocess.Decode(bytes.NewReader(file)); err != nil {
		return nil, err
	}
	c.numbers, shape, err = m.net.Preprocess.Append(c.numbers, img)
	return shape, err
}

// answers is how many bytes the long ones of a call's answers take at most, in
// predictions and as text.
func (m *model) answers(c *call) int64 {
	values := max(1, m.bundle.Base.Outputs) * len(c.levels)
	if m.answersSets(&c.request) {
		values += m.bundle.Base.Outputs
	}
	return 32 * int64(c.job.block.Len()) * int64(values)
}

// complete refuses rows that lack an input.
func (m *model) complete(c *call) error {
	if m.bundle.Text != nil && slices.ContainsFunc(c.tensors, func(t ood.Tensor) bool {
		return t.Strings != nil && !slices.ContainsFunc(m.inputs, func(in attach.Input) bool { return in.Name == t.Name })
	}) {
		return nil // tokens are made of texts
	}
	for i, in := range m.inputs {
		if !m.values[i].Optional && !slices.ContainsFunc(c.tensors, func(t ood.Tensor) bool { return t.Name == in.Name }) {
			return badRequest("the request lacks the input %q; the model takes %s", in.Name, m.takes())
		}
	}
	return nil
}

// takes says what the model takes.
func (m *model) takes() string {
	var list []string
	for i, in := range m.inputs {
		if !m.values[i].Optional {
			list = append(list, fmt.Sprintf("%q (%s of %v)", in.Name, datatypeOf(in.DType), in.Shape))
		}
	}
	s := strings.Join(list, " and ")
	if m.net.Preprocess != nil {
		s += fmt.Sprintf(", or images as %q (BYTES)", imageInput)
	}
	if m.bundle.Text != nil {
		s += fmt.Sprintf(", or texts as %q (BYTES)", textInput)
	}
	return s
}

// run runs the network on the rows of a batch and predicts of them. Where that
// fails, each job is run alone, so that none suffers from another's rows.
func (m *model) run(batch []*job) {
	err := m.runTogether(batch)
	if err != nil && len(batch) > 1 {
		for i := range batch {
			m.run(batch[i : i+1])
		}
		return
	}
	for _, j := range batch {
		j.err = err
	}
}

func (m *model) runTogether(batch []*job) (err error) {
	defer func() {
		// The rows of one client must not end what others wait for.
		if p := recover(); p != nil {
			err = refuse(http.StatusInternalServerError, "the model failed: %v", p)
		}
	}()
	if len(batch) == 1 {
		return m.runAlone(batch[0])
	}
	slices.SortStableFunc(batch, func(a, b *job) int { return cmp.Compare(predictorRank(batch, a), predictorRank(batch, b)) })
	all, err := m.net.Run(context.Background(), join(batch))
	if err != nil {
		return err
	}
	begin := 0
	for i := 0; i < len(batch); {
		first, end := i, begin
		var groups []string
		for ; i < len(batch) && batch[i].predictor == batch[first].predictor; i++ {
			end += batch[i].block.Len()
			groups = append(groups, batch[i].groups...)
		}
		r := all
		if begin > 0 || end < all.Len() {
			r.Batch = all.Slice(begin, end)
		}
		r.Groups = groups
		predictions, err := batch[first].predictor.Predict(context.Background(), r)
		if err != nil {
			return err
		}
		for _, j := range batch[first:i] {
			n := j.block.Len()
			j.predictions, predictions = predictions[:n:n], predictions[n:]
		}
		begin = end
	}
	return nil
}

// predictorRank is the place of the first job in the batch that has the predictor of j.
func predictorRank(batch []*job, j *job) int {
	return slices.IndexFunc(batch, func(other *job) bool { return other.predictor == j.predictor })
}

// runAlone runs a job block by block, as long as somebody waits for it.
func (m *model) runAlone(j *job) error {
	n := j.block.Len()
	j.predictions = j.predictions[:0]
	for i := 0; i < n; i += m.batcher.rows {
		if err := j.ctx.Err(); err != nil {
			return err
		}
		end := min(n, i+m.batcher.rows)
		block := j.block
		if n > m.batcher.rows {
			block = j.block.Slice(i, end)
			block.Start = 0
		}
		r, err := m.net.Run(j.ctx, block)
		if err != nil {
			return m.found(err, block, i)
		}
		if j.groups != nil {
			r.Groups = j.groups[i:end]
		}
		some, err := j.predictor.Predict(j.ctx, r)
		if err != nil {
			return m.found(err, block, i)
		}
		if n <= m.batcher.rows {
			j.predictions = some
			return nil
		}
		j.predictions = append(j.predictions, some...)
	}
	return nil
}

// found says what inputs an error is of that rows of theirs make the network answer, in a
// block that begins at a row.
func (m *model) found(err error, block ood.InputBlock, begin int) error {
	if statusOf(err) != http.StatusBadRequest || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	names := make([]string, len(block.Tensors))
	for i, t := range block.Tensors {
		names[i] = strconv.Quote(t.Name)
	}
	where := "the input " + strings.Join(names, " and ")
	if begin > 0 {
		where += fmt.Sprintf(", its rows from %d on", begin)
	}
	return fmt.Errorf("%s: %w", where, err)
}

// join is the rows of all jobs, one below the other.
func join(batch []*job) ood.InputBlock {
	n := 0
	for _, j := range batch {
		n += j.block.Len()
	}
	var all ood.InputBlock
	for k, t := range batch[0].block.Tensors {
		joined := ood.Tensor{Name: t.Name, Shape: slices.Clone(t.Shape)}
		joined.Shape[0] = n
		if t.Strings == nil {
			joined.Data = make([]float32, 0, n*width(joined.Shape))
		}
		for _, j := range batch {
			joined.Data = append(joined.Data, j.block.Tensors[k].Data...)
			joined.Strings = append(joined.Strings, j.block.Tensors[k].Strings...)
		}
		all.Tensors = append(all.Tensors, joined)
	}
	return all
}
