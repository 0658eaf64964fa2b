package command

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// TestScoreOfTheFit checks that predict and inspect know the interval score that the fit stored.
// rcp uses only half of the 100 calibration rows for the last step, and draws them by --seed.
func TestScoreOfTheFit(t *testing.T) {
	useTestRuntime(t)
	fitted := filepath.Join(t.TempDir(), "m.attach")
	if code := Run(context.Background(), []string{
		"fit", models + "toy_regressor.onnx", "--x", models + "toy_fit.npz", "--rows", ":300", "--cal", models + "toy_cal.npz", "--cal-rows", ":100",
		"--no-detector", "--interval", "quantile-forest", "--interval-param", "n_estimators=5", "--interval-score", "rcp", "-o", fitted,
	}, nil, io.Discard, io.Discard); code != exitDone {
		t.Fatal("the fit failed")
	}
	few := "note: intervals at level 0.985 are infinite"
	for _, tt := range []struct {
		args string
		want string // in the output
		not  string // not in the output
	}{
		{"predict --seed 3", "lower", "has no effect"},
		{"predict --seed 3 --interval-score cqr", "has no effect", "lower"},
		{"predict --level 0.985", few, "attach: "},
		{"predict --level 0.985 --interval-score cqr", "lower", few},
		{"predict --level 0.985 --side upper", "lower", few},
		{"inspect", "with the score rcp", "cqr"},
	} {
		args := strings.Fields(tt.args)
		args = append([]string{args[0], fitted}, args[1:]...)
		if args[0] == "predict" {
			args = append(args, "--x", models+"toy_test.npz", "--rows", ":3")
		}
		var output bytes.Buffer
		Run(context.Background(), args, nil, &output, &output)
		if text := output.String(); !strings.Contains(text, tt.want) || strings.Contains(text, tt.not) {
			t.Errorf("%s prints %q", tt.args, text)
		}
	}
}
