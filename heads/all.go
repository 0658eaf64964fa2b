package heads

import "github.com/attach-uncertainty/attach/ood"

// All lists what is attached, in alphabetical order.
var All = []ood.Method{
	Certificates,
	CertificatesClass,
	CertificatesCoupled,
	CertificatesNonlinear,
	CertificatesTrained,
	CertificatesUnregularised,
	FusedPValues,
	FusedLayers,
	SQR,
	SQRTwoLevel,
}
