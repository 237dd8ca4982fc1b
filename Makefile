# make run       serve on an embedded database in the working directory
# make test      vet and test everything; GOTESTFLAGS=-race adds the race detector
# make fuzz      run every fuzz target in turn, each for FUZZTIME (30s); go test runs the kept inputs alone
# make soak      simulation, and histories of daemons under faults, side by side for SOAK (10m), with a line of figures a minute
# make cases     the field cases of docs/field-cases.md at full size on real servers; takes an hour
# make mutants   put each small fault of internal/mutants into the code and run the evidence against it; MUTANTS="NAME…" for some
# make demo      store the whole source tree of Go through the example stream store, with processes killed, and read it back
# make bench-peers  measure Headwater beside etcd and kine, and write docs/benchmarks/peers.md; BENCHFLAGS='-quick -out /tmp/trial' tries the instrument
# make build     bin/headwater
# make generate  the code that is made from api/headwater/v1/headwater.proto (needs protoc and its Go plugins)

GOTESTFLAGS ?=

.PHONY: run
run:
	go run ./cmd/headwater serve

.PHONY: test
test:
	go vet ./...
	go test $(GOTESTFLAGS) ./...
	cd examples/streamstore && go vet ./... && go test $(GOTESTFLAGS) ./...
	cd bench/peers && go vet ./... && go test $(GOTESTFLAGS) ./...

FUZZTIME ?= 30s

.PHONY: fuzz
fuzz:
	@set -e; for file in $$(grep -rl --include='*_test.go' '^func Fuzz' . | sort); do \
	  for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' $$file); do \
	    echo "== $$(dirname $$file) $$target"; \
	    go test $$(dirname $$file) -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x; \
	  done; done

SOAK ?= 10m

.PHONY: soak
soak:
	@failed=$$(mktemp -d) && trap 'rm -rf $$failed' EXIT && \
	soak() { \
	  { HEADWATER_SOAK=$(SOAK) go test -count=1 -timeout 0 -v -run "^$$2\$$" $$3 2>&1 || touch $$failed/$$1; } | \
	    awk -v name=$$1 '!/^=== |^ *--- PASS/ { print name ": " $$0; fflush() }'; \
	} && \
	{ soak simulation TestSoak ./internal/sim & soak histories TestHistories ./internal/nemesis & wait; } && \
	[ -z "$$(ls $$failed)" ]

.PHONY: cases
cases:
	HEADWATER_TEST_FULL=1 go test -p 1 -v -count 1 -timeout 3h -run 'TestCase|TestGalera' ./sqllog/...
.PHONY: mutants
mutants:
	go run ./internal/mutants $(MUTANTS)

.PHONY: demo
demo:
	cd examples/streamstore && go run . demo

BENCHFLAGS ?=

.PHONY: bench-peers
bench-peers:
	cd bench/peers && go run . -out ../../docs/benchmarks $(BENCHFLAGS)

.PHONY: build
build:
	go build -o bin/headwater ./cmd/headwater

.PHONY: generate
generate:
	protoc -I api --go_out=. --go_opt=module=github.com/headwaterdb/headwater \
	  --connect-go_out=. --connect-go_opt=module=github.com/headwaterdb/headwater headwater/v1/headwater.proto
