//go:build !unix

package dbtest

import (
	"errors"
	"syscall"
)

// canRun: no server is ever started here, so nothing below is ever called.
const canRun = false

// Numbers that no signal has.
const (
	sigStop syscall.Signal = 1<<30 + iota
	sigCont
)

func (account) attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func kill(int, syscall.Signal) error { return errors.ErrUnsupported }
