package pipeline

import "syscall"

// apart puts a child in a process group of its own, so that its own children end with
// it, and has the kernel end it if this program is killed.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
