#!/usr/bin/env bash
# Checks that need no running service. Each prints one line; the first that fails ends it with what to do.
# Everything works without a network once the tools are built, but the vulnerability database: where it can't be reached, that check says so.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PATH="$PWD/bin:$PATH"
modules=$(go work edit -json | sed -n 's/.*"DiskPath": "\.\/\(.*\)".*/\1/p')

step() { printf 'check: %s\n' "$1"; }
fail() { printf 'check: FAILED: %s\n' "$1" >&2; exit 1; }

step "format of Go files"
unformatted=$(git ls-files '*.go' ':!gen/**' | xargs gofmt -l)
[[ -z "$unformatted" ]] || fail "gofmt -w $unformatted"

step "format and lint of protos"
buf format --exit-code --diff proto --path proto/gantry >/dev/null || fail "buf format -w proto --path proto/gantry"
buf lint

step "protos against the last released contract"
if [[ -f proto/baseline.binpb ]]; then
	buf breaking proto --against proto/baseline.binpb || fail "a change breaks clients; docs/decisions says how the baseline is moved"
else
	fail "proto/baseline.binpb is missing"
fi

step "generated code is what the protos say"
before=$(git status --porcelain gen)
make -s generate
after=$(git status --porcelain gen)
[[ "$before" == "$after" ]] || fail "make generate changed gen/: commit it"

step "module files"
for m in $modules; do
	(cd "$m" && go mod tidy -diff) || fail "go mod tidy in $m"
done

step "each module by itself"
for m in $modules; do
	(cd "$m" && GOWORK=off go build ./... && GOWORK=off go vet ./...) || fail "GOWORK=off go vet ./... in $m"
done

step "static analysis"
for m in $modules; do
	[[ "$m" == gen ]] || (cd "$m" && staticcheck ./...) || fail "staticcheck ./... in $m"
done

step "import rules"
deploy/scripts/imports.sh

step "docs of the settings"
make -s build
deploy/scripts/settings.sh --check || fail "make settings, and commit docs/settings.md"

step "known vulnerabilities"
for m in $modules; do
	out=$(cd "$m" && govulncheck ./... 2>&1) && continue
	if grep -qE 'fetching vulnerabilities|dial tcp|lookup |403|no such host|connection refused' <<<"$out"; then
		echo "check: the vulnerability database can't be reached from here: not checked"
		break
	fi
	printf '%s\n' "$out" >&2
	fail "govulncheck ./... in $m"
done
echo "check: all passed"
