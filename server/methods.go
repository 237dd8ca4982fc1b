package server

import "strings"

// methods lists everything that can be called.
func (s *service) methods() []method {
	const main = serviceName
	propose := unary(s, main, "Propose", s.propose)
	propose.unary = nativeUnary(propose.name, guarded(s, propose.name, s.proposeNative))
	return []method{
		propose,
		unary(s, main, "DryRun", s.dryRun),
		unary(s, main, "Status", s.status),
		unary(s, main, "Counts", s.counts),
		unary(s, main, "GetNode", s.getNode),
		unary(s, main, "ListNodes", s.listNodes),
		unary(s, main, "GetStream", s.getStream),
		unary(s, main, "ListStreams", s.listStreams),
		unary(s, main, "ListRanges", s.listRanges),
		unary(s, main, "FindObjects", s.findObjects),
		unary(s, main, "FindOffset", s.findOffset),
		unary(s, main, "ListCompactionCandidates", s.listCandidates),
		unary(s, main, "GetObject", s.getObject),
		unary(s, main, "ListObjects", s.listObjects),
		unary(s, main, "ListTransfers", s.listTransfers),
		unary(s, main, "GetKey", s.getKey),
		unary(s, main, "ListKeys", s.listKeys),
		unary(s, main, "Snapshot", s.snapshot),
		serverStream(s, main, "ReadLog", s.readLog),
		serverStream(s, main, "Export", s.export),
		unary(s, healthName, "Check", s.checkHealth),
		unary(s, healthName, "List", s.listHealth),
		serverStream(s, healthName, "Watch", s.watchHealth),
	}
}

// valid makes text fit for a protobuf string.
func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
