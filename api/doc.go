// Package api is the wire shape of Headwater and the translations between it and package meta, in both directions and
// in one place for both ends. The messages and the service are defined in headwater/v1/headwater.proto; the generated
// code beside it is not edited. The messages of Propose are also read and written without it (wire.go). The package decides
// nothing and calls nobody.
package api
