package baselines

import "github.com/attach-uncertainty/attach/ood"

// FusedLayers fuses certificates of the last layer with what earlier layers
// show: the former tell new classes, the latter another kind of input. Since
// these are seen there, the last layer's logits count more than where it stands
// alone, and the length of features, which is short where nothing is
// recognised, is left in.
var FusedLayers = WeightedFused("fused-layers", Fisher,
	Component{Method: CertificatesCoupled, Params: ood.Params{"unit_norm": false, "weight": .67}, Weight: 2},
	Component{Method: MahalanobisLayers, Weight: 1})
