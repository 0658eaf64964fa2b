package featurize_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/ood"
)

// This example computes the features of images that are read block by block.
func Example() {
	ctx := context.Background()
	m, err := featurize.Open(ctx, "resnet18.onnx", featurize.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()

	var images iter.Seq2[ood.InputBlock, error] = func(yield func(ood.InputBlock, error) bool) {
		for range 10 {
			block := ood.BlockOf([]int{32, 3, 224, 224}, make([]float32, 32*3*224*224))
			if !yield(block, nil) {
				return
			}
		}
	}
	for batch, err := range m.Features(ctx, images) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(batch.Features.Rows, "rows of", batch.Features.Cols, "features and", batch.Logits.Cols, "logits")
	}
}

// This example lists candidate tensors if no linear layer is found.
func ExampleOpen() {
	_, err := featurize.Open(context.Background(), "detector.onnx", featurize.Options{})
	var noLayer *featurize.NoLinearLayerError
	if errors.As(err, &noLayer) {
		for _, c := range noLayer.Info.Candidates {
			fmt.Println(c.Tensor, c.Shape) // set Options.Feature to one of these tensors
		}
	}
}

// This example computes the features of rows in memory.
func ExampleModel_All() {
	ctx := context.Background()
	m, err := featurize.Open(ctx, "california_mlp.onnx", featurize.Options{Runtime: featurize.Runtime{Provider: "cpu"}})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	x := ood.BlockOf([]int{1000, 8}, make([]float32, 1000*8))
	b, err := m.All(ctx, x.Blocks(ctx, 64), x.Len(), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(b.Features.Rows, b.Features.Cols, m.Info().Exact)
}

// This example computes the gradient of the predicted class's log-softmax with respect to
// the input.
func ExampleModel_Gradients() {
	ctx := context.Background()
	m, err := featurize.Open(ctx, "resnet18.onnx", featurize.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	images := ood.BlockOf([]int{4, 3, 224, 224}, make([]float32, 4*3*224*224))
	o := featurize.GradientOptions{Of: ood.Scalar{Temperature: 1000}}
	for batch, err := range m.Gradients(ctx, images.Blocks(ctx, 4), o) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(batch.Gradient.Shape, len(batch.Gradient.Data), batch.Logits.Rows)
	}
}

// This example runs twenty passes with dropout. If the model has no dropout layer, one is
// inserted before the last layer.
func ExampleModel_Network() {
	ctx := context.Background()
	m, err := featurize.Open(ctx, "resnet18.onnx", featurize.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	x := ood.BlockOf([]int{4, 3, 224, 224}, make([]float32, 4*3*224*224))
	logits, err := m.Network().Dropout(ctx, x, 20, .1, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(logits) == 20*4*m.Info().OutputsWidth)
}

func ExampleInspect() {
	info, err := featurize.Inspect(context.Background(), "resnet18.onnx", featurize.Options{Runtime: featurize.Runtime{NoInstall: true}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Task, info.Feature.Tensor, info.Feature.Width, info.OutputsWidth)
}

// This example predicts texts. It needs only the .attach file and the .onnx file, because
// the .attach file contains the tokenizer.
func ExampleAttached_Texts() {
	ctx := context.Background()
	b, err := attach.Open("M.attach")
	if err != nil {
		log.Fatal(err)
	}
	net, err := featurize.OpenFor(ctx, b, "", featurize.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer net.Close()
	p, err := b.Predictor(attach.PredictOptions{})
	if err != nil {
		log.Fatal(err)
	}
	predictions, err := net.Texts(ctx, p, "what is my balance", "why is the sky blue")
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range predictions {
		fmt.Println(a.Name, a.Confidence, a.PValue, a.Flag)
	}
}
