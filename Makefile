# Every target works on a plain machine with Go, a C compiler (for the race detector) and git; none needs root.

GO            ?= go
GOLANGCI_LINT := v2.12.2
GOVULNCHECK   := v1.9.0
# Without debug information, a build from an empty cache takes a seventh less. Programs, tests and releases are built with the
# same settings, so that each package is compiled once.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -gcflags=all=-dwarf=false)
export CGO_ENABLED ?= 0
LINT          := bin/tools/golangci-lint-$(GOLANGCI_LINT)/golangci-lint
# Cached findings have absolute paths, and are invalid when the checkout is deleted: a cache for each checkout.
export GOLANGCI_LINT_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/golangci-lint$(subst /,-,$(CURDIR))

# The program, providers, tests and tools are modules of their own, so that users of the library, which is the root
# module, do not depend on them (docs/design/0015-modules-packages-and-the-embedded-server.md).
MODULES := $(patsubst %/,%,$(sort $(dir $(wildcard go.mod */go.mod */*/go.mod))))

# in-modules runs a command in each module, with its own go.mod and without the workspace.
in-modules = for module in $(MODULES); do (cd $$module && GOWORK=off $(1)) || exit; done

# Packages with tests that need no server. Those in test/ need one.
UNIT := ./... ./cmd/espalier/... ./providers/aws/... ./providers/postgresql/... ./providers/sandbox/...

.DEFAULT_GOAL := help

##@ Build

.PHONY: build
build: ## build the programs into bin/, kubectl only where none is in the PATH; make bin/espalier-provider-aws builds the one with AWS
	@hack/build.sh espalier espalier-controlplane $(if $(shell command -v kubectl),,kubectl)

# Always phony: go build detects whether a program is up to date.
.PHONY: programs
programs:
	@hack/build.sh espalier espalier-controlplane

.PHONY: bin/espalier bin/espalier-controlplane bin/kubectl bin/espalier-provider-aws bin/aws-testcloud
bin/espalier bin/espalier-controlplane bin/kubectl bin/espalier-provider-aws bin/aws-testcloud:
	@hack/build.sh $(@F)

.PHONY: generate
generate: ## regenerate generated files
	$(call in-modules,$(GO) generate ./...)

.PHONY: builtin-kinds
builtin-kinds: bin/espalier-controlplane ## take the built-in kinds of Kubernetes from the embedded API server, for work without a cluster
	hack/with-server.sh $(GO) run ./internal/kube/builtin/generate internal/kube/builtin/kinds.zip

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist

##@ Release

# The version of a release, like v1.2.3; an image has the commit by default.
VERSION ?=
# Where the archives will be downloaded from, and the home page, for the krew manifest.
BASE_URL ?=
HOMEPAGE ?=
release = cd hack/release && GOWORK=off $(GO) run .

.PHONY: image
image: ## build the container image for amd64 and arm64 as an OCI layout, in dist/image
	$(release) image $(if $(VERSION),--version=$(VERSION)) $(ARGS)

.PHONY: release
release: ## build the archives, checksums, image and krew manifest of VERSION, in dist
	$(release) release --version=$(VERSION) $(if $(BASE_URL),--base-url=$(BASE_URL)) $(if $(HOMEPAGE),--homepage=$(HOMEPAGE)) $(ARGS)

.PHONY: release-verify
release-verify: ## build the release of VERSION twice, and compare; the second from an empty cache
	VERSION=$(VERSION) BASE_URL=$(BASE_URL) hack/release-verify.sh

##@ Test

.PHONY: unit
unit: ## run the tests that need no server, in less than a minute
	$(GO) test -short $(ARGS) $(UNIT)

.PHONY: test
test: programs ## run the tests, most of them on a real API server; ARGS are passed to go test
	hack/with-server.sh hack/test.sh $(ARGS)

.PHONY: test-full
test-full: programs ## run the tests with the race detector, and all sweeps in full; takes hours
	ESPALIER_TEST_FULL=1 hack/with-server.sh hack/test.sh $(ARGS)

# It needs Chromium.
.PHONY: page-pictures
page-pictures: programs ## take the pictures of the page that the documentation has
	rm -rf bin/pictures && mkdir -p bin/pictures docs/images
	$(GO) run ./cmd/espalier install --image espalier >bin/pictures/install.yaml
	ESPALIER_TEST_INSTALLATION=$(CURDIR)/bin/pictures/install.yaml ESPALIER_TEST_SCREENSHOTS=$(CURDIR)/bin/pictures hack/with-server.sh $(GO) test -count=1 -run=TestThePageOnCall ./test/ui
	cd bin/pictures && cp oncall-health-wide-light.png oncall-instance-wide-dark.png oncall-definition-wide-light.png oncall-instance-narrow-light.png readme-light.png readme-dark.png ../../docs/images

# It needs credentials of AWS and AWS_REGION; test/providers/aws/live says more.
.PHONY: test-aws-live
test-aws-live: programs ## run the AWS provider on a real account of AWS: eleven cheap types, deleted afterwards
	ESPALIER_AWS_LIVE=1 hack/with-server.sh $(GO) test -C test -count=1 -v -timeout=60m $(ARGS) ./providers/aws/live

.PHONY: bench
bench: bin/espalier-controlplane ## measure requests, time and memory, and compare with the budgets
	$(GO) run ./test/bench $(ARGS)
	$(GO) test -run='^$$' -bench='^Benchmark(Compile|Compose|Event|Stop)$$' -benchtime=20x ./internal/graph ./internal/kube/watch ./internal/kube/queue

.PHONY: soak
soak: bin/espalier-controlplane ## run random changes, restarts and clock jumps for 20 minutes, and compare what is left; ARGS="-for 2h -seed 7"
	$(GO) run ./test/soak $(ARGS)

# The numbers of instances and of children can be changed: ARGS='-sizes 100,300 -children 100,500'.
.PHONY: bench-scale
bench-scale: bin/espalier-controlplane ## measure how costs grow with the numbers of instances, children and definitions
	$(GO) run ./test/bench -scale $(ARGS)

# The cloud of the demo: the sandbox by default, or aws, a test cloud with AWS's APIs.
CLOUD ?=

.PHONY: demo
demo: programs $(if $(filter aws,$(CLOUD)),bin/espalier-provider-aws testcloud) ## run the demo; with CLOUD=aws on a test cloud with AWS's APIs
	bin/espalier demo $(if $(CLOUD),--cloud=$(CLOUD))

.PHONY: testcloud
testcloud: bin/aws-testcloud
	@hack/testcloud.sh >/dev/null

##@ Check

.PHONY: check
check: check-format check-vet check-lint check-generated check-tidy check-licenses ## run all static checks

.PHONY: check-format
check-format: ## check that the code is formatted with gofmt
	hack/format.sh

.PHONY: check-vet
check-vet:
	$(call in-modules,$(GO) vet ./...)

.PHONY: check-lint
check-lint: $(LINT) ## run golangci-lint; .golangci.yml explains its linters
	$(call in-modules,$(CURDIR)/$(LINT) run --allow-parallel-runners)

.PHONY: check-generated
check-generated: ## check that generated files are current
	hack/generated.sh

.PHONY: check-tidy
check-tidy: ## check that the go.mod files are tidy and agree on versions
	$(call in-modules,$(GO) mod tidy -diff)
	hack/versions.sh

.PHONY: check-licenses
check-licenses: ## check that all linked modules have an allowed license
	GOWORK=off $(GO) build -C hack/licenses -o $(CURDIR)/bin/tools/licenses .
	GO=$(GO) bin/tools/licenses

# Not part of check: it needs vuln.go.dev.
.PHONY: vulncheck
vulncheck: ## check for known vulnerabilities in what is linked; needs access to vuln.go.dev
	GOBIN=$(CURDIR)/bin/tools $(GO) install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK)
	$(call in-modules,$(CURDIR)/bin/tools/govulncheck ./...)

$(LINT):
	GOBIN=$(CURDIR)/$(@D) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^##@/ { print "\n" substr($$0, 5) } /^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
