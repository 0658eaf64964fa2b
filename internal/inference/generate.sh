#!/usr/bin/env bash
# Writes inference.pb.go. Needs protoc and protoc-gen-go, of the version that go.mod has of google.golang.org/protobuf.
set -euo pipefail
cd "$(dirname "$0")/../.."
protoc --go_out=. --go_opt=paths=source_relative internal/inference/inference.proto
