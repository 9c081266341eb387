# Every target works on a plain machine with Go, a C compiler (for the race detector) and git; none needs root.

GO            ?= go
GOLANGCI_LINT := v2.12.2
# Nobody debugs what these targets build, and without the debugger's data a build from an empty cache takes a seventh less.
export GOFLAGS := $(strip $(GOFLAGS) -gcflags=all=-dwarf=false)
LINT          := bin/tools/golangci-lint-$(GOLANGCI_LINT)/golangci-lint
# It keeps findings by the package's contents together with the path where it found them, and cannot read them again once
# that path is gone: a cache for each checkout.
export GOLANGCI_LINT_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/golangci-lint$(subst /,-,$(CURDIR))

# Who requires the root module, which is the library, gets neither the program nor providers, tests or tools: they are
# modules of their own (docs/design/0020-modules.md).
MODULES := $(patsubst %/,%,$(sort $(dir $(wildcard go.mod */go.mod */*/go.mod))))

# in-modules runs a command in each, with what its own go.mod says and not with the workspace.
in-modules = for module in $(MODULES); do (cd $$module && GOWORK=off $(1)) || exit; done

# What is tested without a server; test/ is what is proved on one.
UNIT := ./... ./cmd/espalier/... ./providers/postgresql/... ./providers/sandbox/...

.DEFAULT_GOAL := help

##@ Build

.PHONY: build
build: ## build the three programs into bin/
	@hack/build.sh espalier espalier-controlplane kubectl

# Go knows best whether a program is up to date, so it is always asked.
.PHONY: programs
programs:
	@hack/build.sh espalier espalier-controlplane

.PHONY: bin/espalier bin/espalier-controlplane bin/kubectl
bin/espalier bin/espalier-controlplane bin/kubectl:
	@hack/build.sh $(@F)

.PHONY: generate
generate: ## regenerate what is generated
	$(call in-modules,$(GO) generate ./...)

.PHONY: clean
clean: ## remove what was built
	rm -rf bin

##@ Test

.PHONY: unit
unit: ## run the tests that need no server, in less than a minute
	$(GO) test -short $(ARGS) $(UNIT)

.PHONY: test
test: programs ## run the tests, most of them on a real API server; ARGS are passed to go test
	hack/with-server.sh hack/test.sh $(ARGS)

.PHONY: test-full
test-full: programs ## the same with the race detector, and the sweeps in full: hours
	ESPALIER_TEST_FULL=1 hack/with-server.sh hack/test.sh $(ARGS)

.PHONY: bench
bench: bin/espalier-controlplane ## count requests, time and memory against the budgets
	$(GO) run ./test/bench $(ARGS)
	$(GO) test -run='^$$' -bench='^Benchmark(Compile|Compose|Event|Stop)$$' -benchtime=20x ./internal/graph ./internal/kube/watch ./internal/kube/queue

.PHONY: demo
demo: programs ## see it at work
	bin/espalier demo

##@ Check

.PHONY: check
check: check-format check-vet check-lint check-generated check-tidy ## look at the code without running it

.PHONY: check-format
check-format: ## gofmt has nothing to change
	hack/format.sh

.PHONY: check-vet
check-vet:
	$(call in-modules,$(GO) vet ./...)

.PHONY: check-lint
check-lint: $(LINT) ## golangci-lint, as .golangci.yml explains
	$(call in-modules,$(CURDIR)/$(LINT) run --allow-parallel-runners)

.PHONY: check-generated
check-generated: ## what is generated is current
	hack/generated.sh

.PHONY: check-tidy
check-tidy: ## the go.mod files list what is imported, and nothing else, and agree
	$(call in-modules,$(GO) mod tidy -diff)
	hack/versions.sh

$(LINT):
	GOBIN=$(CURDIR)/$(@D) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^##@/ { print "\n" substr($$0, 5) } /^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
