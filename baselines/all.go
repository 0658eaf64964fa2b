package baselines

import "github.com/attach-uncertainty/attach/ood"

// All lists every method, in alphabetical order.
//
// Left out: the logistic regression oracle, which is fitted with out-of-domain
// rows; and distillation and SVDD.
var All = []ood.Method{
	BALD,
	BALDFeatures,
	Certificates,
	CertificatesTrained,
	CertificatesUnregularised,
	Covariance,
	Distance,
	Entropy,
	Functional,
	Geometrical,
	GeometricalFeatures,
	GradNorm,
	KNN,
	Largest,
	Mahalanobis,
	ODIN,
	ODINFeatures,
	PCA,
	Random,
	RelativeMahalanobis,
	Residual,
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
