#!/usr/bin/env bash
# Makes the Python stubs of Gantry's protos in stubs/ (which is not committed), with protoc and gRPC's Python plugin.
# On Debian: apt-get install protobuf-compiler libprotobuf-dev protobuf-compiler-grpc python3-grpcio python3-protobuf
set -euo pipefail
cd "$(dirname "$0")"

out=$PWD/stubs
fail() { printf 'stubs: %s\n' "$1" >&2; exit 3; }
command -v protoc >/dev/null || fail "protoc is missing (apt-get install protobuf-compiler libprotobuf-dev)"
plugin=$(command -v grpc_python_plugin) || fail "grpc_python_plugin is missing (apt-get install protobuf-compiler-grpc)"

new=$(mktemp -d "$out.XXXXXX")
trap 'rm -rf "$new"' EXIT
cd ../../proto
# The options in the protos import buf/validate and google/api, so their stubs are needed as well.
find gantry buf google protoc-gen-openapiv2 -name '*.proto' -print0 | xargs -0 protoc -I . --python_out="$new" --grpc_python_out="$new" --plugin=protoc-gen-grpc_python="$plugin"
rm -rf "$out"
mv "$new" "$out"
