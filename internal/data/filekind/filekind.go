// Package filekind identifies the kind of a file that was passed by mistake.
package filekind

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind names a kind of file, with an article. Kind implements error so that an error about
// a file can wrap it. The empty Kind stands for an unknown kind.
type Kind string

// Kinds of files that Of recognizes, and Folder.
const (
	Empty   Kind = "an empty file"
	Folder  Kind = "a folder"
	ONNX    Kind = "an ONNX model"
	Attach  Kind = "a .attach file"
	NPZ     Kind = "an .npz file of arrays"
	NPY     Kind = "a NumPy array"
	Parquet Kind = "a Parquet file"
	Zip     Kind = "a zip file"
	Image   Kind = "an image"
	JSON    Kind = "a JSON file"
	Text    Kind = "a text file, such as a table"
)

// Error names the kind of the file.
func (k Kind) Error() string { return string(k) }

// Rows reports whether files of this kind can contain rows. It returns false for JSON,
// although a file of JSON lines has rows.
func (k Kind) Rows() bool {
	switch k {
	case Folder, NPZ, NPY, Parquet, Image, Text:
		return true
	}
	return false
}

// Of returns the kind of a file, given the first 512 bytes or all bytes of the file.
func Of(head []byte) Kind {
	if len(head) == 0 {
		return Empty
	}
	for magic, kind := range map[string]Kind{"\x93NUMPY": NPY, "PAR1": Parquet, "\x89PNG": Image, "\xff\xd8\xff": Image, "{": JSON, "[": JSON} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return kind
		}
	}
	if bytes.HasPrefix(head, []byte("PK\x03\x04")) {
		return zipKind(head)
	}
	// An ONNX model starts with its format version (field 1). The listed bytes are the tags
	// of the fields that can follow.
	if len(head) > 3 && head[0] == 0x08 && head[1] < 0x40 && bytes.IndexByte([]byte{0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42, 0x72}, head[2]) >= 0 {
		return ONNX
	}
	text := string(head[:min(len(head), 512)])
	for !utf8.ValidString(text) && len(text) > 508 { // the last character may be cut off
		text = text[:len(text)-1]
	}
	if utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }) {
		return Text
	}
	return ""
}

// zipKind returns the kind of a zip archive, judged by the name of the first file in it.
func zipKind(head []byte) Kind {
	if len(head) >= 30 {
		n := min(int(binary.LittleEndian.Uint16(head[26:])), len(head)-30)
		switch name := string(head[30 : 30+n]); {
		case name == "manifest.json", strings.HasPrefix(name, "calibration/"):
			return Attach
		case strings.HasSuffix(name, ".npy"):
			return NPZ
		}
	}
	return Zip
}
