#!/usr/bin/env bash
# Generates inference.pb.go. Requires protoc, and protoc-gen-go in the version of google.golang.org/protobuf in go.mod.
set -euo pipefail
cd "$(dirname "$0")/../.."
protoc --go_out=. --go_opt=paths=source_relative internal/inference/inference.proto
