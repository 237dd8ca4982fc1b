# make run      serve on an embedded database in the working directory
# make test     everything that needs no installation
# make build    bin/headwater
# make generate the code that is made from api/headwater/v1/headwater.proto (needs protoc and its Go plugins)

.PHONY: run
run:
	go run ./cmd/headwater serve

.PHONY: build
build:
	go build -o bin/headwater ./cmd/headwater

.PHONY: test
test:
	go vet ./...
	go test ./...

.PHONY: generate
generate:
	protoc -I api --go_out=. --go_opt=module=github.com/headwaterdb/headwater \
	  --connect-go_out=. --connect-go_opt=module=github.com/headwaterdb/headwater headwater/v1/headwater.proto
