package heads

import "github.com/attach-uncertainty/attach/ood"

// CertificatesUnregularised are trained certificates that may all be alike.
var CertificatesUnregularised = ood.Method{
	Name: "certificates-unregularised",
	Doc: "certificates-trained with lambda=0: nothing but the random start and the number of steps keeps " +
		"the linear functions apart and away from 0.",
	Ref:    "Tagasovska & Lopez-Paz 2019, table 2",
	Needs:  ood.NeedFeatures | ood.NeedTrainer,
	Memory: trainedMemory,
	Params: trainedParams(),
	Fit:    fitTrained,
	New:    func() ood.Fitted { return &certificates{} },
}
