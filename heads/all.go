package heads

import "github.com/attach-uncertainty/attach/ood"

// All returns the methods of this package, sorted by name.
func All() []ood.Method {
	return []ood.Method{
		certificatesMethod,
		certificatesClassMethod,
		certificatesCoupledMethod,
		certificatesNonlinearMethod,
		certificatesTrainedMethod,
		certificatesUnregularisedMethod,
		fusedMethod,
		fusedLayersMethod,
		sqrMethod,
		sqrTwoLevelMethod,
	}
}
