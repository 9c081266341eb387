//go:build unix

package embedded

import "syscall"

// separateProcessGroup puts the child in its own process group: Ctrl-C in the terminal
// reaches only the parent, which may still have something to write before it stops the
// child.
func separateProcessGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
