package table2

import "github.com/attach-uncertainty/attach/ood"

// meanStd is an AUROC of the paper's table: mean and standard deviation.
type meanStd struct{ mean, std float64 }

// paperSets lists the sets of the paper's table, in its order.
func paperSets() []string { return []string{"cifar10", "fashion", "mnist", "svhn"} }

// paperRow is a row of the paper's table, with the grid of the method. Additional rows of
// ours have no published values.
type paperRow struct {
	name, method string
	grid         []ood.Params // nil means the method's own grid
	published    []meanStd    // in the order of paperSets; nil for our additional rows
}

// paperRows returns table 2 of Tagasovska & Lopez-Paz (2019). It lists AUROCs against the
// five other classes, with means and standard deviations over the grid of the paper's
// appendix.
//
// The authors' released sweep differs from the appendix for some methods. For example, it
// has fewer configurations of certificates, and uses both the first and the last components
// of PCA. In these cases, the rows use the grid of the sweep. The authors' networks are a
// PreActResNet18 and a VGG, trained for 200 epochs. Their BALD and SVDD train a new network,
// but SVDD here works on features.
func paperRows() []paperRow {
	certificates := func(loss string, epochs float64, lambdas ...any) []ood.Params {
		return product(ood.Params{"loss": loss, "k": 100., "epochs": epochs}, axis{"lambda", lambdas})
	}
	// The grid repeats the configuration with logits for three temperatures, although the
	// logits do not depend on the temperature.
	margins := func(shared ood.Params) []ood.Params {
		grid := product(shared, axis{"temperature", []any{1., 2., 10.}})
		for range 3 {
			grid = append(grid, product(shared, axis{"logits", []any{true}})...)
		}
		return grid
	}
	smallGrid := product(nil, axis{"k", []any{100., 1000.}}, axis{"epochs", []any{10., 100.}})
	pca := func(square bool) []ood.Params {
		return product(ood.Params{"square": square}, axis{"where", []any{"bottom", "top"}}, axis{"k", []any{1., 10., 100.}})
	}
	return []paperRow{
		{"covariance", "covariance", product(nil, axis{"lambda", []any{1e-5, 1e-3, 1e-1, 1.}}), []meanStd{{.64, 0}, {.71, .13}, {.81, 0}, {.56, 0}}},
		{"distance", "distance", product(nil, axis{"percentile", []any{0., 1., 10., 50.}}), []meanStd{{.60, .11}, {.73, .10}, {.74, .10}, {.64, .13}}},
		{"distillation", "distillation", smallGrid, []meanStd{{.53, .01}, {.62, .03}, {.71, .05}, {.56, .03}}},
		{"entropy", "entropy", product(nil, axis{"temperature", []any{1., 2., 10.}}), []meanStd{{.80, .01}, {.86, .01}, {.91, .01}, {.93, .01}}},
		{"functional", "functional", margins(nil), []meanStd{{.79, 0}, {.87, .02}, {.92, .01}, {.92, 0}}},
		{"geometrical", "geometrical", margins(ood.Params{"gradient": "sum"}), []meanStd{{.70, .11}, {.66, .07}, {.75, .10}, {.77, .13}}},
		{"largest", "largest", margins(nil), []meanStd{{.78, .02}, {.85, .02}, {.89, .01}, {.93, .01}}},
		{"ODIN", "odin", product(nil, axis{"epsilon", []any{.014, .0014, .00014}}, axis{"temperature", []any{100., 1000., 10000.}}), []meanStd{{.74, .09}, {.84, 0}, {.89, 0}, {.88, .08}}},
		{"PCA", "pca", pca(false), []meanStd{{.60, .09}, {.57, .07}, {.64, .06}, {.55, .03}}},
		{"PCA, squared norm", "pca", pca(true), nil},
		{"random", "random", nil, []meanStd{{.50, 0}, {.51, 0}, {.51, 0}, {.50, 0}}},
		{"SVDD", "svdd", smallGrid, []meanStd{{.52, .01}, {.54, .03}, {.59, .03}, {.51, .01}}},
		{"BALD", "bald", []ood.Params{{"passes": 100.}}, []meanStd{{.80, .04}, {.95, .02}, {.95, .02}, {.90, .01}}},
		{"certificates, trained", "certificates-trained", certificates("bce", 10, 0., 1., 10.), []meanStd{{.83, .01}, {.92, 0}, {.95, 0}, {.91, 0}}},
		{"certificates, lambda 1 and 10", "certificates-trained", certificates("bce", 10, 1., 10.), nil},
		{"certificates, unregularised", "certificates-trained", certificates("bce", 10, 0.), []meanStd{{.78, 0}, {.87, 0}, {.91, 0}, {.88, 0}}},
		{"certificates, 100 epochs", "certificates-trained", certificates("bce", 100, 0., 1., 10.), nil},
		{"certificates, squared errors", "certificates-trained", certificates("mse", 10, 0., 1., 10.), nil},
		{"certificates, absolute errors", "certificates-trained", certificates("l1", 10, 0., 1., 10.), nil},
		{"certificates, pinball losses", "certificates-trained", certificates("pinball", 10, 0., 1., 10.), nil},
		{"certificates, exact", "certificates", nil, nil},
		{"oracle", "oracle", nil, []meanStd{{.94, 0}, {1, 0}, {1, 0}, {.99, 0}}},
	}
}

// axis lists the values of one parameter.
type axis struct {
	name   string
	values []any
}

// product returns every combination of the axes' values, together with the parameters in
// shared.
func product(shared ood.Params, axes ...axis) []ood.Params {
	grid := []ood.Params{shared}
	for _, a := range axes {
		var extended []ood.Params
		for _, p := range grid {
			for _, v := range a.values {
				q := ood.Params{a.name: v}
				for name, value := range p {
					q[name] = value
				}
				extended = append(extended, q)
			}
		}
		grid = extended
	}
	return grid
}
