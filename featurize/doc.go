// Package featurize turns a trained ONNX model into a function from inputs to features and
// logits.
//
// Open walks back from the model's output to its last linear layer. It adds that layer's
// input φ (n×h) to the outputs of the graph, so the model need not be exported again. It
// also reads the layer's weights W (c×h) and bias b (c). Here n is the number of rows, h
// the number of features and c the number of outputs. If Info.Exact is set, logits = φ·Wᵀ +
// b holds exactly. Options can also select earlier layers.
//
// A linear classifier of scikit-learn is treated as one linear layer. Trees, support vector
// machines and similar models of tables have no linear layer, so their inputs and
// predictions serve as features. Regressors that read a table have the same features: see
// Feature.Of.
//
// OpenFor opens the model that a .attach file was fitted on. The tensors to read and the
// preprocessing come from that file.
//
// Rows come in blocks of tensors, with one tensor for each input of the model. Tensors hold
// numbers or texts, and rows may differ in length.
//
// Features streams: it takes blocks of rows, yields batches in bounded memory, and prepares
// the next batch while the model runs. Gradients also streams, and adds the gradient of a
// scalar function of the logits. Network lets detection methods run the model forward,
// differentiate it, or run it with dropout. All of these computations run in ONNX Runtime
// on an edited copy of the graph.
//
// Attached.Attribute says which columns, patches or words raised the OOD score of a row.
package featurize
