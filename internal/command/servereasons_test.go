package command

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/attach-uncertainty/attach/internal/inference"
)

// TestServeReasons checks the output reasons over REST and gRPC, for a table, texts and images.
// It is sent only on request.
func TestServeReasons(t *testing.T) {
	dir := t.TempDir()
	models := "../../testmodels/"
	fit := func(name string, args ...string) string {
		path := filepath.Join(dir, name+".attach")
		mustRun(t, append(append([]string{"fit"}, args...), "-o", path)...)
		return path
	}
	preprocessing := filepath.Join(dir, "preprocess.json") // with a size, so that images of other sizes can be sent
	if err := os.WriteFile(preprocessing, []byte(`{"do_resize": true, "size": {"height": 24, "width": 24}, "rescale_factor": 0.00392156862745098, "image_mean": [0.5], "image_std": [0.5]}`), 0o666); err != nil {
		t.Fatal(err)
	}
	address, grpcAddress, end := startServerGRPC(t, "--grpc", "127.0.0.1:0",
		fit("table", models+"tables/columns.onnx", "--x", models+"tables/kinds_fit.csv", "--target", "level"),
		fit("text", models+"text/model.onnx", "--x", models+"text/fit.csv", "--target", "intent"),
		fit("image", models+"digits_resnet.onnx", "--x", models+"images", "--preprocess", preprocessing))
	defer end()
	send := func(path, body string) string {
		t.Helper()
		r, err := http.Post(address+"/v2/models/"+path, "", strings.NewReader(body))
		if body == "" {
			r, err = http.Get(address + "/v2/models/" + path)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		content, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	reasons := func(model, inputs string) []string {
		t.Helper()
		var answer struct{ Outputs []struct{ Data []string } }
		text := send(model+"/infer", `{"inputs": [`+inputs+`], "outputs": [{"name": "reasons"}]}`)
		if err := json.Unmarshal([]byte(text), &answer); err != nil || len(answer.Outputs) != 1 {
			t.Fatalf("%s: %v", text, err)
		}
		return answer.Outputs[0].Data
	}
	const row = `{"name": "temperature", "datatype": "FP32", "shape": [2, 1], "data": [21.5, 9000]}, {"name": "age", "datatype": "FP32", "shape": [2, 1], "data": [794, 424]},
		{"name": "load", "datatype": "FP32", "shape": [2, 1], "data": [0.46, 0.8]}, {"name": "voltage", "datatype": "FP32", "shape": [2, 1], "data": [11.6, -3e4]},
		{"name": "kind", "datatype": "BYTES", "shape": [2, 1], "data": ["steel", "paper"]}`
	if got := reasons("table", row); len(got) != 2 || got[0] != "" || !strings.HasPrefix(got[1], "temperature = 9000 (fit rows: ") || !strings.Contains(got[1], "); voltage = -30000 (fit rows: ") {
		t.Errorf("the reasons of a table are %q", got)
	}
	// This model fails on a category that it was not trained on.
	if answer := send("table/infer", `{"inputs": [`+strings.Replace(row, "paper", "wood", 1)+`]}`); !strings.Contains(answer, `row 1 (counted from 0): kind = \"wood\" (new category)"}`) {
		t.Errorf("with a new category, the answer is %s", answer)
	}
	if answer := send("table/infer", `{"inputs": [`+row+`]}`); strings.Contains(answer, "reasons") || !strings.Contains(answer, "p_value") {
		t.Errorf("without outputs, the answer is %s", answer)
	}
	if md := send("table", ""); !strings.Contains(md, `{"name":"kind","datatype":"BYTES","shape":[-1,1],"parameters":{"columns":["kind"]}}`) || !strings.Contains(md, `{"name":"reasons","datatype":"BYTES","shape":[-1]}`) {
		t.Errorf("the metadata is %s", md)
	}
	long := strings.Repeat("set an alarm for eight thirty ", 500)
	if got := reasons("text", fmt.Sprintf(`{"name": "sentence", "datatype": "BYTES", "shape": [2], "data": ["set an alarm for eight", %q]}`, long)); len(got) != 2 || got[0] != "" || !strings.Contains(got[1], "words = 3000 (fit rows: ") {
		t.Errorf("the reasons of texts are %q", got)
	}
	for file, want := range map[string]string{models + "images/3/0.png": "", "../../preprocess/testdata/photo.png": "image height = 48 (fit rows: "} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got := reasons("image", fmt.Sprintf(`{"name": "image", "datatype": "BYTES", "shape": [1], "data": [%q]}`, base64.StdEncoding.EncodeToString(content)))
		if len(got) != 1 || !strings.Contains(got[0], want) || want == "" && got[0] != "" {
			t.Errorf("the reasons of %s are %q, want %q", file, got, want)
		}
	}
	c, err := grpc.NewClient(grpcAddress(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in := &inference.ModelInferRequest{ModelName: "text", Outputs: []*inference.ModelInferRequest_InferRequestedOutputTensor{{Name: "reasons"}}}
	in.Inputs = []*inference.ModelInferRequest_InferInputTensor{{Name: "text", Datatype: "BYTES", Shape: []int64{1}, Contents: &inference.InferTensorContents{BytesContents: [][]byte{[]byte(long)}}}}
	infer := func() *inference.ModelInferResponse {
		out := &inference.ModelInferResponse{}
		if err := c.Invoke(t.Context(), "/inference.GRPCInferenceService/ModelInfer", in, out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := string(infer().Outputs[0].Contents.BytesContents[0])
	if !strings.Contains(want, "words = 3000 (fit rows: ") {
		t.Errorf("over gRPC, the reasons of a text are %q", want)
	}
	in.Inputs[0].Contents, in.RawInputContents = nil, [][]byte{append(binary.LittleEndian.AppendUint32(nil, uint32(len(long))), long...)}
	if raw := infer().RawOutputContents[0]; string(raw[4:]) != want {
		t.Errorf("in raw contents, they are %q", raw)
	}
}
