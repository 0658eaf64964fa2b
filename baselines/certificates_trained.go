package baselines

import (
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/ood"
)

// CertificatesTrained are orthonormal certificates fitted by gradient descent.
var CertificatesTrained = ood.Method{
	Name: "certificates-trained",
	Doc: "Orthonormal certificates trained by Adam to map the training rows to 0, under loss bce, mse, l1 or " +
		"pinball plus lambda·mean((CᵀC−I)²); the score is mean sigmoid(Cᵀφ)² for bce and mean (Cᵀφ)² else. " +
		"loss=task is bce for a classifier and mse for a regressor. " +
		"k, unit_norm and centred as in certificates.",
	Ref:    "Tagasovska & Lopez-Paz 2019, section 3",
	Needs:  ood.NeedFeatures | ood.NeedTrainer,
	Memory: trained,
	Params: append(trainedParams(), ood.Number("lambda", 10).AtLeast(0).Over(1, 10)),
	Fit: certificatesFit(func(t ood.Training, p ood.Values) heads.CertificatesOptions {
		o := trainedOptions(t, p)
		o.Lambda = p.Float("lambda")
		return o
	}),
	New: func() ood.Fitted { return &certificates{} },
}

// trainedParams are those of linear certificates that are trained.
func trainedParams() []ood.Param {
	return []ood.Param{
		ood.Choice("loss", "task", "bce", "mse", "l1", "pinball").Over("bce", "mse", "l1", "pinball"),
		ood.Share("k", 0), ood.Count("epochs", 10), ood.Flag("unit_norm", false), ood.Flag("centred", false),
	}
}

func trainedOptions(t ood.Training, p ood.Values) heads.CertificatesOptions {
	loss := train.Loss(p.Text("loss"))
	switch {
	case loss == "task" && t.Regression:
		loss = train.MSE
	case loss == "task":
		loss = train.BCE
	}
	return heads.CertificatesOptions{Trained: true, Loss: loss, Epochs: p.Int("epochs")}
}
