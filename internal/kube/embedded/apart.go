package embedded

import "syscall"

// apart puts the child in a process group of its own: the terminal's Ctrl-C reaches the parent
// only, which may still have something to write before it stops the child.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
