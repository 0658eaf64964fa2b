package heads

import "github.com/attach-uncertainty/attach/ood"

// All are the methods that are attached, by name.
func All() []ood.Method {
	return []ood.Method{
		Certificates,
		certificatesClassMethod,
		CertificatesCoupled,
		certificatesNonlinearMethod,
		certificatesTrainedMethod,
		certificatesUnregularisedMethod,
		FusedPValues,
		FusedLayers,
		SQR,
		sqrTwoLevelMethod,
	}
}
