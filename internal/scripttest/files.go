package scripttest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// scriptArray implements the script command `array FILE SPEC…`. It writes an .npy file (one
// SPEC) or an .npz file. A SPEC is [NAME=]DTYPE:SHAPE[:INDEX=VALUE…], for example
// x=float32:40x6:15=nan. A floating-point element is computed from its index with a sine and
// a cosine. An integer element is its index modulo 4.
func scriptArray(ts *testscript.TestScript, neg bool, args []string) {
	arrays := map[string]rows.Array{}
	for _, spec := range args[1:] {
		name, rest := "", spec
		if head, _, _ := strings.Cut(spec, ":"); strings.Contains(head, "=") {
			name, rest, _ = strings.Cut(spec, "=")
		}
		arrays[name] = parseArray(ts, strings.Split(rest, ":"))
	}
	var b bytes.Buffer
	if strings.HasSuffix(args[0], ".npz") {
		ts.Check(npy.WriteNPZ(&b, arrays, false))
	} else {
		ts.Check(npy.Write(&b, arrays[""]))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o666))
}

// scriptThin implements the script command `thin OUT.npz IN.npz N`. It writes every N-th
// row of each array of an .npz file.
func scriptThin(ts *testscript.TestScript, neg bool, args []string) {
	z, err := npy.OpenNPZ(ts.MkAbs(args[1]))
	ts.Check(err)
	every, err := strconv.Atoi(args[2])
	ts.Check(err)
	thinned := map[string]rows.Array{}
	for _, name := range z.Names() {
		l, err := z.Entry(name)
		ts.Check(err)
		a, err := l.Read()
		ts.Check(err)
		switch data := a.Data.(type) {
		case []uint8:
			a.Data = everyNth(every, data, l.RowLen())
		case []int64:
			a.Data = everyNth(every, data, l.RowLen())
		case []float32:
			a.Data = everyNth(every, data, l.RowLen())
		default:
			ts.Fatalf("%s holds %T", args[1], data)
		}
		a.Shape = append([]int{(l.Rows() + every - 1) / every}, a.Shape[1:]...)
		thinned[name] = a
	}
	var b bytes.Buffer
	ts.Check(npy.WriteNPZ(&b, thinned, false))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o666))
}

func everyNth[T any](every int, data []T, width int) (kept []T) {
	for i := 0; i < len(data); i += every * width {
		kept = append(kept, data[i:i+width]...)
	}
	return kept
}

func parseArray(ts *testscript.TestScript, parts []string) rows.Array {
	n := 1
	var a rows.Array
	for _, d := range strings.Split(parts[1], "x") {
		size, err := strconv.Atoi(d)
		ts.Check(err)
		a.Shape = append(a.Shape, size)
		n *= size
	}
	values := make([]float64, n)
	for i := range values {
		if values[i] = math.Sin(float64(i*i%1009)) + math.Cos(float64(i)); !strings.HasPrefix(parts[0], "float") {
			values[i] = float64(i % 4)
		}
	}
	for _, set := range parts[2:] {
		index, value, _ := strings.Cut(set, "=")
		i, err := strconv.Atoi(index)
		ts.Check(err)
		values[i], err = strconv.ParseFloat(value, 64)
		ts.Check(err)
	}
	switch parts[0] {
	case "float32":
		a.Data = convert[float32](values)
	case "float64":
		a.Data = values
	case "int64":
		a.Data = convert[int64](values)
	case "uint8":
		a.Data = convert[uint8](values)
	default:
		ts.Fatalf("dtype %q", parts[0])
	}
	return a
}

func convert[T float32 | int64 | uint8](values []float64) []T {
	out := make([]T, len(values))
	for i, v := range values {
		out[i] = T(v)
	}
	return out
}

// scriptKilled implements the script command `killed N ARGS…`. It starts attach and kills
// it, again and again, until attach completes. The mean time before a kill grows. The script
// fails if attach completes before N kills, or does not complete after 50.
func scriptKilled(ts *testscript.TestScript, neg bool, args []string) {
	minKills, err := strconv.Atoi(args[0])
	ts.Check(err)
	path := ""
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if p, err := exec.LookPath(filepath.Join(dir, "attach")); err == nil {
			path = p
			break
		}
	}
	const maxKills = 50
	random := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	for kills := range maxKills {
		cmd := exec.Command(path, args[1:]...)
		cmd.Dir = ts.Getenv("WORK")
		for _, name := range []string{"PATH", "HOME", "ORT_LIB", "MODELS"} {
			cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
		}
		ts.Check(cmd.Start())
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		select {
		case err := <-done:
			if err != nil {
				ts.Fatalf("attach failed after %d kills: %v", kills, err)
			}
			if kills < minKills {
				ts.Fatalf("attach was killed %d times, want %d", kills, minKills)
			}
			return
		case <-time.After(time.Duration(math.Pow(1.3, float64(kills)) * (1 + random.Float64()) * float64(10*time.Millisecond))):
			ts.Check(cmd.Process.Kill())
			<-done
		}
	}
	ts.Fatalf("attach did not complete after %d kills", maxKills)
}

// scriptHeld implements the script command `held FOLDER`. It locks a folder until the
// script ends, so that no other process can write results to it.
func scriptHeld(ts *testscript.TestScript, neg bool, args []string) {
	unlock, err := atomicfile.Lock(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Defer(unlock)
}

// scriptTruncate implements the script command `truncate FILE FRACTION`. It truncates a
// file to a fraction of its length.
func scriptTruncate(ts *testscript.TestScript, neg bool, args []string) {
	content := ts.ReadFile(args[0])
	fraction, err := strconv.ParseFloat(args[1], 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), int64(fraction*float64(len(content)))))
}

// scriptPack implements the script command `pack FILE FOLDER`. It writes a .tar file with
// the contents of a folder.
func scriptPack(ts *testscript.TestScript, neg bool, args []string) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	ts.Check(w.AddFS(os.DirFS(ts.MkAbs(args[1]))))
	ts.Check(w.Close())
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o666))
}

// scriptHub implements the script command `hub FILE FOLDER`. It writes a .parquet file in
// the format of Hugging Face's datasets. The file holds the images in the sub-folders of
// FOLDER, and the name of its sub-folder is the class of an image.
func scriptHub(ts *testscript.TestScript, neg bool, args []string) {
	type picture struct {
		Bytes []byte `parquet:"bytes"`
		Path  string `parquet:"path"`
	}
	type row struct {
		Image picture `parquet:"image"`
		Label int     `parquet:"label"`
	}
	var all []row
	classes := map[string]int{}
	ts.Check(fs.WalkDir(os.DirFS(ts.MkAbs(args[1])), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		class, _, _ := strings.Cut(path, "/")
		if _, known := classes[class]; !known {
			classes[class] = len(classes)
		}
		content, err := os.ReadFile(filepath.Join(ts.MkAbs(args[1]), path))
		all = append(all, row{picture{content, path}, classes[class]})
		return err
	}))
	names, err := json.Marshal(slices.Sorted(maps.Keys(classes)))
	ts.Check(err)
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b, parquet.KeyValueMetadata("huggingface", fmt.Sprintf(`{"info": {"features": {"label": {"names": %s}}}}`, names)))
	_, err = w.Write(all)
	ts.Check(err)
	ts.Check(w.Close())
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o666))
}

// scriptFlip implements the script command `flip FILE FRACTION`. It changes one bit of the
// byte at a fraction of a file's length.
func scriptFlip(ts *testscript.TestScript, neg bool, args []string) {
	content := []byte(ts.ReadFile(args[0]))
	fraction, err := strconv.ParseFloat(args[1], 64)
	ts.Check(err)
	content[int(fraction*float64(len(content)))] ^= 1
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), content, 0o666))
}

// scriptReplace implements the script command `replace FILE OLD NEW`. It replaces the first
// occurrence of a text in a file.
func scriptReplace(ts *testscript.TestScript, neg bool, args []string) {
	content := ts.ReadFile(args[0])
	if !strings.Contains(content, args[1]) {
		ts.Fatalf("%s does not contain %q", args[0], args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Replace(content, args[1], args[2], 1)), 0o666))
}

// scriptRezip implements the script command `rezip FILE ENTRY OLD NEW`. It replaces the first
// occurrence of a text in one entry of a zip archive.
func scriptRezip(ts *testscript.TestScript, neg bool, args []string) {
	rezip(ts, args[0], func(entries map[string][]byte) {
		if !bytes.Contains(entries[args[1]], []byte(args[2])) {
			ts.Fatalf("%s: %s does not contain %q", args[0], args[1], args[2])
		}
		entries[args[1]] = bytes.Replace(entries[args[1]], []byte(args[2]), []byte(args[3]), 1)
	})
}

// scriptReseal implements the script commands `reseal FILE ENTRY=SPEC` and `reseal FILE OLD
// NEW`. The first replaces an array of a .attach file, with a SPEC as in scriptArray. The
// second replaces the first occurrence of a text in the manifest. Both update the checksums.
func scriptReseal(ts *testscript.TestScript, neg bool, args []string) {
	const manifest = "manifest.json"
	hash := func(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
	rezip(ts, args[0], func(entries map[string][]byte) {
		m := string(entries[manifest])
		if len(args) == 2 {
			name, spec, _ := strings.Cut(args[1], "=")
			a := parseArray(ts, strings.Split(spec, ":"))
			var b bytes.Buffer
			ts.Check(npy.Write(&b, a))
			entries[name] = b.Bytes()
			shape := strings.ReplaceAll(strings.Trim(fmt.Sprint(a.Shape), "[]"), " ", ",\n        ")
			entry := regexp.MustCompile(`("name": "` + regexp.QuoteMeta(name) + `",\s+"dtype": ")[^"]+(",\s+"shape": \[\s+)[^]]+(\s+\],\s+"bytes": )\d+(,\s+"sha256": ")\w+`)
			if !entry.MatchString(m) {
				ts.Fatalf("%s lists no array %s", args[0], name)
			}
			dtype, _, _ := strings.Cut(spec, ":")
			m = entry.ReplaceAllString(m, fmt.Sprintf("${1}%s${2}%s\n      ],\n      \"bytes\": %d${4}%s", dtype, shape, b.Len(), hash(b.Bytes())))
		} else if m = strings.Replace(m, args[1], args[2], 1); m == string(entries[manifest]) {
			ts.Fatalf("%s: the manifest does not contain %q", args[0], args[1])
		}
		entries[manifest] = []byte(m)
		entries["manifest.sha256"] = []byte(hash([]byte(m)) + "  " + manifest + "\n")
	})
}

// rezip rewrites a zip archive after change has edited its entries.
func rezip(ts *testscript.TestScript, file string, change func(entries map[string][]byte)) {
	content := ts.ReadFile(file)
	r, err := zip.NewReader(strings.NewReader(content), int64(len(content)))
	ts.Check(err)
	entries := map[string][]byte{}
	for _, f := range r.File {
		in, err := f.Open()
		ts.Check(err)
		entries[f.Name], err = io.ReadAll(in)
		ts.Check(err)
	}
	change(entries)
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		out, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		ts.Check(err)
		_, err = out.Write(entries[name])
		ts.Check(err)
	}
	ts.Check(w.Close())
	ts.Check(os.WriteFile(ts.MkAbs(file), b.Bytes(), 0o666))
}

// scriptColumns implements the script command `columns FILE ROWS NAMES`. It checks the
// columns and the number of rows of a table. In a CSV file (or stdout) and a .parquet file,
// the order of the columns matters. An .npz file has one array for each column, in any
// order. Its array "set" may have any number of rows.
func scriptColumns(ts *testscript.TestScript, neg bool, args []string) {
	rows, err := strconv.Atoi(args[1])
	ts.Check(err)
	want := strings.Split(args[2], ",")
	if strings.HasSuffix(args[0], ".npz") {
		z, err := npy.OpenNPZ(ts.MkAbs(args[0]))
		ts.Check(err)
		if got := slices.Sorted(slices.Values(z.Names())); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			ts.Fatalf("arrays %v, want %v", got, want)
		}
		for _, name := range want {
			if l, err := z.Entry(name); err != nil || l.Rows() != rows && name != "set" {
				ts.Fatalf("%s: %v, shape %v, want %d rows", name, err, l.Shape, rows)
			}
		}
		return
	}
	if strings.HasSuffix(args[0], ".parquet") {
		text := ts.ReadFile(args[0])
		f, err := parquet.OpenFile(strings.NewReader(text), int64(len(text)))
		ts.Check(err)
		var got []string
		for _, column := range f.Root().Columns() {
			got = append(got, column.Name())
		}
		if !slices.Equal(got, want) || f.NumRows() != int64(rows) {
			ts.Fatalf("%d rows of %v, want %d of %v", f.NumRows(), got, rows, want)
		}
		return
	}
	records, err := csv.NewReader(strings.NewReader(ts.ReadFile(args[0]))).ReadAll()
	ts.Check(err)
	if !slices.Equal(records[0], want) || len(records)-1 != rows {
		ts.Fatalf("%d rows of %v, want %d of %v", len(records)-1, records[0], rows, want)
	}
}

// scriptEntries implements the script command `entries FILE NAME:ROWS…`. It checks that an
// .npz file contains exactly these arrays, with these numbers of rows.
func scriptEntries(ts *testscript.TestScript, neg bool, args []string) {
	z, err := npy.OpenNPZ(ts.MkAbs(args[0]))
	ts.Check(err)
	var got []string
	for _, name := range z.Names() {
		l, err := z.Entry(name)
		ts.Check(err)
		got = append(got, name+":"+strconv.Itoa(l.Rows()))
	}
	if want := slices.Sorted(slices.Values(args[1:])); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		ts.Fatalf("%s holds %v, want %v", args[0], got, want)
	}
}

// scriptShape implements the script command `shape FILE NAME AxBxC`. It checks the shape of
// one array of an .npz file.
func scriptShape(ts *testscript.TestScript, neg bool, args []string) {
	z, err := npy.OpenNPZ(ts.MkAbs(args[0]))
	ts.Check(err)
	l, err := z.Entry(args[1])
	ts.Check(err)
	if got := strings.ReplaceAll(strings.Trim(fmt.Sprint(l.Shape), "[]"), " ", "x"); got != args[2] {
		ts.Fatalf("%s has shape %s, want %s", args[1], got, args[2])
	}
}

// scriptJSON implements the script command `json FILE PATH [VALUE]`. It checks that a JSON
// document has an element at a path, and that it equals VALUE. With !, the element must
// differ from VALUE. A path is, for example, methods.0.auroc.mean. In a path, * stands for
// every element of a list.
func scriptJSON(ts *testscript.TestScript, neg bool, args []string) {
	var doc any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &doc))
	found := []any{doc}
	for key := range strings.SplitSeq(args[1], ".") {
		var next []any
		for _, v := range found {
			switch v := v.(type) {
			case map[string]any:
				child, ok := v[key]
				if !ok {
					ts.Fatalf("%s: there is no %q among %v", args[1], key, slices.Sorted(maps.Keys(v)))
				}
				next = append(next, child)
			case []any:
				if key == "*" {
					next = append(next, v...)
					continue
				}
				i, err := strconv.Atoi(key)
				ts.Check(err)
				next = append(next, v[i])
			default:
				ts.Fatalf("%s: %q does not exist in %v", args[1], key, v)
			}
		}
		found = next
	}
	if len(found) == 0 {
		ts.Fatalf("%s: the list is empty", args[1])
	}
	if len(args) < 3 {
		return
	}
	var want any
	ts.Check(json.Unmarshal([]byte(args[2]), &want))
	for _, v := range found {
		if reflect.DeepEqual(v, want) == neg {
			ts.Fatalf("%s is %v, want %v", args[1], v, want)
		}
	}
}
