module github.com/headwaterdb/headwater/bench/rpc

go 1.26.0

require (
	connectrpc.com/connect v1.21.1
	github.com/headwaterdb/headwater v0.0.0
	golang.org/x/net v0.62.0
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
)

replace github.com/headwaterdb/headwater => ../..
