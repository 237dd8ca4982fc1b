# make run       serve on an embedded database in the working directory
# make test      vet and test everything; GOTESTFLAGS=-race adds the race detector
# make demo      store the whole source tree of Go through the example stream store, with processes killed, and read it back
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

.PHONY: demo
demo:
	cd examples/streamstore && go run . demo

.PHONY: build
build:
	go build -o bin/headwater ./cmd/headwater

.PHONY: generate
generate:
	protoc -I api --go_out=. --go_opt=module=github.com/headwaterdb/headwater \
	  --connect-go_out=. --connect-go_opt=module=github.com/headwaterdb/headwater headwater/v1/headwater.proto
