package baselines

import "github.com/attach-uncertainty/attach/ood"

// All lists every method, in alphabetical order.
var All = []ood.Method{
	BALD,
	BALDFeatures,
	Certificates,
	CertificatesTrained,
	CertificatesUnregularised,
	Covariance,
	Distance,
	Distillation,
	Energy,
	Entropy,
	Functional,
	GEN,
	Geometrical,
	GeometricalFeatures,
	GradNorm,
	KLMatching,
	KNN,
	Largest,
	Mahalanobis,
	MaxLogit,
	ODIN,
	ODINFeatures,
	Oracle,
	PCA,
	Random,
	RelativeMahalanobis,
	Residual,
	SVDD,
	ViM,
}

// ByName finds a method of All.
func ByName(name string) (ood.Method, bool) {
	for _, m := range All {
		if m.Name == name {
			return m, true
		}
	}
	return ood.Method{}, false
}
