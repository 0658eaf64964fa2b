package command

import (
	"strings"
)

// topic is a page of help about something that several commands have in common.
type topic struct {
	name, title, summary string
	intro                string // paragraphs before the table
	rows                 [][2]string
	outro                string // paragraphs after the table
}

// topics returns the pages of help that do not belong to one command.
func topics() []topic {
	return []topic{
		{
			name: "inputs", title: "inputs: files that flags such as --x read", summary: "files that flags such as --x read",
			intro: "Every flag with the value INPUTS takes one of these. The model is run on each row.",
			rows: [][2]string{
				{"a table", ".csv, .tsv, .txt, .jsonl or .parquet, one row per line. Inputs are found by their column names; --target names the target, --ignore leaves columns out."},
				{".npz", "NumPy arrays: one for each input of the model under its name, or a single one called x or images. Arrays called y or labels hold the truth."},
				{".npy", "one NumPy array; its first axis counts rows. Pass labels or targets with --y."},
				{"a folder", "images, also in sub-folders. With --folder-labels the name of a sub-folder is the label of its images."},
				{"an image", "one file, such as a .jpg or .png."},
				{"a WebDataset", ".tar, or several as shard-{000..146}.tar."},
				{"features", "an .npz file that `attach features` wrote, with --from-features or without MODEL.onnx: the model is then not run."},
			},
			outro: "Images need --preprocess at fit: a JSON file with the keys of Hugging Face's preprocessor_config.json says how the model wants them resized and scaled. The .attach file keeps it.\n\n" +
				"An empty cell, NA, null or NaN in a target or label means that it is unknown. docs/reference/inputs.md has the details.",
		},
		{
			name: "columns", title: "columns: what `attach predict` writes", summary: "columns that `attach predict` writes",
			intro: "One row per input. A column appears only if the .attach file and the flags give it a value. With several targets, columns are called prediction_0, prediction_1 and so on.",
			rows: [][2]string{
				{"input", "name of the image or file member, or the row's number from 0"},
				{"id", "with --id: the cell of that column, which identifies the row"},
				{"group, label, label_name, target", "what the rows themselves hold"},
				{"class, class_name, confidence", "the predicted class and its probability, calibrated if fit had labels"},
				{"confidence_low, confidence_high", "with --venn-abers: two probabilities, one of which is calibrated"},
				{"set, set_names, set_size", "the prediction set: it contains the true class with probability --level"},
				{"class_p_value_0, …", "with --class-p-values: the conformal p-value of each class"},
				{"prediction", "a regressor's own prediction"},
				{"median, lower, upper", "the prediction interval: it contains the target with probability --level"},
				{"factor_0_0, …, log_volume, inside", "with --region ellipsoid: the ellipsoid of all targets, its volume, and whether known targets lie in it"},
				{"q0.1, …", "with --quantiles: quantiles of the target, not conformalized"},
				{"sample1, …", "with --samples: draws from the calibrated distribution of the target"},
				{"ood_score", "how unfamiliar the input is; higher means more out-of-distribution"},
				{"p_value", "the fraction of in-distribution inputs that score at least as high"},
				{"flag", "true if p_value is at most --alpha: do not trust this prediction"},
				{"reasons", "input values that are unusual for the rows of the fit, for tables and with --explain"},
				{"accept", "with --max-error: true if the prediction is among those with at most that error rate"},
			},
			outro: "A bound is infinite (null in JSON) if the calibration rows are too few for the level, or if --side asks for the other bound. docs/reference/columns.md has the details.",
		},
		{
			name: "gates", title: "gates: conditions for --fail-if", summary: "conditions for --fail-if, which fail a CI job",
			intro: "`attach evaluate`, `attach audit` and `attach merge` exit with status 3 if the condition of a --fail-if holds. A condition is a figure, < or >, and a number. Quote it, because the shell reads < and > otherwise.",
			rows: [][2]string{
				{"violated", "number of violated guarantees; --fail-if violated is short for 'violated>0'"},
				{"too_few_rows", "number of guarantees that these rows are too few to test"},
				{"rows", "number of rows of --x: 'rows<500' fails if a file is too small to prove anything"},
				{"limits", "number of parts of the data for which a guarantee on average does not hold"},
				{"new_gaps, new_categories, out_of_range", "number of cells of --x that are unusual for the rows of the fit: empty, a new category, or far outside the range; also of an audit, always as a number"},
				{"changed_columns", "number of input columns whose values differ from the rows of the fit by more than chance; also of an audit, always as a number"},
				{"false_alarm_rate", "fraction of --x that is flagged; at another alpha: false_alarm_rate@0.01"},
				{"detection_rate", "fraction of --ood that is flagged"},
				{"auroc, fpr95", "how well scores separate --ood from --x"},
				{"uniformity", "p-value of the test that p-values are uniform"},
				{"accuracy, accuracy_unflagged", "of all rows, and of the rows that are not flagged"},
				{"nll, ece, aurc", "quality of the classifier's confidence"},
				{"accepted, selective_error", "with --max-error: fraction accepted, and error rate among them"},
				{"coverage, width", "of intervals, or of prediction sets; at another level: coverage@0.8"},
				{"worst_class, worst_predicted_class, worst_group, worst_decile, worst_width, worst_size, worst_columns, worst_slab", "lowest coverage of a part of the rows"},
				{"worst_window", "with --time: lowest coverage of successive rows by the intervals as they were calibrated"},
				{"conditional_failures", "number of ways to divide the rows in which a part is covered too rarely, by more than chance"},
				{"ert", "mean deviation of the coverage from the level, as a forest predicts it from the features; 0.02 is 2 percentage points"},
				{"rmse, mae, r2, crps", "errors of a regressor; with several targets the gate holds for each"},
				{"estimated_error, estimated_error_high", "estimated error rate: without labels, of the rows that are not flagged, and with --labelled, of all; and the upper end for all rows, flagged ones counted as wrong without --labelled"},
				{"estimated_rmse, estimated_mae", "with --labelled: estimated errors of a regressor"},
				{"discoveries, outliers_lower_bound, flagged", "of an audit: a number of inputs, or a fraction of all if the bound is between 0 and 1"},
				{"label_discoveries, label_errors_lower_bound", "of an audit with --label-errors: a number of labels, or a fraction of the known ones"},
				{"fdp_upper_bound, shift", "of an audit: the bound on the false discovery proportion, and the p-value of a shift"},
			},
			outro: "Examples: --fail-if violated, --fail-if 'coverage<0.88', --fail-if 'false_alarm_rate@0.01>0.02', --fail-if 'discoveries>0'.",
		},
		{
			name: "exit-status", title: "exit-status: what the exit status means", summary: "what the exit status means, and environment variables",
			rows: [][2]string{
				{"0", "the work is done"},
				{"1", "the work failed; the last line on standard error says why"},
				{"2", "the command was called wrongly; nothing was read or written"},
				{"3", "a gate of --fail-if holds, or `attach verify` found a difference"},
				{"ORT_LIB", "environment variable: path of the ONNX Runtime library, like --ort-lib"},
				{"NO_COLOR", "environment variable: if set, nothing is coloured"},
			},
			outro: "Results go to standard output; notes, progress and errors go to standard error.",
		},
	}
}

func findTopic(name string) *topic {
	for _, t := range topics() {
		if t.name == name {
			return &t
		}
	}
	return nil
}

func namesOfTopics() []string {
	var names []string
	for _, t := range topics() {
		names = append(names, t.name)
	}
	return names
}

// text formats the page for a terminal.
func (t *topic) text() string {
	var b strings.Builder
	for _, p := range paragraphs(t.intro) {
		writeWrapped(&b, p, "", "")
		b.WriteString("\n")
	}
	var heads, texts []string
	for _, r := range t.rows {
		heads, texts = append(heads, r[0]), append(texts, r[1])
	}
	writeDefinitions(&b, heads, texts)
	for _, p := range paragraphs(t.outro) {
		b.WriteString("\n")
		writeWrapped(&b, p, "", "")
	}
	return b.String()
}
