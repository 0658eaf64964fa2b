package networks

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/ood"
)

// Texts is the folder of a text classifier, trained on CLINC150.
const Texts = "clinc_bert"

// ReadTexts runs the text classifier on files of CLINC150, such as "val". It returns the
// classifier, which the caller must close, and the rows of each file. Rows of in-scope files
// have labels.
func (p *Plan) ReadTexts(ctx context.Context, files []string, progress func(fraction float64)) (*featurize.Model, []ood.Batch, error) {
	paths := make([]string, len(files))
	for i, file := range files {
		paths[i] = filepath.Join(p.Data, "clinc150", file+".csv")
	}
	return p.ReadTextFiles(ctx, Texts, paths, "intent", progress)
}

// ReadTextFiles does the same for any text classifier in the folder of models. label is the
// column of the label in each CSV file.
func (p *Plan) ReadTextFiles(ctx context.Context, folder string, files []string, label string, progress func(fraction float64)) (*featurize.Model, []ood.Batch, error) {
	model, err := featurize.Open(ctx, filepath.Join(p.Models, folder), featurize.Options{Runtime: featurize.Runtime{Library: p.Library}, EarlierLayers: featurize.DefaultEarlierLayers})
	if err != nil {
		return nil, nil, err
	}
	info := model.Info()
	var inputSpecs []inputs.Takes
	for _, v := range info.Inputs {
		t := inputs.Takes{Name: v.Name, DType: v.DType, Optional: v.Optional}
		for _, d := range v.Shape {
			t.Shape = append(t.Shape, int(d))
		}
		inputSpecs = append(inputSpecs, t)
	}
	batches := make([]ood.Batch, len(files))
	for i, file := range files {
		o := inputs.Options{Takes: inputSpecs, HasText: true, Text: []string{"text"}, Targets: []string{label}, Classes: info.Classes, Outputs: info.OutputsWidth}
		if slices.Contains([]string{"oos_val.csv", "oos_test.csv"}, filepath.Base(file)) {
			o.Targets, o.Classes, o.Ignore = nil, nil, []string{label}
		}
		set, err := inputs.Open(ctx, file, o)
		if err == nil {
			batches[i], err = model.All(ctx, set.Blocks(ctx, 64), set.Len(), func(done int) {
				progress((float64(i) + float64(done)/float64(set.Len())) / float64(len(files)))
			})
		}
		if err != nil {
			model.Close()
			return nil, nil, err
		}
		batches[i].Labels = set.Labels
	}
	return model, batches, nil
}
