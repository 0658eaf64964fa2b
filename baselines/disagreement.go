package baselines

import "math"

// Choices of the parameter "score" of methods that compare passes.
const (
	mutualInformation = "mutual-information"
	predictiveEntropy = "predictive-entropy"
	passVariance      = "variance"
)

// disagreement measures how uncertain several softmax distributions are of one
// row.
type disagreement struct {
	Of string `state:"score,of=mutual-information|predictive-entropy|variance"`
}

// score of the logits z, passes×c.
//
// With p_s the distribution of pass s, p their mean and H the entropy in nats,
// the mutual information of class and pass is H(p) − mean H(p_s), the
// predictive entropy is H(p), and the variance is that of p_s over passes,
// averaged over classes.
func (d disagreement) score(z []float32, c int) float64 {
	passes := len(z) / c
	probabilities, mean := make([]float64, len(z)), make([]float64, c)
	var each float64
	for s := range passes {
		zs, ps := z[s*c:(s+1)*c], probabilities[s*c:(s+1)*c]
		p := newSoftmax(zs, 1)
		for k, v := range zs {
			ps[k] = p.of(v, 1)
			mean[k] += ps[k] / float64(passes)
		}
		if d.Of == mutualInformation {
			each += entropy(zs, 1) / float64(passes)
		}
	}
	switch d.Of {
	case mutualInformation:
		return max(entropyOf(mean)-each, 0)
	case predictiveEntropy:
		return entropyOf(mean)
	}
	var sum float64
	for i, p := range probabilities {
		sum += (p - mean[i%c]) * (p - mean[i%c])
	}
	return sum / float64(len(z))
}

// entropyOf is the entropy of p in nats, precise where one class has nearly all
// of the mass.
func entropyOf(p []float64) float64 {
	top := 0
	for k, v := range p {
		if v > p[top] {
			top = k
		}
	}
	var rest, sum float64
	for k, v := range p {
		if k == top || v == 0 {
			continue
		}
		rest += v
		sum -= v * math.Log(v)
	}
	if rest < .5 {
		return sum - (1-rest)*math.Log1p(-rest)
	}
	return sum - p[top]*math.Log(p[top])
}
