package pipeline

import (
	"os"
	"syscall"
)

// processGroup starts a child in its own process group, so Ctrl-C in the console does not reach it.
func processGroup(a *syscall.SysProcAttr) {
	a.CreationFlags |= syscall.CREATE_NEW_PROCESS_GROUP
}

// stopGroup kills the child: Windows has no signal that asks a process without a console to exit.
func stopGroup(child *os.Process) { killGroup(child) }

// killGroup kills the child. It does not reach its descendants.
func killGroup(child *os.Process) { _ = child.Kill() } // an error means that it has exited
