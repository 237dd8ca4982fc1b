//go:build unix

package postgres

import (
	"crypto/tls"
	"net"
	"syscall"
)

// hungUp reports whether the server has ended an idle connection, as far as is known without waiting: there is an end to
// be read, or, without TLS, an error (a session that is idle is told nothing else but settings and notifications).
func hungUp(c net.Conn) bool {
	encrypted := false
	if t, ok := c.(*tls.Conn); ok {
		c, encrypted = t.NetConn(), true
	}
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	if err := raw.Control(func(fd uintptr) {
		var first [1]byte
		n, _, err := syscall.Recvfrom(int(fd), first[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case err == syscall.EAGAIN || err == syscall.EWOULDBLOCK || err == syscall.EINTR:
		case err != nil || n == 0:
			gone = true
		default:
			gone = !encrypted && first[0] == 'E'
		}
	}); err != nil {
		return true
	}
	return gone
}
