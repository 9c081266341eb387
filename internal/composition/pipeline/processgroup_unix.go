//go:build unix && !linux

package pipeline

import "syscall"

// processGroup starts a child in its own process group, so its descendants can be killed with it.
func processGroup(a *syscall.SysProcAttr) {
	a.Setpgid = true
}
