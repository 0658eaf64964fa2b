package preprocess_test

import (
	"fmt"
	"log"
	"os"

	"github.com/attach-uncertainty/attach/preprocess"
)

// This example prepares an image file for a network.
func Example() {
	p, err := preprocess.Parse([]byte(`{"size": {"shortest_edge": 32}, "crop_size": 28, "image_mean": [0.5], "image_std": [0.5]}`))
	if err != nil {
		log.Fatal(err)
	}
	f, err := os.Open("testdata/photo.png")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	img, err := preprocess.Decode(f)
	if err != nil {
		log.Fatal(err)
	}
	data, shape, err := p.Append(nil, img)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(data), shape)
	// Output: 784 [1 28 28]
}
