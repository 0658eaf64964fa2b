package ort

import "runtime"

const pinnedVersion = "1.30.0"

// These constants are the values of pin.source.
const (
	sourcePip = "pip"
	sourceNpm = "npm"
)

// pin describes a published package of one client for one platform, with the SHA-256 of
// each library file in it.
type pin struct {
	source   string
	gpu      bool
	platform string // GOOS/GOARCH, for example "linux/amd64"
	spec     string // package and version that the client downloads
	wheel    string // pip's platform tag of the wheel
	files    []pinnedFile
}

type pinnedFile struct {
	member string // path of the file in the package
	name   string // name of the file in the cache
	sha256 string
}

// pins lists the published packages of pinnedVersion. To change the version, download the
// packages with the commands in client.go, unpack them and compute
//
//	sha256sum package/bin/napi-v6/*/*/*onnxruntime.* package/bin/napi-v6/*/*/DirectML.dll # npm
//	sha256sum onnxruntime/capi/*onnxruntime.* onnxruntime/capi/*onnxruntime_providers_* # pip
//
// or run TestPinsPublished with ATTACH_PINS=1, which reports the checksums that differ.
var pins = []pin{
	{source: sourcePip, platform: "linux/amd64", spec: "onnxruntime==" + pinnedVersion, wheel: "manylinux_2_28_x86_64", files: []pinnedFile{
		{"onnxruntime/capi/libonnxruntime.so.1.30.0", "libonnxruntime.so", "c902c70b3003c0e99fada202f37478c515ae9bba7944c2b2abd0017bae0c82ed"},
	}},
	{source: sourcePip, platform: "linux/arm64", spec: "onnxruntime==" + pinnedVersion, wheel: "manylinux_2_28_aarch64", files: []pinnedFile{
		{"onnxruntime/capi/libonnxruntime.so.1.30.0", "libonnxruntime.so", "8a218e1e446880131115c368ec7005969a5022af9a15a26173de648fef0b7789"},
	}},
	{source: sourcePip, platform: "darwin/arm64", spec: "onnxruntime==" + pinnedVersion, wheel: "macosx_14_0_arm64", files: []pinnedFile{
		{"onnxruntime/capi/libonnxruntime.1.30.0.dylib", "libonnxruntime.dylib", "b46713ea6a25a5227541c21001f6422c1ccdeaecc369aa026a61b752520325c3"},
	}},
	{source: sourcePip, platform: "windows/amd64", spec: "onnxruntime==" + pinnedVersion, wheel: "win_amd64", files: []pinnedFile{
		{"onnxruntime/capi/onnxruntime.dll", "onnxruntime.dll", "e42c5c917207ff706530315177e39dca2539695a6a8d968a22225e34291b1f12"},
	}},

	{source: sourceNpm, platform: "linux/amd64", spec: "onnxruntime-node@" + pinnedVersion, files: []pinnedFile{
		{"package/bin/napi-v6/linux/x64/libonnxruntime.so.1", "libonnxruntime.so", "ffb75a925ba05e47b235bb66e3e3911714a80b328a9c9425539feb204aa32a23"},
	}},
	{source: sourceNpm, platform: "linux/arm64", spec: "onnxruntime-node@" + pinnedVersion, files: []pinnedFile{
		{"package/bin/napi-v6/linux/arm64/libonnxruntime.so.1", "libonnxruntime.so", "1f549d46250b005580b597f4164984aaf75b3bcb9f3aeb07c7f8a8fe60b23c76"},
	}},
	{source: sourceNpm, platform: "darwin/arm64", spec: "onnxruntime-node@" + pinnedVersion, files: []pinnedFile{
		{"package/bin/napi-v6/darwin/arm64/libonnxruntime.1.30.0.dylib", "libonnxruntime.dylib", "685d2be5dba1309c89d3a5324b7fd06a5c42f1a61bfea32d14c4cc28d072121d"},
	}},
	{source: sourceNpm, platform: "windows/amd64", spec: "onnxruntime-node@" + pinnedVersion, files: []pinnedFile{
		{"package/bin/napi-v6/win32/x64/onnxruntime.dll", "onnxruntime.dll", "508c362f5673483dd3a086379c392795b2e42d10d5e6f3f90ebd7ac21c97af67"},
		{"package/bin/napi-v6/win32/x64/DirectML.dll", "DirectML.dll", "234e8898778cdec88d3cb0539508273494082812c968699f3de665a018971625"},
	}},
	{source: sourceNpm, platform: "windows/arm64", spec: "onnxruntime-node@" + pinnedVersion, files: []pinnedFile{
		{"package/bin/napi-v6/win32/arm64/onnxruntime.dll", "onnxruntime.dll", "6c3a2abf5c6aca11c48a0d338a91af309f2266f25ce2e4084e6a87bbcb0fbfd0"},
		{"package/bin/napi-v6/win32/arm64/DirectML.dll", "DirectML.dll", "aaf72a9d55aa123e0708d957d30dd4fbeb7a2e335ec6257ed5ff4261a402b9ee"},
	}},

	{source: sourcePip, gpu: true, platform: "linux/amd64", spec: "onnxruntime-gpu==" + pinnedVersion, wheel: "manylinux_2_28_x86_64", files: []pinnedFile{
		{"onnxruntime/capi/libonnxruntime.so.1.30.0", "libonnxruntime.so", "5a140dc17c8b60b35b2ceab0bb533e65ac54f06a208948417c1f9c31df6afc4c"},
		{"onnxruntime/capi/libonnxruntime_providers_shared.so", "libonnxruntime_providers_shared.so", "086ec1d5388f64153d9c63470d126693db9a182c8ce236d3a1119068471b8a0d"},
		{"onnxruntime/capi/libonnxruntime_providers_cuda.so", "libonnxruntime_providers_cuda.so", "35da2e7ed0dd0d1aec5cdb16ce11a51d06c0c48cf62d1b1c9332946a4fae14fc"},
	}},
	{source: sourcePip, gpu: true, platform: "windows/amd64", spec: "onnxruntime-gpu==" + pinnedVersion, wheel: "win_amd64", files: []pinnedFile{
		{"onnxruntime/capi/onnxruntime.dll", "onnxruntime.dll", "a473c05fb61d5ad61f91b3df8139494af5011e0951213905f9bf3e99ecb53ff4"},
		{"onnxruntime/capi/onnxruntime_providers_shared.dll", "onnxruntime_providers_shared.dll", "2b07e5dfa05d4428b67c62281efca8284a5cce2f47b0a6b2506321b706d3e2c3"},
		{"onnxruntime/capi/onnxruntime_providers_cuda.dll", "onnxruntime_providers_cuda.dll", "c09f4d3827977f202529ab9b2bcd8e477e094d85b6c472f642e7e107f6800d64"},
	}},
}

// pinFor returns the pin of a client for this platform, with or without CUDA.
func pinFor(pins []pin, source string, gpu bool) (pin, bool) {
	for _, p := range pins {
		if p.source == source && p.gpu == gpu && p.platform == runtime.GOOS+"/"+runtime.GOARCH {
			return p, true
		}
	}
	return pin{}, false
}
