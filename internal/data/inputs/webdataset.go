package inputs

import (
	"archive/tar"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/regularfile"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/ood"
)

// A WebDataset consists of tar archives, its shards. Consecutive members with the same name
// up to the first dot form a sample, which is one row. A sample contains an image, an array
// or texts, and their labels, targets and groups.
//
// Only the positions of images, arrays and texts are kept in memory, not their content.

// IsArchive reports whether path is the name of a tar archive, or of several archives
// listed in braces.
func IsArchive(path string) bool {
	return strings.EqualFold(strings.TrimRight(filepath.Ext(path), "}"), ".tar")
}

const (
	// maxMembers limits the members of one sample, because files named frame.0001.png,
	// frame.0002.png and so on would all belong to one sample.
	maxMembers = 1 << 10
	// maxNote limits the bytes of a member that is read with the headers, and maxText the
	// bytes of a text.
	maxNote = 1 << 20
	maxText = 1 << 26
)

// member is the position of a file's content in a shard.
type member struct {
	shard  int32
	offset int64
	size   int64
	name   string
}

// archive lists the samples of shards.
type archive struct {
	shards []string
	inputs []member // input members of all samples, in order
	// The inputs are texts if texts is not nil, arrays if arrays is true, and images
	// otherwise. texts names the texts of a sample. Their members follow one another in
	// inputs.
	arrays  bool
	texts   []string
	skipped int // samples without an input
	annotations
}

// sample holds the members of a sample that have been read so far.
type sample struct {
	key     string
	kinds   []string // name of each member after the first dot
	members []member
	notes   map[string][]byte // content of small members, by kind
}

func openArchive(ctx context.Context, name string, o Options) (*Set, error) {
	shards, err := Expand(name)
	if err != nil {
		return nil, err
	}
	a := &archive{shards: shards, arrays: o.Preprocess == nil && !o.HasText, annotations: annotations{o: o}}
	if o.HasText {
		a.texts = o.Text
	}
	left, err := a.listAll(ctx)
	if err != nil {
		return nil, err
	}
	s, err := a.samples(ctx, name)
	if err == nil {
		s.Notes = append(s.Notes, left...)
	}
	return s, err
}

// listAll lists the samples of all shards. With Options.SkipBad, it leaves out shards that
// cannot be read and returns a note for each of them. It returns an error if no shard can
// be read.
func (a *archive) listAll(ctx context.Context) (left []string, err error) {
	var first error
	for i := range a.shards {
		before := *a
		err := a.list(ctx, i)
		if err == nil {
			continue
		}
		if !a.o.SkipBad || !Broken(err) {
			return nil, err
		}
		*a = before
		first = cmp.Or(first, err)
		left = append(left, fmt.Sprintf("left out a file that cannot be read: %v", err))
	}
	if len(left) == len(a.shards) {
		return nil, first
	}
	return left, nil
}

// samples returns a set of the listed samples.
func (a *archive) samples(ctx context.Context, name string) (*Set, error) {
	o := a.o
	if len(a.inputs) == 0 {
		return nil, fmt.Errorf("%s: %w: there are no samples in it", name, ErrEmpty)
	}
	if a.texts != nil {
		s := &Set{src: memberTexts{a}, Skipped: a.skipped, Texts: a.texts}
		return s, a.annotate(s, name)
	}
	input := onlyInput(o.Takes)
	if list := required(o.Takes); len(list) > 1 {
		return nil, fmt.Errorf("%s: a sample has one input, but the model has %d", name, len(list))
	}
	if a.arrays {
		src, err := newMemberArrays(ctx, a, input)
		if err != nil {
			return nil, err
		}
		s := (&Set{src: src, Skipped: a.skipped}).withoutUnreadable()
		return s, a.annotate(s, name)
	}
	src, err := newImageSource(ctx, name, a, input.Name, o)
	if err != nil {
		return nil, err
	}
	s := (&Set{src: src, Skipped: a.skipped}).withoutUnreadable()
	if o.Labels {
		if err := s.labelFolders(src, func(i int) string { return a.inputs[i].name }, o.Classes); err != nil {
			return nil, err
		}
	}
	return s, a.annotate(s, name)
}

// list reads the headers of a shard, and the small members of each sample.
func (a *archive) list(ctx context.Context, shard int) error {
	file := a.shards[shard]
	f, err := regularfile.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	var current sample
	r, end := tar.NewReader(f), int64(0)
	for {
		h, err := r.Next()
		if err == nil {
			err = ctx.Err()
		}
		at, failed := f.Seek(0, io.SeekCurrent)
		switch {
		case failed != nil:
			return InFile(file, failed)
		case errors.Is(err, io.EOF) && at <= end:
			return fmt.Errorf("%s: the archive has no end marker: it was cut short, or its writer was not closed", file)
		case errors.Is(err, io.EOF):
			return a.add(current)
		case errors.Is(err, io.ErrUnexpectedEOF):
			return fmt.Errorf("%s: the archive is cut short at byte %d", file, at)
		case errors.Is(err, tar.ErrHeader):
			return fmt.Errorf("%s: not a tar archive, or damaged: there is no member header before byte %d", file, at)
		case err != nil:
			return InFile(file, err)
		}
		end = at + (h.Size+511)/512*512
		m := member{int32(shard), at, h.Size, path.Clean(h.Name)}
		key, kind, err := keyOf(h)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if kind == "" {
			continue
		}
		if key != current.key {
			if err := a.add(current); err != nil {
				return err
			}
			current = sample{key: key}
		}
		if len(current.kinds) == maxMembers {
			return a.sampleError(current, fmt.Errorf("it has more than %d members; members of one sample, and only these, must share their name up to the first dot", maxMembers))
		}
		if slices.Contains(current.kinds, kind) {
			return fmt.Errorf("%s: two members have the name %.200q", file, m.name)
		}
		current.kinds, current.members = append(current.kinds, kind), append(current.members, m)
		if err := a.keepNote(&current, kind, m, r); err != nil {
			return InFile(a.location(m), err)
		}
	}
}

// keyOf splits the name of a member at the first dot of its last element. Members that are not
// regular files, are hidden or have no dot have no kind.
func keyOf(h *tar.Header) (key, kind string, err error) {
	name := path.Clean(h.Name)
	elements := strings.Split(name, "/")
	for record := range h.PAXRecords {
		if strings.HasPrefix(record, "GNU.sparse.") {
			h.Typeflag = tar.TypeGNUSparse
		}
	}
	switch {
	case path.IsAbs(name) || slices.Contains(elements, ".."):
		return "", "", fmt.Errorf("the member %.200q leads out of the archive; name members by paths below it", h.Name)
	case h.Typeflag == tar.TypeGNUSparse:
		return "", "", fmt.Errorf("the member %.200q is a sparse file; pack it without --sparse", h.Name)
	case h.Typeflag != tar.TypeReg || slices.ContainsFunc(elements, func(e string) bool { return strings.HasPrefix(e, ".") }):
		return "", "", nil
	}
	dir, base := path.Split(name)
	if strings.HasPrefix(base, "__") && strings.HasSuffix(base, "__") { // contains information about the archive itself
		return "", "", nil
	}
	stem, kind, _ := strings.Cut(base, ".")
	return dir + stem, strings.ToLower(kind), nil
}

// keepNote keeps the content of a small member with labels, targets or groups.
func (a *archive) keepNote(s *sample, kind string, m member, r io.Reader) error {
	requested := kind == a.o.Groups || slices.Contains(a.o.Targets, kind)
	switch {
	case !requested && kind != "cls" && kind != "json":
		return nil
	case m.size > maxNote && !requested:
		return nil
	case m.size > maxNote:
		return fmt.Errorf("it has %d bytes, but at most %d are read", m.size, maxNote)
	}
	text, err := io.ReadAll(r)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the archive is cut short")
	}
	if s.notes == nil {
		s.notes = map[string][]byte{}
	}
	s.notes[kind] = text
	return err
}

// location returns the shard and the name of a member for messages.
func (a *archive) location(m member) string { return a.shards[m.shard] + ": " + m.name }

// add adds a complete sample.
func (a *archive) add(s sample) error {
	if s.members == nil {
		return nil
	}
	in, err := a.inputsOf(s)
	if err != nil {
		if a.o.SkipBad && errors.Is(err, ErrNoInput) {
			a.skipped++
			return nil
		}
		return err
	}
	a.inputs = append(a.inputs, in...)
	value := func(name string) (cell, error) {
		word, err := s.value(name)
		return cell{kind: text, text: word}, err
	}
	return a.annotations.add(value, func(err error) error { return a.sampleError(s, err) }, "cls", "label")
}

// sampleError adds the name of the sample to an error.
func (a *archive) sampleError(s sample, err error) error {
	return fmt.Errorf("%s: sample %.200q: %w", a.shards[s.members[0].shard], s.key, err)
}

// ErrNoInput is wrapped by the error for a sample of a WebDataset without an image, an
// array or the texts that the model needs.
var ErrNoInput = errors.New("its input is missing")

// inputsOf returns the members with the image, the array or the texts of a sample.
func (a *archive) inputsOf(s sample) ([]member, error) {
	if !a.o.HasText {
		in, err := a.inputOf(s)
		return []member{in}, err
	}
	if a.texts == nil {
		i := slices.IndexFunc(defaultTexts, func(name string) bool { return s.memberWith(name) >= 0 })
		if i < 0 {
			return nil, a.sampleError(s, fmt.Errorf("%w: there is no text in it (.txt); its members are .%s", ErrNoInput, display.List(s.kinds, 10)))
		}
		a.texts = defaultTexts[i : i+1]
	}
	var in []member
	for _, name := range a.texts {
		i := s.memberWith(name)
		if i < 0 {
			return nil, a.sampleError(s, fmt.Errorf("%w: it lacks the text %.100q, as a member .%.100[2]s or a key of its .json; its members are .%s", ErrNoInput, name, display.List(s.kinds, 10)))
		}
		in = append(in, s.members[i])
	}
	return in, nil
}

// defaultTexts lists the usual names of members and keys that contain texts.
var defaultTexts = append([]string{"txt"}, defaultTextNames...)

// memberWith returns the index of the member that contains the named text: the member with
// this name or, if the name is a key of the .json member, that member. It returns -1 if
// there is none.
func (s sample) memberWith(name string) int {
	if i := slices.Index(s.kinds, name); i >= 0 {
		return i
	}
	if _, err := s.value(name); err != nil {
		return -1
	}
	return slices.Index(s.kinds, "json")
}

// inputOf returns the member with the image or array of a sample.
func (a *archive) inputOf(s sample) (member, error) {
	membersWhere := func(match func(kind string) bool) (found []int) {
		for i, kind := range s.kinds {
			if match(kind) {
				found = append(found, i)
			}
		}
		return found
	}
	isInput := func(kind string) bool {
		if a.arrays {
			return path.Ext("."+kind) == ".npy"
		}
		return isImage("." + kind)
	}
	found := membersWhere(isInput)
	if len(found) > 1 { // 7.jpg is preferred to 7.mask.jpg
		if plain := membersWhere(func(kind string) bool { return isInput(kind) && !strings.Contains(kind, ".") }); len(plain) > 0 {
			found = plain
		}
	}
	members := "its members are ." + display.List(s.kinds, 10)
	switch {
	case len(found) == 1:
		return s.members[found[0]], nil
	case len(found) > 1:
		return member{}, a.sampleError(s, fmt.Errorf("it has several inputs, .%s and .%s, but only one is allowed", s.kinds[found[0]], s.kinds[found[1]]))
	case a.arrays && slices.ContainsFunc(s.kinds, func(kind string) bool { return isImage("." + kind) }):
		return member{}, a.sampleError(s, ErrPreprocess)
	case a.arrays:
		return member{}, a.sampleError(s, fmt.Errorf("%w: there is neither an image nor an array (.npy) in it; %s", ErrNoInput, members))
	case len(a.inputs) == 0 && slices.Contains(s.kinds, "npy"):
		return member{}, a.sampleError(s, fmt.Errorf("preprocessing is for images, but this is an array: %w", ErrNoPixels))
	}
	return member{}, a.sampleError(s, fmt.Errorf("%w: there is no image in it (%s); %s", ErrNoInput, strings.Join(imageExtensions, " "), members))
}

// value returns what a sample stores under a name: the content of the member whose file
// name has that name after its first dot, or the value of that key in the .json member.
func (s sample) value(name string) (string, error) {
	if text, ok := s.notes[name]; ok {
		return strings.TrimSpace(string(text)), nil
	}
	missingErr := fmt.Errorf("it lacks %.100q: it has no member .%.100[1]s, and no .json member with such a key", name)
	text, ok := s.notes["json"]
	if !ok {
		return "", missingErr
	}
	value, ok, err := keyIn(text, name)
	switch {
	case err != nil:
		return "", fmt.Errorf("its .json member is not a JSON object: %w", err)
	case !ok:
		return "", missingErr
	}
	return value, nil
}

// keyIn returns the text or the number under a key of a JSON object. ok reports whether the
// object has the key with a value other than null.
func keyIn(object []byte, key string) (value string, ok bool, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return "", false, err
	}
	raw, ok := fields[key]
	if !ok || string(raw) == "null" {
		return "", false, nil
	}
	if json.Unmarshal(raw, &value) != nil {
		value = string(raw) // a number
	}
	return value, true, nil
}

func (a *archive) rows() int { return len(a.inputs) / max(1, len(a.texts)) }

func (a *archive) file(i int) string {
	m := a.inputs[i]
	return filepath.Base(a.shards[m.shard]) + "/" + m.name
}

func (a *archive) path(i int) string { return a.location(a.inputs[i]) }

func (a *archive) open() (imageOpener, error) { return a, nil }

func (a *archive) Close() error { return nil }

func (a *archive) picture(i int) (openFunc, error) {
	return func() (io.ReadSeekCloser, error) { return a.content(i) }, nil
}

func (a *archive) content(i int) (io.ReadSeekCloser, error) {
	m := a.inputs[i]
	f, err := regularfile.Open(a.shards[m.shard])
	if err != nil {
		return nil, err
	}
	return content{io.NewSectionReader(f, m.offset, m.size), f}, nil
}

// content reads a part of a file, and closes the file.
type content struct {
	io.ReadSeeker
	io.Closer
}

// memberArrays provides the arrays of samples.
type memberArrays struct {
	*archive
	firstShape []int // shape of the first array
	tensor     ood.Tensor
	good       []int // samples whose array can be read, or nil for all of them
}

func newMemberArrays(ctx context.Context, a *archive, input Takes) (*memberArrays, error) {
	src := &memberArrays{archive: a}
	if a.o.SkipBad {
		src.good = []int{}
		for i := range a.rows() {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			x, err := src.array(i)
			if err == nil {
				src.good = append(src.good, i)
				src.firstShape = x.Shape
			} else if !Broken(err) {
				return nil, err
			}
		}
		if len(src.good) == 0 {
			return nil, fmt.Errorf("%s: %w: no array can be read", a.shards[0], ErrEmpty)
		}
	} else {
		x, err := src.array(0)
		if err != nil {
			return nil, err
		}
		src.firstShape = x.Shape
	}
	src.tensor = numbers(input.Name, input.rowShape(src.firstShape))
	return src, nil
}

func (a *memberArrays) readableRows() []int { return a.good }

func (a *memberArrays) name(i int) string { return a.file(i) }

func (a *memberArrays) tensors() []ood.Tensor { return []ood.Tensor{a.tensor} }

func (a *memberArrays) open() (reader, error) { return filledReader{a, a.tensor}, nil }

func (a *memberArrays) array(i int) (rows.Array, error) {
	f, err := a.content(i)
	if err != nil {
		return rows.Array{}, err
	}
	defer f.Close()
	x, err := npy.Read(f, a.inputs[i].size)
	if _, pixels := x.Data.([]uint8); pixels && len(x.Shape) > 1 {
		err = errors.New("it contains pixels; store images as .png or .jpg members")
	}
	if err == nil && a.firstShape != nil && !slices.Equal(a.firstShape, x.Shape) {
		err = fmt.Errorf("its shape is %v, but earlier arrays have %v", x.Shape, a.firstShape)
	}
	if err == nil && rows.Elements(x.Shape) == 0 {
		err = fmt.Errorf("its shape is %v, which is empty", x.Shape)
	}
	return x, InFile(a.path(i), err)
}

func (a *memberArrays) fill(ctx context.Context, idx []int, dst []float32) error {
	width := rows.Elements(a.firstShape)
	for k, i := range idx {
		if err := ctx.Err(); err != nil {
			return err
		}
		x, err := a.array(i)
		if err != nil {
			return err
		}
		copy(dst[k*width:(k+1)*width], npy.Float32s(x))
	}
	return nil
}

// memberTexts provides the texts of samples.
type memberTexts struct{ *archive }

func (a memberTexts) name(i int) string {
	return a.file(i * len(a.texts))
}

func (a memberTexts) tensors() (all []ood.Tensor) {
	for _, name := range a.texts {
		all = append(all, texts(name))
	}
	return all
}

func (a memberTexts) open() (reader, error) { return a, nil }

func (a memberTexts) read(ctx context.Context, idx []int) ([]ood.Tensor, error) {
	all := a.tensors()
	for j := range all {
		for _, i := range idx {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			at := i*len(a.texts) + j
			text, err := a.text(at, a.texts[j])
			if err != nil {
				return nil, InFile(a.path(at), err)
			}
			all[j].Strings = append(all[j].Strings, text)
		}
		all[j].Shape[0] = len(idx)
	}
	return all, nil
}

// text returns the text in the input member with the given index. In a .json member, it is
// the value of the key name.
func (a memberTexts) text(at int, name string) (string, error) {
	m := a.inputs[at]
	if m.size > maxText {
		return "", fmt.Errorf("the text has %d bytes, but at most %d are read", m.size, maxText)
	}
	f, err := a.content(at)
	if err != nil {
		return "", err
	}
	defer f.Close()
	all, err := io.ReadAll(f)
	if err != nil {
		return "", err
	}
	text := string(all)
	if strings.HasSuffix(strings.ToLower(m.name), ".json") {
		if text, _, err = keyIn(all, name); err != nil {
			return "", err
		}
	}
	if !utf8.ValidString(text) {
		return "", errors.New("the text is not UTF-8; save it as UTF-8")
	}
	return text, nil
}
