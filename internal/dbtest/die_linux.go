package dbtest

import "syscall"

// dieWithParent has the kernel kill a process when the thread that started it ends.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
