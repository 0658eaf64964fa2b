package serve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/imagesize"
	"github.com/attach-uncertainty/attach/internal/data/pixels"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/preprocess"
	"github.com/attach-uncertainty/attach/schema"
)

// model is an opened .attach file with its ONNX model.
type model struct {
	bundle    *attach.Bundle
	attached  *featurize.Attached
	inputs    []attach.Input    // inputs of the ONNX model
	inputInfo []featurize.Value // more information about each of the inputs
	imageName string            // name of the input that takes prepared images; "" if unknown
	outputs   []output
	sha256    string          // SHA-256 of the .attach file
	monitor   *driftMonitor   // nil without a calibrated detector
	adapt     *Adaptation     // nil if intervals are not adaptive
	matcher   *schema.Matcher // finds the reasons of rows; nil without a profile
	batcher   batcher
	users     int // number of requests that use the model; guarded by the lock of its entry

	mu         sync.Mutex
	predictors map[predictorKey]*attach.Predictor
	buildSlot  chan struct{} // semaphore that lets one request at a time make a predictor
}

// driftMonitor is the drift monitor of a model.
type driftMonitor struct {
	*calibrate.Monitor
	alarmLogged atomic.Bool
}

// state returns the monitor, or nil if d is nil.
func (d *driftMonitor) state() *calibrate.Monitor {
	if d == nil {
		return nil
	}
	return d.Monitor
}

// logAlarm logs a warning the first time that it finds an alarm.
func (d *driftMonitor) logAlarm(log *slog.Logger, name, version string) {
	if d.Alarm(alarmRate) && d.alarmLogged.CompareAndSwap(false, true) {
		log.Warn("drift alarm: the inputs are not like the calibration rows", "model", name, "version", version, "evidence", d.Evidence(), "rows", d.Rows())
	}
}

// predictorKey holds the options that determine a predictor. Alpha is not one of them,
// because infer compares it with the p-values afterwards.
type predictorKey struct {
	level              float64
	quantiles, sets    string
	byClass, byCluster bool
}

// maxPredictors limits the number of cached predictors of a model.
const maxPredictors = 64

// open opens the ONNX model of a .attach file and starts the model's workers.
func (s *Server) open(ctx context.Context, e *entry, b *attach.Bundle) (*model, error) {
	adapt, err := s.newAdaptation(e, b)
	if err != nil {
		return nil, err
	}
	net, err := featurize.OpenFor(ctx, b, "", featurize.Options{Runtime: s.opts.Runtime})
	if err != nil {
		return nil, err
	}
	m := &model{
		bundle: b, attached: net, inputs: net.Base(b.Base.Task).Inputs, inputInfo: net.Info().Inputs, outputs: outputsOf(b), adapt: adapt,
		predictors: map[predictorKey]*attach.Predictor{}, buildSlot: make(chan struct{}, 1),
	}
	if b.Profile != nil {
		m.matcher = b.Profile.Matcher()
	}
	if net.Preprocess != nil {
		shape := net.InputShape()
		i := slices.IndexFunc(m.inputs, func(in attach.Input) bool { return in.Shape != nil && slices.Equal(in.Shape[1:], shape) })
		if i >= 0 {
			m.imageName = m.inputs[i].Name
		}
	}
	// Make the predictor for the default options now, because most requests need it. If
	// this fails, the error is reported when the file is loaded.
	if _, err := m.predictor(ctx, &request{}); err != nil {
		net.Close()
		return nil, err
	}
	// The monitor compares scores without weights, so it would report the shift that weights
	// correct.
	if scores := b.Calibration.OOD; len(scores) > 0 && b.Calibration.Weights == nil {
		// Each replica has its own random seed, because the evidence of several replicas
		// can only be merged if their seeds differ.
		monitor, err := calibrate.NewMonitor(scores, rand.Uint64())
		if err != nil {
			net.Close()
			return nil, err
		}
		m.monitor = &driftMonitor{Monitor: monitor}
	}
	m.batcher = batcher{maxRows: s.opts.MaxBatchSize, maxDelay: s.opts.MaxQueueDelay, maxQueue: s.opts.MaxQueueSize}
	m.batcher.start(m.run)
	return m, nil
}

// close frees the model. The caller must make sure that no request uses it.
func (m *model) close() {
	m.batcher.close()
	m.attached.Close()
}

// includes reports whether the response to a request contains an output.
func (r *request) includes(o *output) bool {
	if len(r.outputs) == 0 {
		return (!o.optional || o.name == quantilesOutput && len(r.levels) > 0) && !(o.name == setOutput && r.sets == noSets)
	}
	return slices.ContainsFunc(r.outputs, func(w requestedOutput) bool { return w.name == o.name })
}

// predictor returns the predictor for the options of a request. Requests make new
// predictors one at a time, because calibration takes memory and time. If the predictor is
// in the cache, the request does not wait.
func (m *model) predictor(ctx context.Context, r *request) (*attach.Predictor, error) {
	key := predictorKey{r.level, r.quantiles, r.sets, r.setsByClass, r.setsByCluster}
	switch {
	case key.sets == noSets:
		key.sets = ""
	case key.sets == "" && (r.setsByClass || r.setsByCluster || m.wantsSets(r)):
		key.sets = conformal.LAC
	}
	if p := m.cachedPredictor(key); p != nil {
		return p, nil
	}
	select {
	case m.buildSlot <- struct{}{}:
		defer func() { <-m.buildSlot }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p := m.cachedPredictor(key); p != nil {
		return p, nil
	}
	key.quantiles, key.sets = strings.Clone(key.quantiles), strings.Clone(key.sets)
	o := attach.PredictOptions{Level: r.level, Levels: slices.Clone(r.levels), Sets: key.sets, SetsByClass: r.setsByClass, SetsByCluster: r.setsByCluster}
	if m.adapt != nil {
		o = m.adapt.predictOptions(o)
	}
	p, err := m.bundle.Predictor(o)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.predictors) == maxPredictors {
		clear(m.predictors)
	}
	m.predictors[key] = p
	return p, nil
}

// wantsSets reports whether the response to a request contains prediction sets.
func (m *model) wantsSets(r *request) bool {
	return slices.ContainsFunc(m.outputs, func(o output) bool { return o.name == setOutput && r.includes(&o) })
}

// cachedPredictor returns the cached predictor for a key, or nil.
func (m *model) cachedPredictor(key predictorKey) *attach.Predictor {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.predictors[key]
}

// check returns an error if a request asks for an output twice, or for one that the model
// or the request's parameters do not provide.
func (m *model) check(r *request) error {
	if r.cancel {
		return badRequestf("the parameter cancel is for feedback, not for predictions")
	}
	for i, w := range r.outputs {
		switch {
		case slices.ContainsFunc(r.outputs[:i], func(before requestedOutput) bool { return before.name == w.name }):
			return badRequestf("the output %.100q is asked for twice", w.name)
		case !slices.ContainsFunc(m.outputs, func(o output) bool { return o.name == w.name }):
			return badRequestf("the model has no output %.100q; it has %s", w.name, m.outputNames())
		case w.name == setOutput && r.sets == noSets:
			return badRequestf("the output set is asked for, but the parameter sets is none")
		case w.name == quantilesOutput && len(r.levels) == 0:
			return badRequestf("the output quantiles needs the parameter quantiles, such as \"0.1,0.5,0.9\"")
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

// maxRows is the maximum number of rows in a request.
const maxRows = 1 << 16

// readInputs decodes the inputs of a request into the rows of its job, c.job.
func (m *model) readInputs(c *call) error {
	c.tensors, c.groups, c.numbers, c.measures = c.tensors[:0], c.groups[:0], c.numbers[:0], nil
	if len(c.inputs) == 0 {
		return badRequestf("the request has no inputs; the model takes %s", m.describeInputs())
	}
	total := 0
	for i := range c.inputs {
		if t := &c.inputs[i]; t.datatype != "BYTES" {
			total += t.maxAvailable()
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
			return badRequestf("the input %.100q has %d rows, but %.100q has %d", t.name, t.shape[0], c.inputs[0].name, c.inputs[0].shape[0])
		case t.shape[0] == 0:
			return badRequestf("the input %.100q has no rows", t.name)
		case t.shape[0] > maxRows:
			return statusErrorf(http.StatusRequestEntityTooLarge, "the input %.100q has %d rows, but a request may have at most %d", t.name, t.shape[0], maxRows)
		case slices.ContainsFunc(c.inputs[:i], func(before tensor) bool { return before.name == t.name }):
			return badRequestf("the input %.100q is given twice", t.name)
		}
		if err := m.readTensor(c, t); err != nil {
			return err
		}
	}
	if err := m.checkComplete(c); err != nil {
		return err
	}
	c.job.block = ood.InputBlock{Tensors: c.tensors, Measures: c.measures}
	if c.job.groups = nil; m.bundle.Calibration.Groups != nil {
		if c.job.groups = c.groups; len(c.groups) == 0 {
			return badRequestf("the model's intervals are calibrated by group, so the request needs the BYTES input %s with the group of each row", groupInput)
		}
	}
	return nil
}

// Names of the BYTES inputs that a request can use in addition to the model's own inputs.
const (
	imageInput = "image"
	textInput  = "text"
	groupInput = "group"
)

// readTensor decodes one input of a request and appends it to c.tensors or c.groups.
func (m *model) readTensor(c *call, t *tensor) error {
	index := slices.IndexFunc(m.inputs, func(in attach.Input) bool { return in.Name == t.name || in.Name == t.name+":0" })
	if t.datatype == "BYTES" && (index < 0 || datatypeOf(m.inputs[index].DType) != "BYTES") {
		switch {
		case t.elements != t.shape[0]:
			return badRequestf("the input %.100q has the shape %v, but this BYTES input takes one element per row", t.name, t.shape)
		case m.bundle.Calibration.Groups != nil && t.name == groupInput:
			return t.eachBytes(false, func(element []byte) error {
				c.groups = append(c.groups, string(element))
				return nil
			})
		case m.attached.Preprocess != nil:
			return m.readImages(c, t)
		case m.bundle.Text != nil:
			return m.readTexts(c, t, t.shape[:1])
		}
	}
	if index < 0 {
		return badRequestf("the model has no input %.100q; it takes %s", t.name, m.describeInputs())
	}
	in := m.inputs[index]
	if want := datatypeOf(in.DType); t.datatype != want {
		return badRequestf("the input %.100q is %s, but the model takes %s", t.name, t.datatype, want)
	}
	if !shapeFits(t.shape, in.Shape) {
		return badRequestf("the input %.100q has the shape %v, but the model takes %v (−1 is any size)", t.name, t.shape, in.Shape)
	}
	if t.datatype == "BYTES" {
		return m.readTexts(c, t, t.shape)
	}
	begin := len(c.numbers)
	var err error
	if c.numbers, err = t.floats(c.numbers); err != nil {
		return err
	}
	data := c.numbers[begin:len(c.numbers):len(c.numbers)]
	for i, v := range data {
		if v-v != 0 && !(m.inputInfo[index].NaN && v != v) {
			return badRequestf("row %d (counted from 0) of the input %.100q is %v, which the model does not accept", i/max(1, len(data)/t.shape[0]), t.name, v)
		}
	}
	c.tensors = append(c.tensors, ood.Tensor{Name: in.Name, Shape: t.shape, Data: data})
	return nil
}

// shapeFits reports whether an input accepts tensors of the given shape. The first axis is
// the row axis and may have any size.
func shapeFits(shape, accepted []int) bool {
	if accepted == nil {
		return true
	}
	ok := len(shape) == len(accepted)
	for i := 1; ok && i < len(shape); i++ {
		ok = shape[i] > 0 && (accepted[i] < 0 || accepted[i] == shape[i])
	}
	return ok
}

// readTexts decodes an input of texts and appends it to c.tensors.
func (m *model) readTexts(c *call, t *tensor, shape []int) error {
	const headerSize = 16 // bytes in a string header, not counting its text
	if err := c.reserve(headerSize * int64(t.maxAvailable())); err != nil {
		return err
	}
	list := make([]string, 0, t.maxAvailable())
	err := t.eachBytes(false, func(element []byte) error {
		if !utf8.Valid(element) {
			return badRequestf("element %d of the input %.100q is not valid UTF-8", len(list), t.name)
		}
		list = append(list, string(element))
		return nil
	})
	c.tensors = append(c.tensors, ood.Tensor{Name: strings.Clone(t.name), Shape: shape, Strings: list})
	return err
}

// readImages decodes and prepares images. It reserves memory for each image before the
// image is decoded.
func (m *model) readImages(c *call, t *tensor) error {
	x := ood.Tensor{Name: m.imageName}
	var heights, widths []float32 // before preprocessing
	n := 0
	err := t.eachBytes(true, func(element []byte) error {
		shape, h, w, err := m.readImage(c, element)
		if err == nil && n > 0 && !slices.Equal(shape, x.Shape[1:]) {
			err = fmt.Errorf("its size after preprocessing is %s, but the images before it have %s", imagesize.Times(shape), imagesize.Times(x.Shape[1:]))
		}
		if _, isStatus := errors.AsType[*statusError](err); isStatus {
			return err
		}
		if err != nil {
			return badRequestf("image %d (counted from 0) of the input %.100q: %v", n, t.name, err)
		}
		if n == 0 {
			x.Shape = append([]int{t.elements}, shape...)
		}
		n++
		heights, widths = append(heights, float32(h)), append(widths, float32(w))
		return nil
	})
	if err != nil {
		return err
	}
	c.measures = []ood.Measure{{Name: "image height", Values: heights}, {Name: "image width", Values: widths}}
	x.Data = c.numbers[len(c.numbers)-elementCount(x.Shape):]
	c.tensors = append(c.tensors, x)
	return nil
}

// elementCount returns the number of values in a tensor of the given shape.
func elementCount(shape []int) int { return shape[0] * rowWidth(shape) }

// readImage decodes and prepares an image, appends the result to c.numbers, and returns its
// shape, and the height and width before preprocessing.
func (m *model) readImage(c *call, file []byte) (shape []int, h, w int, err error) {
	h, w, err = pixels.Size(bytes.NewReader(file))
	if err != nil {
		return nil, h, w, err
	}
	shape, err = m.attached.Preprocess.Shape(h, w, 3)
	if err == nil {
		err = imagesize.Check(m.attached.Info().Layout, h, w, shape, m.attached.InputShape())
	}
	if err != nil {
		return nil, h, w, err
	}
	// The memory for the prepared image stays reserved until the request ends. The memory
	// for the decoded pixels (two copies of four bytes per pixel) is released when
	// readImage returns.
	if err := c.reserve(4 * int64(rowWidth(append([]int{1}, shape...)))); err != nil {
		return nil, h, w, err
	}
	decoded := 8 * int64(h) * int64(w)
	if err := c.reserve(decoded); err != nil {
		return nil, h, w, err
	}
	defer c.freeReserved(decoded)
	var img image.Image
	if img, err = preprocess.Decode(bytes.NewReader(file)); err != nil {
		return nil, h, w, err
	}
	c.numbers, shape, err = m.attached.Preprocess.Append(c.numbers, img)
	return shape, h, w, err
}

// responseBytes bounds the memory in bytes for the long parts of a response. These are sets
// and quantiles, which are stored both as predictions and as text, and what rows that wait for
// targets must remember.
func (m *model) responseBytes(c *call) int64 {
	values := max(1, m.bundle.Base.Outputs) * len(c.levels)
	if m.wantsSets(&c.request) {
		values += m.bundle.Base.Outputs
	}
	if m.adapt != nil {
		values += len(m.adapt.adaptive) * m.adapt.width
	}
	return 32 * int64(c.job.block.Len()) * int64(values)
}

// checkComplete returns an error if a required input is missing.
func (m *model) checkComplete(c *call) error {
	if m.bundle.Text != nil && slices.ContainsFunc(c.tensors, func(t ood.Tensor) bool {
		return t.Strings != nil && !slices.ContainsFunc(m.inputs, func(in attach.Input) bool { return in.Name == t.Name })
	}) {
		return nil // the tokenizer makes the inputs from the texts
	}
	for i, in := range m.inputs {
		if !m.inputInfo[i].Optional && !slices.ContainsFunc(c.tensors, func(t ood.Tensor) bool { return t.Name == in.Name }) {
			return badRequestf("the input %q is missing; the model takes %s", in.Name, m.describeInputs())
		}
	}
	return nil
}

// describeInputs lists the required inputs and the inputs that can replace them, for error
// messages.
func (m *model) describeInputs() string {
	var list []string
	for i, in := range m.inputs {
		if !m.inputInfo[i].Optional {
			list = append(list, fmt.Sprintf("%q (%s of %v)", in.Name, datatypeOf(in.DType), in.Shape))
		}
	}
	s := strings.Join(list, " and ")
	if m.attached.Preprocess != nil {
		s += fmt.Sprintf(", or images as %q (BYTES)", imageInput)
	}
	if m.bundle.Text != nil {
		s += fmt.Sprintf(", or texts as %q (BYTES)", textInput)
	}
	return s
}

// run runs the model on the rows of a batch and predicts. If that fails, each job is run
// separately, so that an invalid row fails only its own request.
func (m *model) run(batch []*job) {
	err := m.runBatch(batch)
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

func (m *model) runBatch(batch []*job) (err error) {
	defer func() {
		// If the rows of one request cause a panic, the process must go on for other
		// requests.
		if p := recover(); p != nil {
			err = statusErrorf(http.StatusInternalServerError, "the model failed: %v", p)
		}
	}()
	if len(batch) == 1 {
		return m.runSingle(batch[0])
	}
	slices.SortStableFunc(batch, func(a, b *job) int { return cmp.Compare(predictorRank(batch, a), predictorRank(batch, b)) })
	all, err := m.attached.Run(context.Background(), join(batch))
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

// predictorRank returns the index of the first job in the batch that uses the same
// predictor as j.
func predictorRank(batch []*job, j *job) int {
	return slices.IndexFunc(batch, func(other *job) bool { return other.predictor == j.predictor })
}

// runSingle runs a single job in blocks of at most the batch size. It stops if the job's
// context ends.
func (m *model) runSingle(j *job) error {
	n := j.block.Len()
	j.predictions = j.predictions[:0]
	for i := 0; i < n; i += m.batcher.maxRows {
		if err := j.ctx.Err(); err != nil {
			return err
		}
		end := min(n, i+m.batcher.maxRows)
		block := j.block
		if n > m.batcher.maxRows {
			block = j.block.Slice(i, end)
			block.Start = 0
		}
		r, err := m.attached.Run(j.ctx, block)
		if err != nil {
			return m.explainFailure(m.addLocation(err, block, i), block, i)
		}
		if j.groups != nil {
			r.Groups = j.groups[i:end]
		}
		predictions, err := j.predictor.Predict(j.ctx, r)
		if err != nil {
			return m.addLocation(err, block, i)
		}
		if n <= m.batcher.maxRows {
			j.predictions = predictions
			return nil
		}
		j.predictions = append(j.predictions, predictions...)
	}
	return nil
}

// explainFailure adds the first new category in a block to an error of the model, because some
// models fail on a category that they were not trained on. The block starts with row begin of
// the request.
func (m *model) explainFailure(err error, block ood.InputBlock, begin int) error {
	if m.matcher == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	checker := m.bundle.Profile.NewChecker(false)
	checker.Add(m.profiledBlock(block))
	if r, row, ok := checker.NewCategory(); ok {
		err = fmt.Errorf("%w; row %d (counted from 0): %v", err, begin+row, r)
	}
	return err
}

// addLocation adds the names of the inputs to an error that the rows of a block caused. If the
// block does not start with the first row of the request, it adds the number of the block's
// first row.
func (m *model) addLocation(err error, block ood.InputBlock, begin int) error {
	if statusOf(err) != http.StatusBadRequest || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	names := make([]string, len(block.Tensors))
	for i, t := range block.Tensors {
		names[i] = strconv.Quote(t.Name)
	}
	location := "the input " + strings.Join(names, " and ")
	if begin > 0 {
		location += fmt.Sprintf(", its rows from %d on", begin)
	}
	return fmt.Errorf("%s: %w", location, err)
}

// join returns one block with the rows of all jobs.
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
			joined.Data = make([]float32, 0, n*rowWidth(joined.Shape))
		}
		for _, j := range batch {
			joined.Data = append(joined.Data, j.block.Tensors[k].Data...)
			joined.Strings = append(joined.Strings, j.block.Tensors[k].Strings...)
		}
		all.Tensors = append(all.Tensors, joined)
	}
	return all
}
