#!/usr/bin/env bash
# Builds the images gantry/<service>:<tag> FROM scratch with the engine that the docker command reaches. The programs are
# built here, with the Go of this machine, so neither a registry nor a network inside the build is needed.
#
#   deploy/scripts/image.sh [SERVICE…]     default: all services
#   GANTRY_TAG=v1 deploy/scripts/image.sh  default tag: dev
#   GANTRY_IMAGE_BIN=bin                   take the programs of this folder, which must be static, and build none
set -euo pipefail
cd "$(dirname "$0")/../.."

all=(workspace memory sandbox task orchestrator gateway)
services=("$@")
((${#services[@]})) || services=("${all[@]}")
tag=${GANTRY_TAG:-dev}
fail() { printf 'image: %s\n' "$1" >&2; exit 1; }

command -v docker >/dev/null || fail "there is no docker command (apt-get install docker.io)"
docker version >/dev/null 2>&1 || fail "no Docker engine answers (docker version says why)"
certs=/etc/ssl/certs/ca-certificates.crt
[[ -r "$certs" ]] || fail "$certs is missing (apt-get install ca-certificates)"
for s in "${services[@]}"; do
	[[ " ${all[*]} " == *" $s "* ]] || fail "there is no service $s; there are: ${all[*]}"
done

context=bin/image
rm -rf "$context"
mkdir -p "$context/certs" "$context/empty"
cp -L "$certs" "$context/certs/ca-certificates.crt"
if [[ -n "${GANTRY_IMAGE_BIN:-}" ]]; then
	for s in "${services[@]}"; do
		[[ -x "$GANTRY_IMAGE_BIN/$s" ]] || fail "$GANTRY_IMAGE_BIN/$s is missing (make build)"
		! ldd "$GANTRY_IMAGE_BIN/$s" >/dev/null 2>&1 || fail "$GANTRY_IMAGE_BIN/$s is not static: make build makes static ones"
		ln -f "$GANTRY_IMAGE_BIN/$s" "$context/$s" 2>/dev/null || cp "$GANTRY_IMAGE_BIN/$s" "$context/$s"
	done
else
	packages=()
	for s in "${services[@]}"; do packages+=("./services/$s/cmd/$s"); done
	CGO_ENABLED=0 GOOS=linux go build -trimpath -ldflags='-s -w' -o "$context/" "${packages[@]}"
fi
for s in "${services[@]}"; do
	user=65532:65532
	[[ "$s" != sandbox ]] || user=0:0
	# The classic builder is in every engine; the other one needs a plugin.
	DOCKER_BUILDKIT=0 docker build -q -f deploy/Dockerfile --build-arg SERVICE="$s" --build-arg USER="$user" -t "gantry/$s:$tag" . >/dev/null
	printf 'image: gantry/%s:%s  %s\n' "$s" "$tag" "$(docker image inspect -f '{{.Size}}' "gantry/$s:$tag" | awk '{printf "%.1f MB", $1/1e6}')"
done

# docker-compose.yml wants keys; whoever has some keeps them.
[[ -e "${GANTRY_KEYS:-deploy/keys}/task.env" ]] || deploy/scripts/token.sh --keys-only
