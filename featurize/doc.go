// Package featurize turns a trained ONNX model into a function from inputs to features and
// logits.
//
// Open walks back from the model's output to its last linear layer, and adds that layer's
// input φ (n×h) to the outputs of the graph, so the model need not be exported again. It also
// reads the layer's weights W (c×h) and bias b (c). If Info.Exact is set, logits = φ·Wᵀ + b
// holds exactly. Options can ask for earlier layers too.
//
// A linear model of scikit-learn counts as such a layer. Trees, support vector machines and
// other models of tables have no linear layer. Their inputs and predictions serve as features.
//
// OpenFor opens the model that a .attach file was fitted on, with the tensors and the
// preprocessing that the file names.
//
// Rows come in blocks of tensors, one for each input of the model. Tensors hold numbers or
// texts, and rows may differ in length.
//
// Features streams: it takes rows and yields batches in bounded memory, and prepares the next
// batch while the model runs. Gradients does the same with the gradient of a scalar of the
// logits. Network runs the model for methods: forward, differentiated, or with dropout. All of
// this runs inside ONNX Runtime, by editing the graph.
package featurize
