//go:build !linux

package plane

import "syscall"

// endWithParent does nothing where the system has no signal for it.
func endWithParent() *syscall.SysProcAttr { return nil }
