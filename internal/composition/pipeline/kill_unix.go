//go:build unix

package pipeline

import (
	"os"
	"syscall"
)

// stopGroup asks the process group of a child to exit. An error means that it has exited.
func stopGroup(child *os.Process) { _ = syscall.Kill(-child.Pid, syscall.SIGTERM) }

func killGroup(child *os.Process) { _ = syscall.Kill(-child.Pid, syscall.SIGKILL) }
