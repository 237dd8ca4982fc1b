.PHONY: generate
generate:
	protoc -I api --go_out=. --go_opt=module=github.com/headwaterdb/headwater \
	  --connect-go_out=. --connect-go_opt=module=github.com/headwaterdb/headwater headwater/v1/headwater.proto
