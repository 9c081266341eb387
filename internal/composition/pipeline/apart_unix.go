//go:build unix && !linux

package pipeline

import "syscall"

// apart puts a child in a process group of its own, so that its own children end with it.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
