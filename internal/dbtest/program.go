package dbtest

import (
	"os"
	"syscall"
	"time"
)

// Program is a program that a test runs, as the test's own user: it is killed when this process dies.
type Program struct{ p *process }

// StartProgram starts the program at path with arguments. What it writes is added to logFile, in whose folder it runs.
func StartProgram(logFile, path string, args ...string) (*Program, error) {
	p, err := account{uid: os.Getuid(), gid: os.Getgid()}.start(path, logFile, args...)
	if err != nil {
		return nil, err
	}
	return &Program{p}, nil
}

// Pid is the number of its process.
func (p *Program) Pid() int { return p.p.cmd.Process.Pid }

// Signal sends it a signal. One that has ended is no error.
func (p *Program) Signal(s syscall.Signal) { _ = p.p.signal(s) }

// Exited is closed when it has ended.
func (p *Program) Exited() <-chan struct{} { return p.p.exited }

// ExitCode is that of a program that has ended; -1 for one that a signal has ended.
func (p *Program) ExitCode() int { return p.p.cmd.ProcessState.ExitCode() }

// Await asks again and again until ready says yes; the error says why that will not be: the program has ended, or
// patience is over.
func (p *Program) Await(patience time.Duration, ready func() bool) error {
	return p.p.await(patience, ready)
}
