package pipeline

import "syscall"

// processGroup starts a child in its own process group, so its descendants can be killed with it. The kernel kills
// the child if this program is killed.
func processGroup(a *syscall.SysProcAttr) {
	a.Setpgid, a.Pdeathsig = true, syscall.SIGKILL
}
