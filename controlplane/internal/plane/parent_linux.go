package plane

import "syscall"

// endWithParent has a program killed when the thread that starts it ends, so also when this process is killed.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
