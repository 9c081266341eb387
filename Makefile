# Every target works on a plain machine with Go, a C compiler (for the race detector) and git; none needs root.

GO            ?= go
GOLANGCI_LINT := v2.12.2
LINT          := bin/tools/golangci-lint-$(GOLANGCI_LINT)/golangci-lint

# The control plane and the maker of protobuf code are modules of their own, so that the library's users do not depend
# on them.
MODULES := . controlplane hack/protogen

.DEFAULT_GOAL := help

##@ Build

.PHONY: build
build: bin/espalier bin/espalier-controlplane bin/kubectl ## build the three programs into bin/

# Go knows best whether a program is up to date, so it is always asked.
.PHONY: bin/espalier bin/espalier-controlplane bin/kubectl
bin/espalier:
	$(GO) build -o $@ ./cmd/espalier
bin/espalier-controlplane bin/kubectl:
	cd controlplane && $(GO) build -ldflags "$(call kubernetes,$$($(GO) list -m -f '{{.Version}}' k8s.io/kubernetes))" -o ../$@ ./cmd/$(@F)

# Kubernetes learns its version from the linker; clients ask the server for it.
kubernetes = -X k8s.io/component-base/version.gitVersion=$(1) -X k8s.io/component-base/version.gitMajor=1 \
	-X k8s.io/component-base/version.gitMinor=$$(echo $(1) | cut -d. -f2)

.PHONY: generate
generate: ## regenerate what is generated
	$(GO) generate ./...

.PHONY: clean
clean: ## remove what was built
	rm -rf bin

##@ Test

.PHONY: test
test: build ## run all tests, on one API server for all packages; ARGS are passed to go test
	hack/with-server.sh hack/test.sh $(ARGS)

.PHONY: sweep
sweep: build ## the sweeps in full: a crash after every write, a thousand lives of kinds, hundreds of definitions
	ESPALIER_TEST_FULL=1 hack/with-server.sh $(GO) test -count=1 -timeout=60m -run='Sweep|Restarts' $(ARGS) ./test/...

.PHONY: bench
bench: build ## count requests, time and memory against the budgets
	$(GO) run ./test/bench $(ARGS)

.PHONY: demo
demo: build ## see it at work
	bin/espalier demo

##@ Check

.PHONY: check
check: check-format check-vet check-lint check-generated check-tidy ## look at the code without running it

.PHONY: check-format
check-format: ## gofmt has nothing to change
	hack/format.sh

.PHONY: check-vet
check-vet:
	for module in $(MODULES); do (cd $$module && $(GO) vet ./...) || exit; done

.PHONY: check-lint
check-lint: $(LINT) ## golangci-lint, as .golangci.yml explains
	for module in $(MODULES); do (cd $$module && $(CURDIR)/$(LINT) run --allow-parallel-runners) || exit; done

.PHONY: check-generated
check-generated: ## what is generated is current
	hack/generated.sh

.PHONY: check-tidy
check-tidy: ## the go.mod files list what is imported, and nothing else
	for module in $(MODULES); do (cd $$module && $(GO) mod tidy -diff) || exit; done

$(LINT):
	GOBIN=$(CURDIR)/$(@D) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^##@/ { print "\n" substr($$0, 5) } /^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
