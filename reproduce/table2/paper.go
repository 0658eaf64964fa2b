package table2

import "github.com/attach-uncertainty/attach/reproduce/networks"

// meanStd is a cell of the paper's table of AUROC.
type meanStd struct{ mean, std float64 }

// paperTable2 is table 2 of Tagasovska & Lopez-Paz (2019): AUROC of the five
// other classes, by the name that a method has here and by set. Means and
// standard deviations are over hyper-parameters and both architectures
// (PreActResNet18 and VGG). Their BALD trains the network anew.
func paperTable2() map[string]map[string]meanStd {
	sets := []string{"cifar10", "fashion", "mnist", "svhn"}
	table := map[string]map[string]meanStd{}
	for method, cells := range map[string][4]meanStd{
		"covariance":   {{.64, 0}, {.71, .13}, {.81, 0}, {.56, 0}},
		"distance":     {{.60, .11}, {.73, .10}, {.74, .10}, {.64, .13}},
		"distillation": {{.53, .01}, {.62, .03}, {.71, .05}, {.56, .03}},
		"entropy":      {{.80, .01}, {.86, .01}, {.91, .01}, {.93, .01}},
		"functional":   {{.79, 0}, {.87, .02}, {.92, .01}, {.92, 0}},
		"geometrical":  {{.70, .11}, {.66, .07}, {.75, .10}, {.77, .13}},
		"largest":      {{.78, .02}, {.85, .02}, {.89, .01}, {.93, .01}},
		"odin":         {{.74, .09}, {.84, 0}, {.89, 0}, {.88, .08}},
		"pca":          {{.60, .09}, {.57, .07}, {.64, .06}, {.55, .03}},
		"random":       {{.50, 0}, {.51, 0}, {.51, 0}, {.50, 0}},
		"svdd":         {{.52, .01}, {.54, .03}, {.59, .03}, {.51, .01}},
		"bald":         {{.80, .04}, {.95, .02}, {.95, .02}, {.90, .01}},

		"certificates-trained":       {{.83, .01}, {.92, 0}, {.95, 0}, {.91, 0}},
		"certificates-unregularised": {{.78, 0}, {.87, 0}, {.91, 0}, {.88, 0}},

		"oracle": {{.94, 0}, {1, 0}, {1, 0}, {.99, 0}},
	} {
		table[method] = map[string]meanStd{}
		for i, set := range sets {
			table[method][set] = cells[i]
		}
	}
	// The paper has one row of certificates, trained ones.
	table["certificates"] = table["certificates-trained"]
	return table
}

// paperAUROC is the paper's figure beside ours: of the other five classes alone.
func paperAUROC(n networks.Network, out, method string) (meanStd, bool) {
	if out != networks.OtherClasses {
		return meanStd{}, false
	}
	cell, ok := paperTable2()[method][n.Set]
	return cell, ok
}
