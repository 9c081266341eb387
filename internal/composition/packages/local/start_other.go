//go:build !linux

package local

import "os/exec"

// confine is not called: probe allows no method that needs it.
func (p *program) confine(*exec.Cmd) {}

// EnterNamespaces does nothing on this system.
func EnterNamespaces() {}

func probe() (noChroot, noNamespaces string) {
	return "only Linux runs images", "only Linux has them"
}
