package featurize

// normalisers map logits to probabilities. What they read is the logits.
var normalisers = map[string]bool{
	"Softmax": true, "LogSoftmax": true, "Sigmoid": true, "HardSigmoid": true,
}

// passers keep the values of their first input: they change its shape, its
// element type or nothing at all.
var passers = map[string]bool{
	"Identity": true, "Dropout": true, "Cast": true, "CastLike": true, "Flatten": true, "Reshape": true,
	"Squeeze": true, "Unsqueeze": true, "Transpose": true, "Expand": true,
}

// rounders pass their first input on, rounded to a few bits.
var rounders = map[string]bool{"QuantizeLinear": true, "DequantizeLinear": true}

// activations act on each element alone (or, LpNormalization, on each row) and
// are not affine: what lies behind them is still the last linear layer.
var activations = map[string]bool{
	"Relu": true, "LeakyRelu": true, "PRelu": true, "Elu": true, "Selu": true, "Celu": true, "Clip": true,
	"ThresholdedRelu": true, "Tanh": true, "Softplus": true, "Softsign": true, "HardSwish": true, "Gelu": true,
	"Mish": true, "Exp": true, "Log": true, "Sqrt": true, "Abs": true, "Erf": true, "Floor": true, "Ceil": true,
	"Round": true, "LpNormalization": true, "Normalizer": true, "GlobalMaxPool": true,
}

// averages are means over positions; they commute with a linear layer that is
// applied at each position.
var averages = map[string]bool{
	"GlobalAveragePool": true, "AveragePool": true, "ReduceMean": true, "QLinearGlobalAveragePool": true,
	"QLinearAveragePool": true,
}

// slot says which input of an operator is what; 0 is none, since input 0 is
// always the data.
type slot struct {
	weight, bias            int
	dataScale, dataZero     int
	weightScale, weightZero int
}

// slots are the linear operators, which end the walk, with the names they go by
// in quantised and in fused graphs.
var slots = map[string]slot{
	"Gemm":                  {weight: 1, bias: 2},
	"FusedGemm":             {weight: 1, bias: 2},
	"MatMul":                {weight: 1},
	"FusedMatMul":           {weight: 1},
	"Conv":                  {weight: 1, bias: 2},
	"FusedConv":             {weight: 1, bias: 2},
	"MatMulInteger":         {weight: 1, weightZero: 3},
	"ConvInteger":           {weight: 1, weightZero: 3},
	"QLinearMatMul":         {dataScale: 1, dataZero: 2, weight: 3, weightScale: 4, weightZero: 5},
	"QLinearConv":           {dataScale: 1, dataZero: 2, weight: 3, weightScale: 4, weightZero: 5, bias: 8},
	"QGemm":                 {dataScale: 1, dataZero: 2, weight: 3, weightScale: 4, weightZero: 5, bias: 6},
	"MatMulIntegerToFloat":  {weight: 1, dataScale: 2, weightScale: 3, dataZero: 4, weightZero: 5, bias: 6},
	"DynamicQuantizeMatMul": {weight: 1, weightScale: 2, weightZero: 3, bias: 4},
}
