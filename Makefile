# Gantry. `make help` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := bin
ARGS ?=

.PHONY: help run test check generate protos-vendor bench conformance conformance-workspace torture-workspace bench-workspace bench-runs chaos-runs demo up down image tools modules settings baseline build

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build every program into bin/
	@mkdir -p $(BIN)
	@CGO_ENABLED=0 go build -trimpath -o $(BIN)/ ./services/gantry ./services/*/cmd/*

run: ## start the suite with the example agents, make one real call, go on serving (ARGS=--exit ends after the call)
	@mkdir -p $(BIN)
	@CGO_ENABLED=0 go build -trimpath -o $(BIN)/gantry ./services/gantry
	@$(BIN)/gantry demo --workspaces examples $(ARGS)

demo: run ## the same as run

test: ## run every test; as root on Debian it first installs what the tests need
	@deploy/scripts/setup.sh
	@deploy/scripts/test.sh $(ARGS)

check: tools ## format, lint, generated code, module files, vulnerabilities
	@deploy/scripts/check.sh

generate: tools ## regenerate gen/ from proto/
	@rm -rf gen/gantry gen/openapi/gantry.swagger.json
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/buf generate

protos-vendor: ## print the third-party protos from the Go dependencies into proto/
	@cd deploy/tools/gen && GOWORK=off go run ./printproto ../../../proto

bench: build ## measure unary calls through each service and the loop, against a bare gRPC echo of the same run
	@$(BIN)/gantry bench $(ARGS)

conformance: build ## run every port and API suite on every backend, in memory and against processes, and on broken ones
	@deploy/scripts/conformance.sh $(ARGS)

torture-workspace: ## change files at random from several replicas with kills, against a model (N= SEED= BACKEND=local,sqlite,postgres…)
	@mkdir -p $(BIN)
	@CGO_ENABLED=0 go build -trimpath -o $(BIN)/workspace ./services/workspace/cmd/workspace
	@go run ./services/workspace/internal/cmd/torture -n=$(or $(N),20000) -seed=$(or $(SEED),0) -backend=$(or $(BACKEND),all) $(ARGS)

bench-workspace: ## measure the workspace service against ripgrep and the bare database driver (ARGS="-only PATTERN")
	@mkdir -p $(BIN)
	@CGO_ENABLED=0 go build -trimpath -o $(BIN)/workspace ./services/workspace/cmd/workspace
	@go run ./services/workspace/internal/cmd/bench $(ARGS)

bench-runs: ## measure prompts, the opening of threads, watchers and durable steps against the bare database driver (ARGS="-only PATTERN")
	@mkdir -p $(BIN)
	@CGO_ENABLED=0 go build -trimpath -o $(BIN)/workspace ./services/workspace/cmd/workspace
	@go run ./services/orchestrator/internal/cmd/bench $(ARGS)

conformance-workspace: ## run the suites of files, journal and service on every backend, count cases and forbidden skips
	@mkdir -p $(BIN)
	@CGO_ENABLED=0 go build -trimpath -o $(BIN)/workspace ./services/workspace/cmd/workspace
	@go run ./services/workspace/internal/cmd/conformance $(ARGS)

chaos-runs: build ## kill the services in the middle of scripted runs and count what was lost, doubled and stuck (N= SEED= ARGS="-only shell")
	@go run ./services/gantry/internal/cmd/chaos -n=$(or $(N),200) -seed=$(or $(SEED),0) $(ARGS)

up: build ## start six processes on loopback from source
	@deploy/scripts/up.sh

down: ## stop what `make up` started
	@deploy/scripts/down.sh

image: ## build the images of docker-compose.yml
	@deploy/scripts/image.sh $(ARGS)

settings: build ## write docs/settings.md from the programs
	@deploy/scripts/settings.sh

baseline: tools ## make today's protos the contract that `make check` holds changes against (docs/decisions/009)
	@$(BIN)/buf build proto -o proto/baseline.binpb

modules: ## write the replace lines of every go.mod
	@deploy/scripts/modules.sh

tools: $(BIN)/buf $(BIN)/protoc-gen-go ## build the pinned tools into bin/

# Tools live in two modules outside of the workspace: buf needs a newer protobuf than what the services are built with.
$(BIN)/buf: deploy/tools/buf/go.mod deploy/tools/buf/go.sum
	@mkdir -p $(BIN)
	@cd deploy/tools/buf && GOWORK=off go build -o ../../../$(BIN)/ tool
	@touch $@

$(BIN)/protoc-gen-go: deploy/tools/gen/go.mod deploy/tools/gen/go.sum
	@mkdir -p $(BIN)
	@cd deploy/tools/gen && GOWORK=off go build -o ../../../$(BIN)/ tool
	@touch $@
