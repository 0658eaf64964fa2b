// Package featurize turns a trained ONNX network into a function from inputs
// to features and logits.
//
// Open walks back from the network's output to its last linear layer, and adds
// that layer's input φ (n×h) to the outputs of the graph, so that no exporter
// has to be run again. The layer's weights W (c×h) and bias b (c) are read
// too: logits = φ·Wᵀ + b, exactly so where Info.Exact says it. Layers before
// it are read beside it where Options ask for them.
//
// A linear model of scikit-learn is read as such a layer. Trees, support vector
// machines and other models of tables have none: what they read stands in, with
// their answers beside it.
//
// OpenFor opens the network of a bundle that was fitted before, with the tensors
// and the preprocessing that the bundle names.
//
// Rows are blocks of tensors, one for each input of the network: numbers or texts,
// of one shape or of different lengths.
//
// Features streams: rows go in and batches of what is read come out, in bounded
// memory, while the next batch is prepared. Gradients does the same with the
// gradient of a scalar of the logits, and Network runs the network as methods
// want it: forward, differentiated, or with dropout switched on. All of that
// runs inside ONNX Runtime, by editing the graph.
package featurize
