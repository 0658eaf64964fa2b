package featurize

import (
	"cmp"
	"context"
	"regexp"
	"slices"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// embeddings are what exporters call outputs that describe a row and answer nothing,
// the most finished first.
var embeddings = [...]string{"sentence_embedding", "last_hidden_state", "token_embeddings"}

// describing is in the names of outputs beside these that answer nothing either;
// exporters of PyTorch call some by a number alone.
var describing = regexp.MustCompile(`hidden|embed|pool|attention|present|past|^[0-9]+$`)

// embedding is the feature of a network that answers nothing, or "".
func (s source) embedding(o Options) string {
	outputs := s.g.Outputs()
	if o.Output != "" || slices.ContainsFunc(outputs, func(v *pb.ValueInfoProto) bool { return !describing.MatchString(v.GetName()) }) {
		return ""
	}
	for _, name := range embeddings {
		if slices.ContainsFunc(outputs, func(v *pb.ValueInfoProto) bool { return v.GetName() == name && floating(v) }) {
			return cmp.Or(o.Feature, name)
		}
	}
	return ""
}

// locateEmbedding is locate for a network that answers nothing: positions are
// averaged.
func (s source) locateEmbedding(ctx context.Context, tensor string, o Options) (l location, err error) {
	l.place, l.task = &place{}, attach.Embedding
	l.because("the network answers nothing, its output is the features")
	if l.feature, err = s.named(ctx, tensor, "the feature"); err != nil {
		return l, err
	}
	return s.locateLayers(ctx, l, o)
}
