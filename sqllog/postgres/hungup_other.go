//go:build !unix

package postgres

import "net"

// hungUp knows nothing: an append over a connection that the server has ended is of unknown outcome.
func hungUp(net.Conn) bool { return false }
