package baselines

import "github.com/attach-uncertainty/attach/ood"

// All lists every method, in alphabetical order.
var All = []ood.Method{
	ASHB,
	ASHS,
	BALD,
	BALDFeatures,
	Certificates,
	CertificatesClass,
	CertificatesCoupled,
	CertificatesNonlinear,
	CertificatesTrained,
	CertificatesUnregularised,
	CoP,
	CoRP,
	Covariance,
	DICE,
	Distance,
	Distillation,
	Energy,
	Entropy,
	FDBD,
	Functional,
	FusedPValues,
	FusedLayers,
	GaussianMixture,
	GEN,
	Geometrical,
	GeometricalFeatures,
	GradNorm,
	IsolationForest,
	KLMatching,
	KNN,
	Largest,
	LOF,
	Mahalanobis,
	MahalanobisLayers,
	MaxLogit,
	NCI,
	NECO,
	NNGuide,
	ODIN,
	ODINFeatures,
	OneClassSVM,
	OpenMax,
	Oracle,
	PCA,
	Random,
	ReAct,
	RelativeMahalanobis,
	Residual,
	SCALE,
	SHE,
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
