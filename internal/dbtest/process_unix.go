//go:build unix

package dbtest

import "syscall"

// canRun: servers can be run, as another user and stopped in the middle where that is asked for.
const canRun = true

// The signals that halt a process and let it go on.
const (
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)

// attributes let a command run as the account.
func (a account) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a.other {
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attr
}

// kill sends a signal to any process.
func kill(pid int, s syscall.Signal) error { return syscall.Kill(pid, s) }
